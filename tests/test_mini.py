"""The laws of the embedded benchmark, its renderers and its cache."""

import itertools
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from grcl.benchmarks import BENCHMARKS, cache, mini
from grcl.benchmarks.generators import blend_mnist_m, cut_patch, render_house_number, render_synnum
from grcl.benchmarks.generators.glyphs import Writing
from grcl.data.images import ImageArray
from grcl.data.reading import Reading
from grcl.data.split import Split
from grcl.data.stream import Domain, Labelled
from grcl.runtime.recipe import recipe

ROOT = Path(__file__).parents[1]
TRAIN_SIZES = {"synnum": 2000, "mnist": 2000, "mnist_m": 2000, "digits8": 1297, "house_numbers": 2000}
RENDERERS = (render_synnum, render_house_number)

# Says that it found no cache and waits to be told to go on, so that both processes make the data and both write it.
WORKER = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "urllib.Request"):
        raise RuntimeError(f"network: {event} {arguments}")

def make_when_told(make):
    print("missing", flush=True)
    sys.stdin.readline()
    return make()

sys.addaudithook(refuse)
from functools import partial
from grcl.benchmarks import mini
mini.make = partial(make_when_told, mini.make)
from grcl.data.reading import Reading
print(*(mini.pool(name, None, Reading(size=32)).fingerprint for name in mini.ORDER))
"""


@dataclass(frozen=True)
class Made:
    """A cache folder that two processes filled at once, and the fingerprints that each of them saw."""

    folder: Path
    fingerprints: list[list[str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("cache")
    environment = {**os.environ, "GRCL_CACHE": str(folder), "OMP_NUM_THREADS": "1"}
    command, pipe = [sys.executable, "-W", "error", "-c", WORKER], subprocess.PIPE
    workers = [
        subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(2)
    ]
    heard = [worker.stdout.readline() for worker in workers if worker.stdout]
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda worker: worker.communicate("\n", timeout=120), workers))
    for worker, (_, complaints) in zip(workers, answers, strict=True):
        assert worker.returncode == 0, complaints
    assert heard == ["missing\n", "missing\n"]
    return Made(folder, [printed.split() for printed, _ in answers])


@pytest.fixture(scope="module")
def domains(made: Made) -> dict[str, Domain]:
    """The domains out of the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRCL_CACHE", str(made.folder))
        patch.setattr(mini, "make", lambda: pytest.fail("the cache was not used"))
        return load_all()


def load_all() -> dict[str, Domain]:
    return {name: BENCHMARKS["mini"].domain(name, None, Reading(size=32), Split()) for name in mini.ORDER}


def pixels(part: Labelled) -> torch.Tensor:
    assert isinstance(part.images, ImageArray)
    return part.images.pixels


def distinct(images: torch.Tensor | NDArray[np.uint8]) -> set[bytes]:
    return {np.asarray(image).tobytes() for image in images}


def fingerprints(domains: dict[str, Domain]) -> list[str]:
    """Without that of the split, which takes everything."""
    return [domain.fingerprint.partition("-")[0] for domain in domains.values()]


def test_domains_come_in_their_order(domains: dict[str, Domain]) -> None:
    assert tuple(domains) == mini.ORDER == tuple(domain.name for domain in domains.values())
    assert len(set(fingerprints(domains))) == len(mini.ORDER)


@pytest.mark.parametrize("name", mini.ORDER)
def test_shapes_types_and_sizes(domains: dict[str, Domain], name: str) -> None:
    for part, size in ((domains[name].train, TRAIN_SIZES[name]), (domains[name].test, 500)):
        assert pixels(part).shape == (size, 3, 32, 32)
        assert pixels(part).dtype == torch.uint8
        assert part.labels.shape == (size,)
        assert part.labels.dtype == torch.int64


@pytest.mark.parametrize("name", mini.ORDER)
def test_classes_are_balanced_and_shuffled(domains: dict[str, Domain], name: str) -> None:
    train, test = domains[name].train.labels, domains[name].test.labels
    assert test.bincount().tolist() == [50] * 10
    counts = train.bincount()
    assert len(counts) == 10
    assert counts.max() <= 1.1 * counts.min()
    assert set(train[:100].tolist()) == set(range(10))


