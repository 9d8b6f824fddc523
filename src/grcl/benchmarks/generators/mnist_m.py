"""MNIST-M: a digit blended with a patch of a photograph (Ganin and Lempitsky, 2015)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


def blend_mnist_m(digit: Pixels, patch: Pixels) -> Pixels:
    """|patch − digit| in every channel: the photograph, inverted where the grey digit has ink."""
    ink = digit[..., None]
    return np.maximum(patch, ink) - np.minimum(patch, ink)  # never below zero, so bytes are wide enough


def cut_patch(rng: np.random.Generator, photographs: Sequence[Pixels], size: int = 32) -> Pixels:
    """A square from a random place of a random photograph, in RGB."""
    photograph = photographs[int(rng.integers(len(photographs)))]
    height, width = photograph.shape[:2]
    top, left = int(rng.integers(height - size + 1)), int(rng.integers(width - size + 1))
    return photograph[top : top + size, left : left + size]
