"""Tables of what a run directory records besides R: stages, memory, monitors, data, settings, environment."""

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from grcl.results.run_files import Record, RunFiles, as_object, number
from grcl.results.tables import Table, percent


def stages_table(run: RunFiles) -> Table:
    """What each stage cost."""
    rows = [
        (
            str(record["stage"]),
            str(record.get("name", "")),
            _count(record.get("steps")),
            _count(record.get("images")),
            _decimal(record.get("seconds"), 1),
        )
        for record in run.latest("stage")
    ]
    return Table(("stage", "domains", "optimiser steps", "images seen", "seconds"), tuple(rows))


def episodes_table(run: RunFiles) -> Table:
    """What each stage put into the memory, and how good its pseudo-labels are."""
    header = (
        "stage",
        "images",
        "agreement (%)",
        "labels right (%)",
        "remembered (%)",
        "classes",
        "smallest class",
        "largest class",
    )
    return Table(header, tuple(_episode(record) for record in run.latest("episode")))


def monitors_table(run: RunFiles) -> Table:
    """The label-free monitors, each as its value before and after the stage."""
    stages: dict[int, dict[str, Record]] = {}
    for record in run.latest("monitor", "when"):
        stages.setdefault(record["stage"], {})[str(record.get("when"))] = as_object(record.get("values"))
    names = list(dict.fromkeys(name for sides in stages.values() for values in sides.values() for name in values))
    rows = [(str(stage), *(_before_and_after(sides, name) for name in names)) for stage, sides in stages.items()]
    return Table(("stage", *names), tuple(rows))


def warnings(run: RunFiles) -> list[str]:
    """What went wrong while the run went on, each once."""
    return [str(record.get("text")) for record in run.latest("warning", "text")]


def data_table(run: RunFiles) -> Table:
    """The domains as they were read."""
    domains = {name: as_object(facts) for name, facts in as_object(run.environment.get("data")).items()}
    rows = [
        (
            name,
            _count(facts.get("train")),
            _count(facts.get("test")),
            _text(facts.get("note", "")),
            _text(facts.get("fingerprint", "")),
        )
        for name, facts in domains.items()
    ]
    return Table(("domain", "training images", "test images", "note", "fingerprint"), tuple(rows))


def settings(run: RunFiles) -> list[tuple[str, str]]:
    """Every setting as key and value."""
    return list(flattened(run.config))


def environment(run: RunFiles) -> list[tuple[str, str]]:
    """Where and how the run was made, the data left to its own table."""
    facts = {key: value for key, value in run.environment.items() if key != "data"}
    if isinstance(command := facts.get("command"), list):
        facts["command"] = shlex.join(map(str, command))
    return list(flattened(facts))


def flattened(record: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, value as text) of every leaf of nested settings."""
    for key, value in record.items():
        if isinstance(value, dict) and value:
            yield from flattened(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", _text(value)


def _episode(record: Record) -> tuple[str, ...]:
    sizes = record.get("classes") or []
    filled = f"{sum(size > 0 for size in sizes)} of {len(sizes)}"
    return (
        str(record["stage"]),
        _count(record.get("size")),
        percent(record.get("agreement")),
        percent(record.get("pseudo_label_accuracy")),
        percent(record.get("remembered_label_accuracy")),
        filled,
        _count(min(sizes, default=None)),
        _count(max(sizes, default=None)),
    )


def _before_and_after(sides: dict[str, Record], name: str) -> str:
    before, after = (_decimal(sides.get(when, {}).get(name), 3) for when in ("before", "after"))
    return f"{before} → {after}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _count(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "n/a"


def _decimal(value: Any, digits: int) -> str:
    return "n/a" if math.isnan(number(value)) else f"{value:,.{digits}f}"
