"""The laws of the makers: what they write is read again, is a function of the seed, and never replaces a file."""

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from digit_files import make_digits, write_idx
from grcl.benchmarks import digits, mini
from grcl.benchmarks.generators import make_mnist_m as mnist_m_maker
from grcl.benchmarks.generators import system_fonts
from grcl.benchmarks.generators.make_mnist_m import make_mnist_m, read_photographs
from grcl.benchmarks.generators.make_synnum import make_synnum
from grcl.benchmarks.generators.system_fonts import find_system_fonts, keep_legible
from grcl.benchmarks.readers import read_npz
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.runtime.errors import Failure, Refusal

OWN = Path(str(resources.files("matplotlib") / "mpl-data" / "fonts" / "ttf"))


def load(name: str, folder: Path) -> Pool:
    return digits.pool(name, folder, Reading(size=32))


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    write_idx(tmp_path / "mnist", make_digits(28, 28))
    return tmp_path


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    return write_photographs(tmp_path / "photographs", [(40 + place, 60, 3) for place in range(5)])


def write_photographs(folder: Path, shapes: Sequence[tuple[int, ...]]) -> Path:
    for place, shape in enumerate(shapes):
        (folder / str(place % 2)).mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(place).integers(256, size=shape, dtype=np.uint8)
        Image.fromarray(noise).save(folder / str(place % 2) / f"{place}.png")
    return folder


def patch_of(blended: NDArray[np.uint8], digit: NDArray[np.uint8], photograph: NDArray[np.uint8]) -> bool:
    """Whether the blended image is the digit on some patch of the photograph."""
    windows = np.lib.stride_tricks.sliding_window_view(photograph, digit.shape, axis=(0, 1))
    differences = np.abs(windows.astype(int) - digit).transpose(0, 1, 3, 4, 2)
    return bool((differences == blended).all(axis=(2, 3, 4)).any())


def test_mnist_m_is_every_digit_on_a_patch_of_a_photograph(mnist: Path, photographs: Path, tmp_path: Path) -> None:
    path = make_mnist_m(mnist, photographs, tmp_path / "out")
    assert path == tmp_path / "out" / "mnist_m.npz"
    written, pictures = make_digits(28, 28), read_photographs(photographs, 28)
    for part, (plain, labels) in zip(read_npz(path), written.parts.values(), strict=True):
        assert part.labels.tolist() == labels.tolist()
        assert len(part.images) == len(plain)
        for blended, digit in zip(part.images, plain, strict=True):
            assert any(patch_of(blended, digit, picture) for picture in pictures)


def test_made_mnist_m_is_found_and_called_re_created(mnist: Path, photographs: Path) -> None:
    make_mnist_m(mnist, photographs, mnist)
    pool = load("mnist_m", mnist)
    assert pool.note == "re-created MNIST-M, not the original"
    assert torch.equal(pool.labels, load("mnist", mnist).labels)


def test_mnist_m_is_a_function_of_its_seed(mnist: Path, photographs: Path, tmp_path: Path) -> None:
    made = [make_mnist_m(mnist, photographs, tmp_path / str(k), seed).read_bytes() for k, seed in enumerate((3, 3, 4))]
    assert made[0] == made[1] != made[2]


