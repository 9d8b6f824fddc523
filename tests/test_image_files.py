"""Image files of every kind become the right pixels, bad ones are found before a run, and packing changes nothing."""

import hashlib
import io
import logging
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections import namedtuple
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import PIL
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from grcl.data import decoding
from grcl.data.catalogue import Entry, catalogue
from grcl.data.decoding import MOST_PIXELS, Undecodable, decode, fit
from grcl.data.file_pool import pool_of_files
from grcl.data.image_files import ImageFiles
from grcl.data.images import Images
from grcl.data.packed import PackedImages, packed
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.split import Split, split_domain
from grcl.runtime.errors import Refusal

Colours = NDArray[np.uint8]

RED, GREEN, BLUE, WHITE = (200, 10, 20), (30, 180, 40), (50, 60, 220), (255, 255, 255)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def quarters(*colours: Sequence[int], side: int = 16) -> Colours:
    """Four colours: top left, top right, bottom left, bottom right."""
    corners = np.array(colours, np.uint8).reshape(2, 2, -1)
    return corners.repeat(side // 2, axis=0).repeat(side // 2, axis=1)


FOUR = quarters(RED, GREEN, BLUE, (90, 90, 90))


def stored(image: Image.Image, kind: str, **options: object) -> io.BytesIO:
    file = io.BytesIO()
    image.save(file, kind, **options)
    file.seek(0)
    return file


def decoded(file: io.BytesIO) -> Colours:
    return np.asarray(decode(file))


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF"])
def test_colours_are_kept(kind: str) -> None:
    assert np.array_equal(decoded(stored(Image.fromarray(FOUR), kind)), FOUR)


@pytest.mark.parametrize(
    ("kind", "options"), [("JPEG", {"quality": 100, "subsampling": 0}), ("WEBP", {"quality": 100})]
)
def test_lossy_kinds_come_close(kind: str, options: dict[str, object]) -> None:
    even = np.full((16, 16, 3), RED, np.uint8)
    assert np.abs(decoded(stored(Image.fromarray(even), kind, **options)).astype(int) - even).max() <= 3


def test_grey_and_two_colours_get_three_channels() -> None:
    grey = quarters([0], [80], [160], [255])[..., 0]
    three = np.repeat(grey[..., None], 3, axis=2)
    assert np.array_equal(decoded(stored(Image.fromarray(grey), "PNG")), three)
    bits = Image.fromarray(grey).point(lambda value: 255 * (value > 100), "1")
    assert np.array_equal(decoded(stored(bits, "PNG")), 255 * (three > 100).astype(np.uint8))


def test_a_palette_is_looked_up_and_its_transparent_colour_is_white() -> None:
    image = Image.fromarray(FOUR).quantize(4)
    assert np.array_equal(decoded(stored(image, "PNG")), FOUR)
    index = image.getpixel((0, 0))
    clear = decoded(stored(image, "PNG", transparency=index))
    assert np.array_equal(clear, quarters(WHITE, GREEN, BLUE, (90, 90, 90)))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_transparent_pixels_lie_on_white(kind: str) -> None:
    image = Image.fromarray(quarters((*RED, 255), (*GREEN, 0), (0, 0, 0, 51), (*BLUE, 255)))
    expected = quarters(RED, WHITE, (204, 204, 204), BLUE)
    assert np.array_equal(decoded(stored(image, kind)), expected)


def test_transparent_grey_lies_on_white() -> None:
    image = Image.fromarray(quarters((10, 255), (10, 0), (0, 51), (70, 255)), "LA")
    grey = quarters([10], [255], [204], [70])
    assert np.array_equal(decoded(stored(image, "PNG")), grey.repeat(3, axis=2))


def test_a_colour_named_transparent_is_white() -> None:
    clear = decoded(stored(Image.fromarray(FOUR), "PNG", transparency=RED))
    assert np.array_equal(clear, quarters(WHITE, GREEN, BLUE, (90, 90, 90)))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bits_are_scaled_and_not_clipped(kind: str) -> None:
    deep = np.array([[0, 0x0FFF], [0x8000, 0xFFFF]], np.uint16).repeat(8, axis=0).repeat(8, axis=1)
    expected = quarters([0], [0x0F], [0x80], [0xFF]).repeat(3, axis=2)
    assert np.array_equal(decoded(stored(Image.fromarray(deep), kind)), expected)


def test_inks_become_lights() -> None:
    inks = Image.fromarray(FOUR).convert("CMYK")
    assert np.array_equal(decoded(stored(inks, "TIFF")), FOUR)
    even = Image.new("RGB", (16, 16), RED).convert("CMYK")
    assert np.abs(decoded(stored(even, "JPEG", quality=100)).astype(int) - RED).max() <= 3


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_counts(kind: str) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in (RED, BLUE, GREEN)]
    file = stored(
        frames[0], kind, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "WEBP" else {})
    )
    assert np.array_equal(decoded(file), np.full((16, 16, 3), RED, np.uint8))


