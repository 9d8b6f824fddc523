"""Every phase of DADA takes its own loss the right way, and moves its own modules alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch
from grcl.data.stream import DomainStream, Stage
from grcl.gradients import flatten
from grcl.methods.dada import Dada
from grcl.methods.disentangler import KINDS
from test_methods import begun, feeder_of
from tiny import CLASSES, domain

# Without weights, momentum and decay a phase has no way to move anything.
SILENT: dict[str, Any] = {
    **{f"dada__{name}_weight": 0.0 for name in ("ring", "information", "adversary", "reconstruction")},
    "dada__dropout": 0.0,
    "dada__warm_up_steps": 0,
    "dada__optimizer__beta1": 0.0,
    "dada__optimizer__weight_decay": 0.0,
}
# Their phases have no weight: they learn in every step.
ALWAYS = {"estimator", "discriminator"}


@pytest.fixture(scope="module")
def stage() -> Stage:
    stream = DomainStream(CLASSES, (domain("white"),), ((domain("dark"),),))
    return stream.stage(1, [], Augmentation())


def silent(stage: Stage, **weights: float) -> tuple[Dada, Batch]:
    """DADA but for what is given a weight, and a batch."""
    method = begun("dada", stage, SILENT | {f"dada__{name}_weight": value for name, value in weights.items()})
    assert isinstance(method, Dada)
    method.train()
    return method, feeder_of(method, stage).batch(0)


def settled(stage: Stage, **weights: float) -> tuple[Dada, Batch]:
    """The same where no class is left to learn, which has no weight either: the batch is of one class, and the heads
    are sure of it whatever they see."""
    method, batch = silent(stage, **weights)
    with torch.no_grad():
        for kind in KINDS:
            head = method.disentangler.heads[kind]
            assert isinstance(head, nn.Linear)
            head.weight.zero_()
            head.bias[0] = 200  # by so much that the gradient is zero to the last bit
    return method, {**batch, "source": replace(batch["source"], labels=torch.zeros(16, dtype=torch.long))}


def hold(method: Dada, name: str) -> None:
    """What it would learn is not what is looked at."""
    method.optimizers[name].param_groups[0]["lr"] = 0.0


def weights_of(method: Dada) -> dict[str, Tensor]:
    """All that could move, by name."""
    parts = method.disentangler
    modules: dict[str, nn.Module] = {
        **{kind: parts.parts[kind] for kind in KINDS},
        "encoder": method.network.encoder,
        "head": method.network.head,
        "heads": parts.heads,
        "reconstructor": parts.reconstructor,
        "estimator": method.estimator,
        "discriminator": method.discriminator,
    }
    lists = {name: list(module.parameters()) for name, module in modules.items()}
    return {name: flatten(parameters, parameters) for name, parameters in lists.items()}


def step_and_compare(method: Dada, batch: Batch, loss: Callable[[], Tensor]) -> tuple[set[str], Tensor]:
    """What one step moves, and by how much it lets a loss of the same batch fall."""
    with torch.no_grad():
        before, start = weights_of(method), loss()
    method.step(batch, 0.0)
    with torch.no_grad():
        after, end = weights_of(method), loss()
    return {name for name in before if not torch.equal(before[name], after[name])}, start - end


def images_of(batch: Batch) -> Tensor:
    return torch.cat([batch["source"].images, batch["target"].images])


def separated(method: Dada, batch: Batch) -> dict[str, Tensor]:
    return method.disentangler.separate(method.network.features(images_of(batch)))


def information(method: Dada, batch: Batch) -> Tensor:
    """The estimator's bound, the mean over many shuffles: that of a step is not the one it is judged by."""
    z, bounds = method.fixed_features(images_of(batch)), []
    for seed in range(30):
        torch.manual_seed(seed)
        bounds.append(method.information(z, len(batch["source"].index)))
    return torch.stack(bounds).mean()


def test_classes_are_learnt_by_the_encoder_and_every_kind_of_features(stage: Stage) -> None:
    method, batch = silent(stage)
    hold(method, "irrelevant")  # the next phase undoes what it learns
    source = batch["source"]

    def losses() -> Tensor:
        z = method.network.features(source.images)
        scores = [method.disentangler.classes(z, kind) for kind in KINDS]
        assert source.labels is not None
        return torch.stack([F.cross_entropy(each, source.labels) for each in scores])

    moved, falls = step_and_compare(method, batch, losses)
    assert (falls > 0).all()
    assert moved == ALWAYS | {"encoder", "specific", "invariant", "heads"}


