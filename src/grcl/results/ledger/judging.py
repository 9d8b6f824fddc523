"""How a claim is judged: by comparisons paired by seed, each in words, and what follows from all of them."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from grcl.results.spread import Difference, paired_difference
from grcl.results.tables import interval, points

BySeed = dict[int, float]


class Outcome(Enum):
    """What the results say of a claim."""

    CONTRADICTED = "contradicted"
    OPEN = "cannot be told"
    NOT_REPRODUCED = "not reproduced"
    REPRODUCED = "reproduced"


class Part(NamedTuple):
    """One comparison that a claim needs, in words, and the difference that should be above zero."""

    text: str
    difference: Difference | None = None
    is_run: bool = True
    """Whether there are results that it could be judged by."""


@dataclass(frozen=True)
class Verdict:
    """A claim on one benchmark."""

    parts: tuple[Part, ...]
    is_oracle: bool = False
    """Whether it is about a row that was chosen with target labels."""

    @property
    def text(self) -> str:
        """The outcome, and whether labels had a part in it."""
        return f"{self.outcome.value} (oracle)" if self.is_oracle else self.outcome.value

    @property
    def outcome(self) -> Outcome:
        """A comparison that clearly fails contradicts a claim, one without an interval leaves it open, and one that is
        not clear is enough not to reproduce it.

        Of many comparisons one may fail by chance, so a failure must be clear among all of them; where every one has to
        succeed, chance needs no such allowance.
        """
        judged = [part.difference for part in self.parts if part.difference]
        if any(found.mean < 0 and found.is_clear_among(len(judged)) for found in judged):
            return Outcome.CONTRADICTED
        if len(judged) < len(self.parts) or not judged:
            return Outcome.OPEN
        return (
            Outcome.REPRODUCED
            if all(found.mean > 0 and found.is_clear for found in judged)
            else (Outcome.NOT_REPRODUCED)
        )


def above(a: str, ours: BySeed, b: str, others: BySeed) -> Part:
    """Whether a is above b: clear if the interval of 95 % of the paired difference leaves out zero."""
    if missing := [name for name, scores in ((a, ours), (b, others)) if not scores]:
        return Part(f"{a} − {b}: no results of {' and '.join(missing)}", is_run=False)
    difference = paired_difference(ours, others)
    if difference is None:
        common = [ours[seed] - others[seed] for seed in ours if seed in others]
        return Part(f"{a} − {b}: {f'{points(common[0])}, one seed' if common else 'no common seed'}")
    return Part(f"{a} − {b}: {interval(difference)}{_remark(difference)}", difference)


def positive(what: str, scores: BySeed) -> Part:
    """Whether a measure is above zero."""
    return _judged(what, scores, sign=1, limit=0.0, scale=100.0)


def below(what: str, scores: BySeed, limit: float = 0.0, scale: float = 100.0) -> Part:
    """Whether a measure is below a limit."""
    return _judged(what, scores, sign=-1, limit=limit, scale=scale)


def _judged(what: str, scores: BySeed, sign: int, limit: float, scale: float) -> Part:
    """The measure itself is shown; its distance to the limit, on the side where it should be, is judged."""
    if not scores:
        return Part(f"{what}: no results", is_run=False)
    if broken := sorted(seed for seed, value in scores.items() if not math.isfinite(value)):
        return Part(f"{what}: no number with seed {', '.join(map(str, broken))}")
    shown = paired_difference(scores, dict.fromkeys(scores, 0.0))
    if shown is None:
        return Part(f"{what}: {scale * next(iter(scores.values())):+.2f}, one seed")
    judged = shown._replace(mean=sign * (shown.mean - limit))
    return Part(f"{what}: {interval(shown, scale)}{_remark(judged)}", judged)


def _remark(difference: Difference) -> str:
    if not difference.is_clear:
        return ", not clear"
    return "" if difference.mean > 0 else ", the other way round"
