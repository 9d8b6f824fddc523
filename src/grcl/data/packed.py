"""Resized images packed into one file, once, and read from its memory map: later epochs decode nothing."""

import logging
import mmap
import os
import shutil
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import PIL
import torch
from numpy.lib import format as npy
from torch import Tensor

from grcl.data import decoding
from grcl.data.ahead import in_advance
from grcl.data.image_files import ImageFiles
from grcl.runtime.cache_folder import cache_folder
from grcl.runtime.errors import Refusal
from grcl.runtime.turns import one_at_a_time
from grcl.shapes import Int, UInt8

logger = logging.getLogger(__name__)

_BATCH = 256


class PackedImages:
    """Images in the memory map of an .npy file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            npy.read_magic(file)
            shape, _, kind = npy.read_array_header_1_0(file)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._pixels = np.ndarray(shape, kind, self._map, file.tell())
        self.path = path

    def __len__(self) -> int:
        return len(self._pixels)

    def read(self, index: Int[Tensor, " batch"]) -> UInt8[Tensor, "batch 3 height width"]:
        pixels = torch.from_numpy(self._pixels[index.numpy()])
        # The system keeps these pages as long as it likes, but they no longer count as this process's memory.
        self._map.madvise(mmap.MADV_DONTNEED)
        return pixels

    def start(self, index: Int[Tensor, " batch"]) -> Callable[[], Tensor]:
        return partial(self.read, index)


def packed(files: ImageFiles, fingerprint: str) -> PackedImages:
    """The images out of their packed file, which is made now if there is none; of several processes one makes it."""
    name = f"{fingerprint}-{decoding.RECIPE}-pillow-{PIL.__version__}"
    path = cache_folder() / "packed" / f"{name}.npy"
    try:
        with one_at_a_time(path.with_suffix(".lock")):
            if not _is_whole(path, files):
                _pack(files, path)
        return PackedImages(path)
    except OSError as error:
        raise Refusal(
            f"the images cannot be packed into {path.parent}: {error.strerror or error}; "
            "set GRCL_CACHE to a folder that takes them, or images.cache = false"
        ) from None


def _is_whole(path: Path, files: ImageFiles) -> bool:
    """Whether the file holds as many images of this size as there are files."""
    header = _header(files)
    try:
        with path.open("rb") as file:
            is_whole = file.read(len(header)) == header and path.stat().st_size == len(header) + _bytes(files)
    except FileNotFoundError:
        return False
    if not is_whole:
        logger.warning("the cache file %s is damaged and is made anew", path)
    return is_whole


def _pack(files: ImageFiles, path: Path) -> None:
    """Write all images aside, then give the file its name. What a killed process leaves aside is overwritten."""
    aside, needed = path.with_suffix(".unfinished"), _bytes(files)
    aside.unlink(missing_ok=True)
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise OSError(f"{needed / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB are free")
    logger.info("packing %s images, %.1f GB, into %s", f"{len(files):,}", needed / 1e9, path)
    try:
        with aside.open("wb") as file:
            file.write(_header(files))
            for pixels in in_advance(files.start(index) for index in torch.arange(len(files)).split(_BATCH)):
                file.write(pixels.numpy().data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _bytes(files: ImageFiles) -> int:
    return len(files) * 3 * files.size * files.size


def _header(files: ImageFiles) -> bytes:
    """The first bytes of an .npy file of these images, so that any reader of arrays can open it."""
    header = BytesIO()
    shape = (len(files), 3, files.size, files.size)
    npy.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return header.getvalue()
