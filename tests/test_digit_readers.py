"""The laws of the readers: a damaged file gives one sentence with its name and the remedy, never a traceback."""

import bz2
import gzip
import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import loadmat, savemat

from digit_files import WRITERS, make_digits, write_form, write_libsvm
from grcl.benchmarks import digits
from grcl.benchmarks.readers import libsvm, part
from grcl.benchmarks.readers.matlab_arrays import read_arrays
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.runtime.errors import Refusal

MUTATIONS = 36


def load(name: str, folder: Path) -> Pool:
    return digits.pool(name, folder, Reading(size=32))


def refusal(name: str, folder: Path) -> str:
    """What the user is told, which must be one sentence with a remedy."""
    answer = outcome(name, folder)
    assert isinstance(answer, str)
    assert is_remedy(answer, folder)
    return answer


def outcome(name: str, folder: Path) -> Pool | str:
    """The pool, or the words with which it was refused."""
    try:
        return load(name, folder)
    except Refusal as refused:
        return str(refused)


def is_remedy(message: str, folder: Path) -> bool:
    """Whether a message is one sentence that names a file and the remedy, and hides no mistake of the code."""
    whole = message.startswith(f"{folder}/") and " cannot be used (" in message and "grcl data get digits" in message
    one = f"unreadable image in {folder} ({folder}/" in message and "images.unreadable = skip" in message
    return (whole or one) and "\n" not in message and "Type-check" not in message


def content(pool: Pool) -> tuple[bytes, list[int]]:
    assert isinstance(pool.images, ImageArray)
    return pool.images.pixels.numpy().tobytes(), pool.labels.tolist()


def mutate(rng: np.random.Generator, whole: bytes) -> bytes:
    """The bytes with one of the accidents that happen to files."""
    place, length = int(rng.integers(len(whole))), int(rng.integers(1, 9))
    noise = rng.bytes(length)
    return [
        whole[:place],
        whole[:place] + bytes([whole[place] ^ (1 << int(rng.integers(8)))]) + whole[place + 1 :],
        whole[:place] + noise + whole[place + length :],
        whole[:place] + noise + whole[place:],
        whole[:place] + whole[place + length :],
        whole[: place % 256] + noise + whole[place % 256 + length :],  # where the headers are
    ][int(rng.integers(6))]


