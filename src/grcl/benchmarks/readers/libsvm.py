"""USPS as LIBSVM's page and torchvision keep it: bzipped lines `label 1:value ... 256:value`, values in -1..1."""

import bz2
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from grcl.benchmarks.readers.part import Part, Pixels, grey_levels, make_part, refusing

SIDE = 16
PLACES = [str(place).encode() for place in range(1, SIDE * SIDE + 1)]
LONGEST_LINE = 2**14
MOST_LINES = 100_000  # bzip2 can pack gigabytes of lines into a few bytes


def read_libsvm(path: Path) -> Part:
    """Grey images of 16x16 pixels, rounded where torchvision cuts off; digit d has label d + 1 in the file."""
    with refusing(path), bz2.open(path) as file:
        lines = iter(partial(file.readline, LONGEST_LINE), b"")
        rows = [read_line(line) for line in islice(lines, MOST_LINES + 1)]
        if len(rows) > MOST_LINES:
            raise ValueError(f"it has more than {MOST_LINES:,} lines")
        images = np.array([image for image, _ in rows], np.uint8).reshape(-1, SIDE, SIDE)
        return make_part(images, np.array([label for _, label in rows], np.int64))


def read_line(line: bytes) -> tuple[Pixels, int]:
    """The pixels and the digit of one line."""
    label, *pairs = line.split() or [b""]
    places, _, values = zip(*(pair.partition(b":") for pair in pairs), strict=True) if pairs else ((), (), ())
    if list(places) != PLACES:
        raise ValueError(f"the line {line[:20]!r}... does not hold the values 1 to {len(PLACES)} in their order")
    return grey_levels((np.array([float(value) for value in values]) + 1) / 2), int(label) - 1
