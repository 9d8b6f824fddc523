"""Many runs side by side: skip what is done, go on with what is not, and set the results next to each other."""

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from grcl.comparison_plan import Design, PlannedRun, check_folder, plan, shared_settings
from grcl.engines import BUSY, ENGINES, Engine, Job
from grcl.loop import Interrupted
from grcl.results.choosing import Candidate, rank
from grcl.results.comparison import Comparison
from grcl.results.comparison_page import write_comparison
from grcl.runtime.board import Board, State
from grcl.runtime.errors import Failure, Refusal
from grcl.runtime.interruption import Interruption
from grcl.runtime.plugins import VARIABLE
from grcl.runtime.run_directory import RunDirectory
from grcl.runtime.visible import visible

# What a process on another machine has to know of this one's environment.
CARRIED = (VARIABLE, "GRCL_CACHE", "PYTHONPATH")
_SECONDS_BETWEEN_LOOKS = 0.1


class Workforce(NamedTuple):
    """How many runs go side by side, and where."""

    jobs: int = 1
    engine: str = "local"


def compare(design: Design, folder: Path, workforce: Workforce, board: Board) -> Comparison:
    """Make the runs of the design that are missing in `folder`, and leave the comparison of all there.

    A run that fails or is killed stops no other; all failures are named at the end.
    """
    made, failures = _make_missing(design, folder, workforce, board)
    comparison = write_comparison(folder)
    if failures:
        raise _complaint(failures, made, f", and {folder / 'comparison.html'} shows the others")
    return comparison


def choose(design: Design, folder: Path, workforce: Workforce, board: Board) -> list[Candidate]:
    """Make the runs of the design that are missing in `folder`, and rank them by what needs no target label."""
    made, failures = _make_missing(design, folder, workforce, board)
    if failures:
        raise _complaint(failures, made)
    return rank(folder, made)


def _make_missing(design: Design, folder: Path, workforce: Workforce, board: Board) -> tuple[list[str], dict[str, str]]:
    """The names of all runs of the design, and why those that failed did so."""
    runs = plan(design)
    check_folder(design, runs, folder)
    _claim(folder, design)
    missing = [run for run in runs if not RunDirectory(folder / run.name).is_done]
    failures = _make(missing, len(runs) - len(missing), folder, workforce, board) if missing else {}
    return [run.name for run in runs], failures


def _complaint(failures: Mapping[str, str], runs: Sequence[str], others: str = "") -> Failure:
    listed = [f"{name}: {reason}" for name, reason in failures.items()]
    sentence = f"{len(failures)} of {len(runs)} runs failed; the same command goes on with them{others}:"
    return Failure(sentence, *listed)


def _claim(folder: Path, design: Design) -> None:
    """Make the folder that of this comparison."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"cannot write to {folder}: {error.strerror}; choose another place with --out") from None
    RunDirectory(folder).write_json("comparison.json", shared_settings(design))


def _make(runs: Sequence[PlannedRun], done: int, folder: Path, workforce: Workforce, board: Board) -> dict[str, str]:
    """Why each of the runs that failed did so."""
    jobs = [_job(run, folder) for run in runs]
    with closing(ENGINES[workforce.engine]()) as engine:
        codes = Foreman(engine, board, done).work_off(jobs, workforce.jobs)
    return {visible(job.name): _reason(codes[job.name], job.log) for job in jobs if codes[job.name] != 0}


class Foreman:
    """Keeps an engine busy until all jobs are done or a signal asks to stop."""

    def __init__(self, engine: Engine, board: Board, already_done: int) -> None:
        self.engine, self.board, self.already_done = engine, board, already_done
        self.running: list[str] = []
        self.codes: dict[str, int] = {}

    def work_off(self, jobs: Sequence[Job], at_once: int) -> dict[str, int]:
        """The exit code of every job."""
        waiting, total = deque(jobs), self.already_done + len(jobs)
        with Interruption() as interruption:
            while self.running or (waiting and not interruption.is_asked):
                while waiting and len(self.running) < at_once and not interruption.is_asked:
                    self._start(waiting.popleft())
                self._show(total)
                self._collect()
                if interruption.is_asked:
                    self._stop()
            self._show(total)
        if interruption.is_asked:
            raise Interrupted(f"stopped with {self._done} of {total} runs done; the same command goes on from there")
        return self.codes

    @property
    def _done(self) -> int:
        return self.already_done + sum(code == 0 for code in self.codes.values())

    def _start(self, job: Job) -> None:
        self.engine.start(job)
        self.running.append(job.name)

    def _collect(self) -> None:
        """Take note of the jobs that have ended."""
        ended = self.engine.ended()
        self.codes |= ended
        self.running = [name for name in self.running if name not in ended]
        time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _show(self, total: int) -> None:
        failed = sum(code != 0 for code in self.codes.values())
        self.board.show(State(self._done, failed, total, tuple(map(visible, self.running))))

    def _stop(self) -> None:
        """Wait until the runs at work have saved their state."""
        self.board.say("stopping: the runs at work save their state")
        self.engine.stop()
        while self.running:
            self._collect()


def _job(run: PlannedRun, folder: Path) -> Job:
    path = folder / run.name
    places = [f"--out={path}", f"--source-models={folder / 'stage0'}"]
    carried = {name: os.environ[name] for name in CARRIED if name in os.environ}
    return Job(
        run.name,
        [sys.executable, "-m", "grcl", "run", *run.words, *places],
        Path.cwd(),
        path.with_name(f"{path.name}.log"),
        {**carried, "OMP_NUM_THREADS": str(run.settings.training.threads)},
        is_for_gpu=run.settings.training.device in ("auto", "cuda"),
    )


def _reason(code: int, log: Path) -> str:
    """Why a run ended early: the signal that killed it, or the last line that it said."""
    if code == BUSY:
        return "another process is at work on it; wait for that one, or end it"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}; its log is {log}"
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return visible(said[-1].removeprefix("grcl: ")) if said else f"exit code {code}; its log is {log}"
