"""Processes that are forked from this one, which has imported everything: a new one takes milliseconds, not seconds."""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Child:
    """A process of its own, in a process group of its own."""

    number: int
    code: int | None = None
    """How it ended: its exit code, or the negative number of the signal."""

    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        if self.code is None:
            number, status = os.waitpid(self.number, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if number else None
        return self.code is None

    def wait(self, until: float, pause: float = 0.005) -> bool:
        """Wait for its end, but not longer than until this time; tells whether it has ended."""
        while self.is_alive() and time.monotonic() < until:
            time.sleep(pause)
        return not self.is_alive()

    def kill(self) -> bool:
        """SIGKILL to all of its group; tells whether that is what it died of."""
        if self.is_alive():
            os.killpg(self.number, signal.SIGKILL)
            _, status = os.waitpid(self.number, 0)
            self.code = os.waitstatus_to_exitcode(status)
            return self.code == -signal.SIGKILL
        return False


def warm_up() -> None:
    """Import all that a run needs, so that no child has to."""
    import torch
    import torch.utils.tensorboard
    from matplotlib.figure import Figure

    import grcl.learner.learner
    import grcl.results.report
    import grcl.run  # noqa: F401
    from grcl.results.drawing import as_svg

    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)])  # its first step imports torch's compiler
    as_svg(Figure())  # looks for fonts


def start(work: Callable[[], int], output: Path) -> Child:
    """Begin the work in a child, which writes all that it prints into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    number = os.fork()
    if number:
        while os.getpgid(number) != number:  # it can be killed from here on
            time.sleep(0.0005)
        return Child(number)
    code = 70
    try:
        os.setsid()
        with output.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = work()
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
