"""Images by index: uint8 tensors of shape (n, 3, height, width), wherever they are kept."""

from collections.abc import Callable, Sequence
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
        return self.pixels.index_select(0, index)  # by rows, where pixels[index] goes by numbers

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
    return ImageArray(images.read(places)) if isinstance(images, ImageArray) else Subset(images, places)


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
        if wrong := [place for place in (int(index.min()), int(index.max())) if not 0 <= place < len(self)]:
            raise IndexError(f"there is no image {wrong[0]} among {len(self)}, which are counted from 0")
        which = torch.bucketize(index, self.starts[1:], right=True)
        # Sorted by parts, so that many cost hardly more than one.
        order = which.argsort(stable=True)
        asked = (index - self.starts[which])[order].split(torch.bincount(which, minlength=len(self.parts)).tolist())
        pieces = [part.start(places) for part, places in zip(self.parts, asked, strict=True) if len(places)]
        return partial(_put_together, pieces, order)


def _put_together(pieces: Sequence[Callable[[], Tensor]], order: Int[Tensor, " batch"]) -> Tensor:
    """The pixels of all parts, each image at its place in the batch."""
    return torch.cat([piece() for piece in pieces]).index_select(0, order.argsort())
