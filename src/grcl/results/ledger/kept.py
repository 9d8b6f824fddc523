"""A finished run as one small file: all that is worth keeping of it in a repository, and the way back to a run."""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.comparison import FinishedRun, Row
from grcl.results.conflict import conflicts_of
from grcl.results.run_files import Record, RunFiles, as_object, number
from grcl.runtime.environment import DECISIVE
from grcl.runtime.errors import Refusal

LONGEST = 100  # characters of a path's segment


class Identity(NamedTuple):
    """What a run is called, and how it is made again."""

    preset: str
    variant: str
    """The settings in which it differs from its preset; empty if there are none."""
    settings: Record
    """All that have an effect, without the folders of a machine."""
    command: str


class Kept(NamedTuple):
    """A result file: its content, and the run as far as it tells."""

    record: Record
    run: FinishedRun


def record_of(run: FinishedRun, identity: Identity) -> Record:
    """The content of the result file of a run."""
    names = {key: run.files.config[key] for key in ("benchmark", "method")}
    return {
        **names,
        "preset": identity.preset,
        "variant": identity.variant,
        "seed": run.seed,
        "settings": identity.settings,
        "command": identity.command,
        "data": as_object(run.files.environment.get("data")),
        "environment": _environment(run.files.environment),
        "accuracy": run.matrix.to_json(),
        "stages": [_stage(run, index) for index in range(1, len(run.matrix.stages))],
        "steps": _count(run.total("steps")),
        "images": _count(run.total("images")),
        "seconds": round(_finite(run.total("seconds")) or 0.0, 1),
        "peak_memory": None if run.peak_memory is None else _count(run.peak_memory),
    }


def place_of(record: Record) -> Path:
    """Where the result file stands below the results: BENCHMARK/METHOD[/VARIANT]/seed-N.json."""
    names = [_segment(str(record[key])) for key in ("benchmark", "method", "variant") if record[key]]
    return Path(*names, f"seed-{record['seed']}.json")


def as_text(record: Record) -> str:
    """The file's text: the same for the same content, and a line per number, so that changes show in a diff."""
    return json.dumps(record, indent=2, sort_keys=True, allow_nan=False) + "\n"


def read_kept(path: Path, results: Path) -> Kept:
    """A result file below `results`; it must stand where its content says."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        kept = Kept(record, _run(record, path))
        place = place_of(record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise Refusal(f"{path} is not a result file; restore it, or write it again with grcl ledger keep") from None
    if results / place != path:
        raise Refusal(f"{path} holds the result of {place}; move it there, or keep the run again")
    return kept


def _environment(described: Record) -> Record:
    """What the result depends on, and where else the run was at work, if anywhere."""
    earlier = {"earlier": described["earlier"]} if "earlier" in described else {}
    return {key: described.get(key) for key in DECISIVE} | earlier


def _stage(run: FinishedRun, index: int) -> Record:
    """What the log says of one target stage."""
    files = run.files
    cost = next((record for record in files.latest("stage") if record["stage"] == index), {})
    after = [record for record in files.latest("monitor", "when") if _is_after(record, index)]
    constraints = {name: sides[index] for name, sides in files.constraints().items() if index in sides}
    conflicts = conflicts_of(Row((run,))).get(index)
    episode = next((record for record in files.latest("episode") if record["stage"] == index), {})
    return {
        "domains": list(run.matrix.stages[index]),
        "steps": _count(cost.get("steps")),
        "images": _count(cost.get("images")),
        "seconds": round(_finite(cost.get("seconds")) or 0.0, 1),
        "monitors": _finite_values(as_object(after[-1].get("values")) if after else {}),
        "losses": {name: [_finite(side) for side in sides] for name, sides in constraints.items()},
        "violated": _finite_values(conflicts.violated if conflicts else {}),
        "memory_labels_right": _finite(episode.get("pseudo_label_accuracy")),
    }


def _run(record: Record, path: Path) -> FinishedRun:
    """The run as its result file tells it."""
    matrix = AccuracyMatrix.from_json(record["accuracy"])
    environment = {**record["environment"], "data": record["data"]}
    config = {**record["settings"], **{key: record[key] for key in ("benchmark", "method", "seed")}}
    files = RunFiles(path.parent, config, environment, matrix, tuple(_log(record)))
    if not matrix.is_complete:
        raise ValueError("the accuracy matrix is incomplete")
    return FinishedRun(files, matrix, str(record["variant"]))


def _log(record: Record) -> Iterator[Record]:
    for index, stage in enumerate(record["stages"], start=1):
        yield {"kind": "stage", "stage": index, **{key: stage[key] for key in ("steps", "images", "seconds")}}
        yield {"kind": "monitor", "stage": index, "when": "after", "values": stage["monitors"]}
        for name, (before, after) in stage["losses"].items():
            yield {"kind": "constraint", "stage": index, "name": name, "before": before, "after": after}
    if record["peak_memory"] is not None:
        yield {"kind": "end", "peak_memory": record["peak_memory"]}


def _is_after(record: Record, index: int) -> bool:
    return record["stage"] == index and record.get("when") == "after"


def _finite(value: Any) -> float | None:
    """The value if it is a finite number; JSON has no other."""
    return float(value) if math.isfinite(number(value)) else None


def _count(value: Any) -> int:
    return int(_finite(value) or 0)


def _finite_values(values: Record) -> Record:
    return {name: _finite(value) for name, value in values.items()}


def _segment(name: str) -> str:
    """A name as one segment of a path, whatever it is; a digest ends one that is too long."""
    plain = re.sub(r"[^\w.,=+-]|^\.+", "_", name, flags=re.ASCII)
    if len(plain) <= LONGEST:
        return plain
    return f"{plain[: LONGEST - 20]}~{hashlib.sha256(name.encode(errors='backslashreplace')).hexdigest()[:8]}"