# What the EXIF standard says: which edges the first row and the first column of the stored pixels are.
UPRIGHT: dict[int, Callable[[Colours], Colours]] = {
    1: lambda pixels: pixels,
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: np.rot90(pixels, 2),
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.transpose(1, 0, 2),
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.rot90(pixels, 2).transpose(1, 0, 2),
    8: lambda pixels: np.rot90(pixels),
}


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_a_camera_held_askew_is_set_upright(orientation: int, kind: str) -> None:
    wide = np.concatenate([FOUR, FOUR[:, :4]], axis=1)
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    file = stored(Image.fromarray(wide), kind, exif=exif, **options)
    assert np.array_equal(decoded(file), UPRIGHT[orientation](wide))


def test_a_photograph_is_set_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    wide = np.concatenate([np.full((16, 16, 3), colour, np.uint8) for colour in (RED, BLUE)], axis=1)
    found = decoded(stored(Image.fromarray(wide), "JPEG", exif=exif, quality=100, subsampling=0))
    assert found.shape == (32, 16, 3)
    assert np.abs(found[2].astype(int) - RED).max() <= 3
    assert np.abs(found[-2].astype(int) - BLUE).max() <= 3


def test_damaged_exif_does_not_spoil_an_image() -> None:
    file = stored(Image.fromarray(FOUR), "PNG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert np.array_equal(decoded(file), FOUR)


@pytest.mark.parametrize(("width", "height"), [(64, 48), (48, 64), (96, 24)])
def test_the_short_side_is_resized_and_the_long_one_cropped(width: int, height: int) -> None:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(256, size=(height, width, 3), dtype=np.uint8))
    scale = 12 / min(width, height)
    whole = image.resize((round(width * scale), round(height * scale)), Image.Resampling.BICUBIC)
    left, top = (whole.width - 12) // 2, (whole.height - 12) // 2
    expected = np.asarray(whole.crop((left, top, left + 12, top + 12))).transpose(2, 0, 1)
    found = fit(image, 12)
    assert found.shape == (3, 12, 12)
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_an_image_of_the_right_size_is_left_as_it_is() -> None:
    noise = np.random.default_rng(0).integers(256, size=(9, 20, 3), dtype=np.uint8)
    assert np.array_equal(fit(Image.fromarray(noise), 9), noise[:, 5:14].transpose(2, 0, 1))


def test_shrinking_does_not_alias() -> None:
    board = (255 * (np.indices((64, 64)).sum(axis=0) % 2)).astype(np.uint8)
    assert np.abs(fit(Image.fromarray(board).convert("RGB"), 8).astype(int) - 127.5).max() < 4


def test_an_extreme_panorama_takes_no_more_memory_than_itself() -> None:
    assert fit(Image.new("RGB", (1, 100_000), RED), 64).shape == (3, 64, 64)


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"")), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


