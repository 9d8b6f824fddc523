"""Miniature trees of image files in the layouts of the public benchmarks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from grcl.benchmarks import domainnet

# The ten classes as Office-31 and as Caltech-256 name their folders.
OFFICE_CLASSES = {
    "back_pack": "003.backpack",
    "bike": "224.touring-bike",
    "calculator": "027.calculator",
    "headphones": "101.head-phones",
    "keyboard": "045.computer-keyboard",
    "laptop_computer": "127.laptop-101",
    "monitor": "046.computer-monitor",
    "mouse": "047.computer-mouse",
    "mug": "041.coffee-mug",
    "projector": "238.video-projector",
}


def write_image(path: Path, *seed: int) -> None:
    """A JPEG of 8x8 random pixels, different for every seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(256, size=(8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, quality=90)


def write_classes(folder: Path, names: Sequence[str], images: int = 3, seed: int = 0) -> None:
    """A folder of each name with as many images; the label is part of what they show."""
    for label, name in enumerate(names):
        for number in range(images):
            write_image(folder / name / f"frame_{number + 1:04}.jpg", seed, label, number)


def write_domainnet(folder: Path, images: int = 2, domains: Sequence[str] = domainnet.ORDER) -> None:
    """All 345 classes, `images` of each in the training list and one in the test list."""
    for seed, domain in enumerate(domains):
        lists: dict[str, list[str]] = {"train": [], "test": []}
        for label, name in enumerate(domainnet.CLASSES):
            for number in range(1, images + 2):
                path = f"{domain}/{name}/{domain}_{label + 1:03}_{number:06}.jpg"
                write_image(folder / path, seed, label, number)
                lists["train" if number <= images else "test"].append(f"{path} {label}\n")
        for part, lines in lists.items():
            (folder / f"{domain}_{part}.txt").write_text("".join(lines), encoding="utf-8")
