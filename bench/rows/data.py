"""Batches with augmentation, in images a second, against a torchvision DataLoader with two workers, and kornia."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

from bench.line import Line, at_least
from bench.peer import Peer
from bench.timing import Times, timed
from grcl.data.augment import Augmentation
from grcl.data.feeds import Feed, Feeder
from grcl.data.file_pool import pool_of_files
from grcl.data.images import Images
from grcl.data.reading import Reading

BATCH = 256


def measure(rounds: int) -> Iterator[Line]:
    for size, count, bound in ((32, 4096, 10.0), (224, 512, 1.5)):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["GRCL_CACHE"] = f"{folder}/cache"
            yield from _lines(Path(folder) / "images", size, count, bound, rounds)


def _lines(folder: Path, size: int, count: int, bound: float, rounds: int) -> Iterator[Line]:
    """One epoch of `count` images; theirs are read from the same files, ours after the cache is made."""
    names = _write(folder, size, count)
    pool = pool_of_files(folder, [(name, 0) for name in names], Reading(size=size, cache=True))
    peer = Peer("data", folder, size, BATCH)
    works = {"ours": timed(lambda: _epoch(pool.images))}
    works |= {name: lambda name=name: peer.ask(name) for name in ("epoch", "kornia")}
    times = Times(works, rounds)
    peer.close()
    others = {
        "epoch": ("DataLoader with 2 workers", at_least(bound)),
        "kornia": ("kornia on whole batches in memory", None),
    }
    for name, (title, goal) in others.items():
        speeds = (f"{count / times.of(each):,.0f}/s" for each in ("ours", name))
        yield Line("data", f"{size} px, images/s: ours / {title}", *speeds, times.ratio(name, "ours"), goal)


def _epoch(images: Images) -> None:
    feeder = Feeder(
        [Feed("all", images, augmentation=Augmentation(), clock=len(images))], BATCH, (0, 0), torch.device("cpu")
    )
    for _ in feeder.batches(0, feeder.steps_per_epoch):
        pass


def _write(folder: Path, size: int, count: int) -> list[str]:
    """Smooth pictures as files: PNG for the small, JPEG for the large, in the class folder that ImageFolder wants."""
    source = torch.Generator().manual_seed(0)
    (folder / "class").mkdir(parents=True)
    ending = "jpg" if size > 100 else "png"
    names = [f"class/{place:05}.{ending}" for place in range(count)]
    for name in names:
        coarse = torch.rand(1, 3, 16, 16, generator=source)
        pixels = (255 * interpolate(coarse, size=(size, size), mode="bilinear")[0]).byte().permute(1, 2, 0)
        Image.fromarray(np.ascontiguousarray(pixels.numpy())).save(folder / name)
    return names
