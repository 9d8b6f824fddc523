"""Folders as people have them: odd files are read or passed over with a word, and none of them stops the rest."""

import logging
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from grcl import Learner
from grcl.data.reading import Reading
from grcl.learner.inputs import Data, first_look, read_labelled, read_unlabelled
from grcl.runtime.errors import Refusal

READING = Reading(size=16, workers=0, unreadable="skip")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    return tmp_path / "images"


def colour(path: Path, value: tuple[int, int, int] = (200, 100, 50)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (32, 32), value).save(path)
    return path


def corner(data: Data, file: str) -> list[int]:
    """The first pixel of an image."""
    pixels: list[int] = data.images.read(torch.tensor([data.files.index(file)]))[0, :, 0, 0].tolist()
    return pixels


def test_classes_come_in_the_order_asked_for_from_a_folder_as_from_arrays(folder: Path) -> None:
    for name in "abc":
        colour(folder / name / "one.png")
    assert read_labelled(folder, READING).classes == ("a", "b", "c")
    asked = read_labelled(folder, READING, classes=("c", "x", "a"))
    assert asked.classes == ("c", "a", "b")
    assert asked.labels is not None
    assert [asked.classes[place] for place in asked.labels] == [Path(file).parts[0] for file in asked.files]
    pixels = torch.zeros(3, 3, 16, 16, dtype=torch.uint8)
    assert read_labelled(pixels, READING, labels=["a", "b", "c"], classes=("c", "x", "a")).classes == asked.classes


def test_every_kind_of_image_is_read(folder: Path) -> None:
    plain = Image.new("RGB", (32, 32), (200, 100, 50))
    plain.convert("L").save(folder / "grey.png")
    plain.quantize(4).save(folder / "palette.gif")
    plain.convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray(np.full((32, 32), 200 << 8, np.uint16)).save(folder / "deep.png")
    Image.new("RGBA", (32, 32), (0, 0, 0, 0)).save(folder / "clear.png")
    tall = Image.new("RGB", (32, 32), (0, 0, 255))
    tall.paste((255, 0, 0), (0, 0, 32, 16))
    exif = Image.Exif()
    exif[0x0112] = 3  # the camera was held upside down
    tall.save(folder / "turned.PNG", exif=exif)
    plain.save(folder / "moving.gif", save_all=True, append_images=[Image.new("RGB", (32, 32))])
    data = read_unlabelled(folder, READING)
    assert len(data) == 7
    assert corner(data, "grey.png") == [corner(data, "grey.png")[0]] * 3
    assert corner(data, "palette.gif") == corner(data, "moving.gif") == [200, 100, 50]
    assert np.allclose(corner(data, "cmyk.jpg"), [200, 100, 50], atol=3)
    assert corner(data, "deep.png") == [200, 200, 200]
    assert corner(data, "clear.png") == [255, 255, 255]
    assert corner(data, "turned.PNG") == [0, 0, 255]


def test_what_cannot_be_read_is_left_out_and_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = colour(folder / "whole.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[:60])
    (folder / "empty.jpg").touch()
    (folder / "letter.jpg").write_text("Dear reader")
    (folder / "notes.txt").write_text("not an image, and not called one")
    with caplog.at_level(logging.WARNING):
        data = read_unlabelled(folder, READING)
    assert data.files == ("whole.png",)
    assert "3 unreadable images" in caplog.text
    assert all(name in caplog.text for name in ("cut.png", "empty.jpg", "letter.jpg"))
    assert "notes.txt" not in caplog.text
    assert data.note == "1 file of other kinds passed over; 3 unreadable images left out"
    with pytest.raises(Refusal, match=r"images\.unreadable = skip"):
        read_unlabelled(folder, READING.model_copy(update={"unreadable": "refuse"}))


def test_hidden_names_are_passed_over_and_odd_ones_are_not(folder: Path) -> None:
    for name in ("été ☃.png", "名前/深い/x.png", "a" * 250 + ".png", ".hidden.png", ".thumbnails/x.png", "sp ace.JPG"):
        colour(folder / name)
    assert sorted(read_unlabelled(folder, READING).files) == sorted(
        ["été ☃.png", "名前/深い/x.png", "a" * 250 + ".png", "sp ace.JPG"]
    )


def test_links_are_followed_but_not_in_circles(folder: Path, tmp_path: Path) -> None:
    colour(folder / "a.png")
    (folder / "b.png").symlink_to(colour(tmp_path / "elsewhere" / "image.png", (1, 2, 3)))
    (folder / "more").symlink_to(tmp_path / "elsewhere")
    (folder / "round").symlink_to(folder)
    (tmp_path / "elsewhere" / "back").symlink_to(folder)
    (folder / "itself").symlink_to(folder / "itself")
    (folder / "nowhere.png").symlink_to(tmp_path / "gone.png")
    data = read_unlabelled(folder, READING)
    assert data.files == ("a.png", "b.png", "more/image.png")
    assert corner(data, "b.png") == [1, 2, 3]


def test_an_empty_folder_and_a_missing_one_are_refused(folder: Path) -> None:
    with pytest.raises(Refusal, match="no image in"):
        read_unlabelled(folder, READING)
    with pytest.raises(Refusal, match="there is no folder"):
        read_unlabelled(folder / "missing", READING)
    with pytest.raises(Refusal, match="no class folders"):
        read_labelled(folder, READING)
    (folder / "cat").mkdir()
    with pytest.raises(Refusal, match="no image in the class folders"):
        read_labelled(folder, READING)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((np.zeros((0, 8, 8), np.uint8), []), "the array holds no images"),
        ([], "the dataset holds no images"),
        ((), "the dataset holds no images"),
        (5, "int is not understood"),
        (None, "NoneType is not understood"),
        ((np.zeros((2, 8, 8), np.uint8), [[0], [1]]), "labels of shape (2, 1) are not understood"),
        ((np.zeros((2, 8, 8), np.uint8), 1), "labels of shape () are not understood"),
    ],
)
def test_what_holds_no_labelled_images_is_refused(given: Any, sentence: str) -> None:
    with pytest.raises(Refusal, match=re.escape(sentence)):
        Learner().fit(*given) if isinstance(given, tuple) and given else Learner().fit(given)


