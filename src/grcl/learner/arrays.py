"""Images that come as arrays, tensors or a torch Dataset, as the pixels that a file of them would give."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from grcl.data.decoding import Pixels, as_rgb, fit
from grcl.runtime.errors import Refusal
from grcl.shapes import UInt8

_CHANNELS = (1, 3)
_SHAPES = "(n, height, width), (n, height, width, 3) or (n, 3, height, width)"


def pixels_of(given: Any, size: int) -> UInt8[Tensor, "n 3 size size"]:
    """The images of an array, each made as large as the network wants it."""
    images = _channels_last(given)
    fitted = np.stack([_fitted(image, size) for image in _as_bytes(images)])
    return torch.from_numpy(np.ascontiguousarray(fitted))  # else it would keep the order of the channels in memory


def count_and_side(given: Any) -> tuple[int, int]:
    """How many images an array has, and their shorter side, in pixels."""
    images = _channels_last(given)
    return len(images), int(min(images.shape[1:3]))


def samples_of(dataset: Any, size: int) -> tuple[UInt8[Tensor, "n 3 size size"], list[Any] | None]:
    """The images of a Dataset whose samples are images, or tuples that begin with image and label."""
    samples = [dataset[place] for place in range(len(dataset))]
    if not samples:
        raise Refusal("the dataset holds no images")
    pairs = [sample if isinstance(sample, tuple | list) else (sample,) for sample in samples]
    pixels = torch.cat([_pixels_of_one(pair[0], size) for pair in pairs])
    return pixels, [pair[1] for pair in pairs] if all(len(pair) > 1 for pair in pairs) else None


def side_of_sample(dataset: Any) -> int:
    """The shorter side of a Dataset's first image."""
    if not len(dataset):
        raise Refusal("the dataset holds no images")
    first = dataset[0]
    image = first[0] if isinstance(first, tuple | list) else first
    return min(image.size) if isinstance(image, Image.Image) else count_and_side(_array(image)[None])[1]


def label_names(labels: Any, classes: Sequence[str] | None, count: int) -> list[str]:
    """The class of every image by name; numbers are places in `classes`, but where classes are numbers themselves."""
    given = _array(labels)
    if given.ndim != 1:
        raise Refusal(f"labels of shape {tuple(given.shape)} are not understood; give one label per image")
    values = given.tolist()
    if len(values) != count:
        raise Refusal(f"there are {count:,} images and {len(values):,} labels; give one label per image")
    names = [str(value) for value in values]
    if classes is None or any(map(_is_number, classes)) or any(isinstance(value, str) for value in values):
        return names
    if wrong := [value for value in values if not isinstance(value, int) or not 0 <= value < len(classes)]:
        raise Refusal(f"label {wrong[0]!r} is neither one of the {len(classes)} classes nor a place among them")
    return [classes[value] for value in values]


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def fingerprint(pixels: UInt8[Tensor, "n 3 height width"], labels: Sequence[str] | None) -> str:
    """16 hex digits that change with any pixel and any label."""
    digest = hashlib.sha256(repr((tuple(pixels.shape), labels)).encode())
    digest.update(pixels.contiguous().numpy().data)
    return digest.hexdigest()[:16]


def _pixels_of_one(image: Any, size: int) -> UInt8[Tensor, "1 3 size size"]:
    if isinstance(image, Image.Image):
        return torch.from_numpy(fit(as_rgb(image), size).copy())[None]
    return pixels_of(image[None] if isinstance(image, Tensor) else _array(image)[None], size)


def _fitted(image: Pixels, size: int) -> Pixels:
    """As a file's pixels are: RGB, the short side resized, of the long side the centre."""
    colours = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    if colours.shape[:2] == (size, size):
        return colours.transpose(2, 0, 1)
    return fit(Image.fromarray(colours), size)


def _channels_last(given: Any) -> NDArray[Any]:
    """The array as (n, height, width, channels). Where both ends could be colours, tensors have them in front."""
    array = _array(given)
    if array.ndim > 0 and not len(array):
        raise Refusal("the array holds no images")
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim == 4:
        in_front, behind = array.shape[1] in _CHANNELS, array.shape[3] in _CHANNELS
        if in_front and (not behind or isinstance(given, Tensor)):
            return array.transpose(0, 2, 3, 1)
        if behind:
            return array
    raise Refusal(f"images of shape {tuple(array.shape)} are not understood; give {_SHAPES}")


def _as_bytes(images: NDArray[Any]) -> Pixels:
    """Numbers from 0 to 1 as 0 to 255; bytes stay as they are."""
    if images.dtype == np.uint8:
        return np.ascontiguousarray(images)
    if images.dtype.kind != "f":
        raise Refusal(f"images of type {images.dtype} are not understood; give uint8, or floats from 0 to 1")
    if not (np.isfinite(images).all() and images.min() >= 0 and images.max() <= 1):
        raise Refusal("images of floats go from 0 to 1; divide those from 0 to 255 by 255, and undo a normalisation")
    return np.ascontiguousarray(np.rint(images * 255).astype(np.uint8))


def _array(given: Any) -> NDArray[Any]:
    return given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
