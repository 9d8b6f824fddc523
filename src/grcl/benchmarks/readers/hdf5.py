"""USPS as Kaggle has it: usps.h5 with the groups train and test, each with data (n, 256) in 0..1 and target (n)."""

from pathlib import Path
from typing import Any

import numpy as np

from grcl.benchmarks.readers.part import Part, check_claim, grey_levels, make_part, refusing
from grcl.runtime.errors import Refusal

SIDE = 16


def read_hdf5(path: Path) -> tuple[Part, Part]:
    """Grey images of 16x16 pixels."""
    try:
        import h5py  # type: ignore[import-untyped]  # only this one format needs it
    except ImportError:
        raise Refusal(f'{path} needs the package h5py: "pip install h5py", or use usps.bz2 and usps.t.bz2') from None
    with refusing(path), h5py.File(path, "r") as file:
        stored = path.stat().st_size
        return read_group(file, "train", stored), read_group(file, "test", stored)


def read_group(file: Any, name: str, stored: int) -> Part:
    """One part, after a look at what its datasets claim to be."""
    for dataset in (f"{name}/data", f"{name}/target"):
        if dataset not in file:
            raise ValueError(f"{dataset} is missing")
        check_claim(file[dataset].nbytes, stored)
    data, target = file[f"{name}/data"], file[f"{name}/target"]
    if data.ndim != 2 or data.shape[1] != SIDE * SIDE or data.dtype.kind != "f":
        raise ValueError(f"{name}/data is {data.dtype} of shape {data.shape}, not floats of (n, {SIDE * SIDE})")
    images = grey_levels(np.asarray(data[:])).reshape(-1, SIDE, SIDE)
    return make_part(images, np.asarray(target[:]))
