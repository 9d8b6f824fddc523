"""The history of a learner: one entry per fit, adapt, rollback and forget, never changed once it is written.

`history/0003.json` is entry 3; the numbers count from 0, which is the fit. Its fields are those of `Entry` below.
What an entry speaks of lies beside it under the same number:

- `models/0003.ckpt`: the model that entry 3 made, if it made one (a refused adapt, a rollback and a forget make none).
- `memory/0003.ckpt`: the images remembered of the domain of entry 3, {"pixels": uint8 (n, 3, size, size), "labels"}.
- `examples/0003.ckpt`: up to 12 images of that domain for a report, {"files": names, "pixels": as above,
  "before" and "after": {"classes": names, "confidence": numbers}}; made by refused adapts too.

The number of a domain is that of the adapt that brought it. A forgotten domain has neither memory nor examples, and
a later entry of kind "forget" names it. All three are read with `StateDirectory.load`.
"""

import math
from datetime import datetime, timezone
from typing import Any, Literal

from grcl.runtime.settings import Settings


class DataFacts(Settings):
    """Which images an entry is about."""

    name: str
    """The folder's name, without its place."""
    fingerprint: str
    images: int
    note: str = ""
    """What a reader must know, such as that images were left out."""


class Accuracy(Settings):
    """The share of right answers on a labelled sample, where one was given."""

    images: int
    before: float
    after: float


class Entry(Settings):
    """One line of the history."""

    number: int
    kind: Literal["fit", "adapt", "rollback", "forget"]
    date: str
    """ISO 8601, in UTC."""
    data: DataFacts | None = None
    """The source of a fit, the target of an adapt."""
    method: str | None = None
    """The method of an adapt."""
    settings: dict[str, Any] | None = None
    """All settings of a fit or an adapt, nested as in config.json."""
    before: dict[str, float | None] | None = None
    """The vitals of an adapt's target by the fields of `Vitals`, seen by the model before it."""
    after: dict[str, float | None] | None = None
    """The same by the new model, also if it was refused."""
    verdict: Literal["better", "no change", "worse"] | None = None
    reason: str = ""
    """Why the verdict is what it is."""
    is_refused: bool = False
    """Whether an adapt was worse and the model before it stays in force."""
    accuracy: Accuracy | None = None
    note: str = ""
    """What else a reader must know, such as that the same images were adapted to before."""
    to: int | None = None
    """The entry that a rollback went back to."""
    domain: int | None = None
    """The domain that a forget erased."""
    model: int
    """The model in force after this entry: models/NNNN.ckpt."""
    episodes: tuple[int, ...] = ()
    """The domains remembered after this entry: memory/NNNN.ckpt."""

    @property
    def deed(self) -> str:
        """What was done, in words."""
        name = self.data.name if self.data else "nothing"
        words = {
            "fit": f"fit on {name}",
            "adapt": f"adapt to {name} by {self.method}",
            "rollback": f"rollback to entry {self.to}",
            "forget": f"forget domain {self.domain}",
        }
        return words[self.kind]


def plain(numbers: dict[str, float | None]) -> dict[str, float | None]:
    """The numbers as JSON can hold them: what is not finite is none."""
    return {name: value if value is not None and math.isfinite(value) else None for name, value in numbers.items()}


def now() -> str:
    """The date of an entry."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
