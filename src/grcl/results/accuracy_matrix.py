"""The accuracy matrix R: the only result of a run; every measure is a view of it (Sec. 2)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from grcl.shapes import Float

Stages = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class AccuracyMatrix:
    """R[i, d]: accuracy in 0..1 on the test images of domain d after stage i, for the stages finished so far.

    Stage 0 is the source; a stage may compound several domains. N is the last finished stage, s(d) the stage that
    learns d. The measures look at the domains learnt by then, so that an unfinished matrix is that of a shorter stream.
    """

    domains: tuple[str, ...]
    stages: Stages
    values: Float[np.ndarray, "finished domains"]

    def __post_init__(self) -> None:
        _check_names(self.domains, self.stages)
        values = np.array(self.values, dtype=np.float64)
        _check_values(values, self.domains, self.stages)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccuracyMatrix) and self.to_json() == other.to_json()

    @classmethod
    def empty(cls, stages: Iterable[Iterable[str]]) -> "AccuracyMatrix":
        """The matrix before stage 0, with its domains in the order in which they are learnt."""
        names = tuple(tuple(stage) for stage in stages)
        domains = tuple(name for stage in names for name in stage)
        return cls(domains, names, np.empty((0, len(domains))))

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "AccuracyMatrix":
        """The matrix that `to_json` wrote."""
        missing = [key for key in ("domains", "stages", "accuracy") if not isinstance(record.get(key), list)]
        if missing:
            raise ValueError(f"the accuracy matrix lacks the list {missing[0]!r}; write it with AccuracyMatrix.to_json")
        domains = _names(record["domains"])
        return cls(domains, tuple(map(_names, record["stages"])), _array(record["accuracy"], len(domains)))

    def to_json(self) -> dict[str, Any]:
        """Plain lists: {"domains": [...], "stages": [[...], ...], "accuracy": [[...], ...]}."""
        stages = [list(stage) for stage in self.stages]
        return {"domains": list(self.domains), "stages": stages, "accuracy": self.values.tolist()}

    def recorded(self, row: Sequence[float]) -> "AccuracyMatrix":
        """The matrix with the accuracies after one more stage, a value per domain."""
        if self.is_complete:
            raise ValueError(f"all {len(self.stages)} stages are recorded already; begin a new AccuracyMatrix")
        if len(row) != len(self.domains):
            raise ValueError(f"the row has {len(row)} accuracies for {len(self.domains)} domains; give one per domain")
        return AccuracyMatrix(self.domains, self.stages, np.vstack([self.values, np.asarray(row, dtype=np.float64)]))

    @property
    def finished(self) -> int:
        """How many stages have a row."""
        return len(self.values)

    @property
    def is_complete(self) -> bool:
        """Every stage has a row."""
        return self.finished == len(self.stages)

    @property
    def stage_of(self) -> dict[str, int]:
        """s(d): the stage that learns each domain."""
        return {name: index for index, stage in enumerate(self.stages) for name in stage}

    @property
    def stage_labels(self) -> tuple[str, ...]:
        """A label per stage, such as "2 mnist_m+usps"."""
        return tuple(f"{index} {'+'.join(stage)}" for index, stage in enumerate(self.stages))

    @property
    def average_accuracy(self) -> float:
        """ACC: mean accuracy over all N + 1 domains after the last stage, (1/(N+1)) Σ_{i=0..N} R[N, i]."""
        return self._mean_of_row(-1)

    @property
    def source_only_accuracy(self) -> float:
        """What the source model scores on the same domains without adaptation, (1/(N+1)) Σ_{i=0..N} R[0, i]."""
        return self._mean_of_row(0)

    @property
    def backward_transfer(self) -> float | None:
        """BWT: mean change since its own stage on every target learnt before the last, R[N, d] − R[s(d), d].

        (1/(N−1)) Σ_{i=1..N−1} R[N, i] − R[i, i] if each stage learns one domain; None for a single target stage.
        """
        R = self.values
        return _mean(R[-1, d] - R[stage, d] for stage, d in self._learnt(1, self._last - 1))

    @property
    def forgetting(self) -> float | None:
        """Mean fall from its best on every target learnt before the last, max_{s(d)≤i≤N} R[i, d] − R[N, d]."""
        R = self.values
        return _mean(R[stage:, d].max() - R[-1, d] for stage, d in self._learnt(1, self._last - 1))

    @property
    def forward_transfer(self) -> float | None:
        """FWT: mean gain on a target before its stage, by the stages between, R[s(d)−1, d] − R[0, d] for s(d) ≥ 2."""
        R = self.values
        return _mean(R[stage - 1, d] - R[0, d] for stage, d in self._learnt(2, self._last))

    @property
    def target_domain_adaptation(self) -> float | None:
        """TDA: mean accuracy on a target right after its own stage, R[s(d), d]."""
        return _mean(self.values[stage, d] for stage, d in self._learnt(1, self._last))

    @property
    def target_domain_generalization(self) -> float | None:
        """TDG: mean accuracy on a target right before its own stage, R[s(d)−1, d]."""
        return _mean(self.values[stage - 1, d] for stage, d in self._learnt(1, self._last))

    @property
    def forgetting_alleviation(self) -> float | None:
        """FA: mean over the stages i ≥ 2 of the mean accuracy on earlier targets, R[i, d] for 1 ≤ s(d) < i."""
        R = self.values
        return _mean(fmean(R[i, d] for _, d in self._learnt(1, i - 1)) for i in range(2, self.finished))

    @property
    def _last(self) -> int:
        return self.finished - 1

    def _learnt(self, first: int, last: int) -> list[tuple[int, int]]:
        """(stage, column) of the domains that the stages first..last learn, both included."""
        stage_of = self.stage_of
        pairs = [(stage_of[name], column) for column, name in enumerate(self.domains)]
        return [(stage, column) for stage, column in pairs if first <= stage <= last]

    def _mean_of_row(self, row: int) -> float:
        if self.finished == 0:
            raise ValueError("the accuracy matrix has no row yet; record stage 0 first")
        return fmean(self.values[row, d] for _, d in self._learnt(0, self._last))


def _mean(values: Iterable[float]) -> float | None:
    """The mean, or None of nothing; `fmean` rounds once, so that the order of the domains never shows."""
    listed = list(values)
    return fmean(listed) if listed else None


def _names(listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ValueError(f"{listed!r} in the accuracy matrix is not a list of names; write names as strings")
    return tuple(listed)


def _array(rows: list[Any], width: int) -> np.ndarray:
    # JSON has one way to write no rows, whatever their width
    if not rows:
        return np.empty((0, width))
    try:
        values = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("the rows of the accuracy matrix differ in length or hold no numbers; measure again") from None
    if values.ndim != 2:
        raise ValueError("the accuracy matrix is not a list of rows; give a list of accuracies per stage")
    return values


def _check_names(domains: tuple[str, ...], stages: Stages) -> None:
    learnt = [name for stage in stages for name in stage]
    if not stages or not all(stages):
        raise ValueError(
            "a stage of the accuracy matrix has no domain; name at least one per stage, stage 0 the source"
        )
    if repeated := [name for name, count in Counter(learnt).items() if count > 1]:
        raise ValueError(f"domain {repeated[0]!r} belongs to two stages; give each domain exactly one stage")
    if sorted(domains) != sorted(learnt):
        raise ValueError(
            f"the columns {list(domains)} are not the domains of the stages {learnt}; name each once in both"
        )


def _check_values(values: np.ndarray, domains: tuple[str, ...], stages: Stages) -> None:
    if values.shape[1:] != (len(domains),) or len(values) > len(stages):
        expected = f"at most {len(stages)} rows (stages) of {len(domains)} columns (domains)"
        raise ValueError(f"the accuracy matrix has the shape {values.shape}; it needs {expected}")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("an accuracy is not a number in 0..1; give shares, not percent")
