"""MNIST's own format: a magic number with the number of axes, their sizes, then bytes; gzipped or not."""

import gzip
import io
import math
import struct
from pathlib import Path

import numpy as np

from grcl.benchmarks.readers.part import Part, Pixels, check_claim, make_part, refusing

UNSIGNED_BYTES = b"\x00\x00\x08"
GZIP_MAGIC = b"\x1f\x8b"


def read_idx(images: Path, labels: Path) -> Part:
    """The images of one file with the labels of another."""
    pixels = read_array(images, axes=3)
    values = read_array(labels, axes=1)
    with refusing(labels):
        return make_part(pixels, values)


def read_array(path: Path, axes: int) -> Pixels:
    """The array of one idx file."""
    with refusing(path), open_unpacked(path) as file:
        if file.read(4) != UNSIGNED_BYTES + bytes([axes]):
            raise ValueError(f"it is no idx file of bytes with {axes} axes")
        shape = struct.unpack(f">{axes}I", file.read(4 * axes))
        size = math.prod(shape)
        check_claim(size, path.stat().st_size)
        content = file.read(size + 1)  # one more than promised, to see whether it ends there
        if len(content) != size:
            raise ValueError(
                f"its header promises {size:,} bytes, and it has {'more' if len(content) > size else 'fewer'}"
            )
        return np.frombuffer(content, np.uint8).reshape(shape)


def open_unpacked(path: Path) -> io.BufferedIOBase:
    """The file without its compression, told by its first bytes: names lose and gain .gz on their way."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    return gzip.open(path) if packed else path.open("rb")
