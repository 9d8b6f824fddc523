"""What a run directory says, read back from its files alone."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.runtime.errors import Refusal
from grcl.runtime.visible import visible

Record = dict[str, Any]
Curve = dict[int, list[tuple[float, float]]]  # stage -> (progress in 0..1, value)
Sides = dict[int, tuple[float, float]]  # stage -> (before, after)


@dataclass(frozen=True)
class RunFiles:
    """The settings, environment, accuracy matrix and log of one run; all but the settings may be missing."""

    directory: Path
    config: Record
    environment: Record
    matrix: AccuracyMatrix | None
    log: tuple[Record, ...]

    @classmethod
    def read(cls, directory: Path) -> "RunFiles":
        """The files of `directory`, whether the run is finished, under way or was cut short."""
        config = _read_object(directory / "config.json")
        if config is None:
            raise Refusal(f"no run in {directory}: config.json is missing; name the directory of a run")
        environment = _read_object(directory / "environment.json") or {}
        return cls(
            directory,
            config,
            environment,
            _read_matrix(directory / "accuracy.json"),
            _read_log(directory / "log.jsonl"),
        )

    @property
    def title(self) -> str:
        """Method, benchmark and seed in words."""
        named = {key: self.config.get(key, "unknown") for key in ("method", "benchmark", "seed")}
        return "{method} on {benchmark}, seed {seed}".format(**named)

    @property
    def stage_labels(self) -> dict[int, str]:
        """Stage -> its number and domains, and on a second line how many steps it takes."""
        names = dict(enumerate(map(visible, self.matrix.stage_labels))) if self.matrix else {}
        lengths = {record["stage"]: f"{record.get('steps', 'unknown')} steps" for record in self.latest("step")}
        return {stage: f"{names.get(stage, stage)}\n{length}" for stage, length in lengths.items()}

    def latest(self, kind: str, *keys: str) -> list[Record]:
        """The records of a kind by stage; where a resumed run repeats one (same stage and `keys`), the last counts."""
        records = [record for record in self.log if record.get("kind") == kind and isinstance(record.get("stage"), int)]
        unique = {(record["stage"], *(str(record.get(key)) for key in keys)): record for record in records}
        return sorted(unique.values(), key=lambda record: int(record["stage"]))

    def curves(self, prefix: str) -> dict[str, Curve]:
        """Name -> stage -> [(progress, value)] of the values logged in training under keys with this prefix."""
        curves: dict[str, Curve] = {}
        for record in self.latest("step", "step"):
            for key, value in as_object(record.get("values")).items():
                if key.startswith(prefix):
                    curve = curves.setdefault(key.removeprefix(prefix), {})
                    curve.setdefault(record["stage"], []).append((_progress(record), number(value)))
        return {name: {stage: sorted(curve[stage]) for stage in curve} for name, curve in curves.items()}

    def constraints(self) -> dict[str, Sides]:
        """Constraint -> stage -> its mean cross-entropy before and after the stage: both sides of Eq. 5-7."""
        constraints: dict[str, Sides] = {}
        for record in self.latest("constraint", "name"):
            sides = (number(record.get("before")), number(record.get("after")))
            constraints.setdefault(str(record.get("name")), {})[record["stage"]] = sides
        return constraints


def number(value: Any) -> float:
    """The value if it is a number, else NaN."""
    return float(value) if isinstance(value, int | float) else math.nan


def _progress(record: Record) -> float:
    step, steps = number(record.get("step")), number(record.get("steps"))
    return step / max(step, steps) if max(step, steps) > 0 else 0.0


def as_object(value: Any) -> Record:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def _read_object(path: Path) -> Record | None:
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise Refusal(f"{path} is not a JSON object; restore the file or run again")
    return record


def _read_matrix(path: Path) -> AccuracyMatrix | None:
    record = _read_object(path)
    try:
        return None if record is None else AccuracyMatrix.from_json(record)
    except ValueError as error:
        raise Refusal(f"{path}: {error}") from None


def _read_log(path: Path) -> tuple[Record, ...]:
    """The objects of a log with one per line; a line that a crash cut short is passed over."""
    if not path.is_file():
        return ()
    # a cut may fall inside a character
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return tuple(record for record in map(_parsed, lines) if isinstance(record, dict))


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
