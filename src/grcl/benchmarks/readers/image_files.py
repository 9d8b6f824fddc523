"""Image files as arrays."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from grcl.benchmarks.readers.part import Part, Pixels, make_part, reason_of
from grcl.data.decoding import FORMATS

LONGEST_SIDE = 2048  # of a digit; a larger claim is a mistake or a trap


def read_images(files: Sequence[tuple[Path, int]]) -> Part:
    """The images of these files, each with its digit, and beside them which files hold none."""
    images: list[Pixels] = []
    digits: list[int] = []
    unreadable: list[str] = []
    for path, digit in files:
        try:
            images.append(read_image(path))
            digits.append(digit)
        except Exception as error:  # a damaged image fails in many ways
            unreadable.append(f"{path} cannot be read ({reason_of(error)})")
    if unreadable and not images:
        raise ValueError(f"no image of it can be read; {unreadable[0]}")
    is_even = len({image.shape for image in images}) == 1
    part = make_part(np.stack(images) if is_even else images, np.array(digits, np.int64))
    return part._replace(unreadable=tuple(unreadable))


def read_image(path: Path) -> Pixels:
    """One image in RGB."""
    with Image.open(path, formats=FORMATS) as image:
        if max(image.size) > LONGEST_SIDE:
            raise ValueError(f"it claims {image.width} x {image.height} pixels, too many for a digit")
        return np.asarray(image.convert("RGB"))
