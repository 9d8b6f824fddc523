"""Passes in parts, short passes and compiled ones: settings that change what a pass holds, not what is learned."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from grcl.data.augment import Augmentation
from grcl.data.feeds import Feeder
from grcl.data.stream import DomainStream, Labelled, Stage
from grcl.methods import Method
from grcl.networks import Network, build
from grcl.networks.lenet import LeNet5
from grcl.run import run
from grcl.runtime.seeding import seed_everything
from test_methods import begun
from tiny import CLASSES, domain, logged, tiny_settings

MOST = 7  # images of a pass, which divides no batch
# Fewer negatives than the bank has keys, so that they are drawn. Adam would blow up the rounding of small gradients.
FEW, DESCENT = {"contrast__negatives": 20}, {"optimizer__rule": "sgd", "optimizer__rate": 0.01}
IN_PARTS: list[tuple[str, dict[str, Any]]] = [
    ("grcl", FEW),
    ("grcl", {**FEW, "contrast__query": "two_views"}),
    ("multi_task", FEW),
    ("grcl_plus", DESCENT),
    ("grcl_plus", {**DESCENT, **FEW, "contrast_weight": 0.3, "contrast__same_class": "positive"}),
]


@pytest.fixture(scope="module")
def stage() -> Stage:
    """The second of a stream: it has a memory."""
    stream = DomainStream(CLASSES, (domain("white"),), ((domain("dark"),), (domain("noisy"),)))
    dark = stream.targets[0][0].train
    return stream.stage(2, [Labelled(dark.images, dark.labels)], Augmentation())


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all passes to come that have a gradient."""
    sizes: list[int] = []
    forward = LeNet5.forward

    def noted(self: LeNet5, images: Tensor) -> Tensor:
        features: Tensor = forward(self, images)
        if features.requires_grad:
            sizes.append(len(images))
        return features

    monkeypatch.setattr(LeNet5, "forward", noted)
    return sizes


def step_in_parts(method: Method, stage: Stage, micro_batch: int | None) -> dict[str, Tensor]:
    batch = Feeder(method.feeds(stage), 16, (0, stage.index), torch.device("cpu"), micro_batch).batch(0)
    method.train()
    seed_everything(0, "step")
    return method.step(batch, 0.5)


@pytest.mark.parametrize(("name", "own"), IN_PARTS)
def test_a_step_in_parts_is_the_step_on_the_whole_batch(
    name: str, own: dict[str, Any], stage: Stage, passes: list[int]
) -> None:
    """The same losses, keys and weights, which negatives drawn anew for every part would all change."""
    changes = {f"{name}__{key}": value for key, value in own.items()}
    logs, states = [], []
    for micro_batch in (None, MOST):
        method = begun(name, stage, changes)
        passes.clear()
        logs.append(step_in_parts(method, stage, micro_batch))
        states.append(dict(method.state_dict()))
        assert (max(passes) <= MOST) == (micro_batch is not None)
    assert_close(logs[1], logs[0], rtol=1e-5, atol=1e-5)
    assert_close(states[1], states[0], rtol=1e-5, atol=1e-5)


def test_a_run_takes_the_parts_that_its_settings_tell(tmp_path: Path, passes: list[int], without_report: None) -> None:
    losses, largest = [], []
    for size in (None, MOST):
        settings = tiny_settings("grcl", targets=["dark"], training__micro_batch=size)
        passes.clear()
        run(settings, tmp_path / str(size), tmp_path / "stage0")
        losses.append(
            [line["values"]["loss/source"] for line in logged(tmp_path / str(size)) if line["kind"] == "step"]
        )
        largest.append(max(passes))
    whole, parts = (torch.tensor(values) for values in losses)
    assert largest == [settings.training.batch_size, MOST]
    assert_close(parts, whole, rtol=1e-4, atol=1e-4)  # the rounding grows from step to step


def test_short_passes_keep_weights_and_features_in_32_bits() -> None:
    torch.manual_seed(0)
    network, images = build(Network(precision="bf16"), 10), torch.rand(4, 3, 32, 32)
    features = network.features(images)
    assert features.dtype == torch.float32
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}
    network.has_short_passes = False
    exact = network.features(images)
    assert not torch.equal(features, exact)
    assert torch.allclose(features, exact, atol=0.02)
