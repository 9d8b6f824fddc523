"""Progress of many runs: a live bar on a terminal, plain lines elsewhere."""

import sys
import time
from abc import ABC, abstractmethod
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from grcl.runtime.visible import visible


class State(NamedTuple):
    """How far a comparison is: how many runs are done and how many failed, and which are being worked on."""

    done: int
    failed: int
    total: int
    running: tuple[str, ...]

    @property
    def ended(self) -> int:
        """Runs that need no more time."""
        return self.done + self.failed


class Board(ABC):
    """What a person sees of a comparison."""

    @abstractmethod
    def show(self, state: State) -> None:
        """Called again and again, whether something has changed or not."""

    @abstractmethod
    def say(self, text: str) -> None:
        """One sentence, in a line of its own."""

    def close(self) -> None:  # noqa: B027 - most boards hold nothing open
        """The comparison is over."""


class SilentBoard(Board):
    """For libraries and tests."""

    def show(self, state: State) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class LiveBoard(Board):
    """One bar over all runs, with the names of those at work and the time left."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("runs"), BarColumn(bar_width=20), MofNCompleteColumn())
        self._bar = Progress(*columns, TextColumn("{task.fields[facts]}"), console=console)
        self._bar.start()
        self._task = self._bar.add_task("", total=None, facts="")
        self._clock = Clock()

    def show(self, state: State) -> None:
        facts = escape(visible("; ".join(_facts(state, self._clock.left(state)))))
        self._bar.update(self._task, total=state.total, completed=state.done, facts=facts)

    def say(self, text: str) -> None:
        self._bar.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._bar.stop()


class PlainBoard(Board):
    """A line whenever a run begins or ends."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._shown: State | None = None

    def show(self, state: State) -> None:
        if state == self._shown:
            return
        self._shown = state
        self.say("; ".join([f"{state.done} of {state.total} runs done", *_facts(state, self._clock.left(state))]))

    def say(self, text: str) -> None:
        sys.stderr.write(visible(text) + "\n")


class Clock:
    """How long the runs still to be made will take, if they go on like those that ended since the first look."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: int | None = None

    def left(self, state: State) -> float | None:
        """Seconds; unknown until a run has ended."""
        if self._first is None:
            self._began, self._first = time.monotonic(), state.ended
        ended = state.ended - self._first
        return (time.monotonic() - self._began) / ended * (state.total - state.ended) if ended else None


def _facts(state: State, left: float | None) -> list[str]:
    parts = [f"{state.failed} failed"] if state.failed else []
    parts += [f"at work: {', '.join(state.running)}"] if state.running else []
    return parts + ([f"about {duration(left)} left"] if left else [])


def duration(seconds: float) -> str:
    """A time in the unit that suits it: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def board_for(console: Console) -> Board:
    """Live on a terminal, plain lines elsewhere."""
    return LiveBoard(console) if console.is_terminal else PlainBoard()
