"""MNIST-M and SynNum as the collection Digit-Five has them: training and test images of a domain in one .mat file."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from grcl.benchmarks.readers.matlab_arrays import read_arrays
from grcl.benchmarks.readers.part import Part, make_part, refusing

# images and labels of a part, under the names of mnistm_with_label.mat and of syn_number.mat
NAMES = (("{}", "label_{}"), ("{}_data", "{}_label"))


def read_digit_five(path: Path) -> tuple[Part, Part]:
    """The training and the test part of one file."""
    with refusing(path):
        arrays = read_arrays(path)
        for images, labels in NAMES:
            if {images.format("train"), labels.format("train")} <= set(arrays):
                train, test = (_part(arrays, images.format(side), labels.format(side)) for side in ("train", "test"))
                return train, test
        raise ValueError("neither train and label_train nor train_data and train_label are in it")


def _part(arrays: dict[str, NDArray[np.generic]], images: str, labels: str) -> Part:
    if not {images, labels} <= set(arrays):
        raise ValueError(f"the array {images} or {labels} is missing")
    digits = arrays[labels]
    if digits.ndim == 2 and digits.shape[1] == 10:  # a column for each digit, in which the image's own has a one
        if not (np.isin(digits, (0, 1)).all() and (digits.astype(np.int64).sum(axis=1) == 1).all()):
            raise ValueError(f"{labels} does not name one digit for each image")
        digits = digits.argmax(axis=1)
    return make_part(arrays[images], digits.reshape(-1))
