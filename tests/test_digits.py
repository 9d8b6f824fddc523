"""The laws of the benchmark digits: every public form of a domain gives the same images."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from digit_files import SHAPES, WRITERS, Digits, make_digits, write_form, write_idx, write_npz
from grcl.benchmarks import digits
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.split import Split, split_domain
from grcl.runtime.errors import Refusal

SHARED = Path(__file__).parents[2] / "shared" / "data" / "digits"


def load(name: str, folder: Path, size: int = 32) -> Pool:
    return digits.pool(name, folder, Reading(size=size))


def pixels(pool: Pool) -> torch.Tensor:
    assert isinstance(pool.images, ImageArray)
    return pool.images.pixels


def reference(written: Digits, size: int) -> torch.Tensor:
    """Every image resized on its own, in double precision."""
    resized = []
    for image in (*written.x_train, *written.x_test):
        colour = np.repeat(image[..., None], 3, axis=2) if image.ndim == 2 else image
        exact = torch.from_numpy(colour.transpose(2, 0, 1).astype(np.float64))[None]
        resized.append(torch.nn.functional.interpolate(exact, (size, size), mode="bilinear", antialias=True)[0])
    return torch.stack(resized)


@pytest.mark.parametrize("form", WRITERS)
def test_a_pool_holds_what_was_written(form: str, tmp_path: Path) -> None:
    domain, written = write_form(form, tmp_path)
    pool = load(domain, tmp_path)
    assert pixels(pool).shape == (30, 3, 32, 32)
    assert (pixels(pool) - reference(written, 32)).abs().max() <= 0.501  # half a level, and what floats lose
    assert pool.labels.tolist() == [*written.y_train, *written.y_test]
    assert pool.sides is not None
    assert [side.tolist() for side in pool.sides] == [list(range(20)), list(range(20, 30))]


@pytest.mark.parametrize("domain", digits.ORDER)
@pytest.mark.parametrize("size", [24, 32, 40])
def test_all_forms_of_a_domain_give_the_same_pool(domain: str, size: int, tmp_path: Path) -> None:
    pools = []
    for form in (form for form in WRITERS if WRITERS[form][0] == domain):
        folder = tmp_path / form
        folder.mkdir()
        write_form(form, folder)
        pools.append(load(domain, folder, size))
    assert len(pools) >= 3
    for pool in pools:
        assert torch.equal(pixels(pool), pixels(pools[0]))
        assert torch.equal(pool.labels, pools[0].labels)
        assert pool.fingerprint == pools[0].fingerprint


def test_the_fingerprint_changes_with_the_images_their_labels_their_parts_and_the_size(tmp_path: Path) -> None:
    def print_of(written: Digits, size: int = 32) -> str:
        write_npz("mnist.npz")(tmp_path, written)
        return load("mnist", tmp_path, size).fingerprint

    written = make_digits(28, 28)
    moved = Digits(written.x_train[:-1], written.y_train[:-1], written.x_train[-1:], written.y_train[-1:])
    whole = Digits(written.x_train[:-2], written.y_train[:-2], written.x_train[-2:], written.y_train[-2:])
    prints = [
        print_of(written),
        print_of(make_digits(28, 28, seed=1)),
        print_of(written._replace(y_test=written.y_test[::-1].copy())),
        print_of(written, size=28),
        print_of(moved),
        print_of(whole),
    ]
    assert len(set(prints)) == len(prints)
    assert print_of(written) == prints[0]


def test_chunks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain, _ = write_form("MNIST-M list", tmp_path)
    whole = load(domain, tmp_path)
    monkeypatch.setattr(digits, "CHUNK", 7)
    assert torch.equal(pixels(load(domain, tmp_path)), pixels(whole))


def test_grey_images_have_three_equal_channels(tmp_path: Path) -> None:
    write_form("MNIST idx", tmp_path)
    images = pixels(load("mnist", tmp_path))
    assert torch.equal(images, images[:, :1].expand(-1, 3, -1, -1))


def test_images_of_several_sizes_are_resized_one_by_one(tmp_path: Path) -> None:
    write_form("SynNum folders", tmp_path)
    plain = pixels(load("synnum", tmp_path))
    first = tmp_path / "synthetic_digits" / "imgs_train" / "0" / "000.png"
    large = np.random.default_rng(0).integers(256, size=(50, 41, 3), dtype=np.uint8)
    Image.fromarray(large).save(first)
    mixed = load("synnum", tmp_path)
    exact = torch.from_numpy(large.transpose(2, 0, 1).astype(np.float64))[None]
    expected = torch.nn.functional.interpolate(exact, (32, 32), mode="bilinear", antialias=True)[0]
    assert (pixels(mixed)[0] - expected).abs().max() <= 0.501
    assert torch.equal(pixels(mixed)[1:], plain[1:])


@pytest.mark.parametrize(
    ("preferred", "other"),
    [
        ("SynNum .mat", "SynNum .pt"),
        ("SynNum .npz", "SynNum re-created"),
        ("SynNum re-created", "SynNum folders"),
        ("MNIST idx.gz", "MNIST .npz"),
        ("MNIST-M list", "MNIST-M .npz"),
        ("USPS libsvm", "USPS .h5"),
        ("SVHN .mat", "SVHN .npz"),
    ],
)
def test_forms_have_an_order_of_preference(preferred: str, other: str, tmp_path: Path) -> None:
    domain, _ = write_form(preferred, tmp_path, seed=1)
    alone = load(domain, tmp_path).fingerprint
    write_form(other, tmp_path, seed=2)
    assert load(domain, tmp_path).fingerprint == alone


def test_what_is_not_the_original_synnum_is_called_so(tmp_path: Path) -> None:
    notes = {}
    for form in (form for form in WRITERS if WRITERS[form][0] == "synnum"):
        (tmp_path / form).mkdir()
        write_form(form, tmp_path / form)
        notes[form] = load("synnum", tmp_path / form).note
    assert notes.pop("SynNum re-created") == "re-created SynNum, not the original"
    assert notes.pop("SynNum folders").endswith("not the original SynNum")
    assert set(notes.values()) == {""}


def test_without_a_folder_the_remedy_is_named() -> None:
    with pytest.raises(Refusal, match=r"--data FOLDER.*grcl data get digits.*grcl data make mnist_m"):
        digits.pool("mnist", None, Reading(size=32))


@pytest.mark.parametrize("domain", digits.ORDER)
def test_a_missing_domain_is_named_with_its_folder_and_its_forms(domain: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        load(domain, tmp_path)
    message = str(refused.value)
    assert domain in message
    assert str(tmp_path) in message
    layout = digits.LAYOUT.split(f"{domain}\n", 1)[1]
    forms = [line.strip() for line in layout.split("\n") if line.startswith("    ")][: len(digits.FORMS[domain])]
    assert all(form in message for form in forms)
    assert (f"grcl data make {domain}" in message) == (domain in ("mnist_m", "synnum"))


def test_a_half_of_a_form_is_pointed_out(tmp_path: Path) -> None:
    write_form("USPS libsvm", tmp_path)
    (tmp_path / "usps.t.bz2").unlink()
    with pytest.raises(Refusal, match=r"there is only .*usps\.bz2"):
        load("usps", tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="is no folder"):
        load("mnist", tmp_path / "nowhere")


def test_gzipped_and_plain_files_may_be_mixed(tmp_path: Path) -> None:
    write_form("MNIST idx", tmp_path)
    alone = load("mnist", tmp_path)
    write_idx(tmp_path / "other", make_digits(28, 28), ".gz")  # plain bytes under a packed name
    (tmp_path / "train-images-idx3-ubyte").unlink()
    (tmp_path / "other" / "train-images-idx3-ubyte.gz").rename(tmp_path / "train-images-idx3-ubyte.gz")
    assert load("mnist", tmp_path).fingerprint == alone.fingerprint


def test_a_missing_h5py_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_form("USPS .h5", tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(Refusal, match="pip install h5py"):
        load("usps", tmp_path)


def test_the_layout_names_every_domain_and_file() -> None:
    for name in digits.ORDER:
        assert f"{name}\n" in digits.LAYOUT
        assert all(file in digits.LAYOUT for form in digits.FORMS[name] for file in form.files)
    assert set(SHAPES) == set(digits.ORDER)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared digits are not beside this checkout")
@pytest.mark.parametrize("name", digits.ORDER)
def test_the_real_digits_have_their_sizes(name: str) -> None:
    pool = load(name, SHARED)
    domain = split_domain(name, pool, Split(train=7500, test=1500))
    train = 7291 if name == "usps" else 7500
    assert (len(domain.train), len(domain.test)) == (train, 1500)
    assert pixels(pool).shape == (train + 1500, 3, 32, 32)
    assert pool.labels.unique().tolist() == list(range(10))
    notes = {
        "synnum": "re-created SynNum, not the original",
        "usps": "7,291 of the 7,500 training images asked for",
    }
    assert domain.note == notes.get(name, "")