@pytest.mark.parametrize("mutations", [10, pytest.param(MUTATIONS, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", WRITERS)
def test_mutations_are_refused_or_seen_in_the_fingerprint(form: str, mutations: int, tmp_path: Path) -> None:
    domain, _ = write_form(form, tmp_path)
    original = load(domain, tmp_path)
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    rng = np.random.default_rng(list(form.encode()))
    refused = 0
    for _ in range(mutations):
        path = files[int(rng.integers(len(files)))]
        whole = path.read_bytes()
        path.write_bytes(mutate(rng, whole))
        answer = outcome(domain, tmp_path)
        if isinstance(answer, str):
            refused += 1
            assert is_remedy(answer, tmp_path), answer
        else:
            assert answer.fingerprint != original.fingerprint or content(answer) == content(original)
        path.write_bytes(whole)
    assert refused >= mutations // 8
    assert load(domain, tmp_path).fingerprint == original.fingerprint


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[: len(whole) // 2], lambda whole: b"x" * 99])
def test_an_emptied_a_cut_and_a_replaced_file_are_refused(
    form: str, damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    domain, _ = write_form(form, tmp_path)
    path = max((path for path in tmp_path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    path.write_bytes(damage(path.read_bytes()))
    assert str(path) in refusal(domain, tmp_path)


def idx(magic: bytes, *sizes: int, body: bytes = b"") -> bytes:
    return magic + struct.pack(f">{len(sizes)}I", *sizes) + body


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (idx(b"\x00\x00\x08\x03", 20, 28, 28, body=bytes(20 * 784 - 1)), "fewer"),
        (idx(b"\x00\x00\x08\x03", 20, 28, 28, body=bytes(20 * 784 + 1)), "more"),
        (idx(b"\x00\x00\x08\x03", 2**32 - 1, 2**32 - 1, 2**32 - 1, body=bytes(99)), "claims"),
        (idx(b"\x00\x00\x08\x03", 60_000, 28, 28, body=bytes(99)), "claims"),
        (gzip.compress(idx(b"\x00\x00\x08\x03", 60_000, 28, 28, body=bytes(99)), mtime=0), "claims"),
        (idx(b"\x00\x00\x08\x01", 20, body=bytes(20)), "no idx file"),
        (idx(b"\x00\x00\x0d\x03", 20, 28, 28, body=bytes(80 * 784)), "no idx file"),
        (idx(b"\x00\x00\x08\x03", 0, 28, 28), "no images"),
        (idx(b"\x00\x00\x08\x03", 20, 0, 28), "shape"),
        (idx(b"\x00\x00\x08\x03", 19, 28, 28, body=bytes(19 * 784)), "19 images but 20 labels"),
    ],
)
def test_idx_files_are_held_to_their_headers(damaged: bytes, said: str, tmp_path: Path) -> None:
    write_form("MNIST idx", tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(damaged)
    assert said in refusal("mnist", tmp_path)


def arrays(**changed: Any) -> dict[str, Any]:
    return {**make_digits(28, 28)._asdict(), **changed}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"y_train": np.full(20, 10)}, "outside 0..9"),
        ({"y_train": np.full(20, -1)}, "outside 0..9"),
        ({"y_train": np.full(20, 0.5)}, "outside 0..9"),
        ({"y_train": np.full(20, np.nan)}, "outside 0..9"),
        ({"y_train": np.zeros((20, 1), np.uint8)}, "not a row of numbers"),
        ({"y_train": np.full(20, "7")}, "not a row of numbers"),
        ({"y_test": np.zeros(9, np.uint8)}, "10 images but 9 labels"),
        ({"x_train": np.zeros((20, 28, 28), np.float32)}, "float32"),
        ({"x_train": np.zeros((20, 28, 28, 4), np.uint8)}, "shape"),
        ({"x_train": np.zeros((20, 784), np.uint8)}, "shape"),
        ({"x_train": np.zeros((20, 0, 28), np.uint8)}, "shape"),
        ({"x_train": np.zeros((0, 28, 28), np.uint8), "y_train": np.zeros(0, np.uint8)}, "no images"),
        ({"x_train": np.array([[1], [2, 3]], dtype=object)}, "pickled objects"),
        ({"note": np.full(3, "a")}, "note"),
        ({"note": np.array("a" * 201)}, "note"),
    ],
)
def test_arrays_that_are_no_digits_are_refused(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist.npz", allow_pickle=True, **arrays(**changed))
    message = refusal("mnist", tmp_path)
    assert said in message
    assert "mnist.npz" in message


def test_a_missing_array_is_named(tmp_path: Path) -> None:
    some = arrays()
    del some["y_test"]
    np.savez(tmp_path / "mnist.npz", **some)
    assert "y_test is missing" in refusal("mnist", tmp_path)


def write_bomb(path: Path, shape: tuple[int, ...], body: int) -> None:
    """An array whose header claims one size, in a member that unpacks to another."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x_train.npy", header.getvalue() + bytes(body))


def test_an_array_that_claims_more_than_its_member_holds_takes_no_memory(tmp_path: Path) -> None:
    write_bomb(tmp_path / "mnist.npz", (2**40, 28, 28), body=10_000)
    assert "does not fit" in refusal("mnist", tmp_path)


def test_an_array_above_the_bound_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bomb(tmp_path / "mnist.npz", (2_000_000, 1, 1), body=2_000_000)
    monkeypatch.setattr(part, "LARGEST", 1_000_000)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *arguments: pytest.fail("the member was opened"))
    assert "claims" in refusal("mnist", tmp_path)


def test_a_member_that_claims_more_than_deflate_can_pack_is_not_unpacked(tmp_path: Path) -> None:
    write_bomb(tmp_path / "mnist.npz", (10_000, 1, 1), body=10_000)
    whole = (tmp_path / "mnist.npz").read_bytes()
    directory = whole.rindex(b"PK\x01\x02")
    size = directory + 24  # of the unpacked member, in the directory at the end
    (tmp_path / "mnist.npz").write_bytes(whole[:size] + struct.pack("<I", 2**31) + whole[size + 4 :])
    assert "claims" in refusal("mnist", tmp_path)


def test_deflate_packs_no_further_than_the_bound() -> None:
    blank = bytes(2**23)
    assert len(blank) <= part.DEFLATE_FACTOR * len(zlib.compress(blank, 9))


class Boom:
    """Ends the test if it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("code from a data file was run",)


def test_no_code_of_a_tensor_file_is_run(tmp_path: Path) -> None:
    write_form("MNIST-M .pt", tmp_path)
    torch.save((Boom(), Boom()), tmp_path / "mnist_m_train.pt")
    assert "mnist_m_train.pt" in refusal("mnist_m", tmp_path)
    (tmp_path / "mnist_m_train.pt").write_bytes(pickle.dumps(Boom()))
    assert "mnist_m_train.pt" in refusal("mnist_m", tmp_path)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (torch.zeros(3, 28, 28, 3, dtype=torch.uint8), "pair of tensors"),
        ({"images": torch.zeros(1)}, "pair of tensors"),
        ((torch.zeros(3, 28, 28, 3), torch.zeros(3).long()), "float32"),
        ((torch.zeros(3, 28, 28, 3, dtype=torch.uint8), torch.zeros(4).long()), "3 images but 4 labels"),
        ((torch.zeros(1, 28, 28, 3, dtype=torch.uint8).expand(2**20, -1, -1, -1), torch.zeros(1)), "claims"),
    ],
)
def test_tensors_that_are_no_digits_are_refused(held: Any, said: str, tmp_path: Path) -> None:
    write_form("MNIST-M .pt", tmp_path)
    torch.save(held, tmp_path / "mnist_m_train.pt")
    assert said in refusal("mnist_m", tmp_path)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"X": np.zeros((32, 32, 3, 4), np.uint8)}, "X or y is missing"),
        ({"X": np.zeros((32, 32, 3, 4)), "y": np.ones((4, 1))}, "float64"),
        ({"X": np.zeros((4, 3072), np.uint8), "y": np.ones((4, 1))}, "shape"),
        ({"X": "four", "y": np.ones((4, 1))}, "X or y is missing"),
        ({"X": np.zeros((4, 32, 32, 3), np.uint8), "y": np.ones((4, 1))}, "shape"),
        ({"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.ones((5, 1))}, "4 images but 5 labels"),
        ({"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.full((4, 1), 11)}, "outside 0..9"),
    ],
)
def test_mat_files_that_are_no_digits_are_refused(held: dict[str, Any], said: str, tmp_path: Path) -> None:
    write_form("SVHN .mat", tmp_path)
    savemat(tmp_path / "train_32x32.mat", held)
    assert said in refusal("svhn", tmp_path)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_mat_files_are_read_as_scipy_reads_them(kind: str, compress: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"X": (5, 4, 3, 2), "y": (3, 1), "one": (1, 1), "long_name_of_an_array": (2, 7), "none": (0, 3)}
    held: dict[str, Any] = {name: rng.integers(100, size=shape).astype(kind) for name, shape in shapes.items()}
    others = {"text": "a text", "table": {"field": np.ones(3)}, "cells": np.array([1, "b"], dtype=object)}
    savemat(tmp_path / "some.mat", others | held, do_compression=compress)
    ours, theirs = read_arrays(tmp_path / "some.mat"), loadmat(tmp_path / "some.mat")
    assert set(ours) == set(held)
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype
        assert np.array_equal(array, theirs[name])


def test_a_mat_array_that_claims_more_than_is_stored_takes_no_memory(tmp_path: Path) -> None:
    write_form("SVHN .mat", tmp_path)
    packed = zlib.compress(struct.pack("<2I", 14, 2**31) + bytes(100))
    header = (tmp_path / "train_32x32.mat").read_bytes()[:128]
    (tmp_path / "train_32x32.mat").write_bytes(header + struct.pack("<2I", 15, len(packed)) + packed)
    assert "claims" in refusal("svhn", tmp_path)


def test_labels_in_double_precision_are_labels_too(tmp_path: Path) -> None:
    written = make_digits(32, 32, 3)
    for name, (images, labels) in written.parts.items():
        held = {"X": images.transpose(1, 2, 3, 0), "y": labels.astype(np.float64)[:, None]}
        savemat(tmp_path / f"{name}_32x32.mat", held)
    assert load("svhn", tmp_path).labels.tolist() == [*written.y_train, *written.y_test]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\n", "1 to 256"),
        (b"3 1:0.5 2:0.5\n", "1 to 256"),
        (b"3 " + b" ".join(b"%d:0.5" % place for place in range(2, 258)) + b"\n", "1 to 256"),
        (b"3 " + b" ".join(b"%d:1.5" % place for place in range(1, 257)) + b"\n", "outside their range"),
        (b"3 " + b" ".join(b"%d:nan" % place for place in range(1, 257)) + b"\n", "outside their range"),
        (b"11 " + b" ".join(b"%d:0.5" % place for place in range(1, 257)) + b"\n", "outside 0..9"),
        (b"three " + b" ".join(b"%d:0.5" % place for place in range(1, 257)) + b"\n", "three"),
    ],
)
def test_lines_that_are_no_digit_are_refused(line: bytes, said: str, tmp_path: Path) -> None:
    write_form("USPS libsvm", tmp_path)
    (tmp_path / "usps.bz2").write_bytes(bz2.compress(line))
    assert said in refusal("usps", tmp_path)


