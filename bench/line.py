"""One line of the table."""

from typing import NamedTuple


class Goal(NamedTuple):
    """A ratio at most, or at least, as large as `bound`."""

    sign: str
    bound: float

    def is_met(self, ratio: float) -> bool:
        return ratio <= self.bound if self.sign == "<=" else ratio >= self.bound

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"


class Line(NamedTuple):
    """What was measured: ours, what it is held against, and their ratio. Without a goal it is told, not judged."""

    row: str
    what: str
    ours: str
    against: str
    ratio: float
    goal: Goal | None = None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "yes" if self.goal.is_met(self.ratio) else "no"

    def cells(self) -> tuple[str, ...]:
        goal = "" if self.goal is None else str(self.goal)
        return self.row, self.what, self.ours, self.against, f"{self.ratio:.2f}", goal, self.verdict


def at_most(bound: float) -> Goal:
    return Goal("<=", bound)


def at_least(bound: float) -> Goal:
    return Goal(">=", bound)


def seconds(value: float) -> str:
    """A time as people write it."""
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.2f} ms" if value < 0.01 else f"{1000 * value:.0f} ms"


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB"
