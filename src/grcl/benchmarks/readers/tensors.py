"""MNIST-M and SynNum as mirrors keep them: a .pt file with the images (n, height, width, 3) and their labels."""

import pickle
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from grcl.benchmarks.readers.part import Part, check_claim, make_part, refusing


def read_tensors(path: Path) -> Part:
    """The pair of tensors of one file, loaded without running any code of it."""
    with refusing(path):
        stored = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                check_claim(sum(member.file_size for member in archive.infolist()), stored)
        try:
            pair = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:  # torch's own advice is to load it with the code it carries
            raise ValueError("it holds something else than tensors, which is never loaded") from None
        if not isinstance(pair, tuple | list) or [type(item) for item in pair] != [Tensor, Tensor]:
            raise ValueError("it does not hold a pair of tensors, images and labels")
        images, labels = pair
        check_claim(images.nbytes + labels.nbytes, stored)  # a view may repeat what is stored
        return make_part(images.numpy(), labels.numpy())
