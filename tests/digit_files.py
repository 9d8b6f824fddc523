"""Miniature digits in every form in which they are published."""

import bz2
import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

Pixels = NDArray[np.uint8]


class Digits(NamedTuple):
    """Images of all ten classes, sorted by class: folders can hold no other order."""

    x_train: Pixels
    y_train: NDArray[np.int64]
    x_test: Pixels
    y_test: NDArray[np.int64]

    @property
    def parts(self) -> dict[str, tuple[Pixels, NDArray[np.int64]]]:
        return {"train": (self.x_train, self.y_train), "test": (self.x_test, self.y_test)}


def make_digits(*shape: int, seed: int = 0) -> Digits:
    """20 training and 10 test images of random pixels."""
    rng = np.random.default_rng([seed, *shape])
    images = [rng.integers(256, size=(count, *shape), dtype=np.uint8) for count in (20, 10)]
    return Digits(images[0], np.repeat(np.arange(10), 2), images[1], np.arange(10))


def write_npz(name: str) -> Callable[[Path, Digits], None]:
    return lambda folder, digits: np.savez_compressed(folder / name, **digits._asdict())


def write_idx(folder: Path, digits: Digits, suffix: str = "", pack: Callable[[bytes], bytes] = bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, (images, labels) in zip(("train", "t10k"), digits.parts.values(), strict=True):
        head = b"\x00\x00\x08\x03" + struct.pack(">3I", *images.shape)
        (folder / f"{part}-images-idx3-ubyte{suffix}").write_bytes(pack(head + images.tobytes()))
        head = b"\x00\x00\x08\x01" + struct.pack(">I", len(labels))
        (folder / f"{part}-labels-idx1-ubyte{suffix}").write_bytes(pack(head + labels.astype(np.uint8).tobytes()))


def write_gzipped_idx(folder: Path, digits: Digits) -> None:
    write_idx(folder / "MNIST" / "raw", digits, ".gz", gzip.compress)


def write_libsvm(folder: Path, digits: Digits) -> None:
    for name, (images, labels) in zip(("usps.bz2", "usps.t.bz2"), digits.parts.values(), strict=True):
        values = images.reshape(len(images), -1) / 255 * 2 - 1
        lines = [
            f"{label + 1} " + " ".join(f"{place}:{value:.4f}" for place, value in enumerate(row, 1)) + " \n"
            for row, label in zip(values, labels, strict=True)
        ]
        (folder / name).write_bytes(bz2.compress("".join(lines).encode()))


def write_hdf5(folder: Path, digits: Digits) -> None:
    with h5py.File(folder / "usps.h5", "w") as file:
        for part, (images, labels) in digits.parts.items():
            file[f"{part}/data"] = (images.reshape(len(images), -1) / 255).astype(np.float32)
            file[f"{part}/target"] = labels


def write_matlab(folder: Path, digits: Digits, prefix: str = "", zero: int = 10, compress: bool = True) -> None:
    for part, (images, labels) in digits.parts.items():
        arrays = {
            "X": images.transpose(1, 2, 3, 0),
            "y": np.where(labels == 0, zero, labels).astype(np.uint8)[:, None],
        }
        savemat(folder / f"{prefix}{part}_32x32.mat", arrays, do_compression=compress)


def write_synnum_matlab(folder: Path, digits: Digits) -> None:
    write_matlab(folder, digits, "synth_", zero=0)


def write_digit_five_synnum(folder: Path, digits: Digits) -> None:
    images = {f"{part}_data": pixels for part, (pixels, _) in digits.parts.items()}
    labels = {f"{part}_label": numbers[:, None] for part, (_, numbers) in digits.parts.items()}
    savemat(folder / "syn_number.mat", images | labels, do_compression=True)


def write_digit_five_mnist_m(folder: Path, digits: Digits) -> None:
    images = {part: pixels for part, (pixels, _) in digits.parts.items()}
    labels = {f"label_{part}": np.eye(10)[numbers] for part, (_, numbers) in digits.parts.items()}
    savemat(folder / "mnistm_with_label.mat", images | labels, do_compression=True)


def write_plain_matlab(folder: Path, digits: Digits) -> None:
    (folder / "SVHN").mkdir()
    write_matlab(folder / "SVHN", digits, compress=False)


def write_tensors(prefix: str, **options: Any) -> Callable[[Path, Digits], None]:
    def write(folder: Path, digits: Digits) -> None:
        for part, (images, labels) in digits.parts.items():
            path = folder / f"{prefix}_{part}.pt"
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save((torch.from_numpy(images), torch.from_numpy(labels)), path, **options)

    return write


def write_image_list(folder: Path, digits: Digits) -> None:
    for part, (images, labels) in digits.parts.items():
        here = folder / "mnist_m" / f"mnist_m_{part}"
        here.mkdir(parents=True)
        for place, image in enumerate(images):
            Image.fromarray(image).save(here / f"{place:08}.png")
        lines = [f"{place:08}.png {label}\n" for place, label in enumerate(labels)]
        (folder / "mnist_m" / f"mnist_m_{part}_labels.txt").write_text("".join(lines))


def write_class_folders(folder: Path, digits: Digits) -> None:
    for name, (images, labels) in zip(("imgs_train", "imgs_valid"), digits.parts.values(), strict=True):
        for place, (image, label) in enumerate(zip(images, labels, strict=True)):
            here = folder / "synthetic_digits" / name / str(label)
            here.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(here / f"{place:03}.png")


WRITERS: dict[str, tuple[str, Callable[[Path, Digits], None]]] = {
    "SynNum .mat": ("synnum", write_synnum_matlab),
    "SynNum .pt": ("synnum", write_tensors("synth")),
    "SynNum .npz": ("synnum", write_npz("synnum.npz")),
    "SynNum re-created": ("synnum", write_npz("synnum_recreated.npz")),
    "SynNum folders": ("synnum", write_class_folders),
    "MNIST idx": ("mnist", write_idx),
    "MNIST idx.gz": ("mnist", write_gzipped_idx),
    "MNIST .npz": ("mnist", write_npz("mnist.npz")),
    "MNIST-M list": ("mnist_m", write_image_list),
    "MNIST-M .pt": ("mnist_m", write_tensors("mnist_m")),
    "MNIST-M old .pt": (
        "mnist_m",
        write_tensors("MNISTM/processed/mnist_m", _use_new_zipfile_serialization=False),
    ),
    "MNIST-M .npz": ("mnist_m", write_npz("mnist_m.npz")),
    "USPS libsvm": ("usps", write_libsvm),
    "USPS .h5": ("usps", write_hdf5),
    "USPS .npz": ("usps", write_npz("usps.npz")),
    "SynNum of Digit-Five": ("synnum", write_digit_five_synnum),
    "MNIST-M of Digit-Five": ("mnist_m", write_digit_five_mnist_m),
    "SVHN .mat": ("svhn", write_matlab),
    "SVHN plain .mat": ("svhn", write_plain_matlab),
    "SVHN .npz": ("svhn", write_npz("svhn.npz")),
}
SHAPES = {"synnum": (32, 32, 3), "mnist": (28, 28), "mnist_m": (28, 28, 3), "usps": (16, 16), "svhn": (32, 32, 3)}


def write_form(form: str, folder: Path, seed: int = 0) -> tuple[str, Digits]:
    """Write random digits in this form; gives the domain and what was written."""
    domain, write = WRITERS[form]
    digits = make_digits(*SHAPES[domain], seed=seed)
    write(folder, digits)
    return domain, digits
