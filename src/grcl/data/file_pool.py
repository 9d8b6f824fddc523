"""A pool of image files: what cannot be read is found before places are given, and what is there twice is known."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from grcl.data.catalogue import catalogue
from grcl.data.image_files import ImageFiles
from grcl.data.packed import packed
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.unreadable import leave_out
from grcl.runtime.errors import Refusal
from grcl.shapes import Bool


def pool_of_files(
    root: Path,
    files: Sequence[tuple[str, int]],
    reading: Reading,
    note: str = "",
    sides: tuple[Tensor, Tensor] | None = None,
) -> Pool:
    """The images of these files (path below `root`, label), given in an order that every machine agrees on.

    Unreadable ones are refused or left out, as `reading` says; the places of `sides` are those in `files`.
    """
    assert reading.size is not None
    entries = catalogue(root, [name for name, _ in files], reading.workers)
    is_readable = torch.tensor([not entry.problem for entry in entries], dtype=torch.bool)
    if not is_readable.all():
        bad = [f"{entry.name} {entry.problem}" for entry in entries if entry.problem]
        note = "; ".join(filter(None, [note, leave_out(bad, root, reading)]))
    if not is_readable.any():
        raise Refusal(f"there is no readable image in {root}")
    kept = [(*file, entry.digest) for file, entry in zip(files, entries, strict=True) if not entry.problem]
    names, labels, digests = zip(*kept, strict=True)
    fingerprint = _fingerprint(kept, reading.size)
    images = ImageFiles(root, names, reading.size, reading.workers)
    return Pool(
        packed(images, fingerprint) if reading.cache else images,
        torch.tensor(labels),
        fingerprint,
        sides and (_moved(sides[0], is_readable), _moved(sides[1], is_readable)),
        _unique(digests),
        note,
        names,
    )


def _fingerprint(files: Sequence[tuple[str, int, str]], size: int) -> str:
    """16 hex digits that change with any name, label or byte, and with the size of the pixels."""
    digest = hashlib.sha256(f"{size}\n".encode())
    for file in files:
        digest.update(json.dumps(file).encode() + b"\n")
    return digest.hexdigest()[:16]


def _unique(digests: Sequence[str]) -> Tensor:
    """The places of the images whose bytes no other image has."""
    counts = Counter(digests)
    return torch.tensor([place for place, digest in enumerate(digests) if counts[digest] == 1], dtype=torch.long)


def _moved(places: Tensor, is_kept: Bool[Tensor, " n"]) -> Tensor:
    """The places of the same images once those not kept are gone."""
    return (is_kept.cumsum(0) - 1)[places[is_kept[places]]]
