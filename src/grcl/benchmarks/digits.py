"""Digits: SynNum, MNIST, MNIST-M, USPS and SVHN, from whichever of their public forms is in a folder (Sec. 4)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from grcl.benchmarks.cache import fingerprint
from grcl.benchmarks.readers import (
    Part,
    read_class_folders,
    read_digit_five,
    read_hdf5,
    read_idx,
    read_image_list,
    read_libsvm,
    read_matlab,
    read_npz,
    read_tensors,
)
from grcl.benchmarks.readers.part import Pixels
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.unreadable import leave_out
from grcl.runtime.errors import Refusal
from grcl.shapes import UInt8

CLASSES = tuple("0123456789")
ORDER = ("synnum", "mnist", "mnist_m", "usps", "svhn")

SIZE = 32
CHUNK = 2048  # images that are resized at once

Parts = tuple[Part, Part]


@dataclass(frozen=True)
class Form:
    """One way in which a domain is published."""

    files: tuple[str, ...]
    """Files or folders, all of which are needed and handed to `read`."""
    read: Callable[..., Parts]
    folders: tuple[str, ...] = ("",)
    """Where below --data they may be, the first that has them all is taken."""
    packed: str = ""
    """Suffix that each file may have or lack."""
    note: str = ""

    def __str__(self) -> str:
        """The files in words, as a remedy and for `grcl data check`."""
        names = " + ".join(f"{file}[{self.packed}]" if self.packed else file for file in self.files)
        if self.folders == ("",):
            return names
        return f"{names} (in {' or '.join(f'{folder}/' if folder else '--data itself' for folder in self.folders)})"

    def find(self, data: Path) -> Iterator[list[Path]]:
        """Those of the files that are there, for each folder that may have them."""
        for folder in self.folders:
            named = [(data / folder / file, data / folder / f"{file}{self.packed}") for file in self.files]
            yield [plain if plain.exists() else packed for plain, packed in named if plain.exists() or packed.exists()]


def each(read: Callable[..., Part]) -> Callable[..., Parts]:
    """Read the training part from the first half of the files and the test part from the second."""
    return lambda *files: (read(*files[: len(files) // 2]), read(*files[len(files) // 2 :]))


FORMS = {
    "synnum": (
        Form(
            ("synth_train_32x32.mat", "synth_test_32x32.mat"),
            each(read_matlab),
            ("", "synnum", "SynthDigits", "SYN", "syn"),
        ),
        Form(
            ("synth_train.pt", "synth_test.pt"),
            each(read_tensors),
            ("", "synnum", "SyntheticDigits/processed"),
        ),
        Form(("syn_number.mat",), read_digit_five, ("", "synnum", "Digit-Five", "digit-5")),
        Form(("synnum.npz",), read_npz),
        Form(("synnum_recreated.npz",), read_npz, note="re-created SynNum, not the original"),
        Form(
            ("imgs_train/", "imgs_valid/"),
            each(read_class_folders),
            ("", "synthetic_digits"),
            note="the Synthetic Digits of Roy et al. (2018), not the original SynNum",
        ),
    ),
    "mnist": (
        Form(
            (
                "train-images-idx3-ubyte",
                "train-labels-idx1-ubyte",
                "t10k-images-idx3-ubyte",
                "t10k-labels-idx1-ubyte",
            ),
            each(read_idx),
            ("MNIST/raw", "", "mnist"),
            packed=".gz",
        ),
        Form(("mnist.npz",), read_npz),
    ),
    "mnist_m": (
        Form(
            ("mnist_m_train/", "mnist_m_train_labels.txt", "mnist_m_test/", "mnist_m_test_labels.txt"),
            each(read_image_list),
            ("", "mnist_m"),
        ),
        Form(("mnist_m_train.pt", "mnist_m_test.pt"), each(read_tensors), ("", "mnist_m", "MNISTM/processed")),
        Form(("mnistm_with_label.mat",), read_digit_five, ("", "mnist_m", "Digit-Five", "digit-5")),
        Form(("mnist_m.npz",), read_npz),
    ),
    "usps": (
        Form(("usps.bz2", "usps.t.bz2"), each(read_libsvm), ("", "usps", "USPS")),
        Form(("usps.h5",), read_hdf5, ("", "usps", "USPS")),
        Form(("usps.npz",), read_npz),
    ),
    "svhn": (
        Form(("train_32x32.mat", "test_32x32.mat"), each(read_matlab), ("", "SVHN", "svhn")),
        Form(("svhn.npz",), read_npz),
    ),
}

LAYOUT = "\n".join(f"{name}\n" + "\n".join(f"    {form}" for form in FORMS[name]) for name in ORDER)
"""What is looked for in --data, domain by domain, the preferred form first."""

MAKERS = {name: f' or "grcl data make {name}" makes it anew' for name in ("mnist_m", "synnum")}


def pool(name: str, data: Path | None, reading: Reading) -> Pool:
    """All images of one domain, the official training images first."""
    parts, note = read_domain(name, data)
    if bad := [problem for part in parts for problem in part.unreadable]:
        assert data is not None
        note = "; ".join(filter(None, [note, leave_out(bad, data, reading)]))
    size = reading.size or SIZE
    counts = [len(part.labels) for part in parts]
    pixels = torch.empty(sum(counts), 3, size, size, dtype=torch.uint8)
    start = 0
    for chunk in (chunk for part in parts for chunk in chunks(part.images)):
        pixels[start : start + len(chunk)] = resize(chunk, size)
        start += len(chunk)
    labels = torch.from_numpy(np.concatenate([part.labels for part in parts]))
    train, test = torch.arange(len(labels)).split(counts)
    raw: list[NDArray[Any]] = [chunk for part in parts for chunk in chunks(part.images)]
    raw += [part.labels for part in parts]
    return Pool(ImageArray(pixels), labels, fingerprint(*raw, np.array(size)), (train, test), note=note)


def read_domain(name: str, data: Path | None) -> tuple[Parts, str]:
    """The training and test part in the first form that the folder holds, and what must be said of it."""
    if data is None:
        raise Refusal(
            'digits needs --data FOLDER with its files: "grcl data get digits" fetches what is published, '
            '"grcl data make mnist_m" and "grcl data make synnum" make what is not'
        )
    for form in FORMS[name]:
        for paths in form.find(data):
            if len(paths) == len(form.files):
                train, test = form.read(*paths)
                return (train, test), form.note or train.note
    raise Refusal(describe_missing(name, data))


def describe_missing(name: str, data: Path) -> str:
    """What was looked for, and the files that are there but not enough."""
    if not data.is_dir():
        return f"--data {data} is no folder; digits looks there for {name} and its other domains"
    halves = [(form, paths) for form in FORMS[name] for paths in form.find(data) if paths]
    alone = "".join(f"; of {form} there is only {', '.join(map(str, paths))}" for form, paths in halves)
    forms = ", or ".join(map(str, FORMS[name]))
    return (
        f"{name} is not in {data}, which may hold it as {forms}{alone}; "
        f'"grcl data get digits" fetches what is published{MAKERS.get(name, "")}'
    )


def chunks(images: Pixels | list[Pixels]) -> list[Pixels]:
    """Views of images of one size each, few enough to be worked on at once."""
    if isinstance(images, list):
        return [image[None] for image in images]
    return [images[start : start + CHUNK] for start in range(0, len(images), CHUNK)]


def resize(images: Pixels, size: int) -> UInt8[Tensor, "n 3 size size"]:
    """Bilinear with antialias; grey becomes three equal channels."""
    channels = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    tensor = torch.from_numpy(np.array(channels))  # a copy: what was read may be a view of bytes
    if tensor.shape[2:] != (size, size):
        exact = F.interpolate(tensor.float(), size=(size, size), mode="bilinear", antialias=True, align_corners=False)
        tensor = exact.round().clamp(0, 255).to(torch.uint8)
    return tensor.expand(-1, 3, -1, -1)
