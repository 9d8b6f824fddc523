"""The journal of a run: its log, its running totals, and what of them is still to be written.

A checkpoint holds its state, so that the log of a run that was stopped is that of one that was not.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grcl.alarms import Watch
from grcl.runtime.log import RunLog

logger = logging.getLogger(__name__)


@dataclass
class Journal:
    """The log of a run and its running totals."""

    log: RunLog
    steps: int = 0
    """Optimiser steps of the run so far."""
    seconds: float = 0.0
    """Time that the current stage has trained."""
    recent: dict[str, list[Tensor]] = field(default_factory=lambda: defaultdict(list))
    """What the steps since the last line of the log returned."""
    watch: Watch = field(default_factory=Watch)
    """What was seen of the signs of harm in the current stage."""

    @classmethod
    def open(cls, folder: Path, saved: Mapping[str, Any], device: torch.device) -> "Journal":
        """The journal as it was saved; a new one if there is nothing of it."""
        steps, seconds = saved.get("total_steps", 0), saved.get("seconds", 0.0)
        recent = {name: list(values.to(device)) for name, values in saved.get("recent", {}).items()}
        log = RunLog(folder, saved.get("log_offset", 0), steps)
        return cls(log, steps, seconds, defaultdict(list, recent), Watch(**saved.get("watch", {})))

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        totals = {"total_steps": self.steps, "seconds": self.seconds, "log_offset": self.log.offset}
        return {**totals, "recent": self._stacked(), "watch": asdict(self.watch)}

    def begin_stage(self) -> None:
        """Forget what lives for one stage."""
        self.seconds, self.watch = 0.0, Watch()

    def note(self, values: Mapping[str, Tensor]) -> None:
        """What one more step returned."""
        for name, value in values.items():
            self.recent[name].append(value)
        self.steps += 1

    def warn(self, stage: int, sentence: str) -> None:
        """Tell what went wrong, in the terminal, in the log and so in the report; the work goes on."""
        logger.warning("%s", sentence)
        self.log.write("warning", stage=stage, text=sentence)

    def take_recent(self) -> tuple[dict[str, float], dict[str, list[float]]]:
        """The means of the values since the last call, and every single cosine, for histograms."""
        recent = self._stacked()
        self.recent.clear()
        means = {name: float(values.mean()) for name, values in recent.items()}
        return means, {name: values.tolist() for name, values in recent.items() if name.startswith("cosine/")}

    def _stacked(self) -> dict[str, Tensor]:
        return {name: torch.stack(values) for name, values in self.recent.items()}
