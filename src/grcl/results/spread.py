"""Numbers over seeds: mean and standard deviation, and the paired difference of two methods with its interval."""

import math
from collections.abc import Iterable, Mapping
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95


class Spread(NamedTuple):
    """The mean over seeds, and the sample standard deviation where there are two or more."""

    mean: float
    deviation: float | None
    seeds: int


class Difference(NamedTuple):
    """The mean of per-seed differences, its standard error, and how many seeds there are."""

    mean: float
    error: float
    seeds: int

    @property
    def margin(self) -> float:
        """Half of the interval of 95 % confidence around the mean."""
        return float(stdtrit(self.seeds - 1, (1 + CONFIDENCE) / 2)) * self.error

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return abs(self.mean) > self.margin

    def is_clear_among(self, comparisons: int) -> bool:
        """The same where it is the most extreme of so many comparisons (Bonferroni)."""
        if self.error == 0:
            return self.mean != 0
        chance = 2 * float(stdtr(self.seeds - 1, -abs(self.mean) / self.error))
        return chance * comparisons < 1 - CONFIDENCE


def spread(values: Iterable[float | None]) -> Spread | None:
    """None if any value is undefined, or there is none."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    if not known or len(known) < len(listed):
        return None
    return Spread(fmean(known), stdev(known) if len(known) > 1 else None, len(known))


def paired_difference(a: Mapping[int, float], b: Mapping[int, float]) -> Difference | None:
    """a − b over the seeds that both have, with Student's t interval; None with fewer than two seeds.

    A seed fixes the source model and the order of the batches for both, so that their differences vary less than each.
    """
    differences = [a[seed] - b[seed] for seed in a if seed in b]
    count = len(differences)
    if count < 2:
        return None
    return Difference(fmean(differences), stdev(differences) / math.sqrt(count), count)
