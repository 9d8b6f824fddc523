"""Conflicts between the objective and its constraints: what the log says of every step, pooled over seeds."""

from dataclasses import dataclass, field

from grcl.results.comparison import Row
from grcl.results.run_files import RunFiles, as_object, number


@dataclass
class StageConflicts:
    """One stage of one method."""

    cosines: dict[str, list[float]] = field(default_factory=dict)
    """Per constraint, the cosine between its gradient and the objective's at every step."""
    violated: dict[str, float] = field(default_factory=dict)
    """Per constraint, the share of steps in which what is projected, gradient or step, opposed it."""
    correction: float = 0.0
    """Mean length of what the projection added, relative to what is projected."""


def conflicts_of(row: Row) -> dict[int, StageConflicts]:
    """Stage -> its conflicts; empty if the method has no constraints."""
    sums: dict[int, _Sums] = {}
    for run in row.runs:
        _add(run.files, sums)
    return {stage: sums[stage].means() for stage in sorted(sums)}


@dataclass
class _Sums:
    cosines: dict[str, list[float]] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, value: float, steps: int) -> None:
        self.values[name] = self.values.get(name, 0.0) + value * steps
        self.steps[name] = self.steps.get(name, 0) + steps

    def means(self) -> StageConflicts:
        means = {name: self.values[name] / self.steps[name] for name in self.values}
        violated = {name.removeprefix("violated/"): means[name] for name in means if name.startswith("violated/")}
        return StageConflicts(self.cosines, violated, means.get("correction", 0.0))


def _add(files: RunFiles, sums: dict[int, _Sums]) -> None:
    for record in files.latest("step", "step"):
        cosines = {
            name: values for name, values in as_object(record.get("cosines")).items() if isinstance(values, list)
        }
        if not cosines:
            continue
        stage = sums.setdefault(record["stage"], _Sums())
        for name, values in cosines.items():
            stage.cosines.setdefault(name.removeprefix("cosine/"), []).extend(map(number, values))
        # a line tells the means of as many steps as it lists cosines
        steps = max(map(len, cosines.values()))
        for name, value in as_object(record.get("values")).items():
            if name == "correction" or name.startswith("violated/"):
                stage.add(name, number(value), steps)
