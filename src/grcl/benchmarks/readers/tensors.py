"""MNIST-M and SynNum as mirrors keep them: a .pt file with the images (n, height, width, 3) and their labels."""

import pickle
from pathlib import Path

from torch import Tensor

from grcl.benchmarks.readers.part import Part, check_claim, make_part, refusing
from grcl.runtime.torch_files import load_torch


def read_tensors(path: Path) -> Part:
    """The pair of tensors of one file, loaded without running any code of it."""
    with refusing(path):
        try:
            with path.open("rb") as file:
                pair = load_torch(file)
        except pickle.UnpicklingError:  # torch's own advice is to load it with the code it carries
            raise ValueError("it holds something else than tensors, which is never loaded") from None
        if not isinstance(pair, tuple | list) or [type(item) for item in pair] != [Tensor, Tensor]:
            raise ValueError("it does not hold a pair of tensors, images and labels")
        images, labels = pair
        check_claim(images.nbytes + labels.nbytes, path.stat().st_size)  # a view may repeat what is stored
        return make_part(images.numpy(), labels.numpy())
