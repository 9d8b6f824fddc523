"""Tables of a comparison: the paper's Table 1, further measures of R, costs, and paired differences over seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.comparison import Group, Row
from grcl.results.spread import Difference, Spread, paired_difference
from grcl.results.tables import Table, interval, signed
from grcl.runtime.board import duration


@dataclass(frozen=True)
class Score:
    """A measure of R as a column of a comparison."""

    name: str
    meaning: str
    of: Callable[[AccuracyMatrix], float | None]
    is_change: bool = False
    """In points with a sign, and undefined for what never adapts."""
    is_better_high: bool = True

    def over_seeds(self, row: Row) -> Spread | None:
        """Mean and deviation over the seeds of a row."""
        return None if self.is_change and not row.adapts else row.over_seeds(self.of)

    def by_seed(self, row: Row) -> dict[int, float]:
        """One value per seed of a row."""
        return {} if self.is_change and not row.adapts else row.by_seed(self.of)


ACC = Score(
    "ACC (%)", "average accuracy: mean over all domains after the last stage", lambda matrix: matrix.average_accuracy
)
BWT = Score(
    "BWT (points)",
    "backward transfer: mean change of a target's accuracy since its own stage, the last stage left out",
    lambda matrix: matrix.backward_transfer,
    is_change=True,
)
FURTHER = (
    Score(
        "Forgetting (points)",
        "mean fall of an earlier target from its best; lower is better",
        lambda matrix: matrix.forgetting,
        is_change=True,
        is_better_high=False,
    ),
    Score(
        "FWT (points)",
        "forward transfer: mean gain on a target before its own stage",
        lambda matrix: matrix.forward_transfer,
        is_change=True,
    ),
    Score("TDA (%)", "mean accuracy on a target right after its stage", lambda matrix: matrix.target_domain_adaptation),
    Score(
        "TDG (%)",
        "mean accuracy on a target right before its stage",
        lambda matrix: matrix.target_domain_generalization,
    ),
    Score("FA (%)", "mean accuracy on earlier targets, over the stages", lambda matrix: matrix.forgetting_alleviation),
)
COSTS = ("steps", "images seen", "time", "memory")


def main_table(group: Group) -> Table:
    """The paper's Table 1: ACC and BWT, the paper's own figures beside them where it has them, and what it took."""
    names, named = _names(group.rows)
    scores, best = _scores(group.rows, (ACC, BWT), len(names) + 1)
    paper = [_paper(group, row) for row in group.rows]
    titles = ("paper: ACC", "paper: BWT") if group.paper else ()
    rows = zip(named, map(_seeds, group.rows), scores, paper, map(_costs, group.rows), strict=True)
    header = (*names, "seeds", ACC.name, BWT.name, *titles, *COSTS)
    return Table(header, tuple((*name, seeds, *score, *own, *cost) for name, seeds, score, own, cost in rows), best)


def brief_table(group: Group) -> Table:
    """The main table without what it took: as much as a terminal has room for."""
    full = main_table(group)
    width = len(full.header) - len(COSTS)
    return Table(full.header[:width], tuple(row[:width] for row in full.rows), full.best)


def further_table(group: Group) -> Table:
    """Other views of R that the literature reports."""
    names, named = _names(group.rows)
    scores, best = _scores(group.rows, FURTHER, len(names))
    header = (*names, *(score.name for score in FURTHER))
    return Table(header, tuple((*name, *score) for name, score in zip(named, scores, strict=True)), best)


def differences_table(group: Group, score: Score) -> Table:
    """Row minus method over the seeds that both have, with the interval of 95 %; bold where it leaves out zero."""
    rows = [row for row in group.rows if len(score.by_seed(row)) > 1]
    columns = [row for row in group.plain_rows if len(score.by_seed(row)) > 1]
    grid = [[_difference(score, row, column) for column in columns] for row in rows]
    clear = {(r, c + 1) for r, line in enumerate(grid) for c, cell in enumerate(line) if cell and cell.is_clear}
    cells = tuple((row.label, *map(_interval, line)) for row, line in zip(rows, grid, strict=True))
    title = f"{score.name.partition(' ')[0]} of row minus column"
    return Table((title, *(row.label for row in columns)), cells, frozenset(clear))


def meanings() -> tuple[tuple[str, str], ...]:
    """Every measure in words."""
    return tuple((score.name, score.meaning) for score in (ACC, BWT, *FURTHER))


def mean_and_deviation(value: Spread | None, is_change: bool = False) -> str:
    """A share as percent, such as 85.34 ± 0.10; a change of one with its sign."""
    if value is None:
        return "n/a"
    mean = signed(100 * value.mean) if is_change else f"{100 * value.mean:.2f}"
    return mean if value.deviation is None else f"{mean} ± {100 * value.deviation:.2f}"


def _names(rows: Sequence[Row]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns that name a row: the method, and its variant where there are any."""
    if any(row.variant for row in rows):
        return ("method", "variant"), [(row.method, row.variant) for row in rows]
    return ("method",), [(row.method,) for row in rows]


def _scores(
    rows: Sequence[Row], scores: Sequence[Score], first: int
) -> tuple[list[list[str]], frozenset[tuple[int, int]]]:
    """The cells of the scores, whose first column is number `first`, and which of them are the best."""
    columns: list[list[str]] = []
    best: set[tuple[int, int]] = set()
    for place, score in enumerate(scores):
        values = [score.over_seeds(row) for row in rows]
        # as it is shown: what looks equal is equally good
        means = [None if value is None else round(100 * value.mean, 2) for value in values]
        known = [mean for mean in means if mean is not None]
        top = (max if score.is_better_high else min)(known, default=None)
        if len(set(known)) > 1:
            best |= {(r, first + place) for r, mean in enumerate(means) if mean == top}
        columns.append([mean_and_deviation(value, score.is_change) for value in values])
    return [list(cells) for cells in zip(*columns, strict=True)], frozenset(best)


def _paper(group: Group, row: Row) -> tuple[str, ...]:
    if group.paper is None:
        return ()
    if row.variant or row.method not in group.paper.methods:
        return ("–", "–")
    acc, bwt = group.paper.methods[row.method]
    return f"{acc.mean:.2f} ± {acc.deviation:.2f}", f"{signed(bwt.mean)} ± {bwt.deviation:.2f}"


def _costs(row: Row) -> tuple[str, ...]:
    steps, images, seconds = (row.mean_total(key) for key in ("steps", "images", "seconds"))
    peaks = [run.peak_memory for run in row.runs if run.peak_memory is not None]
    memory = max(peaks, default=math.nan)
    return (
        _if_known(steps, f"{steps:,.0f}"),
        _if_known(images, f"{images:,.0f}"),
        _if_known(seconds, "" if math.isnan(seconds) else duration(seconds)),
        _if_known(memory, f"{memory / 2**20:,.0f} MB"),
    )


def _seeds(row: Row) -> str:
    return str(len(row.runs))


def _difference(score: Score, row: Row, column: Row) -> Difference | None:
    return None if row is column else paired_difference(score.by_seed(row), score.by_seed(column))


def _interval(value: Difference | None) -> str:
    if value is None:
        return "–"
    return interval(value, digits=1)


def _if_known(value: float, text: str) -> str:
    return "n/a" if math.isnan(value) else text
