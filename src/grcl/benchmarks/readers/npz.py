"""Plain arrays of numpy: x_train, y_train, x_test and y_test, and perhaps a note, in one .npz file."""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grcl.benchmarks.readers.part import Part, check_claim, make_part, refusing

HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
LONGEST_NOTE = 200


def read_npz(path: Path) -> tuple[Part, Part]:
    """Both parts of a domain."""
    with refusing(path), zipfile.ZipFile(path) as archive:
        note = read_note(archive)
        train = make_part(read_member(archive, "x_train"), read_member(archive, "y_train"), note)
        test = make_part(read_member(archive, "x_test"), read_member(archive, "y_test"), note)
        return train, test


def read_note(archive: zipfile.ZipFile) -> str:
    """What a reader of a table must know of these images, if their maker wrote it down."""
    if "note.npy" not in archive.namelist():
        return ""
    note = read_member(archive, "note")
    if note.dtype.kind != "U" or note.ndim or note.dtype.itemsize > 4 * LONGEST_NOTE:
        raise ValueError(f"its note is no text of at most {LONGEST_NOTE} characters")
    return " ".join(str(note).split())


def read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One array; numpy's own loader would take the memory that a header claims before it sees what is stored."""
    if f"{name}.npy" not in archive.namelist():
        raise ValueError(f"the array {name} is missing")
    member = archive.getinfo(f"{name}.npy")
    check_claim(member.file_size, member.compress_size)
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"the array {name} has the unknown version {version}")
        shape, is_fortran, dtype = HEADERS[version](file)
        if dtype.hasobject:
            raise ValueError(f"the array {name} holds pickled objects, which are never loaded")
        content = file.read()
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"the array {name} of shape {shape} does not fit its {len(content):,} bytes")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if is_fortran else "C")
