"""Where the runs of a comparison are worked on, each in a process of its own: here, or on a Ray cluster."""

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from grcl.runtime.errors import Refusal

BUSY = 75  # what sendmail and its kin call a temporary failure
_SECONDS_BETWEEN_REQUESTS = 5.0
_SECONDS_OF_PATIENCE = 60.0


class Job(NamedTuple):
    """One process to be run; what it says goes to the end of its log."""

    name: str
    command: list[str]
    folder: Path
    log: Path
    environment: Mapping[str, str]
    is_for_gpu: bool


class Engine(ABC):
    """A place that works on jobs side by side."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Begin to work on a job."""

    @abstractmethod
    def ended(self) -> dict[str, int]:
        """The jobs that have ended since the last call, with their exit codes."""

    @abstractmethod
    def stop(self) -> None:
        """Ask every job to save its state and end."""

    @abstractmethod
    def close(self) -> None:
        """End at once what is still running."""


class Here(Engine):
    """Processes on this machine."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes] | None] = {}

    def start(self, job: Job) -> None:
        self._running[job.name] = spawn(job)

    def ended(self) -> dict[str, int]:
        codes = {name: BUSY if process is None else process.poll() for name, process in self._running.items()}
        ended = {name: code for name, code in codes.items() if code is not None}
        self._running = {name: process for name, process in self._running.items() if name not in ended}
        return ended

    def stop(self) -> None:
        for process in filter(None, self._running.values()):
            process.terminate()

    def close(self) -> None:
        for process in filter(None, self._running.values()):
            process.kill()
            process.wait()
        self._running.clear()


class OnRay(Engine):
    """Tasks on a Ray cluster, each of which runs the same process; RAY_ADDRESS names it, else one is started here."""

    def __init__(self) -> None:
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise Refusal('the ray engine needs Ray; install it with pip install "grcl[ray]"') from None
        self._ray = ray
        self._is_own = not ray.is_initialized()
        if self._is_own:
            ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
        self._work = ray.remote(max_retries=0)(work)
        self._running: dict[str, Any] = {}
        self._asked_to_stop: float | None = None
        self._first_asked: float | None = None

    def start(self, job: Job) -> None:
        has_gpus = bool(self._ray.cluster_resources().get("GPU"))
        needs = {"num_cpus": int(job.environment["OMP_NUM_THREADS"]), "num_gpus": int(job.is_for_gpu and has_gpus)}
        self._running[job.name] = self._work.options(name=job.name, **needs).remote(job)

    def ended(self) -> dict[str, int]:
        if not self._running:
            return {}
        if self._asked_to_stop and time.monotonic() - self._asked_to_stop > _SECONDS_BETWEEN_REQUESTS:
            self.stop()
        ready, _ = self._ray.wait(list(self._running.values()), num_returns=len(self._running), timeout=0)
        codes = {name: self._code(task) for name, task in self._running.items() if task in ready}
        self._running = {name: task for name, task in self._running.items() if name not in codes}
        return codes

    def _code(self, task: Any) -> int:
        try:
            return int(self._ray.get(task))
        except self._ray.exceptions.TaskCancelledError:
            return -signal.SIGTERM
        except self._ray.exceptions.RayError:  # its node or worker went away
            return -signal.SIGKILL

    def stop(self) -> None:
        """Ask for it, and in `ended` again: a task that is just being started may miss it."""
        self._asked_to_stop = now = time.monotonic()
        self._first_asked = self._first_asked or now
        # A wish that hits Ray's own code can be lost for good; the run itself has had its signal by then.
        is_deaf = now - self._first_asked > _SECONDS_OF_PATIENCE
        for task in self._running.values():
            self._ray.cancel(task, force=is_deaf)

    def close(self) -> None:
        if self._is_own:
            self._ray.shutdown()


ENGINES: dict[str, type[Engine]] = {"local": Here, "ray": OnRay}


def spawn(job: Job) -> subprocess.Popen[bytes] | None:
    """The job's process; None if another one is at work on the same run.

    The process inherits the open log and with it the lock, which therefore ends when the process does.
    """
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        log.write(f"$ {shlex.join(job.command)}\n".encode())
        log.flush()
        # A session of its own: Ctrl-C reaches the comparison alone, which then asks the runs to save.
        return subprocess.Popen(
            job.command,
            cwd=job.folder,
            env={**os.environ, **job.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def work(job: Job) -> int:
    """The job's exit code, when it has ended; a cancelled task hands the wish to stop on to its process."""
    process = spawn(job)
    if process is None:
        return BUSY
    try:
        while process.poll() is None:  # Ray's cancellation does not break off a blocking wait
            time.sleep(0.2)
    except BaseException:
        process.terminate()
        _wait_through(process)
        raise
    return process.returncode


def _wait_through(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has saved its state, however often one is asked to stop meanwhile."""
    while process.poll() is None:
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(0.2)
