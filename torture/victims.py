"""What is killed: work that can be asked for again and again until it is done, and what it must leave behind."""

import hashlib
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from grcl.cli import main
from grcl.learner.learner import Learner
from grcl.learner.state import StateDirectory
from grcl.methods import METHODS
from grcl.runtime.checkpoint import Checkpoints, decode
from learners import fitted, pixels
from tiny import logged

PRESET = Path(__file__).parents[1] / "tests" / "tiny.toml"
QUICK = {"training.epochs": 1, "stage0.epochs": 2, "training.checkpoint_seconds": 0, "training.log_every": 2}
LONG = {"training.epochs": 6, "training.checkpoint_seconds": 0.0}
# What makes a method's checkpoint small or its first step late is turned down.
SMALL = {
    "grcl": {"grcl.contrast.hidden": 64},
    "multi_task": {"multi_task.contrast.hidden": 64},
    "mcd": {"mcd.warm_up_steps": 5},
    "dada": {"dada.warm_up_steps": 5},
}


class Victim(ABC):
    """Some work, and the traces by which its folder tells how far it has come."""

    name: str

    def prepare(self, folder: Path) -> int:
        """Make in `folder` what the work of every trial begins with; returns an exit code."""
        return 0

    @abstractmethod
    def work(self, folder: Path) -> int:
        """Do it, or go on with it; returns an exit code."""

    @abstractmethod
    def outcome(self, folder: Path) -> dict[str, str]:
        """All that the finished command left behind and that may not depend on a kill, in digests."""

    @abstractmethod
    def is_nearly_done(self, folder: Path) -> bool:
        """Whether only the last thing is left to be made."""

    @abstractmethod
    def phase(self, folder: Path) -> str:
        """What a command that was killed was at, by what is in its folder."""


class Run(Victim):
    """`grcl run` with one method, on three small domains, from stage 0 to the report."""

    def __init__(self, method: str) -> None:
        self.name = method
        self.settings = {**QUICK, **SMALL.get(method, {})}

    def work(self, folder: Path) -> int:
        os.environ["GRCL_CACHE"] = str(folder.parent / "cache")
        flags = [word for key, value in self.settings.items() for word in (f"--{key}", str(value))]
        return main(["run", "tiny", "--preset", str(PRESET), "--method", self.name, "--out", str(folder), *flags])

    def outcome(self, folder: Path) -> dict[str, str]:
        (source,) = folder.glob("stage0/*/checkpoints")
        present = [name for name in ("done", "report.html") if (folder / name).exists()]
        return {
            "R": (folder / "accuracy.json").read_text(),
            "weights and memory": digest(final_state(folder / "checkpoints")),
            "source model": digest(final_state(source)),
            "log": repr(logged(folder)),
            "files": f"{present}, left aside: {len(list(folder.rglob('.*.tmp')))}",
        }

    def is_nearly_done(self, folder: Path) -> bool:
        try:
            rows = json.loads((folder / "accuracy.json").read_bytes())
        except (OSError, ValueError):
            return False
        return len(rows["accuracy"]) == 3 and None not in rows["accuracy"][-1]

    def phase(self, folder: Path) -> str:
        if any(folder.rglob(".*.tmp")):
            return "while a file was written"
        if not any(folder.glob("stage0/*/done")):
            return "in stage 0" if any(folder.glob("stage0/*/checkpoints/*.ckpt")) else "before the first checkpoint"
        return "while the report was made" if self.is_nearly_done(folder) else "in or between the stages"


class Adapt(Victim):
    """A learner's second adapt, on arrays, which a state of a fit and an adapt begins with."""

    name = "adapt"

    def prepare(self, folder: Path) -> int:
        fitted(folder / "begin", keep_source=16).adapt(pixels("dark"), if_worse="keep")
        return 0

    def work(self, folder: Path) -> int:
        if not folder.exists():
            aside = folder.with_suffix(".aside")
            shutil.rmtree(aside, ignore_errors=True)
            shutil.copytree(folder.parent / "begin", aside)
            aside.rename(folder)
        learner = Learner.load(folder)
        if len(learner.history()) == 2:  # what the history tells is done
            learner.adapt(pixels("noisy"), if_worse="keep", settings=LONG)
        return 0

    def outcome(self, folder: Path) -> dict[str, str]:
        state = StateDirectory(folder)
        facts = state.facts()
        entries = [entry.model_copy(update={"date": ""}) for entry in state.entries(facts)]
        files = {name: decode(state.read(facts, name)) for name in sorted(facts.files) if name.endswith(".ckpt")}
        return {"history": repr(entries), **{name: digest(content) for name, content in files.items()}}

    def is_nearly_done(self, folder: Path) -> bool:
        log = folder / "work" / "log.jsonl"
        return (folder / "history" / "0002.json").exists() or (log.exists() and b'"kind": "stage"' in log.read_bytes())

    def phase(self, folder: Path) -> str:
        if any(folder.rglob(".*.tmp")):
            return "while a file was written"
        if not any(folder.glob("work/checkpoints/*.ckpt")):
            is_done = (folder / "history" / "0002.json").exists()
            return "while an adapt became valid" if is_done else "before the first checkpoint"
        return "while an adapt became valid" if self.is_nearly_done(folder) else "in an adapt"


def victims(names: Sequence[str] | None = None) -> list[Victim]:
    """Those of these names; all of them if none is given."""
    return [Adapt() if name == Adapt.name else Run(name) for name in names or [*METHODS, Adapt.name]]


def final_state(folder: Path) -> dict[str, Any]:
    """All that a training ends with, but for the times."""
    state = Checkpoints(folder).final()
    return {key: value for key, value in state.items() if key not in ("seconds", "log_offset")}


def digest(value: Any) -> str:
    """A digest that changes with any bit of any tensor and with any plain value."""
    total = hashlib.sha256()

    def take(part: Any) -> None:
        if isinstance(part, torch.Tensor):
            total.update(f"{part.dtype} {tuple(part.shape)} ".encode())
            total.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif isinstance(part, dict):
            for key in part:
                take(key)
                take(part[key])
        elif isinstance(part, list | tuple):
            total.update(f"{len(part)} in a row ".encode())
            for item in part:
                take(item)
        else:
            total.update(repr(part).encode() + b" ")

    take(value)
    return total.hexdigest()