NOISE = Image.fromarray(np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8))
BAD = {
    "empty.jpg": (b"", "is empty"),
    "text.jpg": (b"<html>404 not found</html>", "is no image of a known kind"),
    "truncated.jpg": (half(stored(NOISE, "JPEG").read()), "cannot be decoded"),
    "truncated.png": (half(stored(NOISE, "PNG").read()), "cannot be decoded"),
    "truncated.gif": (half(stored(NOISE, "GIF").read()), "cannot be decoded"),
    "bomb.png": (png_that_claims(100_000, 100_000), f"claims to have more than {MOST_PIXELS:,} pixels"),
    "large.png": (png_that_claims(12_000, 12_000), f"claims to have more than {MOST_PIXELS:,} pixels"),
    "hollow.png": (png_that_claims(16, 16), "cannot be decoded"),
    "float.tiff": (stored(Image.new("F", (4, 4)), "TIFF").read(), "has pixels of kind F"),
    "script.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no image of a known kind"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_image_is_told_in_a_few_words(name: str) -> None:
    content, problem = BAD[name]
    with pytest.raises(Undecodable) as refused:
        decode(io.BytesIO(content))
    assert str(refused.value).startswith(problem)
    assert len(str(refused.value)) < 120


def test_workers_say_nothing_of_odd_files(tmp_path: Path) -> None:
    """Not even what Pillow warns of: of sizes, of palettes, of metadata."""
    tree(tmp_path / "images", {name: content for name, (content, _) in BAD.items()})
    script = (
        "import sys; from pathlib import Path; from grcl.data.catalogue import catalogue\n"
        "root = Path(sys.argv[1]); print(len(catalogue(root, [path.name for path in root.iterdir()], 1)))"
    )
    command = [sys.executable, "-W", "always", "-c", script, str(tmp_path / "images")]
    environment = {**os.environ, "PYTHONWARNINGS": "always"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert (said.stdout, said.stderr) == (f"{len(BAD)}\n", "")


def tree(root: Path, contents: dict[str, bytes]) -> list[str]:
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return list(contents)


def painted(number: int, side: int = 8) -> bytes:
    """A PNG of one colour, another for every number."""
    return stored(Image.new("RGB", (side, side), (number % 256, number // 256, 7)), "PNG").read()


def some_images(count: int) -> dict[str, bytes]:
    return {f"{number % 3}/{number:03}.png": painted(number) for number in range(count)}


def test_a_catalogue_tells_size_digest_and_problem(tmp_path: Path) -> None:
    contents = {**some_images(20), **{f"1/{name}": content for name, (content, _) in BAD.items()}}
    names = [*tree(tmp_path, contents), "1/absent.png", "2"]
    found = catalogue(tmp_path, names, workers=2)
    assert [entry.name for entry in found] == names
    assert found[-2:] == [Entry("1/absent.png", -1, "", "is missing"), Entry("2", -1, "", "is not a file")]
    for entry, content in zip(found, contents.values(), strict=False):
        assert (entry.size, entry.digest) == (len(content), hashlib.sha256(content).hexdigest())
        problem = BAD[Path(entry.name).name][1] if Path(entry.name).name in BAD else ""
        assert entry.problem.startswith(problem)
        assert bool(entry.problem) == bool(problem)
    assert catalogue(tmp_path, names, workers=0) == found


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    assert catalogue(tmp_path, ["pipe.png"], workers=0)[0].problem == "is not a file"


def overwrite_unseen(path: Path, content: bytes) -> None:
    """Other bytes of the same number at the same time, as no file system would notice."""
    state = path.stat()
    path.write_bytes(content[: state.st_size].ljust(state.st_size, b"\0"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_a_second_look_opens_no_image(tmp_path: Path) -> None:
    names = tree(tmp_path, some_images(12) | {"0/bad.png": b"bad"})
    first = catalogue(tmp_path, names, workers=0)
    for name in names:
        overwrite_unseen(tmp_path / name, b"")
    assert catalogue(tmp_path, names, workers=0) == first
    assert catalogue(tmp_path, names[3:5], workers=0) == first[3:5]
    assert catalogue(tmp_path / "0", [Path(names[0]).name], workers=0)[0].digest == first[0].digest


def test_a_change_of_size_or_time_is_noticed_and_of_no_other_file(tmp_path: Path) -> None:
    names = tree(tmp_path, some_images(6))
    first = catalogue(tmp_path, names, workers=0)
    for name in names:
        overwrite_unseen(tmp_path / name, b"bad")
    state = (tmp_path / names[1]).stat()
    os.utime(tmp_path / names[1], ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    with (tmp_path / names[2]).open("ab") as file:
        file.write(b"\0")
    os.utime(tmp_path / names[2], ns=(state.st_atime_ns, state.st_mtime_ns))
    again = catalogue(tmp_path, names, workers=0)
    assert [name for name, a, b in zip(names, first, again, strict=True) if a != b] == names[1:3]
    assert all(entry.problem for entry in again[1:3])


def test_what_could_not_be_had_is_looked_for_again(tmp_path: Path) -> None:
    assert catalogue(tmp_path, ["late.png"], workers=0)[0].problem == "is missing"
    tree(tmp_path, {"late.png": painted(1)})
    assert catalogue(tmp_path, ["late.png"], workers=0)[0].problem == ""


def test_another_release_of_pillow_may_read_what_this_one_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tree(tmp_path, {"bad.png": b"bad" * 100, "good.png": painted(1)})
    good = catalogue(tmp_path, names, workers=0)[1]
    for name in names:
        overwrite_unseen(tmp_path / name, painted(2))
    monkeypatch.setattr(PIL, "__version__", "0.0")
    now = catalogue(tmp_path, names, workers=0)
    assert now[0].problem == ""
    assert now[1] == good


@pytest.mark.parametrize("damage", [half, lambda content: b"", lambda content: content.replace(b"0", b"1", 5)])
def test_a_damaged_catalogue_is_made_anew(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
) -> None:
    names = tree(tmp_path / "images", {"a.png": painted(1), "b.png": b"bad"})
    first = catalogue(tmp_path / "images", names, workers=0)
    (kept,) = cache.rglob("*.json")
    kept.write_bytes(damage(kept.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert catalogue(tmp_path / "images", names, workers=0) == first
    assert str(kept) in caplog.text
    caplog.clear()
    assert catalogue(tmp_path / "images", names, workers=0) == first
    assert not caplog.records


def test_without_a_place_to_keep_it_a_catalogue_is_made_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tree(tmp_path, {"a.png": painted(1)})
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "a.png" / "cache"))
    assert catalogue(tmp_path, names, workers=0)[0].problem == ""


def pool_at(root: Path, **changes: object) -> Pool:
    """All files below the root in their order, labelled by turns."""
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    files = [(name, place % 2) for place, name in enumerate(names)]
    return pool_of_files(root, files, Reading(size=8, workers=0).model_copy(update=changes))


def all_pixels(images: Images) -> torch.Tensor:
    return images.read(torch.arange(len(images)))


def test_the_images_of_a_pool_are_its_files(tmp_path: Path) -> None:
    tree(tmp_path, some_images(40))
    pool = pool_at(tmp_path)
    names = sorted(some_images(40))
    assert isinstance(pool.images, Images)
    assert all_pixels(pool.images)[:, 0, 0, 0].tolist() == [int(Path(name).stem) for name in names]
    assert pool.images.read(torch.tensor([7, 0, 7])).shape == (3, 3, 8, 8)
    assert pool.images.read(torch.tensor([], dtype=torch.long)).shape == (0, 3, 8, 8)
    assert pool.labels.tolist() == [place % 2 for place in range(40)]


def test_images_with_the_same_bytes_are_not_unique_and_never_on_both_sides(tmp_path: Path) -> None:
    contents = some_images(60)
    twins = [f"{number % 3}/{number:03}.png" for number in range(0, 60, 4)]
    tree(tmp_path, contents | {name.replace(".", "-copy."): contents[name] for name in twins})
    pool = pool_at(tmp_path)
    assert pool.unique is not None
    assert len(pool.labels) == 75
    assert len(pool.unique) == 45
    assert isinstance(pool.images, ImageFiles)
    assert not {pool.images.names[place] for place in pool.unique} & set(twins)
    for seed in range(20):
        domain = split_domain("twins", pool, Split(train=40, seed=seed))
        train, test = (
            {image.numpy().tobytes() for image in all_pixels(part.images)} for part in (domain.train, domain.test)
        )
        assert len(train) == 40
        assert not train & test


def test_unreadable_images_are_refused_with_names_number_and_remedy(tmp_path: Path) -> None:
    tree(tmp_path, some_images(5) | {f"bad/{number}.jpg": b"" for number in range(9)})
    with pytest.raises(Refusal) as refused:
        pool_at(tmp_path)
    for words in ("9 unreadable images", "bad/0.jpg is empty", "and 4 more", "images.unreadable = skip", str(tmp_path)):
        assert words in str(refused.value)


def test_unreadable_images_are_left_out_before_places_are_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree(tmp_path, {f"{number}.png": b"bad" if number in (0, 3, 4) else painted(number) for number in range(8)})
    sides = torch.tensor([0, 1, 5, 3]), torch.tensor([4, 7, 2])
    files = [(f"{number}.png", number) for number in range(8)]
    with caplog.at_level(logging.WARNING):
        pool = pool_of_files(tmp_path, files, Reading(size=8, workers=0, unreadable="skip"), "re-created", sides)
    assert pool.labels.tolist() == all_pixels(pool.images)[:, 0, 0, 0].tolist() == [1, 2, 5, 6, 7]
    assert pool.note == "re-created; 3 unreadable images left out"
    assert pool.sides is not None
    assert [pool.labels[side].tolist() for side in pool.sides] == [[1, 5], [7, 2]]
    (record,) = caplog.records
    assert "3 unreadable images" in record.message
    assert "0.png is no image of a known kind" in record.message
    (tmp_path / "0.png").unlink()
    (tmp_path / "3.png").unlink()
    (tmp_path / "4.png").unlink()
    rest = [files[place] for place in (1, 2, 5, 6, 7)]
    assert pool_of_files(tmp_path, rest, Reading(size=8, workers=0)).fingerprint == pool.fingerprint


def test_a_folder_of_nothing_readable_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, {"a.png": b"bad"})
    with pytest.raises(Refusal, match="no readable image"):
        pool_at(tmp_path, unreadable="skip")
    with pytest.raises(Refusal, match="no readable image"):
        pool_of_files(tmp_path, [], Reading(size=8))


def test_a_fingerprint_sees_names_labels_bytes_order_and_size_and_nothing_else(tmp_path: Path) -> None:
    tree(tmp_path / "a", {"1.png": painted(1), "2.png": painted(2), "3.png": painted(1)})
    shutil.copytree(tmp_path / "a", tmp_path / "elsewhere")
    os.utime(tmp_path / "elsewhere" / "1.png", (1, 1))
    reading = Reading(size=8, workers=0)

    def fingerprint(files: list[tuple[str, int]], root: str = "a", **changes: object) -> str:
        return pool_of_files(tmp_path / root, files, reading.model_copy(update=changes)).fingerprint

    plain = fingerprint([("1.png", 0), ("2.png", 1)])
    assert plain == fingerprint([("1.png", 0), ("2.png", 1)], "elsewhere", cache=True, workers=1, unreadable="skip")
    others = {
        fingerprint([("2.png", 1), ("1.png", 0)]),
        fingerprint([("1.png", 0), ("2.png", 2)]),
        fingerprint([("3.png", 0), ("2.png", 1)]),
        fingerprint([("1.png", 0)]),
        fingerprint([("1.png", 0), ("2.png", 1)], size=9),
    }
    (tmp_path / "a" / "2.png").write_bytes(painted(3))
    others.add(fingerprint([("1.png", 0), ("2.png", 1)]))
    assert len(others | {plain}) == 7


def test_packed_images_are_the_files(tmp_path: Path, cache: Path) -> None:
    tree(tmp_path / "images", some_images(300))
    plain, pool = pool_at(tmp_path / "images"), pool_at(tmp_path / "images", cache=True, workers=2)
    assert isinstance(pool.images, Images)
    assert isinstance(pool.images, PackedImages)
    assert torch.equal(all_pixels(pool.images), all_pixels(plain.images))
    places = torch.tensor([299, 0, 5, 5])
    assert torch.equal(pool.images.read(places), plain.images.read(places))
    assert pool.images.read(places[:0]).shape == (0, 3, 8, 8)
    assert np.array_equal(np.load(pool.images.path), all_pixels(plain.images).numpy())
    assert {path.suffix for path in pool.images.path.parent.iterdir()} == {".npy"}


def test_images_are_packed_once(tmp_path: Path) -> None:
    names = tree(tmp_path / "images", some_images(9))
    first = pool_at(tmp_path / "images", cache=True)
    for name in names:
        overwrite_unseen(tmp_path / "images" / name, b"bad")
    again = pool_at(tmp_path / "images", cache=True)
    assert torch.equal(all_pixels(again.images), all_pixels(first.images))


def test_images_are_packed_again_when_the_code_that_decodes_them_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path / "images", some_images(9))
    first = pool_at(tmp_path / "images", cache=True).images
    monkeypatch.setattr(decoding, "RECIPE", "0" * 16)
    again = pool_at(tmp_path / "images", cache=True).images
    assert isinstance(first, PackedImages)
    assert isinstance(again, PackedImages)
    assert again.path != first.path


@pytest.mark.parametrize("damage", [half, lambda content: b"", lambda content: b"x" + content[1:]])
def test_a_damaged_packed_file_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
) -> None:
    tree(tmp_path / "images", some_images(9))
    images = pool_at(tmp_path / "images", cache=True).images
    assert isinstance(images, PackedImages)
    pixels, path = all_pixels(images), images.path
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(damage(content))
    with caplog.at_level(logging.WARNING):
        mended = pool_at(tmp_path / "images", cache=True)
    assert str(path) in caplog.text
    assert torch.equal(all_pixels(mended.images), pixels)


PACK_SLOWLY = """
import sys, time
from pathlib import Path
from grcl.data import image_files
from grcl.data.packed import packed

def read_slowly(paths, size):
    time.sleep(0.05)
    return read_pixels(paths, size)

read_pixels, image_files.read_pixels = image_files.read_pixels, read_slowly
root = Path(sys.argv[1])
packed(image_files.ImageFiles(root, tuple(sorted(path.name for path in root.iterdir())), 64, 0), "killed")
"""


def test_a_process_that_is_killed_while_it_packs_leaves_nothing_under_the_name(tmp_path: Path, cache: Path) -> None:
    root = tmp_path / "images"
    tree(root, {f"{number:04}.png": painted(number) for number in range(1000)})
    process = subprocess.Popen([sys.executable, "-c", PACK_SLOWLY, str(root)])
    folder, deadline = cache / "packed", time.monotonic() + 60
    while not any(path.stat().st_size > 2**20 for path in folder.glob("*.unfinished")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sorted(path.suffix for path in folder.iterdir()) == [".lock", ".unfinished"]
    files = ImageFiles(root, tuple(sorted(path.name for path in root.iterdir())), 64, 0)
    assert torch.equal(all_pixels(packed(files, "killed")), all_pixels(files))
    assert [path.suffix for path in folder.iterdir()] == [".npy"]


PACK_ALOUD = (
    """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
"""
    + PACK_SLOWLY
)


def test_of_two_processes_one_packs_and_the_other_waits(tmp_path: Path, cache: Path) -> None:
    tree(tmp_path / "images", {f"{number:04}.png": painted(number) for number in range(200)})
    command = [sys.executable, "-c", PACK_ALOUD, str(tmp_path / "images")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = "".join(process.communicate()[1] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert said.count("packing 200 images") == 1
    assert [path.suffix for path in (cache / "packed").iterdir()] == [".npy"]


def test_a_lack_of_space_is_told_before_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    tree(tmp_path / "images", some_images(9))
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1000))
    with pytest.raises(Refusal, match=r"0\.0 GB are free.*GRCL_CACHE.*images\.cache = false"):
        pool_at(tmp_path / "images", cache=True)
    assert not list((cache / "packed").iterdir())


def test_a_folder_that_cannot_be_written_refuses_to_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path / "images", some_images(2))
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "file"))
    with pytest.raises(Refusal, match="GRCL_CACHE"):
        pool_at(tmp_path / "images", cache=True)
