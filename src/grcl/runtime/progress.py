"""Live progress on a terminal, plain lines elsewhere."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from grcl.runtime.visible import visible

_SECONDS_BETWEEN_LINES = 5.0


class Display(ABC):
    """What a person sees of a training."""

    @abstractmethod
    def stage(self, title: str, steps: int, start: int, steps_per_epoch: int) -> None:
        """A stage begins, perhaps in its middle."""

    @abstractmethod
    def step(self, done: int, values: Mapping[str, float], images_per_second: float) -> None:
        """So many steps are done; `values` are recent means."""

    def close(self) -> None:  # noqa: B027 - most displays hold nothing open
        """The run is over."""


class Silent(Display):
    """For libraries, tests and all processes but the first."""

    def stage(self, title: str, steps: int, start: int, steps_per_epoch: int) -> None:
        pass

    def step(self, done: int, values: Mapping[str, float], images_per_second: float) -> None:
        pass


class Live(Display):
    """A bar per stage with epoch, losses, violations, images/s and the time left."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, TextColumn("{task.fields[facts]}"), console=console)
        self._bars.start()

    def stage(self, title: str, steps: int, start: int, steps_per_epoch: int) -> None:
        self._per_epoch = max(1, steps_per_epoch)
        self._task = self._bars.add_task(escape(visible(title)), total=steps, completed=start, facts="")

    def step(self, done: int, values: Mapping[str, float], images_per_second: float) -> None:
        facts = _facts((done - 1) // self._per_epoch, values, images_per_second)
        self._bars.update(self._task, completed=done, facts=facts)

    def close(self) -> None:
        self._bars.stop()


class Plain(Display):
    """A line every few seconds and at the end of each stage."""

    def stage(self, title: str, steps: int, start: int, steps_per_epoch: int) -> None:
        self._title, self._steps, self._start = visible(title), steps, start
        self._per_epoch = max(1, steps_per_epoch)
        self._began = self._spoken = time.monotonic()

    def step(self, done: int, values: Mapping[str, float], images_per_second: float) -> None:
        now = time.monotonic()
        if now - self._spoken < _SECONDS_BETWEEN_LINES and done < self._steps:
            return
        self._spoken = now
        left = (now - self._began) / max(1, done - self._start) * (self._steps - done)
        facts = _facts((done - 1) // self._per_epoch, values, images_per_second)
        sys.stderr.write(f"{self._title}: step {done}/{self._steps} {facts}, {left:.0f} s left\n")


def _facts(epoch: int, values: Mapping[str, float], images_per_second: float) -> str:
    losses = [f"{name.removeprefix('loss/')} {value:.3f}" for name, value in values.items() if name.startswith("loss/")]
    violated = [value for name, value in values.items() if name.startswith("violated/")]
    conflicts = [f"violations {100 * sum(violated) / len(violated):.0f} %"] if violated else []
    return ", ".join([f"epoch {epoch + 1}", *losses, *conflicts, f"{images_per_second:,.0f} images/s"])


def display_for(console: Console) -> Display:
    """Live on a terminal, plain lines elsewhere."""
    return Live(console) if console.is_terminal else Plain()
