"""The runs below a folder, side by side: read from their files alone, whoever made them."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.paper import ORDER, PAPER, PaperResults
from grcl.results.run_files import Record, RunFiles, as_object, number
from grcl.results.spread import Spread, spread
from grcl.runtime.errors import Refusal

Measured = Callable[[AccuracyMatrix], float | None]


@dataclass(frozen=True)
class FinishedRun:
    """A run and its complete accuracy matrix."""

    files: RunFiles
    matrix: AccuracyMatrix
    variant: str
    """What its directory is named after besides method and seed; empty if nothing."""

    @property
    def method(self) -> str:
        """The name of its method."""
        return str(self.files.config["method"])

    @property
    def seed(self) -> int:
        """The seed of its training."""
        return int(number(self.files.config.get("seed", 0)))

    def total(self, key: str) -> float:
        """The sum over its stages of what they took: steps, images or seconds."""
        return math.fsum(number(record.get(key)) for record in self.files.latest("stage") if record["stage"] > 0)

    @property
    def peak_memory(self) -> float | None:
        """The most memory that it held, in bytes."""
        ends = [number(record.get("peak_memory")) for record in self.files.log if record.get("kind") == "end"]
        return max(ends, default=None)


@dataclass(frozen=True)
class Row:
    """One method, or one variant of it, over all its seeds."""

    runs: tuple[FinishedRun, ...]

    @property
    def method(self) -> str:
        """The name of its method."""
        return self.runs[0].method

    @property
    def variant(self) -> str:
        """What sets it apart from the plain method; empty for the plain one."""
        return self.runs[0].variant

    @property
    def label(self) -> str:
        """Method and variant in one."""
        return f"{self.method}, {self.variant}" if self.variant else self.method

    @property
    def config(self) -> Record:
        """The settings of its runs; only the seed differs between them."""
        return self.runs[0].files.config

    @property
    def matrix(self) -> AccuracyMatrix:
        """The matrix of its first run: for the names of domains and stages."""
        return self.runs[0].matrix

    @property
    def adapts(self) -> bool:
        """Whether it took a single step; what never learns has nothing to forget."""
        return any(run.total("steps") > 0 for run in self.runs)

    def by_seed(self, measured: Measured) -> dict[int, float]:
        """A measure of every run, where it is defined."""
        values = {run.seed: measured(run.matrix) for run in self.runs}
        return {seed: value for seed, value in values.items() if value is not None}

    def over_seeds(self, measured: Measured) -> Spread | None:
        """Mean and standard deviation of a measure."""
        return spread(self.by_seed(measured).values())

    def mean_total(self, key: str) -> float:
        """The mean over seeds of what a run took."""
        return fmean(run.total(key) for run in self.runs)


@dataclass(frozen=True)
class Group:
    """Rows that can be compared: the same benchmark and the same domains."""

    benchmark: str
    domains: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def plain_rows(self) -> tuple[Row, ...]:
        """One row per method, without variants; all rows where there is no plain one."""
        return tuple(row for row in self.rows if not row.variant) or self.rows

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds of the rows."""
        return tuple(sorted({run.seed for row in self.rows for run in row.runs}))

    @property
    def notes(self) -> dict[str, str]:
        """What the runs say of their domains' images, by domain."""
        runs = [run.files.environment.get("data") for row in self.rows for run in row.runs]
        found = {(name, as_object(facts).get("note")) for data in runs for name, facts in as_object(data).items()}
        told = {name: sorted({str(note) for each, note in found if each == name and note}) for name in self.domains}
        return {name: "; ".join(notes) for name, notes in told.items() if notes}

    @property
    def paper(self) -> PaperResults | None:
        """The paper's own results, where it has this benchmark and as many domains; it has no rehearsals."""
        found = PAPER.get(self.benchmark)
        is_rehearsed = any(run.files.config.get("rehearse") for row in self.rows for run in row.runs)
        return found if found and found.domains == len(self.domains) and not is_rehearsed else None


@dataclass(frozen=True)
class Comparison:
    """All runs below a folder; only finished ones count."""

    folder: Path
    groups: tuple[Group, ...]
    unfinished: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path) -> "Comparison":
        """The runs of METHOD[/VARIANT]/seed-N below `folder`."""
        if not folder.is_dir():
            raise Refusal(f"no folder {folder}; name one that holds runs, such as the --out of grcl compare")
        runs, unfinished = [], _begun_only(folder)
        for files in _run_files(folder):
            place = files.directory.relative_to(folder)
            if files.matrix is not None and files.matrix.is_complete and (files.directory / "done").exists():
                runs.append(FinishedRun(files, files.matrix, "/".join(place.parts[1:-1])))
            else:
                unfinished.add(str(place))
        return cls(folder, _grouped(runs), tuple(sorted(unfinished)))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all groups."""
        return tuple(row for group in self.groups for row in group.rows)

    @cached_property
    def main(self) -> Group | None:
        """The group with the most domains; none if several have as many, as in the one-target setting."""
        most = max((len(group.domains) for group in self.groups), default=0)
        longest = [group for group in self.groups if len(group.domains) == most]
        return longest[0] if len(longest) == 1 else None

    @property
    def others(self) -> tuple[Group, ...]:
        """All groups but the main one."""
        return tuple(group for group in self.groups if group is not self.main)


def _run_files(folder: Path) -> Iterator[RunFiles]:
    """The runs below the folder; source models name no method."""
    for path in sorted(folder.rglob("config.json")):
        files = RunFiles.read(path.parent)
        if "method" in files.config:
            yield files


def _begun_only(folder: Path) -> set[str]:
    """Runs of which there is a log and nothing else: they failed before they had a directory."""
    logs = {path.with_suffix("") for path in folder.rglob("seed-*.log")}
    return {str(path.relative_to(folder)) for path in logs if not (path / "config.json").exists()}


def _grouped(runs: Iterable[FinishedRun]) -> tuple[Group, ...]:
    """Groups with the longest streams first, their rows in the order of the paper's table."""
    grouped: dict[tuple[str, tuple[str, ...]], dict[tuple[str, str], dict[int, FinishedRun]]] = {}
    for run in runs:
        domains = tuple(sorted(run.matrix.domains))
        rows = grouped.setdefault((str(run.files.config.get("benchmark", "")), domains), {})
        rows.setdefault((run.method, run.variant), {})[run.seed] = run
    groups = [_group(benchmark, list(rows.values())) for (benchmark, _), rows in grouped.items()]
    return tuple(sorted(groups, key=lambda group: -len(group.domains)))


def _group(benchmark: str, rows: list[dict[int, FinishedRun]]) -> Group:
    made = [Row(tuple(run for _, run in sorted(runs.items()))) for runs in rows]
    made.sort(key=_place)
    return Group(benchmark, made[0].matrix.domains, tuple(made))


def _place(row: Row) -> tuple[int, str, list[Any]]:
    """Methods as in the paper, others behind by name; variants by the numbers in them."""
    place = ORDER.index(row.method) if row.method in ORDER else len(ORDER)
    pieces = re.split(r"(\d+(?:\.\d+)?)", row.variant)
    return place, row.method, [(float(piece), "") if index % 2 else (0.0, piece) for index, piece in enumerate(pieces)]
