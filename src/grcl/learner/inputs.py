"""What a learner is given, a folder, a Dataset or arrays, as one small record."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from grcl.data.file_pool import pool_of_files
from grcl.data.images import ImageArray, Images, select
from grcl.data.reading import Reading
from grcl.data.stream import Labelled
from grcl.learner import arrays
from grcl.learner.folders import Listing, in_unicode, list_files, list_labelled, list_unlabelled
from grcl.learner.history import DataFacts
from grcl.runtime.errors import Refusal
from grcl.shapes import Int

_LOOKED_AT = 32


@dataclass(frozen=True)
class Data:
    """Images, and their classes where they are known."""

    name: str
    images: Images
    labels: Int[Tensor, " n"] | None
    """Places in `classes`."""
    classes: tuple[str, ...]
    files: tuple[str, ...]
    """What each image is called."""
    fingerprint: str
    place: Path | None = None
    """The folder, where they come from one."""
    note: str = ""

    def __len__(self) -> int:
        return len(self.images)

    @property
    def facts(self) -> DataFacts:
        """What the history tells of it."""
        return DataFacts(name=self.name, fingerprint=self.fingerprint, images=len(self), note=self.note)

    def labelled(self) -> Labelled:
        """As a set of images to train on."""
        assert self.labels is not None
        return Labelled(self.images, self.labels)

    def among(self, classes: tuple[str, ...]) -> tuple["Data", dict[str, int]]:
        """Those images whose class is one of `classes`, labelled by places there; and how many there are of others."""
        assert self.labels is not None
        counts = torch.bincount(self.labels, minlength=len(self.classes)).tolist()
        others = {name: n for name, n in zip(self.classes, counts, strict=True) if n and name not in classes}
        place_of = torch.tensor([classes.index(name) if name in classes else -1 for name in self.classes])
        labels = place_of[self.labels]
        kept = torch.nonzero(labels >= 0)[:, 0]
        files = tuple(self.files[place] for place in kept.tolist())
        known = replace(self, images=select(self.images, kept), labels=labels[kept], classes=classes, files=files)
        return known, others


def read_labelled(given: Any, reading: Reading, labels: Any = None, classes: Sequence[str] | None = None) -> Data:
    """A folder of class folders, arrays with labels, or a Dataset of (image, label)."""
    if _is_place(given):
        if labels is not None:
            raise Refusal("a folder's classes are the names of its folders; give labels with arrays only")
        data = _of_files(list_labelled(Path(given)), reading)
        wanted = tuple(dict.fromkeys([*(classes or ()), *data.classes]))
        return _only_present(data.among(wanted)[0] if classes else data)
    if isinstance(given, tuple) and len(given) == 2 and labels is None:
        given, labels = given
    pixels, found, name = _pixels(given, reading)
    found = labels if labels is not None else found
    if found is None:
        raise Refusal("images without labels: give labels, a Dataset of (image, label), or a folder of class folders")
    names = arrays.label_names(found, classes, len(pixels))
    known = tuple(dict.fromkeys([*(classes or ()), *sorted(names, key=_in_order)]))
    places = torch.tensor([known.index(label) for label in names])
    return _only_present(_of_pixels(pixels, name, arrays.fingerprint(pixels, names), places, known))


def read_unlabelled(given: Any, reading: Reading) -> Data:
    """A folder at any depth, some files, arrays, or a Dataset, whose labels are not looked at."""
    if _is_place(given):
        place = Path(given)
        return _of_files(list_files([place]) if place.is_file() else list_unlabelled(place), reading)
    if isinstance(given, list | tuple) and all(map(_is_place, given)):
        return _of_files(list_files([Path(path) for path in given]), reading)
    pixels, _, name = _pixels(given, reading)
    return _of_pixels(pixels, name, arrays.fingerprint(pixels, None))


def first_look(given: Any) -> tuple[int, int]:
    """How many images there are, and the shorter side of a usual one, in pixels: what a network is chosen by."""
    if _is_place(given):
        listing = list_labelled(Path(given))
        step = max(1, len(listing.files) // _LOOKED_AT)
        sides = [_side(listing.root / name) for name, _ in listing.files[::step]]
        return len(listing.files), int(np.median(sides))
    if isinstance(given, tuple) and given:
        given = given[0]
    if _is_array(given):
        return arrays.count_and_side(given)
    _require_dataset(given)
    return len(given), arrays.side_of_sample(given)


def _of_files(listing: Listing, reading: Reading) -> Data:
    pool = pool_of_files(listing.root, listing.files, reading, listing.note)
    root = listing.root.resolve()
    labels = pool.labels if listing.classes else None
    return Data(
        in_unicode(root.name), pool.images, labels, listing.classes, pool.names, pool.fingerprint, root, pool.note
    )


def _of_pixels(
    pixels: Tensor, name: str, fingerprint: str, labels: Tensor | None = None, classes: tuple[str, ...] = ()
) -> Data:
    files = tuple(str(place) for place in range(len(pixels)))
    return Data(name, ImageArray(pixels), labels, classes, files, fingerprint)


def _pixels(given: Any, reading: Reading) -> tuple[Tensor, Any, str]:
    assert reading.size is not None
    if _is_array(given):
        return arrays.pixels_of(given, reading.size), None, "array"
    _require_dataset(given)
    return *arrays.samples_of(given, reading.size), "dataset"


def _require_dataset(given: Any) -> None:
    if not (hasattr(given, "__getitem__") and hasattr(given, "__len__")):
        raise Refusal(f"{type(given).__name__} is not understood; give a folder, arrays, tensors or a torch Dataset")


def _only_present(data: Data) -> Data:
    """Without the classes that have no image left."""
    assert data.labels is not None
    present = tuple(data.classes[place] for place in data.labels.unique().tolist())
    return data if present == data.classes else data.among(present)[0]


def _is_place(given: Any) -> bool:
    return isinstance(given, str | Path)


def _is_array(given: Any) -> bool:
    return isinstance(given, Tensor | np.ndarray)


def _side(path: Path) -> int:
    """The shorter side of an image by its header; 0 where there is none to read, which is told later."""
    try:
        with Image.open(path) as image:
            return min(image.size)
    except Exception:  # a damaged file fails in many ways
        return 0


def _in_order(name: str) -> tuple[int, str]:
    """Numbers by their size, then words by the alphabet."""
    return (int(name), "") if name.isdecimal() else (1 << 62, name)