@pytest.mark.parametrize("name", mini.ORDER)
def test_no_image_is_seen_twice(domains: dict[str, Domain], name: str) -> None:
    images = torch.cat([pixels(domains[name].train), pixels(domains[name].test)])
    assert len(distinct(images)) == len(images)


def test_mnist_and_mnist_m_come_from_different_digits(domains: dict[str, Domain]) -> None:
    (plain, _), (blended, _) = mini.split_mnist(*mini.read_mnist())
    assert len(plain) == len(blended) == 2500
    assert not distinct(plain) & distinct(blended)
    used = torch.cat([pixels(domains["mnist"].train), pixels(domains["mnist"].test)])
    assert distinct(used[:, 0]) == distinct(plain)


def test_grey_domains_are_grey_and_the_others_are_not(domains: dict[str, Domain]) -> None:
    spread = {name: pixels(domain.test).float().std(dim=1).mean() for name, domain in domains.items()}
    assert {name for name in mini.ORDER if spread[name] == 0} == {"mnist", "digits8"}


@pytest.mark.parametrize("name", ["mnist", "digits8"])
def test_the_nearest_handwritten_digit_has_the_same_label(domains: dict[str, Domain], name: str) -> None:
    train, test = domains[name].train, domains[name].test
    distances = torch.cdist(pixels(test)[:, 0].flatten(1).float(), pixels(train)[:, 0].flatten(1).float())
    assert (train.labels[distances.argmin(dim=1)] == test.labels).float().mean() > 0.85


def test_every_image_keeps_its_label() -> None:
    def paint(rng: np.random.Generator, digit: int, fonts: Sequence[Path], size: int) -> NDArray[np.uint8]:
        return np.full((size, size, 3), 20 * digit, dtype=np.uint8)

    images, labels = mini.render(np.random.default_rng(0), paint)
    arrays = mini.split(np.random.default_rng(0), "painted", images, labels)
    for part in ("train", "test"):
        assert np.array_equal(arrays[f"painted/{part}/images"][:, 2, 5, 7], 20 * arrays[f"painted/{part}/labels"])


@given(seed=st.integers(0, 2**31 - 1))
def test_blend_is_the_absolute_difference_in_each_channel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    digit = rng.integers(256, size=(4, 5), dtype=np.uint8)
    patch = rng.integers(256, size=(4, 5, 3), dtype=np.uint8)
    blended = blend_mnist_m(digit, patch)
    assert blended.dtype == np.uint8
    for row, column, channel in np.ndindex(4, 5, 3):
        expected = abs(int(patch[row, column, channel]) - int(digit[row, column]))
        assert blended[row, column, channel] == expected


def test_mnist_m_is_its_digit_on_a_black_photograph_and_inverted_on_a_white_one() -> None:
    digits = mini.read_mnist()[0][:20]
    black, white = np.zeros((40, 50, 3), np.uint8), np.full((40, 50, 3), 255, np.uint8)
    rng = np.random.default_rng(0)
    assert np.array_equal(mini.blend(rng, digits, [black]), mini.as_colour(digits))
    assert np.array_equal(mini.blend(rng, digits, [white]), 255 - mini.as_colour(digits))


