"""Image files as arrays."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from grcl.benchmarks.readers.part import Pixels, refusing

LONGEST_SIDE = 2048  # of a digit; a larger claim is a mistake or a trap


def read_images(paths: Iterable[Path]) -> Pixels | list[Pixels]:
    """The images in RGB: one array if they are of one size, a list if not."""
    images = [read_image(path) for path in paths]
    return np.stack(images) if len({image.shape for image in images}) == 1 else images


def read_image(path: Path) -> Pixels:
    """One image in RGB."""
    with refusing(path), Image.open(path) as image:
        if max(image.size) > LONGEST_SIDE:
            raise ValueError(f"it claims {image.width} x {image.height} pixels, too many for a digit")
        return np.asarray(image.convert("RGB"))
