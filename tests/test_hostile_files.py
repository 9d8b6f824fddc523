"""Files from strangers: no code in them runs, and none of them takes more memory than it has bytes."""

import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch

import tiny
from digit_files import write_form
from grcl.benchmarks import digits
from grcl.benchmarks.readers import read_class_folders
from grcl.data.reading import Reading
from grcl.data.split import Split, split_domain
from grcl.networks.weights import read_weights
from grcl.runtime.errors import Failure, Refusal

GIGABYTE = 1 << 30


class Payload:
    """Code that leaves a folder behind where it is run."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.trace),)


def read_digits(domain: str, folder: Path) -> None:
    digits.pool(domain, folder, Reading(size=32))


def as_object_array(path: Path, payload: Payload) -> None:
    array = np.array([payload], dtype=object)
    np.savez(path, allow_pickle=True, x_train=array, y_train=array, x_test=array, y_test=array)


def as_pickled_archive(path: Path, payload: Payload) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            archive.writestr(f"{name}.npy", pickle.dumps(payload))


def as_hdf5_attribute(path: Path, payload: Payload) -> None:
    with h5py.File(path, "w") as file:
        for part in ("train", "test"):
            file[f"{part}/data"] = np.void(pickle.dumps(payload))
            file[f"{part}/target"] = np.void(pickle.dumps(payload))


def as_pickle(path: Path, payload: Payload) -> None:
    path.write_bytes(pickle.dumps({"dark": payload}))


def as_torch_file(path: Path, payload: Payload) -> None:
    torch.save((payload, payload), path)


OFFERS: dict[str, tuple[str, Callable[[Path, Payload], None], Callable[[Path], Any]]] = {
    "objects in an npz": ("mnist.npz", as_object_array, lambda path: read_digits("mnist", path.parent)),
    "pickles in an npz": ("mnist.npz", as_pickled_archive, lambda path: read_digits("mnist", path.parent)),
    "bytes in an h5": ("usps.h5", as_hdf5_attribute, lambda path: read_digits("usps", path.parent)),
    "a pickle for an h5": ("usps.h5", as_pickle, lambda path: read_digits("usps", path.parent)),
    "a torch file for data": ("mnist_m_train.pt", as_torch_file, lambda path: read_digits("mnist_m", path.parent)),
    "a pickle for splits": (
        "splits.json",
        as_pickle,
        lambda path: split_domain("dark", tiny.pool("dark", None, Reading(size=32)), Split(file=path)),
    ),
    "a torch file for weights": ("weights.pt", as_torch_file, read_weights),
    "a torch file for safetensors": ("weights.safetensors", as_torch_file, read_weights),
    "a pickle for weights": ("weights.pt", as_pickle, read_weights),
}


@pytest.mark.parametrize("offer", OFFERS)
def test_code_is_refused_by_name_and_never_run(offer: str, tmp_path: Path) -> None:
    name, write, read = OFFERS[offer]
    if name.startswith("mnist_m"):
        write_form("MNIST-M .pt", tmp_path)
    write(tmp_path / name, Payload(tmp_path / "broken-in"))
    with pytest.raises((Refusal, Failure), match=name):
        read(tmp_path / name)
    assert not (tmp_path / "broken-in").exists()


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {"train": [[0]], "test": [1]},
        {"train": [], "test": []},
        {"train": [0.5], "test": [1]},
        {"train": [True], "test": [2]},
        {"train": [10**30], "test": [1]},
        {"train": ["0"], "test": [1]},
        {"train": {"0": 1}, "test": [1]},
    ],
)
def test_a_split_that_is_none_is_refused(record: Any, tmp_path: Path) -> None:
    pool = tiny.pool("dark", None, Reading(size=32))
    if isinstance(record, dict):
        record["pool"] = pool.fingerprint
    (tmp_path / "splits.json").write_text(json.dumps({"dark": record}))
    with pytest.raises(Refusal, match=r"splits\.json|images to|leaves none"):
        split_domain("dark", pool, Split(file=tmp_path / "splits.json"))


def png_header(path: Path) -> None:
    """A PNG of 100,000 x 100,000 pixels, of which only the header is there."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)))


