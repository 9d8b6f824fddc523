"""What is kept of one benchmark in one setting, measured by seed for the claims."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.comparison_tables import Score
from grcl.results.ledger.judging import BySeed
from grcl.results.ledger.sections import Entry, Section


@dataclass(frozen=True)
class Evidence:
    """All that is kept of one benchmark in one setting, such as a preset of ours; the paper's numbers have no name."""

    benchmark: str
    setting: str
    sections: tuple[Section, ...]

    @property
    def name(self) -> str:
        """What it is called on the page."""
        return ", ".join(filter(None, (self.benchmark, self.setting)))

    @property
    def is_there(self) -> bool:
        """Whether anything has been run."""
        return any(section.records for section in self.sections)

    def entries(self, kind: str) -> list[Entry]:
        """The rows of the tables of a kind."""
        found = [section for section in self.sections if section.contents.paper == kind]
        return [entry for section in found for entry in section.entries]

    def entry(self, method: str, kind: str = "table1") -> Entry | None:
        """The first row of a method that was chosen without target labels: it speaks for the method. GRCL to the letter
        is one of its own."""
        found = (entry for entry in self.entries(kind) if entry.line.speaks_for == method and not entry.line.oracle)
        return next(found, None)

    def scores(self, method: str, score: Score, kind: str = "table1") -> BySeed:
        """A measure of a method by seed; nothing if it has not been run."""
        entry = self.entry(method, kind)
        return score.by_seed(entry.row) if entry and entry.row else {}

    def alone(self, method: str, column: int) -> BySeed:
        """In the one-target setting, accuracy on the source (column 0) or the target (1), mean over the targets."""
        entry = self.entry(method, "one_target")
        if entry is None or entry.alone is None:
            return {}
        rows = [
            {run.seed: float(run.matrix.values[1, column]) for run in row.runs} for row in entry.alone.chosen.values()
        ]
        seeds = set.intersection(*(set(row) for row in rows))
        return {seed: fmean(row[seed] for row in rows) for seed in sorted(seeds)}

    def name_of(self, method: str, kind: str = "table1") -> str:
        """What the row that speaks for a method is called in its table."""
        entry = self.entry(method, kind)
        return entry.line.name if entry else method

    def rise_of_loss(self, method: str, is_meant: Callable[[str, int], bool]) -> BySeed:
        """How far a loss under a constraint rises over a stage, by seed: the most of all that are meant, by name and
        stage. In a mean the fall in one stage would hide the rise in another. No number if any of them is none."""
        entry = self.entry(method)
        found = {}
        for run in entry.row.runs if entry and entry.row else ():
            losses = run.files.constraints().items()
            rises = [b - a for name, sides in losses for stage, (a, b) in sides.items() if is_meant(name, stage)]
            if rises:
                found[run.seed] = max(rises) if all(map(math.isfinite, rises)) else math.nan
        return found


def all_evidence(sections: Iterable[Section]) -> list[Evidence]:
    """By benchmark and setting, in the order of their tables."""
    grouped: dict[tuple[str, str], list[Section]] = {}
    for section in sections:
        grouped.setdefault((section.contents.benchmark, section.contents.setting), []).append(section)
    return [Evidence(*stream, tuple(found)) for stream, found in grouped.items()]


def change_of_the_first_target(matrix: AccuracyMatrix) -> float | None:
    """Since its own stage, to the end."""
    if len(matrix.stages) < 3:
        return None
    columns = [matrix.domains.index(name) for name in matrix.stages[1]]
    return float((matrix.values[-1, columns] - matrix.values[1, columns]).mean())


def gain_on_the_source_model(matrix: AccuracyMatrix) -> float:
    """ACC, less that of the model before any adaptation."""
    return float((matrix.values[-1] - matrix.values[0]).mean())


FIRST = Score("first target (points)", "its change since its own stage", change_of_the_first_target, is_change=True)
GAIN = Score("gain (points)", "ACC less that of the source model", gain_on_the_source_model)
