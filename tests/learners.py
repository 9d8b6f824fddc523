"""Learners small enough to fit and adapt in a second, on the images of `tiny`."""

from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

import tiny
from grcl.learner.learner import Learner
from grcl.runtime.progress import Display

QUICK: dict[str, Any] = {
    "training.epochs": 2,
    "training.threads": 1,
    "training.device": "cpu",
    "stage0.epochs": 12,
    "memory.size": 12,
    "images.workers": 0,
    "augmentation.flip_probability": 0.0,
}


def pixels(name: str, count: int = 24) -> Tensor:
    """Images of a domain of `tiny`."""
    return tiny.make(name, count, "train").images.read(torch.arange(count))


def labels(name: str, count: int = 24) -> Tensor:
    return tiny.make(name, count, "train").labels


def write_labelled(folder: Path, name: str, count: int = 24) -> Path:
    """The images of a domain in class folders; returns the folder."""
    for place, (image, label) in enumerate(zip(pixels(name, count), labels(name, count).tolist(), strict=True)):
        save(image, folder / tiny.CLASSES[label] / f"{place:03}.png")
    return folder


def write_flat(folder: Path, name: str, count: int = 24) -> Path:
    """The images of a domain without labels; returns the folder."""
    for place, image in enumerate(pixels(name, count)):
        save(image, folder / f"{place:03}.png")
    return folder


def save(image: Tensor, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)


def fitted(state: Path | None, display: Display | None = None, **options: Any) -> Learner:
    """A learner of the white images, given as arrays."""
    learner = Learner(state, display)
    learner.fit(pixels("white", 48), labels("white", 48), classes=tiny.CLASSES, settings=QUICK, **options)
    return learner
