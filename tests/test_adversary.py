"""CUA and GRA: the target's features are to pass for those that the source has in θ_0, which stays as it was."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch
from grcl.data.stream import DomainStream, Labelled
from grcl.methods.cua import Cua
from grcl.methods.gra import Gra
from grcl.networks import Classifier
from test_methods import begun, feeder_of, take_steps
from tiny import CLASSES, domain

# Rates at which a few steps carry the network away from θ_0, and at which the discriminator sees it.
FAST: dict[str, dict[str, Any]] = {
    "cua": {"cua__optimizer__rate": 2e-3, "cua__adversary__optimizer__rate": 2e-3},
    "gra": {"gra__optimizer__rate": 0.05, "gra__adversary__optimizer__rate": 2e-3},
}


@pytest.fixture(scope="module")
def stream() -> DomainStream:
    return DomainStream(CLASSES, (domain("white"),), ((domain("dark"),), (domain("noisy"),)))


def expected_loss(method: Cua | Gra, reference: Classifier, batch: Batch) -> Tensor:
    """Of telling the reference's source features (0) from the live network's target features (1)."""
    with torch.no_grad():
        sides = reference.features(batch["source"].images), method.network.features(batch["target"].images)
        scores = [method.adversary.discriminator(features) for features in sides]
        losses = [
            F.binary_cross_entropy_with_logits(score, torch.full_like(score, label))
            for score, label in zip(scores, (0.0, 1.0), strict=True)
        ]
    return torch.stack(losses).mean()


@pytest.mark.parametrize("name", FAST)
def test_source_features_are_those_of_the_source_model_in_every_stage(name: str, stream: DomainStream) -> None:
    """Not of the live network, and in the second stage not of the model that the first one left."""
    dark = stream.targets[0][0].train
    memory = [Labelled(dark.images, dark.labels)]
    stages = [stream.stage(index, memory, Augmentation()) for index in (1, 2)]
    method = begun(name, stages[0], FAST[name])
    assert isinstance(method, Cua | Gra)
    source_model = copy.deepcopy(method.network)
    left: list[Classifier] = []
    for stage in stages:
        method.begin(stage)
        take_steps(method, stage, range(8))
        batch = feeder_of(method, stage).batch(8)
        expected = expected_loss(method, source_model, batch)
        wrong = [expected_loss(method, reference, batch) for reference in (method.network, *left)]
        assert_close(method.step(batch, 0.8)["loss/domain"], expected)
        assert all(abs(other - expected) > 1e-3 for other in wrong), "another reference would be seen"
        left.append(copy.deepcopy(method.network))


@pytest.mark.parametrize("name", FAST)
def test_no_step_moves_the_reference(name: str, stream: DomainStream) -> None:
    stage = stream.stage(1, [], Augmentation())
    method = begun(name, stage, FAST[name])
    assert isinstance(method, Cua | Gra)
    before = copy.deepcopy(method.adversary.reference.state_dict())
    take_steps(method, stage, range(3))
    assert not method.adversary.reference.training
    assert_close(method.adversary.reference.state_dict(), before, rtol=0, atol=0)
