"""Tables of the accuracy matrix as plain text cells, and their renderings in Markdown and in the terminal."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.spread import Difference
from grcl.runtime.visible import visible

if TYPE_CHECKING:
    import rich.table

NUMBER = re.compile(r"[+-]?[\d,]+(\.\d+)?( ± [\d.]+)?( \[[^\[\]]*\])?( (s|min|h|MB))?|\d+ of \d+|n/a|–")
MARKUP = re.compile(r"[\\`*\[\]<>|~$&]|(?<!\w)_|_(?!\w)")


@dataclass(frozen=True)
class Table:
    """A header and rows of cells, all text; (row, column) of the best cells, to be set in bold."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()

    @property
    def is_number(self) -> tuple[bool, ...]:
        """Per column, whether it holds numbers, to be aligned to the right; the first names its row."""
        columns = [[row[index] for row in self.rows] for index in range(1, len(self.header))]
        return (False, *(all(NUMBER.fullmatch(cell) for cell in column) for column in columns))


@dataclass(frozen=True)
class Measure:
    """One number of a run in words."""

    name: str
    value: str
    meaning: str


def percent(share: float | None) -> str:
    """A share as percent with one decimal."""
    return "n/a" if share is None else f"{100 * share:.1f}"


def points(change: float | None) -> str:
    """A change of a share in percentage points, with its sign."""
    return "n/a" if change is None else signed(100 * change, 1)


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign."""
    # adding 0.0 turns a rounded -0.0 into +0.0
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def interval(value: Difference, scale: float = 100.0, digits: int = 2) -> str:
    """A paired difference in points, or by another scale, with its interval of 95 %."""
    ends = value.mean, value.mean - value.margin, value.mean + value.margin
    mean, low, high = (signed(scale * end, digits) for end in ends)
    return f"{mean} [{low}, {high}]"


def matrix_table(matrix: AccuracyMatrix) -> Table:
    """R in percent: a row per finished stage, a column per domain."""
    rows = zip(matrix.stage_labels, matrix.values, strict=False)
    return Table(
        ("% after stage", *matrix.domains),
        tuple((label, *(percent(value) for value in row)) for label, row in rows),
    )


def headline(matrix: AccuracyMatrix) -> tuple[Measure, ...]:
    """The numbers to read first: ACC, BWT, and what adaptation brought over the source model."""
    acc, source = matrix.average_accuracy, matrix.source_only_accuracy
    return (
        Measure("ACC (%)", percent(acc), "average accuracy: mean over all domains after the last stage"),
        Measure(
            "BWT (points)",
            points(matrix.backward_transfer),
            "backward transfer: mean change of a target's accuracy since its own stage, the last stage left out",
        ),
        Measure("Source model (%)", percent(source), "the same mean before any adaptation, after stage 0"),
        Measure("Change (points)", points(acc - source), "ACC minus the source model: what adaptation brought"),
    )


def further_measures(matrix: AccuracyMatrix) -> tuple[Measure, ...]:
    """Other views of R that the literature reports."""
    return (
        Measure("Forgetting (points)", points(matrix.forgetting), "mean fall of an earlier target from its best"),
        Measure(
            "FWT (points)", points(matrix.forward_transfer), "forward transfer: mean gain on a target before its stage"
        ),
        Measure("TDA (%)", percent(matrix.target_domain_adaptation), "mean accuracy on a target right after its stage"),
        Measure(
            "TDG (%)", percent(matrix.target_domain_generalization), "mean accuracy on a target right before its stage"
        ),
        Measure("FA (%)", percent(matrix.forgetting_alleviation), "mean accuracy on earlier targets, over the stages"),
    )


def measures_table(measures: tuple[Measure, ...]) -> Table:
    """A row per measure."""
    rows = tuple((measure.name, measure.value, measure.meaning) for measure in measures)
    return Table(("measure", "value", "meaning"), rows)


def summary_table(matrix: AccuracyMatrix) -> Table:
    """The headline numbers with a definition each."""
    return measures_table(headline(matrix))


def as_markdown(table: Table) -> str:
    """The table in GitHub's Markdown; names cannot break out of their cells."""
    rule = tuple("---:" if is_number else "---" for is_number in table.is_number)
    header = tuple(escaped_markdown(cell) for cell in table.header)
    rows = [
        tuple(
            f"**{escaped_markdown(cell)}**" if (r, c) in table.best else escaped_markdown(cell)
            for c, cell in enumerate(row)
        )
        for r, row in enumerate(table.rows)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, rule, *rows))


def as_rich(table: Table) -> "rich.table.Table":
    """The table for the terminal; markup and control characters in names stay text."""
    import rich.box
    import rich.table
    from rich.text import Text

    grid = rich.table.Table(box=rich.box.SIMPLE_HEAD)
    for name, is_number in zip(table.header, table.is_number, strict=True):
        # a name is folded where it is too long, never cut: it tells the rows apart
        grid.add_column(Text(visible(name)), justify="right" if is_number else "left", overflow="fold")
    for r, row in enumerate(table.rows):
        styles = ["bold" if (r, c) in table.best else "" for c in range(len(row))]
        grid.add_row(*(Text(visible(cell), style) for cell, style in zip(row, styles, strict=True)))
    return grid


def escaped_markdown(cell: str) -> str:
    """The text as Markdown shows it, nothing in it markup."""
    return MARKUP.sub(lambda match: "\\" + match[0], visible(cell))
