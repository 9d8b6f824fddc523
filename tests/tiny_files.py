"""The images of `tiny` as PNG files. Importing this registers the benchmark as `tiny_files`."""

from pathlib import Path
from typing import Any

import torch
from PIL import Image

import tiny
from grcl.benchmarks import BENCHMARKS, Benchmark
from grcl.config import RunSettings, resolve
from grcl.data.file_pool import pool_of_files
from grcl.data.pool import Pool
from grcl.data.reading import Reading

CLASSES = tiny.CLASSES
ORDER = tiny.ORDER


def write(folder: Path) -> Path:
    """One folder per domain, one file per image of its pool; returns the folder."""
    for name in ORDER:
        images = tiny.pool(name, None, Reading(size=32)).images
        (folder / name).mkdir(parents=True)
        for place, pixels in enumerate(images.read(torch.arange(len(images)))):
            Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(folder / name / f"{place:03}.png")
    return folder


def pool(name: str, data: Path | None, reading: Reading) -> Pool:
    assert data is not None
    plain = tiny.pool(name, None, reading)
    files = [(f"{name}/{place:03}.png", int(label)) for place, label in enumerate(plain.labels)]
    return pool_of_files(data, files, reading, sides=plain.sides)


def file_settings(method: str, data: Path, **changes: Any) -> RunSettings:
    """Settings of a run on `tiny_files`; keyword `images__workers=2` means images.workers = 2."""
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    return resolve("tiny_files", method, {**overrides, "data": data}, tiny.PRESET)


BENCHMARKS["tiny_files"] = Benchmark("tiny_files", "tiny_files", "the domains of tiny as files, for tests")
