"""Writing files so that a reader sees the old content or the new, never a half."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grcl.runtime.errors import Failure

_CHUNK = 1 << 20


def write_atomically(path: Path, content: bytes) -> None:
    """Write aside in the same folder, flush to disk, read back, and only then give it its name."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.unlink(missing_ok=True)  # of a process with the same number, or a link to somebody else's file
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            _forget(file.fileno())
        if not _reads_as(aside, content):
            raise OSError(f"{path.name} reads back otherwise than it was written")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must outlive a power cut
    finally:
        os.close(folder)


def sweep(folder: Path) -> None:
    """Remove what killed processes have left aside; the folder must be the caller's alone."""
    for aside in folder.glob(".*.tmp"):
        aside.unlink(missing_ok=True)


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Within this, a disk that is full or fails ends the work with a sentence."""
    try:
        yield
    except OSError as error:
        raise Failure(
            f"cannot write to {place}: {error.strerror or error}; what was saved before is whole: "
            "make room there and give the same command again"
        ) from error


def _forget(number: int) -> None:
    """Let the system drop its copy of a file that is on the disk, so that reading it back tells what is there."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)


def _reads_as(path: Path, content: bytes) -> bool:
    expected = memoryview(content)
    with path.open("rb") as file:
        for start in range(0, len(expected), _CHUNK):
            if file.read(_CHUNK) != expected[start : start + _CHUNK]:
                return False
        return not file.read(1)
