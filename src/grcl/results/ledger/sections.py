"""The ledger's tables with the kept results put to their rows."""

from dataclasses import dataclass
from pathlib import Path

from grcl.results.comparison import Comparison, Group, Row
from grcl.results.ledger.contents import SWEPT, Contents, Ledger, Line
from grcl.results.ledger.shelf import KeptRow, Shelf
from grcl.results.one_target import OneTarget, one_target
from grcl.results.run_files import Record
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import flat


@dataclass(frozen=True)
class Entry:
    """One row of a table and what was kept of it: nothing, one row, or in the one-target setting a row per stream."""

    line: Line
    kept: tuple[KeptRow, ...]
    alone: OneTarget | None = None
    """In the one-target setting, the mean over the targets, once all are there."""

    @property
    def row(self) -> Row | None:
        """Its results in a stream of several stages."""
        return self.kept[0].row if self.kept else None

    @property
    def is_ceiling(self) -> bool:
        """Whether all domains were the source, with their labels: what adaptation can reach, and no method."""
        return "targets=" in self.line.variant.split(",")


@dataclass(frozen=True)
class Section:
    """One table of the ledger."""

    contents: Contents
    entries: tuple[Entry, ...]

    @property
    def records(self) -> list[Record]:
        """All result files that it shows."""
        return [record for entry in self.entries for kept in entry.kept for record in kept.records]

    @property
    def is_one_target(self) -> bool:
        """Whether its rows are means over streams of one target each."""
        return self.contents.paper == "one_target"


def sections(ledger: Ledger, shelf: Shelf) -> list[Section]:
    """Every table of the ledger with its results."""
    return [_section(contents, shelf) for contents in ledger.table]


def unlisted(made: list[Section], shelf: Shelf) -> list[KeptRow]:
    """What is kept and stands in no table."""
    shown = {id(record) for section in made for record in section.records}
    return [kept for kept in shelf.rows.values() if id(kept.records[0]) not in shown]


def _section(contents: Contents, shelf: Shelf) -> Section:
    if contents.paper == "one_target":
        return Section(contents, _alone(contents, shelf))
    entries = []
    for line in contents.row:
        kept = shelf.rows.get((contents.benchmark, line.method, line.variant))
        _check_value(contents, line, kept)
        entries.append(Entry(line, (kept,) if kept else ()))
    return Section(contents, tuple(entries))


def _alone(contents: Contents, shelf: Shelf) -> tuple[Entry, ...]:
    """The rows of the one-target setting, each over all targets."""
    listed = [kept for kept in shelf.of_benchmark(contents.benchmark) if _is_alone(kept.row)]
    group = Group(contents.benchmark, (), tuple(kept.row for kept in listed))
    averaged = one_target(Comparison(Path(), (group,), ()))
    means = {entry.label: entry for entry in averaged}
    if len(means) < len(averaged):
        raise Refusal(f"rows of {contents.title!r} differ in settings that their variants do not name; run them again")
    entries = []
    for line in contents.row:
        kept = tuple(each for each in listed if (each.row.method, _shared(each.row)) == (line.method, line.variant))
        label = ", ".join(filter(None, [line.method, *line.variant.split(",")]))
        entries.append(Entry(line, kept, means.get(label)))
    return tuple(entries)


def _is_alone(row: Row) -> bool:
    return len(row.matrix.domains) == len(row.matrix.stages) == 2


def _shared(row: Row) -> str:
    """The variant without the target and the weight, over which a row of the one-target setting goes."""
    apart = ("targets", f"{row.method}.contrast_weight")
    return ",".join(part for part in row.variant.split(",") if part.partition("=")[0] not in apart)


def _check_value(contents: Contents, line: Line, kept: KeptRow | None) -> None:
    key = SWEPT.get(contents.paper)
    if key is None or kept is None:
        return
    value = flat(kept.row.config).get(key)
    if value != line.value:
        raise Refusal(
            f"the ledger gives {line.name!r} {key} = {line.value}, and its results have {value}; correct the row"
        )
