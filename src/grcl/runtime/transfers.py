"""Progress of downloads: a live bar on a terminal, plain lines elsewhere."""

import sys
import time
from abc import ABC, abstractmethod

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from grcl.runtime.visible import visible

_SECONDS_BETWEEN_LINES = 5.0


class Transfers(ABC):
    """What a person sees of files that come over the network."""

    @abstractmethod
    def begin(self, name: str, done: int, total: int | None) -> None:
        """A file begins or goes on: so many of its bytes are here already, of a total that may be unknown."""

    @abstractmethod
    def advance(self, done: int) -> None:
        """So many bytes of the file are here."""

    @abstractmethod
    def say(self, text: str) -> None:
        """One sentence, in a line of its own."""

    def close(self) -> None:  # noqa: B027 - most displays hold nothing open
        """All files are here, or nothing more can be done."""


class SilentTransfers(Transfers):
    """For libraries and tests."""

    def begin(self, name: str, done: int, total: int | None) -> None:
        pass

    def advance(self, done: int) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class LiveTransfers(Transfers):
    """A bar per file with bytes, speed and the time left."""

    def __init__(self, console: Console) -> None:
        columns = (BarColumn(bar_width=20), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._bars = Progress(TextColumn("{task.description}"), *columns, console=console)
        self._bars.start()
        self._tasks: dict[str, TaskID] = {}

    def begin(self, name: str, done: int, total: int | None) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(escape(visible(name)))
        self._task = self._tasks[name]
        self._bars.update(self._task, completed=done, total=total)

    def advance(self, done: int) -> None:
        self._bars.update(self._task, completed=done)

    def say(self, text: str) -> None:
        self._bars.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._bars.stop()


class PlainTransfers(Transfers):
    """A line every few seconds."""

    def begin(self, name: str, done: int, total: int | None) -> None:
        self._name, self._total = name, total
        self._spoken = time.monotonic()
        of = "" if total is None else f" of {megabytes(total)}"
        self.say(f"{name}: {'goes on after ' + megabytes(done) if done else 'downloading'}{of}")

    def advance(self, done: int) -> None:
        now = time.monotonic()
        if now - self._spoken >= _SECONDS_BETWEEN_LINES:
            self._spoken = now
            of = "" if self._total is None else f" of {megabytes(self._total)}"
            self.say(f"{self._name}: {megabytes(done)}{of}")

    def say(self, text: str) -> None:
        sys.stderr.write(visible(text) + "\n")


def megabytes(size: int) -> str:
    """A size in MB, with decimals only where they say something."""
    return f"{size / 1e6:,.{1 if size < 99_950_000 else 0}f} MB"


def transfers_for(console: Console) -> Transfers:
    """Live on a terminal, plain lines elsewhere."""
    return LiveTransfers(console) if console.is_terminal else PlainTransfers()
