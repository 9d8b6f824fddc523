"""Image files as pixels: upright, RGB, a square of the wanted size. Worker processes import this: no torch here."""

import hashlib
import warnings
from collections.abc import Sequence
from io import BufferedReader, BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from grcl.runtime.errors import Failure
from grcl.runtime.recipe import recipe

Pixels = NDArray[np.uint8]

RECIPE = recipe(Path(__file__))
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # pixels only; EPS would call Ghostscript
MOST_PIXELS = 100_000_000  # 300 MB once decoded: more than any camera's, less than what ends a process

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class Undecodable(Exception):
    """What is wrong with a file, in words that follow its name."""


def read_pixels(paths: Sequence[str], size: int) -> Pixels:
    """The images of these files, as one array of shape (n, 3, size, size)."""
    pixels = np.empty((len(paths), 3, size, size), np.uint8)
    for place, path in zip(pixels, paths, strict=True):
        try:
            with Path(path).open("rb") as file:
                place[:] = fit(decode(file), size)
        except (OSError, Undecodable) as error:
            reason = str(error) if isinstance(error, Undecodable) else not_opened(error)
            raise Failure(
                f"{path} {reason}, though it was readable before; put it back and give the same command again"
            ) from None
    return pixels


def examine(paths: Sequence[str]) -> list[tuple[str, str]]:
    """For each file the SHA-256 of its bytes, empty if they cannot be read, and what is wrong with it, if anything."""
    return [_examine(Path(path)) for path in paths]


def _examine(path: Path) -> tuple[str, str]:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
            file.seek(0)
            decode(file)
    except OSError as error:
        return "", not_opened(error)
    except Undecodable as error:
        return digest.hexdigest(), str(error)
    return digest.hexdigest(), ""


def not_opened(error: OSError) -> str:
    """Why a file's bytes could not be had, in words that follow its name."""
    return "is missing" if isinstance(error, FileNotFoundError) else f"cannot be opened ({error.strerror})"


def decode(file: BufferedReader | BytesIO) -> Image.Image:
    """The upright RGB image in an open file, decoded to its last pixel; of an animation, its first frame."""
    if not file.read(1):
        raise Undecodable("is empty")
    file.seek(0)
    too_large = Undecodable(f"claims to have more than {MOST_PIXELS:,} pixels")
    # Pillow warns of odd metadata and of sizes, which a reader of thousands of images cannot act upon.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(file, formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise too_large
                image.load()
                return _turned(as_rgb(image), _orientation(image))
        except Undecodable:
            raise
        except Image.DecompressionBombError:
            raise too_large from None
        except UnidentifiedImageError:
            raise Undecodable(f"is no image of a known kind ({', '.join(FORMATS)})") from None
        except Exception as error:  # a damaged file fails in many ways, and none of them is a fault of ours
            reason = (str(error) or type(error).__name__).splitlines()[0][:80]
            raise Undecodable(f"cannot be decoded ({reason})") from None


def fit(image: Image.Image, size: int) -> Pixels:
    """The short side resized to `size`, and of the long side the centre.

    Bicubic, as timm evaluates its ImageNet weights; Pillow widens the filter when it shrinks, so nothing aliases. Only
    the central square is resized, which gives the same pixels and spares a panorama's ends.
    """
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    box = (left, top, left + side, top + side)
    square = image.resize((size, size), Image.Resampling.BICUBIC, box=box)
    return np.asarray(square).transpose(2, 0, 1)


def as_rgb(image: Image.Image) -> Image.Image:
    """Any kind of pixels as RGB: 16 bits by their high byte, transparent ones on white."""
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))  # Pillow would clip at 255
    elif image.mode in ("I", "F"):
        raise Undecodable(f"has pixels of kind {image.mode}, of which nobody knows what is white")
    if "transparency" in image.info or image.getbands()[-1] in ("A", "a"):
        page = Image.new("RGBA", image.size, "white")
        page.alpha_composite(image.convert("RGBA"))
        image = page
    return image.convert("RGB")


def _orientation(image: Image.Image) -> int:
    """How the camera was held, by EXIF; upright where that is damaged, for the pixels are whole."""
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # as many ways to fail as the pixels have
        return 1


def _turned(image: Image.Image, orientation: int) -> Image.Image:
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image