def sparse_npz(path: Path) -> None:
    """An archive whose one member is ten gigabytes of nothing, stored as it is in a file full of holes."""
    shape = "{'descr': '|u1', 'fortran_order': False, 'shape': (10737418240,), }"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(shape)) + shape.encode()
    name, size = b"x_train.npy", len(header) + 10 * GIGABYTE
    # as version 4.5 of the format writes sizes beyond four gigabytes
    wide = struct.pack("<HHQQ", 1, 16, size, size)
    local = struct.pack("<4s5HIIIHH", b"PK\3\4", 45, 0, 0, 0, 0, 0, 2**32 - 1, 2**32 - 1, len(name), len(wide))
    start = len(local) + len(name) + len(wide)
    central = struct.pack(
        "<4s6HIIIHHHHHII", b"PK\1\2", 45, 45, 0, 0, 0, 0, 0, 2**32 - 1, 2**32 - 1, len(name), len(wide), 0, 0, 0, 0, 0
    )
    entry = central + name + wide
    place = start + size
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(entry), place)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, place + len(entry), 1)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(entry), 2**32 - 1, 0)
    with path.open("wb") as file:
        file.write(local + name + wide + header)
        file.seek(place)
        file.write(entry + end64 + locator + end)


def zip_bomb(path: Path) -> None:
    """Hundreds of megabytes of zeros in one, where torch stores everything as it is."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("archive/data/0", "w") as file,
    ):
        for _ in range(20):
            file.write(bytes(1 << 24))


def idx_header(path: Path) -> None:
    path.write_bytes(b"\x00\x00\x08\x03" + struct.pack(">3I", 2**32 - 1, 28, 28) + bytes(100))


def mat_header(path: Path) -> None:
    """A compressed array that claims four gigabytes."""
    packed = zlib.compress(struct.pack("<II", 14, 2**32 - 8) + bytes(1000))
    path.write_bytes(bytes(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed)


def sparse_weights(path: Path) -> None:
    """Ten gigabytes of holes behind the beginning of a safetensors header."""
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 2) + b"{}")
        file.truncate(10 * GIGABYTE)


def endless_view(path: Path) -> None:
    torch.save({"layers.0.weight": torch.zeros(1).expand(2**34)}, path)


def wide_h5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for part in ("train", "test"):
            file.create_dataset(f"{part}/data", (2**30, 256), "f4", chunks=(1024, 256))
            file[f"{part}/target"] = np.zeros(10)


BOMBS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a PNG of 10,000 megapixels": ("0/a.png", png_header, "read_class_folders(path.parent.parent)"),
    "the same among photographs": (
        "a.png",
        png_header,
        "pool_of_files(path.parent, [(path.name, 0)], Reading(size=32, workers=0))",
    ),
    "a sparse npz of 10 GB": ("mnist.npz", sparse_npz, "read_npz(path)"),
    "an idx of 4 billion images": ("images", idx_header, "read_idx(path, path)"),
    "a mat of 4 GB": ("a.mat", mat_header, "read_matlab(path)"),
    "an h5 of 1 TB": ("usps.h5", wide_h5, "read_hdf5(path)"),
    "a zip bomb for data": ("a.pt", zip_bomb, "read_tensors(path)"),
    "a zip bomb for weights": ("a.pt", zip_bomb, "read_weights(path)"),
    "sparse weights of 10 GB": ("a.safetensors", sparse_weights, "read_weights(path)"),
    "a view without end for weights": ("a.pt", endless_view, "read_weights(path)"),
}

READ = """
import resource, sys
from pathlib import Path
from grcl.benchmarks.readers import *
from grcl.data.file_pool import pool_of_files
from grcl.data.reading import Reading
from grcl.networks.weights import read_weights
from grcl.runtime.errors import Failure, Refusal

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

for name, expression in zip(sys.argv[1::2], sys.argv[2::2]):
    path, before = Path(name), peak()
    try:
        eval(expression)
        print("loaded")
    except (Refusal, Failure) as error:
        print(peak() - before, error)
"""


def test_sizes_are_bounded(tmp_path: Path) -> None:
    """A real process that may take a few gigabytes reads all of them, and says a sentence of each."""
    words = []
    for place, (name, write, expression) in enumerate(BOMBS.values()):
        path = tmp_path / str(place) / name
        path.parent.mkdir(parents=True)
        write(path)
        words += [str(path), expression]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (8 * GIGABYTE, 8 * GIGABYTE))

    environment = {**os.environ, "GRCL_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", READ, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, preexec_fn=limit, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == len(BOMBS)
    for bomb, (name, _, _), line in zip(BOMBS, BOMBS.values(), said, strict=True):
        taken, _, sentence = line.partition(" ")
        assert Path(name).name in sentence, f"{bomb}: {line}"
        assert int(taken) < 200, f"{bomb} took {taken} MB"


def test_no_interpreter_is_called_for_an_image(tmp_path: Path) -> None:
    """EPS is a program, which Pillow would hand to Ghostscript: here it is no image."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(x) run\n")
    with pytest.raises(Refusal, match="cannot identify"):
        read_class_folders(tmp_path)
