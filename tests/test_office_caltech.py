"""The laws of Office-Caltech: every layout that circulates gives the same pool, and what is missing is told."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from grcl.benchmarks import BENCHMARKS, office_caltech
from grcl.config import read_preset
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.split import Split, draw_split
from grcl.runtime.errors import Refusal
from miniature import OFFICE_CLASSES, write_classes, write_image

READING = Reading(size=8, workers=0)
SHARED = Path(__file__).parents[2] / "shared" / "data" / "office_caltech"
SIZES = {"amazon": 958, "caltech": 1123, "dslr": 157, "webcam": 295}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is learnt of these files is forgotten with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRCL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def plain(data: Path, seed: int, domain: str) -> None:
    write_classes(data / domain, list(OFFICE_CLASSES), seed=seed)


def with_images(data: Path, seed: int, domain: str) -> None:
    write_classes(data / domain / "images", list(OFFICE_CLASSES), seed=seed)


def capitals(data: Path, seed: int, domain: str) -> None:
    name = {"dslr": "DSLR", "caltech": "Caltech10"}.get(domain, domain.capitalize())
    write_classes(data / name, [title.replace("_", " ").title() for title in OFFICE_CLASSES], seed=seed)


def in_one_archive(data: Path, seed: int, domain: str) -> None:
    plain(data / "office_caltech_10", seed, domain)


def two_archives(data: Path, seed: int, domain: str) -> None:
    if domain == "caltech":
        write_classes(data / "256_ObjectCategories", list(OFFICE_CLASSES.values()), seed=seed)
    else:
        with_images(data / "office31", seed, domain)


def as_torchvision_keeps_it(data: Path, seed: int, domain: str) -> None:
    if domain == "caltech":
        write_classes(data / "caltech256" / "256_ObjectCategories", list(OFFICE_CLASSES.values()), seed=seed)
    else:
        with_images(data / "domain_adaptation_images", seed, domain)


def caltech_names(data: Path, seed: int, domain: str) -> None:
    names = [name.partition(".")[2] for name in OFFICE_CLASSES.values()]
    write_classes(data / domain, names, seed=seed)


LAYOUTS = (with_images, capitals, in_one_archive, two_archives, as_torchvision_keeps_it, caltech_names)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The images in the simplest layout."""
    data = tmp_path_factory.mktemp("plain")
    for seed, domain in enumerate(office_caltech.ORDER):
        plain(data, seed, domain)
    return {domain: pixels(office_caltech.pool(domain, data, READING)) for domain in office_caltech.ORDER}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pools(
    tmp_path: Path, expected: dict[str, torch.Tensor], layout: Callable[[Path, int, str], None]
) -> None:
    for seed, domain in enumerate(office_caltech.ORDER):
        layout(tmp_path, seed, domain)
    for domain in office_caltech.ORDER:
        found = office_caltech.pool(domain, tmp_path, READING)
        assert found.labels.tolist() == [label for label in range(10) for _ in range(3)]
        assert torch.equal(pixels(found), expected[domain])
        assert found.sides is None


def pixels(pool: Pool) -> torch.Tensor:
    return pool.images.read(torch.arange(len(pool.labels)))


def test_other_classes_and_other_files_are_left_out(tmp_path: Path) -> None:
    plain(tmp_path, 0, "amazon")
    write_classes(tmp_path / "amazon", ["desktop_computer", "bike_helmet", "010.beer-mug", "146.mountain-bike"])
    (tmp_path / "amazon" / "mouse" / "Thumbs.db").write_bytes(b"thumbs")
    (tmp_path / "amazon" / "mouse" / "._frame_0001.jpg").write_bytes(b"left by a Mac")
    (tmp_path / "amazon" / "mug.jpg").write_bytes(b"not a folder")
    root, files, missing = office_caltech.files("amazon", tmp_path)
    assert root == tmp_path / "amazon"
    assert files == sorted(files)
    assert len(files) == 30
    assert not missing


def test_all_suffixes_of_images_are_found(tmp_path: Path) -> None:
    plain(tmp_path, 0, "dslr")
    for name in ("a.JPG", "b.jpeg", "c.png", "d.bmp"):
        write_image(tmp_path / "dslr" / "bike" / name, 1)
    assert len(office_caltech.files("dslr", tmp_path).files) == 34


def test_missing_classes_are_named_in_one_sentence_with_the_layout(tmp_path: Path) -> None:
    write_classes(tmp_path / "webcam", list(OFFICE_CLASSES)[:8])
    (tmp_path / "webcam" / "mug").mkdir()
    with pytest.raises(Refusal) as refused:
        office_caltech.pool("webcam", tmp_path, READING)
    assert "webcam has no images of mug, projector" in str(refused.value)
    assert "DATA/webcam/<class>/*.jpg" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_domain_is_refused_with_the_layout(tmp_path: Path) -> None:
    plain(tmp_path, 0, "amazon")
    (tmp_path / "caltech").mkdir()
    for domain in ("dslr", "caltech"):
        with pytest.raises(Refusal, match=rf"no images of {domain} below .*DATA/{domain}/<class>.*041\.coffee-mug"):
            office_caltech.pool(domain, tmp_path, READING)


def test_a_class_in_two_folders_is_refused(tmp_path: Path) -> None:
    plain(tmp_path, 0, "caltech")
    write_classes(tmp_path / "caltech", ["041.coffee-mug"])
    with pytest.raises(Refusal, match=r"two folders of the class mug, 041\.coffee-mug and mug; keep one"):
        office_caltech.pool("caltech", tmp_path, READING)


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="--data"):
        office_caltech.pool("amazon", None, READING)
    with pytest.raises(Refusal, match=r"no folder at .*nowhere"):
        office_caltech.pool("amazon", tmp_path / "nowhere", READING)
    with pytest.raises(Refusal, match="no domain 'clipart'; there are: dslr, amazon"):
        office_caltech.pool("clipart", tmp_path, READING)


def test_the_preset_draws_a_hundred_and_leaves_the_rest() -> None:
    preset = read_preset("office_caltech")
    assert Split.model_validate(preset["split"]) == Split(train=100)
    assert preset["network"]["name"] == "resnet18"
    assert BENCHMARKS["office_caltech"].order() == ("dslr", "amazon", "webcam", "caltech")
    assert BENCHMARKS["office_caltech"].classes() == tuple(OFFICE_CLASSES) == tuple(sorted(OFFICE_CLASSES))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real Office-Caltech is not on this machine")
@pytest.mark.parametrize("domain", SIZES)
def test_no_real_image_is_on_both_sides(domain: str) -> None:
    root, files, _ = office_caltech.files(domain, SHARED)
    pool = office_caltech.pool(domain, SHARED, Reading(size=16, workers=0))
    assert len(files) == len(pool.labels) == SIZES[domain]
    train, test = draw_split(domain, pool, Split(train=100))
    assert (len(train), len(test)) == (100, SIZES[domain] - 100)
    assert pool.labels[train].bincount(minlength=10).min() >= 5
    content = [hashlib.sha256((root / path).read_bytes()).digest() for path, _ in files]
    assert not {content[place] for place in train} & {content[place] for place in test}
