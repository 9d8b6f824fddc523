"""A benchmark small enough to train in a second: four kinds of bars in three domains. Tests register it as `tiny`."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grcl.benchmarks import BENCHMARKS, Benchmark
from grcl.config import RunSettings, resolve
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.split import Split, split_domain
from grcl.data.stream import Domain, Labelled, join
from grcl.runtime.seeding import derive, generator

CLASSES = ("horizontal", "vertical", "cross", "square")
ORDER = ("white", "dark", "noisy")

PRESET = str(Path(__file__).with_name("tiny.toml"))


def draw_glyphs(labels: Tensor, source: torch.Generator) -> Tensor:
    """Grey images in 0..1 with one glyph each, at a random place."""
    images = torch.zeros(len(labels), 32, 32)
    corners = torch.randint(2, 12, (len(labels), 2), generator=source).tolist()
    for image, label, (top, left) in zip(images, labels.tolist(), corners, strict=True):
        box = image[top : top + 18, left : left + 18]
        if label in (0, 2):
            box[7:11] = 1
        if label in (1, 2):
            box[:, 7:11] = 1
        if label == 3:
            box[:3] = box[-3:] = 1
            box[:, :3] = box[:, -3:] = 1
    return images


def make(name: str, count: int, part: str) -> Labelled:
    source = generator(0, name, part)
    labels = torch.arange(count) % len(CLASSES)
    images = draw_glyphs(labels, source)[:, None].expand(-1, 3, -1, -1)
    noise = torch.rand(images.shape, generator=source)
    mixed = {
        "white": 0.9 * images + 0.1 * noise,
        "dark": 0.8 * (1 - images) + 0.2 * noise,
        "noisy": 0.5 * images + 0.5 * noise,
    }[name]
    return Labelled(ImageArray((255 * mixed).to(torch.uint8)), labels)


def pool(name: str, data: Path | None, reading: Reading) -> Pool:
    both, places = join([make(name, 96, "train"), make(name, 48, "test")]), torch.arange(96 + 48)
    pixels = ImageArray(both.images.read(places))
    return Pool(pixels, both.labels, f"{derive(0, name):x}", (places[:96], places[96:]))


def domain(name: str) -> Domain:
    return split_domain(name, pool(name, None, Reading(size=32)), Split())


def register() -> None:
    BENCHMARKS["tiny"] = Benchmark("tiny", "tiny", "three domains of bars, for tests")


def tiny_settings(method: str, **changes: Any) -> RunSettings:
    """Settings of a run on `tiny`; keyword `memory__size=8` means memory.size = 8."""
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    return resolve("tiny", method, overrides, PRESET)


def logged(path: Path) -> list[dict[str, Any]]:
    """What the log of a run says, but for times and memory: the same whether it was stopped in between or not."""
    measured = ("seconds", "images_per_second", "peak_memory")
    lines = map(json.loads, (path / "log.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key not in measured} for line in lines]
