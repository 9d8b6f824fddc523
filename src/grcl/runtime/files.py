"""Writing files so that a reader sees the old content or the new, never a half."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write aside in the same folder, flush to disk, rename."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself must outlive a power cut
    finally:
        os.close(folder)
