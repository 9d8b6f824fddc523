"""The one-target setting: every target in a stream of its own, averaged over the targets. Where a method was run with
several weights of the contrastive loss, the weight is chosen for every target without a label."""

from dataclasses import dataclass
from statistics import fmean

from grcl.results.comparison import Comparison, Row
from grcl.results.families import families, family_label
from grcl.results.run_files import as_object, number
from grcl.results.spread import Spread, spread
from grcl.results.tables import Table, percent
from grcl.runtime.run_directory import flat


@dataclass(frozen=True)
class OneTarget:
    """One method: what it scores on the source and on the target, and the row taken for every target."""

    label: str
    source: Spread
    target: Spread
    chosen: dict[str, Row]
    by_weight: dict[float, list[Row]]
    """The rows to choose from, one per target, by their weight of the contrastive loss; weights run on all targets."""


def one_target(comparison: Comparison) -> list[OneTarget]:
    """The methods that were run on every single target."""
    rows = [row for row in comparison.rows if len(row.matrix.domains) == len(row.matrix.stages) == 2]
    targets = {_target(row) for row in rows}
    found = []
    for family in families(rows, ["targets", *(_weight_key(row) for row in rows)]):
        candidates: dict[str, list[Row]] = {}
        for row in family:
            candidates.setdefault(_target(row), []).append(row)
        if candidates.keys() == targets:
            found.append(_averaged(family, candidates))
    return [entry for entry in found if entry is not None]


def agreement(row: Row) -> float:
    """How often k-means and the classifier give a target image the same label after the stage; no label is needed."""
    values = [
        number(as_object(record.get("values")).get("agreement"))
        for run in row.runs
        for record in run.files.latest("monitor", "when")
        if record.get("when") == "after"
    ]
    return fmean(values) if values else float("-inf")


def weights_table(entries: list[OneTarget]) -> Table:
    """What every weight gives in the mean over the targets, and for which of them it was chosen."""
    rows = [(entry, weight, found) for entry in entries for weight, found in sorted(entry.by_weight.items())]
    cells = [
        (
            entry.label,
            f"{weight:g}",
            *(percent(fmean(run.matrix.values[1, column] for row in found for run in row.runs)) for column in (0, 1)),
            percent(fmean(map(agreement, found))),
            ", ".join(sorted(target for target, row in entry.chosen.items() if row in found)) or "–",
        )
        for entry, weight, found in rows
        if len(entry.by_weight) > 1
    ]
    return Table(("method", "weight", "source (%)", "target (%)", "agreement (%)", "chosen for"), tuple(cells))


def _averaged(family: list[Row], candidates: dict[str, list[Row]]) -> OneTarget | None:
    chosen = {target: max(rows, key=agreement) for target, rows in candidates.items()}
    matrices = [{run.seed: run.matrix.values for run in row.runs} for row in chosen.values()]
    seeds = set.intersection(*(set(each) for each in matrices))
    source = spread(fmean(each[seed][1, 0] for each in matrices) for seed in sorted(seeds))
    target = spread(fmean(each[seed][1, 1] for each in matrices) for seed in sorted(seeds))
    if source is None or target is None:
        return None
    label = family_label(family, ["targets", _weight_key(family[0])])
    by_weight: dict[float, list[Row]] = {}
    for row in family:
        by_weight.setdefault(number(flat(row.config).get(_weight_key(row))), []).append(row)
    whole = {weight: rows for weight, rows in by_weight.items() if {_target(row) for row in rows} == chosen.keys()}
    return OneTarget(label, source, target, chosen, whole)


def _target(row: Row) -> str:
    return row.matrix.stages[1][0]


def _weight_key(row: Row) -> str:
    return f"{row.method}.contrast_weight"