def test_too_few_photographs_are_refused(mnist: Path, tmp_path: Path) -> None:
    for shapes in ([], [(40, 60, 3)] * 4, [(40, 60, 3)] * 4 + [(27, 60, 3)]):
        folder = write_photographs(tmp_path / f"{len(shapes)} photographs", shapes)
        with pytest.raises(Refusal, match=r"at least 5 photographs.*BSDS500"):
            make_mnist_m(mnist, folder, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_damaged_photograph_is_named(mnist: Path, photographs: Path, tmp_path: Path) -> None:
    (photographs / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(Refusal, match=r"broken\.jpg cannot be read"):
        make_mnist_m(mnist, photographs, tmp_path / "out")


def test_large_photographs_are_shrunk_and_many_are_thinned_out(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (962, 600)).save(photographs / "large.png")
    assert (300, 481, 3) in {photograph.shape for photograph in read_photographs(photographs, 28)}
    monkeypatch.setattr(mnist_m_maker, "MOST_PHOTOGRAPHS", 5)
    assert len(read_photographs(photographs, 28)) == 5


def test_mnist_m_without_mnist_says_what_is_missing(photographs: Path, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="mnist is not in"):
        make_mnist_m(tmp_path, photographs, tmp_path / "out")


def test_synnum_is_found_and_called_re_created(tmp_path: Path) -> None:
    path = make_synnum(tmp_path, train=40, test=20)
    assert path == tmp_path / "synnum_recreated.npz"
    pool = load("synnum", tmp_path)
    assert pool.note == "re-created SynNum, not the original"
    assert pool.sides is not None
    assert [pool.labels[side].bincount().tolist() for side in pool.sides] == [[4] * 10, [2] * 10]
    assert isinstance(pool.images, ImageArray)
    assert len({image.numpy().tobytes() for image in pool.images.pixels}) == 60


def test_synnum_is_a_function_of_its_seed(tmp_path: Path) -> None:
    made = [make_synnum(tmp_path / str(k), 10, 10, seed).read_bytes() for k, seed in enumerate((3, 3, 4))]
    assert made[0] == made[1] != made[2]


def test_a_digit_stays_the_same_whatever_the_other_part_holds(tmp_path: Path) -> None:
    few, many = (read_npz(make_synnum(tmp_path / str(count), count, 10))[1] for count in (10, 30))
    assert np.array_equal(few.images, many.images)


def test_too_few_fonts_are_refused(tmp_path: Path) -> None:
    symbols = [OWN / name for name in ("cmex10.ttf", "cmsy10.ttf", "STIXNonUni.ttf", "LastResortHE-Regular.ttf")]
    with pytest.raises(Refusal, match=r"at least 5 fonts .* found 4; install"):
        make_synnum(tmp_path, 10, 10, fonts=[*mini.find_fonts()[:4], *symbols])


@pytest.mark.parametrize("counts", [(0, 10), (10, 0), (-1, 10)])
def test_an_empty_part_is_refused(counts: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="at least one"):
        make_synnum(tmp_path, *counts)


def test_a_file_that_is_there_is_never_replaced(mnist: Path, photographs: Path, tmp_path: Path) -> None:
    for name in ("mnist_m.npz", "synnum_recreated.npz"):
        (tmp_path / name).write_text("precious")
    with pytest.raises(Refusal, match="exists already"):
        make_mnist_m(mnist, photographs, tmp_path)
    with pytest.raises(Refusal, match="exists already"):
        make_synnum(tmp_path, 10, 10)
    assert (tmp_path / "mnist_m.npz").read_text() == "precious"


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="cannot be made"):
        make_synnum(tmp_path / "file" / "folder", 10, 10)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(Failure, match="No space left on device"):
        make_synnum(tmp_path, 10, 10)
    assert list(tmp_path.iterdir()) == []


def test_fonts_of_digits_are_kept_and_those_of_symbols_left_out(tmp_path: Path) -> None:
    readable = {path.name for path in mini.find_fonts()} | {"cmmi10.ttf"}
    assert {path.name for path in keep_legible(sorted(OWN.glob("*.ttf")))} == readable
    (tmp_path / "broken.ttf").write_bytes(b"\x00\x01\x00\x00")
    assert keep_legible([tmp_path / "broken.ttf", tmp_path / "missing.ttf"]) == []


def test_system_fonts_come_once_each_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("DejaVuSans.ttf", "Zebra.TTF", "cmsy10.ttf"):
        source = OWN / ("cmr10.ttf" if name == "Zebra.TTF" else name)
        (tmp_path / "deep" / name).write_bytes(source.read_bytes())
    monkeypatch.setattr(system_fonts, "FOLDERS", (str(tmp_path), str(tmp_path / "nowhere")))
    fonts = find_system_fonts()
    names = [path.name for path in fonts]
    assert names == sorted(set(names))
    assert tmp_path / "deep" / "DejaVuSans.ttf" in fonts
    assert tmp_path / "deep" / "Zebra.TTF" in fonts
    assert {path.name for path in mini.find_fonts()} <= set(names)
    assert "cmsy10.ttf" not in names
