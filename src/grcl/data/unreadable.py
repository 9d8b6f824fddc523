"""What becomes of images that cannot be read: refused, or left out before places are given."""

import logging
from collections.abc import Sequence
from pathlib import Path

from grcl.data.reading import Reading
from grcl.runtime.errors import Refusal

logger = logging.getLogger(__name__)

_SHOWN = 5


class Unreadable(Refusal):
    """Images that cannot be read, in words."""

    def __init__(self, found: str) -> None:
        super().__init__(f"{found}; put good copies in their place, or leave them out with images.unreadable = skip")
        self.found = found


def leave_out(bad: Sequence[str], place: Path, reading: Reading) -> str:
    """Refuse the unreadable images, or tell that they are left out; returns the note of it."""
    count = f"{len(bad):,} unreadable image{'s' if len(bad) > 1 else ''}"
    named = "; ".join(bad[:_SHOWN])
    named += f"; and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    if reading.unreadable == "refuse":
        raise Unreadable(f"{count} in {place} ({named})")
    logger.warning("%s in %s left out: %s", count, place, named)
    return f"{count} left out"
