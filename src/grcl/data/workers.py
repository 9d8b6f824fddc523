"""Processes that read images beside the one that trains.

Each is a fresh interpreter that answers through its pipes. Nothing is forked, for the threads of torch and CUDA do not
survive that; and unlike multiprocessing's spawn and forkserver, nothing imports the user's script a second time, so
that it needs no `if __name__ == "__main__"`. They import no torch: each takes 0.3 s to start, and 40 MB.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from grcl.runtime.errors import Failure

Answer = TypeVar("Answer")

CHUNK = 16  # images per request: far dearer than the request, and still many requests per batch


def start(
    function: Callable[..., Answer], paths: Sequence[str], *arguments: Any, workers: int
) -> Callable[[], list[Answer]]:
    """Start `function(paths, *arguments)` on a chunk of the paths after another; the answers, once they are waited for.

    Without workers it is all done by the caller, when the answers are asked for.
    """
    chunks = [paths[first : first + CHUNK] for first in range(0, len(paths), CHUNK)]
    if workers == 0:
        return lambda: [function(chunk, *arguments) for chunk in chunks]
    # The workers may have been started in another folder than the one that is current now.
    asked = [[str(Path(path).absolute()) for path in chunk] for chunk in chunks]
    answers: list[Future[Answer]] = [staff(workers).ask(function, chunk, *arguments) for chunk in asked]
    return lambda: [answer.result() for answer in answers]


@cache
def staff(count: int) -> "Workers":
    """The workers of this process, started once and kept to its end, whatever is read."""
    return Workers(count)


class _Request(NamedTuple):
    function: Callable[..., Any]
    paths: Sequence[str]
    arguments: tuple[Any, ...]
    answer: Future[Any]


class Workers:
    """So many processes that answer requests in the order of asking; each is attended by a thread of this one."""

    def __init__(self, count: int) -> None:
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        for _ in range(count):
            # A daemon: when this process ends the pipes close, and that ends the worker.
            Thread(target=self._attend, daemon=True).start()

    def ask(self, function: Callable[..., Any], paths: Sequence[str], *arguments: Any) -> Future[Any]:
        """`function(paths, *arguments)`, answered later."""
        request = _Request(function, paths, arguments, Future())
        self._requests.put(request)
        return request.answer

    def _attend(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        while True:
            request = self._requests.get()
            try:
                if process is None or process.poll() is not None:
                    process = _start_process()
                request.answer.set_result(_answer(process, request))
            except BaseException as error:  # whoever waits for the answer must hear of it
                request.answer.set_exception(error)


def _start_process() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", "from grcl.data.workers import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        start_new_session=True,  # out of reach of the terminal's Ctrl-C from its first moment
    )


def _answer(process: subprocess.Popen[bytes], request: _Request) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump((request.function, (request.paths, *request.arguments)), process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
        is_answered, answer = pickle.load(process.stdout)
    except (OSError, EOFError, pickle.UnpicklingError):
        code = _bury(process)
        others = f" or one of the {len(request.paths) - 1} images after it" if len(request.paths) > 1 else ""
        raise Failure(
            f"a worker process ended (exit code {code}) while it read {request.paths[0]}{others}; "
            "if memory is short, take fewer images.workers, and give the same command again"
        ) from None
    if is_answered:
        return answer
    raise answer


def _bury(process: subprocess.Popen[bytes]) -> int:
    """End what is left of a process; returns its exit code."""
    process.kill()
    for pipe in filter(None, (process.stdin, process.stdout)):
        with contextlib.suppress(OSError):  # what could not be sent is lost
            pipe.close()
    return process.wait()


def serve() -> None:
    """What a worker does: answer until the process that asks is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the process that trains decides when to stop
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a decoder prints must not get among the answers
    with contextlib.suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):
        while True:
            function, arguments = pickle.load(requests)
            try:
                answer = True, function(*arguments)
            except Exception as error:
                answer = False, error
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    os._exit(0)  # there is nobody left to flush for