def test_patches_reach_all_edges_of_a_photograph() -> None:
    height, width = 34, 33
    place = np.arange(height * width).reshape(height, width)
    photograph = np.stack([place // 256, place % 256, 0 * place], axis=-1).astype(np.uint8)
    rng = np.random.default_rng(0)
    corners = {tuple(cut_patch(rng, [photograph], 32)[0, 0, :2].tolist()) for _ in range(200)}
    assert len(corners) == 3 * 2


@pytest.mark.parametrize("renderer", RENDERERS)
def test_renderers_are_functions_of_their_generator(renderer: mini.Renderer) -> None:
    fonts = mini.find_fonts()
    image = renderer(np.random.default_rng(3), 7, fonts, 40)
    assert image.shape == (40, 40, 3)
    assert image.dtype == np.uint8
    assert np.array_equal(image, renderer(np.random.default_rng(3), 7, fonts, 40))
    assert not np.array_equal(image, renderer(np.random.default_rng(4), 7, fonts, 40))
    assert not np.array_equal(image, renderer(np.random.default_rng(3), 1, fonts, 40))


@pytest.mark.parametrize("font", mini.find_fonts(), ids=lambda path: path.stem)
def test_fonts_have_ten_different_digits_in_the_middle(font: Path) -> None:
    writing = Writing("0", "", "", font, height=0.7, gap=0.0, angle=0.0, slant=0.0, shift=(0.0, 0.0))
    masks = [np.asarray(replace(writing, digit=digit).mask(32)) for digit in mini.CLASSES]
    for mask in masks:
        rows, columns = np.nonzero(mask > 64)
        assert 10 < rows.max() - rows.min() < 28
        assert abs(rows.max() + rows.min() - 31) <= 2
        assert abs(columns.max() + columns.min() - 31) <= 2
    assert min(np.abs(a.astype(int) - b).sum() for a, b in itertools.combinations(masks, 2)) > 255


def test_neighbours_stand_at_their_sides() -> None:
    font = mini.find_fonts()[0]
    alone = Writing("1", "", "", font, height=0.7, gap=0.1, angle=0.0, slant=0.0, shift=(0.0, 0.0))
    left = np.asarray(replace(alone, left="8").mask(32)).astype(int) - np.asarray(alone.mask(32))
    right = np.asarray(replace(alone, right="8").mask(32)).astype(int) - np.asarray(alone.mask(32))
    assert left[:, :10].sum() > 0
    assert (left[:, 10:] == 0).all()
    assert right[:, -10:].sum() > 0
    assert (right[:, :-10] == 0).all()


def test_a_positive_angle_turns_to_the_left_about_the_middle() -> None:
    upright = Writing("1", "", "", mini.find_fonts()[0], height=1.0, gap=0.0, angle=0.0, slant=0.0, shift=(0.0, 0.0))
    mask = np.asarray(upright.mask(32)).astype(float)
    turned = np.asarray(replace(upright, angle=np.pi / 2).mask(32)).astype(float)
    assert np.abs(np.rot90(mask) - turned).mean() < 0.1 * mask.mean()


def test_processes_that_start_at_once_make_the_same_data_without_a_network(made: Made) -> None:
    assert len(made.fingerprints[0]) == len(mini.ORDER)
    assert made.fingerprints[0] == made.fingerprints[1]
    assert [path.name for path in made.folder.iterdir()] == [f"mini-{mini.version()}.npz"]


def test_cached_domains_equal_the_made_ones(made: Made, domains: dict[str, Domain]) -> None:
    for domain, fingerprint in zip(domains.values(), made.fingerprints[0], strict=True):
        tensors = (pixels(domain.train), domain.train.labels, pixels(domain.test), domain.test.labels)
        assert cache.fingerprint(*(tensor.numpy() for tensor in tensors)) == fingerprint == domain.split["pool"]


def test_the_version_changes_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {mini.version()}
    for package in mini.MAKERS:
        with monkeypatch.context() as patch:
            patch.setattr(metadata, "version", lambda name, changed=package: f"0.{name == changed}")
            versions.add(mini.version())
    assert len(versions) == 1 + len(mini.MAKERS)


def test_the_version_changes_with_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without anyone raising a number: a cache that outlives its recipe would be read in place of the new images."""
    folder = Path(mini.__file__).parent
    files = [folder / "mini.py", *sorted((folder / "generators").glob("*.py"))]
    assert recipe(*files) == mini.RECIPE
    copy = shutil.copytree(folder, tmp_path / "benchmarks")
    copies = [copy / path.relative_to(folder) for path in files]
    found = [recipe(*copies)]
    for path in copies:
        path.write_text(path.read_text() + "#")
        found.append(recipe(*copies))
    assert found[0] == mini.RECIPE
    assert len(set(found)) == len(found)
    before = mini.version()
    monkeypatch.setattr(mini, "RECIPE", found[1])
    assert mini.version() != before


def test_kept_results_are_of_the_images_that_mini_makes(domains: dict[str, Domain]) -> None:
    """Else the numbers in the documents were measured on what no one else can have."""
    kept = [json.loads(path.read_text()) for path in sorted((ROOT / "results" / "mini").rglob("seed-*.json"))]
    assert kept
    packages = {package: metadata.version(package) for package in mini.MAKERS}
    if any(record["environment"]["packages"][name] != packages[name] for record in kept for name in packages):
        pytest.skip("kept results of mini were made with other releases of the packages that its images come from")
    for record in kept:
        for name, facts in record["data"].items():
            assert facts["fingerprint"] == domains[name].fingerprint, name


def small_arrays() -> cache.Arrays:
    return {"a/b": np.arange(5000, dtype=np.int64), "c": np.ones((3, 4), np.uint8)}


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def with_a_flipped_bit(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def emptied(content: bytes) -> bytes:
    return b""


def replaced_by_a_single_array(content: bytes) -> bytes:
    return b"\x93NUMPY" + content


@pytest.mark.parametrize("damage", [truncated, with_a_flipped_bit, emptied, replaced_by_a_single_array])
def test_a_damaged_file_is_made_anew_with_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[bytes], bytes],
) -> None:
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path))
    cache.load_or_make(cache.cache_folder() / "small.npz", small_arrays)
    path = tmp_path / "small.npz"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    with caplog.at_level(logging.WARNING):
        again = cache.load_or_make(cache.cache_folder() / "small.npz", small_arrays)
    assert "small.npz" in caplog.text
    assert np.array_equal(again["a/b"], small_arrays()["a/b"])
    mended = cache.read(path)
    assert mended is not None
    assert np.array_equal(mended["a/b"], small_arrays()["a/b"])


def test_a_file_is_whole_at_every_moment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "small.npz"
    cache.keep(path, small_arrays())

    def keep_and_read(_: int) -> bool:
        cache.keep(path, small_arrays())
        return cache.read(path) is not None

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(keep_and_read, range(80)))
    assert not caplog.records
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("GRCL_CACHE", str(file / "folder"))
    assert set(cache.load_or_make(cache.cache_folder() / "small.npz", small_arrays)) == {"a/b", "c"}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "small.npz"
    cache.keep(path, small_arrays())
    before = path.read_bytes()

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    cache.keep(path, {"other": np.zeros(3)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "chosen"))
    assert cache.cache_folder() == tmp_path / "chosen"
    monkeypatch.delenv("GRCL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_folder() == tmp_path / "xdg" / "grcl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.cache_folder() == tmp_path / ".cache" / "grcl"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.cache_folder() == tmp_path / "Library" / "Caches" / "grcl"


def test_fingerprint_sees_types_shapes_bytes_and_order() -> None:
    a, b = np.arange(6, dtype=np.int64), np.zeros(2, np.uint8)
    seen: list[tuple[NDArray[Any], ...]] = [
        (a, b),
        (b, a),
        (a,),
        (a.reshape(2, 3),),
        (a.view(np.uint64),),
        (a[::-1],),
        (a.reshape(2, 3).T,),
    ]
    assert len({cache.fingerprint(*arrays) for arrays in seen}) == len(seen)
    assert cache.fingerprint(a, b) == cache.fingerprint(a.copy(), b.copy())
    assert len(cache.fingerprint(a)) == 16


def test_a_missing_file_of_a_package_names_the_package() -> None:
    with pytest.raises(FileNotFoundError, match="reinstall the package matplotlib"):
        mini.package_file("matplotlib", "no-such-file")


def test_the_table_of_benchmarks_leads_to_mini(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRCL_CACHE", str(made.folder))
    benchmark = BENCHMARKS["mini"]
    assert benchmark.classes() == tuple("0123456789")
    assert benchmark.order() == mini.ORDER
    assert fingerprints(load_all()) == made.fingerprints[0]


def test_listing_benchmarks_imports_nothing_heavy() -> None:
    check = "import sys, grcl.benchmarks; print({'torch', 'numpy', 'PIL', 'sklearn'} & set(sys.modules))"
    listed = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert listed.stdout == "set()\n"