def test_an_empty_class_is_left_out_with_a_word(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    colour(folder / "dog" / "old" / "a.png")
    colour(folder / "cat" / "b.png")
    colour(folder / "loose.png")
    (folder / "bird").mkdir()
    (folder / "fish").mkdir()
    (folder / "fish" / "broken.png").write_bytes(b"no")
    with caplog.at_level(logging.WARNING):
        data = read_labelled(folder, READING)
    assert data.classes == ("cat", "dog")
    assert data.labels is not None
    assert list(zip(data.files, data.labels.tolist(), strict=True)) == [("cat/b.png", 0), ("dog/old/a.png", 1)]
    assert all(word in caplog.text for word in ("bird", "loose.png", "fish/broken.png"))


def test_an_accent_is_one_class_however_it_is_spelled(folder: Path) -> None:
    colour(folder / "caf\u00e9" / "a.png")
    colour(folder / "cafe\u0301" / "b.png")
    colour(folder / "bar" / "c.png")
    assert read_labelled(folder, READING).classes == ("bar", "caf\u00e9")


def test_bytes_that_are_no_unicode_are_written_out_in_names(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"images \xff")
    for name in (b"caf\xe9", b"bar"):
        colour(folder / os.fsdecode(name) / os.fsdecode(b"\xff.png"))
    data = read_labelled(folder, READING)
    assert data.name == "images \\udcff"
    assert data.classes == ("bar", "caf\\udce9")
    assert data.facts.model_dump_json()
    assert data.place == folder
    assert corner(data, "bar/" + os.fsdecode(b"\xff.png")) == [200, 100, 50]


def test_files_are_taken_as_they_are_named(folder: Path, tmp_path: Path) -> None:
    first, second = colour(folder / "a.png"), colour(tmp_path / "other" / "b.dat.png")
    unnamed = first.rename(folder / "a")
    data = read_unlabelled([unnamed, second], READING)
    assert data.files == ("images/a", "other/b.dat.png")
    assert read_unlabelled(unnamed, READING).files == ("a",)
    with pytest.raises(Refusal, match="no file or folder"):
        read_unlabelled([folder / "missing.png"], READING)


def test_a_fingerprint_goes_with_the_folder_and_with_every_byte(folder: Path) -> None:
    colour(folder / "a.png")
    before = read_unlabelled(folder, READING)
    moved = folder.rename(folder.with_name("moved"))
    assert read_unlabelled(moved, READING).fingerprint == before.fingerprint
    colour(moved / "a.png", (0, 0, 0))
    os.utime(moved / "a.png", ns=(1, 1))
    assert read_unlabelled(moved, READING).fingerprint != before.fingerprint


def test_the_first_look_tells_a_usual_side(folder: Path) -> None:
    for place, size in enumerate([(20, 40), (30, 30), (200, 100)]):
        (folder / "cat").mkdir(exist_ok=True)
        Image.new("RGB", size).save(folder / "cat" / f"{place}.png")
    (folder / "cat" / "damaged.png").touch()
    assert first_look(folder) == (4, 25)
