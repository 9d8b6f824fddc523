"""Arrays that are made once and kept in the user's cache folder, safely under parallel processes."""

import contextlib
import hashlib
import logging
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grcl.runtime.cache_folder import cache_folder as cache_folder

Arrays = dict[str, NDArray[Any]]

logger = logging.getLogger(__name__)


def load_or_make(path: Path, make: Callable[[], Arrays]) -> Arrays:
    """The arrays kept in the file, made and kept now if there are none."""
    arrays = read(path)
    if arrays is None:
        arrays = make()
        keep(path, arrays)
    return arrays


def fingerprint(*arrays: NDArray[Any]) -> str:
    """16 hex digits that change with any type, shape or byte of the arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def read(path: Path) -> Arrays | None:
    """The arrays in the file, or None if they have to be made."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except FileNotFoundError:
        return None
    except Exception as error:  # a damaged file fails in many ways, and making it anew mends them all
        logger.warning("the cache file %s cannot be read (%s) and is made anew", path, error)
        return None


def keep(path: Path, arrays: Arrays) -> None:
    """Write the file whole or not at all; a folder that cannot be written only costs time at the next start."""
    unfinished = path.with_name(f".{path.stem}-{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_through(unfinished, arrays)
        unfinished.replace(path)
    except OSError as error:
        logger.info("nothing is kept in %s (%s); set GRCL_CACHE to a folder that can be written", path.parent, error)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def write_through(path: Path, arrays: dict[str, Any]) -> None:
    """Write the arrays and wait until they are on the disk."""
    with path.open("xb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())
