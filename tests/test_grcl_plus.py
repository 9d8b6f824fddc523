"""GRCL+ learns from the target's own labels, and its step is down the objective that its settings tell."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from grcl.benchmarks import BENCHMARKS, Benchmark
from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch
from grcl.data.stream import DomainStream, Labelled, Stage
from grcl.gradients import flatten
from grcl.memory.pseudo_labels import UNLABELLED
from grcl.methods.grcl_plus import GrclPlus
from grcl.networks import ENCODERS, Classifier
from test_learning import SmallEncoder, run_on_clouds
from test_methods import begun, feeder_of
from tiny import CLASSES, domain

# Points are no images: their numbers are left as they are.
AS_THEY_ARE: dict[str, Any] = {"augmentation__jitter_probability": 0.0, "augmentation__blur_probability": 0.0}


def test_self_training_finds_moved_clouds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_report: None
) -> None:
    """With neither veil nor style the target's own labels are all that GRCL+ has of it: without them it is the control,
    which the same settings leave behind."""
    monkeypatch.setitem(BENCHMARKS, "clouds", Benchmark("clouds", "test_learning", "three clouds of points"))
    monkeypatch.setitem(ENCODERS, "small", SmallEncoder)
    common = {"targets": ["below"], "training__epochs": 10, **AS_THEY_ARE}
    control = run_on_clouds("source_continued", tmp_path, tmp_path / "stage0", **common)
    adapted = run_on_clouds(
        "grcl_plus", tmp_path, tmp_path / "stage0", grcl_plus__veil=0.0, grcl_plus__style=False, **common
    )
    assert adapted.values[-1, 1] > control.values[-1, 1] + 0.02


@pytest.fixture(scope="module")
def stage() -> Stage:
    """The third of a stream: two episodes are remembered."""
    stream = DomainStream(CLASSES, (domain("white"),), ((domain("dark"),), (domain("noisy"),), (domain("dark"),)))
    memory = [Labelled(part.train.images, part.train.labels) for (part,) in stream.targets[:2]]
    return stream.stage(3, memory, Augmentation())


def losses_of(network: Classifier, batch: Batch, labels: Tensor) -> dict[str, Tensor]:
    """Every loss by itself, where no image is veiled or styled: `labels` are those that the whole target has."""
    target, chosen = batch["target"], labels[batch["target"].index]
    expected = len(chosen) * (labels != UNLABELLED).float().mean()  # of a batch so many have a label
    losses = {
        "target": F.cross_entropy(network(target.images), chosen, ignore_index=UNLABELLED, reduction="sum") / expected
    }
    for name in batch.keys() - {"target"}:
        images, classes = batch[name].images, batch[name].labels
        assert classes is not None
        for half, first in ((name, 0), (f"{name} in style", 1)):
            losses[half] = F.cross_entropy(network(images[first::2]), classes[first::2])
    return losses


def gradient(losses: Mapping[str, Tensor], weights: Mapping[str, float], network: Classifier) -> Tensor:
    parameters = list(network.parameters())
    total = torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()
    return flatten(torch.autograd.grad(total, parameters), parameters)


def weights_of(network: Classifier) -> Tensor:
    parameters = list(network.parameters())
    return flatten(parameters, parameters)


# Halves of 0.6, and of 0.9 over all episodes.
SOURCE = {"target": 0.7, "source": 0.3, "source in style": 0.3}
JOINT = {**SOURCE, "memory": 0.45, "memory in style": 0.45}
APART = {**SOURCE, **{f"memory_{k}{half}": 0.225 for k in (1, 2) for half in ("", " in style")}}


def begun_plainly(stage: Stage, **changes: Any) -> GrclPlus:
    """Descent at rate 1 by the weights above, without veil, style and constraints, but for the changes."""
    settings: dict[str, Any] = {
        "target_weight": 0.7,
        "source_weight": 0.6,
        "memory_weight": 0.9,
        "veil": 0.0,
        "style": False,
        "source_constraint": False,
        "memory_constraint": "off",
        "projected": "gradient",
        "optimizer__rule": "sgd",
        "optimizer__rate": 1.0,
        "optimizer__momentum": 0.0,
    }
    method = begun("grcl_plus", stage, {f"grcl_plus__{name}": value for name, value in (settings | changes).items()})
    assert isinstance(method, GrclPlus)
    return method


@pytest.mark.parametrize(("constraint", "weights"), [("off", JOINT), ("joint", JOINT), ("per_domain", APART)])
def test_a_step_is_down_the_logged_losses_by_their_weights(
    constraint: str, weights: dict[str, float], stage: Stage
) -> None:
    """Plain descent at rate 1 subtracts the gradient; what constraints hold back is added with their multipliers."""
    method = begun_plainly(stage, memory_constraint=constraint)
    network, batch = copy.deepcopy(method.network), feeder_of(method, stage).batch(0)
    log = method.step(batch, 0.0)

    losses = losses_of(network, batch, method.self_training.labels)
    assert_close({name: log[f"loss/{name}"] for name in losses}, {name: loss.detach() for name, loss in losses.items()})
    total = {name: weight + float(log.get(f"multiplier/{name}", 0.0)) for name, weight in weights.items()}
    assert_close(weights_of(network) - weights_of(method.network), gradient(losses, total, network))


def test_with_the_contrast_a_step_is_down_it_too_and_its_keys_follow(stage: Stage) -> None:
    """Where all keys of the bank are asked for, it is the cross-entropy of picking one's own among them."""
    method = begun_plainly(stage, contrast_weight=0.4)
    contrast = copy.deepcopy(method.contrast)
    assert contrast
    assert method.contrast
    network, batch = copy.deepcopy(method.network), feeder_of(method, stage).batch(0)
    keys, index = contrast.bank.keys, batch["union"].index
    log = method.step(batch, 0.0)

    fresh = contrast.embed(network, batch["union"].images)
    own = F.cross_entropy(fresh @ keys.T / contrast.settings.temperature, index)
    assert_close(log["loss/contrast"], own.detach())
    labelled = {name: samples for name, samples in batch.items() if name != "union"}
    losses = losses_of(network, labelled, method.self_training.labels) | {"contrast": own}
    step = weights_of(network) - weights_of(method.network)
    assert_close(step, gradient(losses, JOINT | {"contrast": 0.4}, network))
    assert_close(method.contrast.bank.keys[index], F.normalize(keys[index] + fresh.detach(), dim=1))
    assert_close(keys, contrast.embed(network, stage.union(True).read(torch.arange(len(keys))).float() / 255).detach())


@pytest.mark.parametrize("holds_memory", [True, False])
def test_a_contrast_that_knows_classes_has_them_where_the_images_are(holds_memory: bool, stage: Stage) -> None:
    own = {"contrast__same_class": "neither", "contrast__bank_holds_memory": holds_memory}
    method = begun_plainly(stage, contrast_weight=0.4, **own)
    method.step(feeder_of(method, stage).batch(0), 0.0)
    memory = [episode.labels for episode in stage.memory] if holds_memory else []
    assert method.contrast
    assert torch.equal(method.contrast.labels, torch.cat([stage.source.labels, *memory, method.self_training.labels]))
    assert (method.self_training.labels != UNLABELLED).any()