def test_lines_without_end_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_libsvm(tmp_path, make_digits(16, 16))
    monkeypatch.setattr(libsvm, "MOST_LINES", 19)
    assert "more than 19 lines" in refusal("usps", tmp_path)
    monkeypatch.undo()
    (tmp_path / "usps.bz2").write_bytes(bz2.compress(b"1" * 2**24))
    assert "1 to 256" in refusal("usps", tmp_path)


def test_an_h5_dataset_that_claims_more_than_is_stored_takes_no_memory(tmp_path: Path) -> None:
    write_form("USPS .h5", tmp_path)
    with h5py.File(tmp_path / "usps.h5", "a") as file:
        del file["test/data"]
        file.create_dataset("test/data", shape=(2**40, 256), dtype="f4", chunks=(1, 256))
    assert "claims" in refusal("usps", tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("train/data", np.zeros((20, 255), np.float32), "shape"),
        ("train/data", np.zeros((20, 256), np.int32), "int32"),
        ("train/data", np.full((20, 256), 2.0), "outside their range"),
        ("train/target", np.full(20, 10), "outside 0..9"),
        ("test/target", None, "test/target is missing"),
    ],
)
def test_an_h5_file_without_digits_is_refused(name: str, value: Any, said: str, tmp_path: Path) -> None:
    write_form("USPS .h5", tmp_path)
    with h5py.File(tmp_path / "usps.h5", "a") as file:
        del file[name]
        if value is not None:
            file[name] = value
    assert said in refusal("usps", tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("00000000.png", "no file name and digit"),
        ("00000000.png 5 5", "no file name and digit"),
        ("../mnist_m_test/00000000.png 5", "no file name and digit"),
        ("00000000.png five", "five"),
        ("00000000.png 10", "outside 0..9"),
        ("elsewhere.png 5", "elsewhere.png"),
        ("", "no images"),
    ],
)
def test_lists_that_name_no_digits_are_refused(line: str, said: str, tmp_path: Path) -> None:
    write_form("MNIST-M list", tmp_path)
    (tmp_path / "mnist_m" / "mnist_m_train_labels.txt").write_text(line)
    assert said in refusal("mnist_m", tmp_path)


