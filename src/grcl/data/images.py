"""Images by index: uint8 tensors of shape (n, 3, height, width), wherever they are kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from grcl.shapes import Int, UInt8


@runtime_checkable
class Images(Protocol):
    """What the rest of the package asks of a set of images."""

    def __len__(self) -> int: ...

    def read(self, index: Int[Tensor, " batch"]) -> UInt8[Tensor, "batch 3 height width"]: ...

    def start(self, index: Int[Tensor, " batch"]) -> Callable[[], Tensor]:
        """Begin to read, and go on; calling the result waits for the pixels. What is in memory is read by the call."""


@dataclass(frozen=True)
class ImageArray:
    """Images that fit in memory."""

    pixels: UInt8[Tensor, "n 3 height width"]

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, index: Int[Tensor, " batch"]) -> UInt8[Tensor, "batch 3 height width"]:
        return self.pixels[index]

    def start(self, index: Int[Tensor, " batch"]) -> Callable[[], Tensor]:
        return partial(self.read, index)


@dataclass(frozen=True)
class Subset:
    """Some of the images of a larger set, which stays where it is."""

    images: Images
    places: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.places)

    def read(self, index: Int[Tensor, " batch"]) -> UInt8[Tensor, "batch 3 height width"]:
        return self.images.read(self.places[index])

    def start(self, index: Int[Tensor, " batch"]) -> Callable[[], Tensor]:
        return self.images.start(self.places[index])


def select(images: Images, places: Int[Tensor, " n"]) -> Images:
    """The images at these places; an array is cut at once, which makes every later read one lookup."""
    return ImageArray(images.pixels[places]) if isinstance(images, ImageArray) else Subset(images, places)


class Joined:
    """Several sets of images behind one index, in their order; nothing is copied."""

    def __init__(self, parts: Sequence[Images]) -> None:
        self.parts = tuple(part for part in parts if len(part))
        sizes = torch.tensor([0] + [len(part) for part in self.parts])
        self.starts = sizes.cumsum(0)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, index: Int[Tensor, " batch"]) -> UInt8[Tensor, "batch 3 height width"]:
        pixels: Tensor = self.start(index)()
        return pixels

    def start(self, index: Int[Tensor, " batch"]) -> Callable[[], Tensor]:
        if len(index) == 0:
            return self.parts[0].start(index)
        if int(index.min()) < 0:
            raise IndexError(f"joined images are counted from 0; there is no image {int(index.min())}")
        which = torch.bucketize(index, self.starts[1:], right=True)
        pieces = {int(k): self.parts[k].start(index[which == k] - self.starts[k]) for k in which.unique()}
        return partial(_put_together, pieces, which)


def _put_together(pieces: Mapping[int, Callable[[], Tensor]], which: Int[Tensor, " batch"]) -> Tensor:
    """The pixels of all parts, each image at its place in the batch."""
    pixels = {k: piece() for k, piece in pieces.items()}
    example = next(iter(pixels.values()))
    joined = example.new_empty((len(which), *example.shape[1:]))
    for k, piece in pixels.items():
        joined[which == k] = piece
    return joined
