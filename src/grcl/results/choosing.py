"""Choosing settings without a label of any target: runs ranked by what their logs say, their accuracies left unread; or
by the accuracies of rehearsals, whose labels are all of the source."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from grcl.results.run_files import RunFiles, as_object, number
from grcl.results.tables import Table, percent
from grcl.runtime.errors import Refusal
from grcl.runtime.visible import visible

ALLOWED_RISE = 0.1
"""How much of a rise of the source's loss, in nats, a candidate may have before all others are preferred to it."""


@dataclass(frozen=True)
class Candidate:
    """One method with one choice of settings; means over seeds and stages."""

    name: str
    seeds: int
    agreement: float
    """How often k-means and the classifier give a target's training images the same label after its stage."""
    source_loss: float
    """Cross-entropy on the source after the last stage."""
    source_rise: float
    """By how much that is more than before the first stage."""
    entropy: float
    """Of the predictions on a target after its stage."""
    rehearsed: float | None
    """Mean accuracy after the last stage, where the targets are made of the source."""

    @property
    def merit(self) -> tuple[float, float]:
        """What the ranking goes by: the accuracy of a rehearsal; else that the source is held, then the agreement."""
        if self.rehearsed is not None:
            return self.rehearsed, self.agreement
        return float(self.source_rise <= ALLOWED_RISE), self.agreement


def rank(folder: Path, names: Sequence[str]) -> list[Candidate]:
    """The candidates, best first, from the runs `names` such as grcl/memory.size=256/seed-0 in `folder`."""
    groups: dict[str, list[RunFiles]] = defaultdict(list)
    for name in names:
        groups[name.rpartition("/")[0]].append(RunFiles.read(folder / name))
    candidates = [_candidate(name, runs) for name, runs in groups.items()]
    if len({candidate.rehearsed is None for candidate in candidates}) > 1:
        raise Refusal("a rehearsal cannot be ranked beside a run on real targets; choose with --rehearse or without")
    return sorted(candidates, key=lambda candidate: candidate.merit, reverse=True)


def choosing_table(candidates: Sequence[Candidate]) -> Table:
    """One row per candidate; accuracies if they are of rehearsals."""
    columns = {
        "settings": [visible(candidate.name) for candidate in candidates],
        "seeds": [str(candidate.seeds) for candidate in candidates],
        "rehearsed ACC (%)": [percent(found) for c in candidates if (found := c.rehearsed) is not None],
        "agreement (%)": [percent(candidate.agreement) for candidate in candidates],
        "source loss": [f"{candidate.source_loss:.3f}" for candidate in candidates],
        "its rise": [f"{candidate.source_rise:+.3f}" for candidate in candidates],
        "entropy": [f"{candidate.entropy:.3f}" for candidate in candidates],
    }
    shown = {name: cells for name, cells in columns.items() if cells}
    return Table(tuple(shown), tuple(zip(*shown.values(), strict=True)))


def _candidate(name: str, runs: Sequence[RunFiles]) -> Candidate:
    after = [
        as_object(record["values"]) for run in runs for record in run.latest("monitor", "when") if _is_after(record)
    ]
    source = [run.constraints()["source"] for run in runs]
    before, last = ([stages[pick(stages)][side] for stages in source] for pick, side in ((min, 0), (max, 1)))
    return Candidate(
        name,
        len(runs),
        fmean(number(values.get("agreement")) for values in after),
        fmean(last),
        fmean(last) - fmean(before),
        fmean(number(values.get("entropy")) for values in after),
        _rehearsed(runs),
    )


def _rehearsed(runs: Sequence[RunFiles]) -> float | None:
    """The accuracy of runs that are all rehearsals; that of others is left unread."""
    if not all(run.config.get("rehearse") is True for run in runs):
        return None
    return fmean(run.matrix.average_accuracy for run in runs if run.matrix)


def _is_after(record: dict[str, object]) -> bool:
    return record.get("when") == "after"
