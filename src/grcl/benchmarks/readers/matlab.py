"""SVHN's own format: X (height, width, 3, n) and y (n, 1) in a .mat file, where the digit 0 has the label 10."""

from pathlib import Path

import numpy as np

from grcl.benchmarks.readers.matlab_arrays import read_arrays
from grcl.benchmarks.readers.part import Part, make_part, refusing


def read_matlab(path: Path) -> Part:
    """The images and labels of one file."""
    with refusing(path):
        arrays = read_arrays(path)
        if not {"X", "y"} <= set(arrays):
            raise ValueError("the array X or y is missing")
        images, digits = arrays["X"], arrays["y"].reshape(-1)
        if images.ndim != 4:
            raise ValueError(f"X is of shape {images.shape}, not of (height, width, 3, n)")
        return make_part(images.transpose(3, 0, 1, 2), np.where(digits == 10, 0, digits))
