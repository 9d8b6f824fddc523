"""What every reader gives, and what it checks before it gives it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grcl.runtime.errors import Refusal

Pixels = NDArray[np.uint8]

LARGEST = 4 * 2**30  # bytes of an array; the largest that is published, SynNum, has 1.5 GB
HALF_A_LEVEL = 0.5 / 255
DEFLATE_FACTOR = 1032  # deflate shrinks nothing further than this
PLAUSIBLE_FACTOR = 100  # and images nowhere near as far; what is harmless in memory need not be plausible
HARMLESS = 256 << 20


class Part(NamedTuple):
    """The training or the test images of a domain."""

    images: Pixels | list[Pixels]
    """(n, height, width) or (n, height, width, 3); a list of (height, width, 3) where the sizes differ."""
    labels: NDArray[np.int64]
    note: str = ""
    unreadable: tuple[str, ...] = ()
    """The image files that hold no image, each with what is wrong with it."""


def make_part(images: NDArray[Any] | list[Pixels], labels: NDArray[Any], note: str = "") -> Part:
    """A part whose shapes, counts and labels are right; a ValueError says what is not."""
    if isinstance(images, np.ndarray):
        check_pixels(images)
    if labels.ndim != 1 or labels.dtype.kind not in "iuf":
        raise ValueError(f"its labels are {labels.dtype} of shape {labels.shape}, not a row of numbers")
    if len(images) == 0:
        raise ValueError("it holds no images")
    if len(images) != len(labels):
        raise ValueError(f"it has {len(images):,} images but {len(labels):,} labels")
    if not np.isin(labels, range(10)).all():
        raise ValueError("it has labels outside 0..9")
    return Part(images, labels.astype(np.int64), note)


def check_pixels(images: NDArray[Any]) -> None:
    """Bytes, grey or in three colours."""
    is_shaped = images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)
    if images.dtype != np.uint8 or not is_shaped or 0 in images.shape[1:]:
        raise ValueError(
            f"its images are {images.dtype} of shape {images.shape}, not uint8 of (n, h, w) or (n, h, w, 3)"
        )


def check_claim(claimed: int, stored: int) -> None:
    """Refuse an array before memory is taken for it, if the stored bytes cannot hold what its header claims."""
    most = min(LARGEST, DEFLATE_FACTOR * stored, max(HARMLESS, PLAUSIBLE_FACTOR * stored))
    if not 0 <= claimed <= most:
        raise ValueError(f"its header claims {claimed:,} bytes, more than the {stored:,} stored bytes can hold")


def grey_levels(shares: NDArray[np.floating[Any]]) -> Pixels:
    """Bytes from shares of white in 0..1."""
    if not ((shares > -HALF_A_LEVEL) & (shares < 1 + HALF_A_LEVEL)).all():
        raise ValueError("it has grey values outside their range")
    levels: NDArray[Any] = np.rint(shares * 255)
    return levels.clip(0, 255).astype(np.uint8)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong with a file into one sentence; parsers fail on damaged bytes in many ways."""
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(
            f"{path} cannot be used ({reason_of(error)}); put a good copy in its place: "
            f'"grcl data get digits" fetches what is published'
        ) from None


def reason_of(error: Exception) -> str:
    """What a parser says, as one short line."""
    return " ".join(str(error).split())[:160] or type(error).__name__
