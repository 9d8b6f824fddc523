"""How image files become pixels, as settings."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from grcl.runtime.settings import Settings

Side = Annotated[int, Field(gt=0, le=4096)]
"""Pixels; a batch of larger images is more than a machine has, and nobody's wish."""


class Reading(Settings):
    """How images are read; arrays that are small enough to be held in memory need only the size."""

    size: Side | None = None
    """Pixels on each side; the network's own size if none is given."""
    cache: bool = False
    """Whether the resized images are packed into one file, once, so that later epochs decode nothing."""
    workers: NonNegativeInt = 2
    """Processes that decode image files ahead of the training; 0 decodes where it trains."""
    unreadable: Literal["refuse", "skip"] = "refuse"
    """Whether an unreadable image stops the run or is left out before indices are given."""
