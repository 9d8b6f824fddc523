"""Numeric arrays of .mat files of the versions 5 to 7. scipy's reader is not used: damaged files end the process in it.

A file is a header and a row of elements. An element is a tag (type and length) and its content; an array is an element
of elements (flags, shape, name, values), and mostly wrapped in one that is compressed.
"""

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grcl.benchmarks.readers.part import check_claim

HEADER = 128
VERSION_AND_ORDER = b"\x00\x01IM"  # version 5, the lower byte first: what every PC has written
ARRAY, COMPRESSED = 14, 15
NUMERIC_CLASSES = range(6, 16)
TYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}


class Element(NamedTuple):
    """A type and the bytes of that type."""

    kind: int
    content: memoryview

    @property
    def values(self) -> NDArray[Any]:
        if self.kind not in TYPES:
            raise ValueError(f"it holds values of the unknown type {self.kind}")
        return np.frombuffer(self.content, TYPES[self.kind])


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The numeric arrays of a file by name."""
    with path.open("rb") as file:
        if file.read(HEADER)[-4:] != VERSION_AND_ORDER:
            raise ValueError("it is no MATLAB file of the versions 5 to 7")
        return dict(pair for element in read_elements(file) for pair in read_array(element))


def read_elements(file: BinaryIO) -> Iterator[Element]:
    """The elements of the file, unpacked."""
    while tag := file.read(8):
        kind, length = np.frombuffer(tag, "<u4").tolist()
        content = file.read(length)
        if len(content) < length:
            raise ValueError("it ends before its last array does")
        yield unpack(content) if kind == COMPRESSED else Element(kind, memoryview(content))


def unpack(packed: bytes) -> Element:
    """The one element in a compressed one, whose size is looked at first."""
    tag = zlib.decompressobj().decompress(packed, 8)
    kind, length = np.frombuffer(tag, "<u4").tolist()
    check_claim(length, len(packed))
    # Room for a little more than the element, so that the stream reaches its checksum.
    content = memoryview(zlib.decompressobj().decompress(packed, 8 + length + 8))[8:]
    if len(content) < length:
        raise ValueError("a compressed array ends before its time")
    return Element(kind, content[:length])


def read_array(element: Element) -> Iterator[tuple[str, NDArray[Any]]]:
    """The name and the values of an array; nothing for texts, tables and the like."""
    if element.kind != ARRAY:
        return
    flags, rest = cut_element(element.content)
    if flags.values[0] & 255 not in NUMERIC_CLASSES:
        return
    shape, rest = cut_element(rest)
    name, rest = cut_element(rest)
    data, _ = cut_element(rest)
    sizes, values = shape.values.tolist(), data.values
    if min(sizes) < 0 or math.prod(sizes) != len(values):
        raise ValueError(f"an array of shape {tuple(sizes)} holds {len(values):,} values")
    yield bytes(name.content).decode("ascii"), values.reshape(sizes, order="F")


def cut_element(view: memoryview) -> tuple[Element, memoryview]:
    """The first element and what follows it."""
    kind, length = np.frombuffer(view[:8], "<u4").tolist()
    if kind >> 16:  # up to four bytes are kept in the tag itself
        return Element(kind & 0xFFFF, view[4 : 4 + min(kind >> 16, 4)]), view[8:]
    if length > len(view) - 8:
        raise ValueError("an array ends before its time")
    return Element(kind, view[8 : 8 + length]), view[8 + length + -length % 8 :]