def test_a_damaged_image_among_the_others_is_named(tmp_path: Path) -> None:
    write_form("SynNum folders", tmp_path)
    image = tmp_path / "synthetic_digits" / "imgs_train" / "3" / "007.png"
    image.write_bytes(image.read_bytes()[:200])
    assert str(image) in refusal("synnum", tmp_path)


@pytest.mark.parametrize(
    ("form", "name", "image"),
    [
        ("SynNum folders", "synnum", "synthetic_digits/imgs_train/3/007.png"),
        ("MNIST-M list", "mnist_m", "mnist_m/mnist_m_test/00000002.png"),
    ],
)
def test_a_damaged_image_is_left_out_by_choice(form: str, name: str, image: str, tmp_path: Path) -> None:
    write_form(form, tmp_path)
    whole = load(name, tmp_path)
    (tmp_path / image).write_bytes(b"")
    assert "images.unreadable = skip" in refusal(name, tmp_path)
    rest = digits.pool(name, tmp_path, Reading(size=32, unreadable="skip"))
    assert "1 unreadable image left out" in rest.note
    assert rest.fingerprint != whole.fingerprint
    assert rest.sides is not None
    assert len(rest.labels) == len(rest.images) == sum(map(len, rest.sides)) == len(whole.labels) - 1


def test_a_domain_of_damaged_images_alone_is_refused(tmp_path: Path) -> None:
    write_form("SynNum folders", tmp_path)
    for image in (tmp_path / "synthetic_digits" / "imgs_train").rglob("*.png"):
        image.write_bytes(b"")
    with pytest.raises(Refusal, match="no image of it can be read"):
        digits.pool("synnum", tmp_path, Reading(size=32, unreadable="skip"))


def test_an_image_that_is_too_large_for_a_digit_is_refused(tmp_path: Path) -> None:
    write_form("SynNum folders", tmp_path)
    image = tmp_path / "synthetic_digits" / "imgs_train" / "3" / "007.png"
    Image.new("L", (5000, 10)).save(image)
    assert "5000 x 10 pixels" in refusal("synnum", tmp_path)


def test_a_folder_that_is_no_digit_is_named_and_hidden_files_are_not(tmp_path: Path) -> None:
    write_form("SynNum folders", tmp_path)
    before = load("synnum", tmp_path).fingerprint
    (tmp_path / "synthetic_digits" / "imgs_train" / ".DS_Store").touch()
    (tmp_path / "synthetic_digits" / "imgs_train" / "3" / ".hidden").touch()
    assert load("synnum", tmp_path).fingerprint == before
    (tmp_path / "synthetic_digits" / "imgs_train" / "ten").mkdir()
    assert "ten beside the folders 0 to 9" in refusal("synnum", tmp_path)
