"""Every method learns: on a shift that it is made for, it beats the control that never sees the target."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grcl.benchmarks import BENCHMARKS, Benchmark
from grcl.config import resolve
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.stream import Labelled, join
from grcl.networks import ENCODERS
from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.run import run
from grcl.runtime.seeding import generator
from tiny import PRESET, tiny_settings

CLASSES = ("a", "b", "c")
ORDER = ("here", "below", "above")
MOVES = {"here": 0.0, "below": -0.25, "above": 0.25}


class SmallEncoder(nn.Module):
    """Two layers over twelve numbers."""

    feature_size = 16
    input_size = 2

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images)
        return features


def clouds(name: str, part: str) -> Labelled:
    """Three clouds of points in a plane within images of twelve numbers; the target's are the source's, moved."""
    source = generator(0, name, part)
    plane = torch.linalg.qr(torch.randn(12, 12, generator=torch.Generator().manual_seed(5)))[0][:, :2]
    labels = torch.arange(300) % len(CLASSES)
    angles = 2 * math.pi * labels / len(CLASSES)
    centres = 0.35 * torch.stack([angles.cos(), angles.sin()], dim=1)
    points = centres + torch.tensor([0.0, MOVES[name]]) + 0.07 * torch.randn(300, 2, generator=source)
    images = (points @ plane.T + 0.5 + 0.02 * torch.randn(300, 12, generator=source)).clamp(0, 1)
    return Labelled(ImageArray((255 * images).to(torch.uint8).reshape(-1, 3, 2, 2)), labels)


def pool(name: str, data: Path | None, reading: Reading) -> Pool:
    both, places = join([clouds(name, "train"), clouds(name, "test")]), torch.arange(600)
    return Pool(ImageArray(both.images.read(places)), both.labels, name, (places[:300], places[300:]))


@pytest.fixture(scope="module")
def source_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stage0")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch, without_report: None) -> None:
    monkeypatch.setitem(BENCHMARKS, "clouds", Benchmark("clouds", __name__, "three clouds of points"))
    monkeypatch.setitem(ENCODERS, "small", SmallEncoder)


def run_on_clouds(method: str, path: Path, source_models: Path, **changes: Any) -> AccuracyMatrix:
    common = {
        "network.name": "small",
        "stage0.epochs": 20,
        "training.epochs": 30,
        "training.batch_size": 50,
        "memory.size": 100,
    }
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    return run(resolve("clouds", method, {**common, **overrides}, PRESET), path / method, source_models)


# Settings of the methods that align features, on points that are not augmented.
ALIGNING: dict[str, dict[str, Any]] = {
    "dann": {"dann__augment": False},
    "mcd": {"mcd__augment": False, "mcd__optimizer__rate": 1e-3},
    "dada": {"dada__augment": False, "dada__optimizer__rate": 1e-3, "dada__adversary_weight": 1.0},
    "cua": {"cua__augment": False},
    "gra": {"gra__augment": False},
}


@pytest.mark.parametrize("method", ALIGNING)
def test_aligning_methods_find_moved_clouds(method: str, tmp_path: Path, source_models: Path) -> None:
    stream = {"targets": ["below"]}
    control = run_on_clouds(
        "source_continued", tmp_path, source_models, source_continued__augment_source=False, **stream
    )
    adapted = run_on_clouds(method, tmp_path, source_models, **ALIGNING[method], **stream)
    assert adapted.values[-1, 1] > control.values[-1, 1] + 0.02


def test_methods_with_a_memory_lose_less_of_the_first_of_two_conflicting_targets(
    tmp_path: Path, source_models: Path
) -> None:
    """Clouds moved down, then up: what fits the second target undoes what fitted the first.

    The memory holds the whole first target: its most confident third has next to no gradient, and holds little.
    """
    lost = {}
    for method, own in ALIGNING.items():
        R = run_on_clouds(method, tmp_path, source_models, memory__size=300, **own).values
        lost[method] = float(R[1, 1] - R[2, 1])
    assert max(lost["cua"], lost["gra"]) < min(lost["dann"], lost["mcd"], lost["dada"]), lost


@pytest.mark.parametrize("method", ["multi_task", "grcl"])
def test_contrastive_methods_learn_that_dark_bars_are_bars(method: str, tmp_path: Path, source_models: Path) -> None:
    """The views of the contrastive loss invert colours, the source's cross-entropy sees none inverted: that a dark bar
    is a bar can be learnt from the unlabelled views alone."""
    common: dict[str, Any] = {
        "targets": ["dark"],
        "stage0__epochs": 12,
        "training__epochs": 60,
        "augmentation__invert_probability": 0.5,
    }
    accuracies = {}
    for name, temperature in (("source_continued", {}), (method, {f"{method}__contrast__temperature": 0.2})):
        settings = tiny_settings(name, **common, **temperature, **{f"{name}__augment_source": False})
        accuracies[name] = run(settings, tmp_path / name, source_models).values[-1, 1]
    assert accuracies[method] > accuracies["source_continued"] + 0.2