def test_where_no_class_is_left_to_learn_nothing_moves_without_a_weight(stage: Stage) -> None:
    """What the tests of the other phases rest on."""
    moved, _ = step_and_compare(*settled(stage), lambda: torch.zeros(()))
    assert moved == ALWAYS


def test_the_ring_loss_moves_the_encoder_to_features_of_one_length(stage: Stage) -> None:
    method, batch = settled(stage, ring=1.0)

    def spread() -> Tensor:
        lengths: Tensor = method.network.features(images_of(batch)).norm(dim=1)
        return lengths.std() / lengths.mean()

    moved, fall = step_and_compare(method, batch, spread)
    assert fall > 0
    assert moved == ALWAYS | {"encoder"}


def test_class_irrelevant_features_unlearn_the_classes(stage: Stage) -> None:
    """Their head is held to nothing by this phase: it stays able to tell what there is to be told."""
    method, batch = settled(stage)
    head = method.disentangler.heads["irrelevant"]
    assert isinstance(head, nn.Linear)
    nn.init.normal_(head.weight)

    def distance_from_uniform() -> Tensor:
        scores = head(separated(method, batch)["irrelevant"])
        return F.cross_entropy(scores, torch.full_like(scores, 1 / len(CLASSES)))

    moved, fall = step_and_compare(method, batch, distance_from_uniform)
    assert fall > 0
    assert moved == ALWAYS | {"irrelevant"}


def test_the_estimator_ascends_to_a_higher_bound_on_the_information(stage: Stage) -> None:
    method, batch = settled(stage)
    moved, fall = step_and_compare(method, batch, lambda: information(method, batch))
    assert fall < 0
    assert moved == ALWAYS


def test_the_kinds_of_features_descend_the_information_that_the_estimator_finds(stage: Stage) -> None:
    method, batch = settled(stage, information=1.0)
    hold(method, "estimator")  # its ascent would hide their descent
    moved, fall = step_and_compare(method, batch, lambda: information(method, batch))
    assert fall > 0
    assert moved == {"discriminator", *KINDS}


def domain_losses(method: Dada, batch: Batch, source_is: float) -> Tensor:
    """Cross-entropy of taking the source's invariant features for this and the target's for the contrary."""
    scores = method.discriminator(separated(method, batch)["invariant"])
    halves = scores.split(len(batch["source"].index))
    labels = [torch.full_like(half, label) for half, label in zip(halves, (source_is, 1 - source_is), strict=True)]
    return F.binary_cross_entropy_with_logits(scores, torch.cat(labels))


def test_the_discriminator_learns_to_tell_the_domains(stage: Stage) -> None:
    method, batch = settled(stage)
    moved, fall = step_and_compare(method, batch, lambda: domain_losses(method, batch, source_is=0.0))
    assert fall > 0
    assert moved == ALWAYS


def test_the_encoder_and_the_invariant_features_fool_the_discriminator(stage: Stage) -> None:
    method, batch = settled(stage, adversary=1.0)
    hold(method, "discriminator")  # it would not be fooled by the same again
    moved, fall = step_and_compare(method, batch, lambda: domain_losses(method, batch, source_is=1.0))
    assert fall > 0
    assert moved == {"estimator", "encoder", "invariant"}


@pytest.mark.parametrize(("weight", "part"), [("information", "estimator"), ("adversary", "discriminator")])
def test_what_is_to_find_nothing_is_left_as_good_at_finding(weight: str, part: str, stage: Stage) -> None:
    """Where features descend what the estimator finds, or fool the discriminator, that part itself stays as it was."""
    parts = []
    for value in (0.0, 1.0):
        method, batch = settled(stage, **{weight: value})
        torch.manual_seed(0)  # shuffles
        method.step(batch, 0.0)
        parts.append(weights_of(method)[part])
    assert torch.equal(*parts)


def test_the_kinds_of_features_and_the_reconstructor_learn_to_rebuild_what_they_were_made_of(stage: Stage) -> None:
    method, batch = settled(stage, reconstruction=1.0)

    def distance() -> Tensor:
        z, kinds = method.network.features(images_of(batch)), separated(method, batch)
        pairs = [torch.cat([kinds[kind], kinds["irrelevant"]], dim=1) for kind in ("specific", "invariant")]
        return torch.stack([F.mse_loss(method.disentangler.reconstructor(pair), z) for pair in pairs]).mean()

    moved, fall = step_and_compare(method, batch, distance)
    assert fall > 0
    assert moved == ALWAYS | {"reconstructor", *KINDS}
