"""The contract of every method, checked on each of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from grcl import networks
from grcl.data.augment import Augmentation
from grcl.data.feeds import Feeder
from grcl.data.stream import DomainStream, Labelled, Stage
from grcl.methods import METHODS, Method
from grcl.networks import Network
from grcl.runtime.seeding import seed_everything
from tiny import CLASSES, domain, tiny_settings


@pytest.fixture(scope="module")
def stream() -> DomainStream:
    return DomainStream(CLASSES, (domain("white"),), ((domain("dark"),), (domain("noisy"),)))


def stage_of(stream: DomainStream, index: int) -> Stage:
    """Stage 1 has no memory yet, stage 2 has one episode."""
    dark = stream.targets[0][0].train
    episode = Labelled(dark.images, dark.labels)
    return stream.stage(index, [episode], Augmentation())


WITH_CONTRAST = {"grcl_plus__contrast_weight": 0.3, "grcl_plus__contrast__same_class": "positive"}
EVERY = [*((name, {}) for name in METHODS), ("grcl_plus", WITH_CONTRAST)]


def begun(name: str, stage: Stage, changes: dict[str, Any] | None = None) -> Method:
    settings = tiny_settings(name, **(changes or {}))
    seed_everything(0, "network")
    method = METHODS[name](networks.build(Network(), len(CLASSES)), settings.own)
    seed_everything(0, "begin")
    method.begin(stage)
    method.warm_up(stage)
    return method


def feeder_of(method: Method, stage: Stage) -> Feeder:
    return Feeder(method.feeds(stage), 16, (0, stage.index), torch.device("cpu"))


def take_steps(method: Method, stage: Stage, steps: range) -> dict[str, torch.Tensor]:
    feeder, log = feeder_of(method, stage), {}
    method.train()
    for step in steps:
        seed_everything(0, stage.index, step)
        log = method.step(feeder.batch(step), step / 10)
    return log


@pytest.mark.parametrize("index", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_a_step_logs_finite_detached_scalars(name: str, index: int, stream: DomainStream) -> None:
    stage = stage_of(stream, index)
    method = begun(name, stage)
    log = take_steps(method, stage, range(3))
    for value in log.values():
        assert value.ndim == 0
        assert not value.requires_grad
        assert value.isfinite()
    images = torch.rand(5, 3, 32, 32)
    assert method.predict(images).shape == (5, len(CLASSES))


@pytest.mark.parametrize(("name", "changes"), [each for each in EVERY if each[0] != "source_only"])
def test_one_feed_is_the_clock_and_steps_move_the_network(
    name: str, changes: dict[str, Any], stream: DomainStream
) -> None:
    stage = stage_of(stream, 1)
    method = begun(name, stage, changes)
    assert sum(feed.clock is not None for feed in method.feeds(stage)) == 1
    before = [parameter.clone() for parameter in method.network.parameters()]
    take_steps(method, stage, range(1))
    assert any(not torch.equal(a, b) for a, b in zip(before, method.network.parameters(), strict=True))


def assert_same(a: Any, b: Any) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("index", [1, 2])
@pytest.mark.parametrize(("name", "changes"), EVERY)
def test_restoring_a_state_continues_to_the_bit(
    name: str, changes: dict[str, Any], index: int, stream: DomainStream
) -> None:
    """Whatever `begin` and `warm_up` made is in the state: a fresh method with another start goes on alike."""
    stage = stage_of(stream, index)
    straight = begun(name, stage, changes)
    take_steps(straight, stage, range(2))
    saved = {"modules": {k: v.clone() for k, v in straight.state_dict().items()}, **_optimizers(straight)}
    take_steps(straight, stage, range(2, 5))

    resumed = METHODS[name](networks.build(Network(), len(CLASSES)), tiny_settings(name, **changes).own)
    resumed.begin(stage)
    resumed.restore(saved)
    take_steps(resumed, stage, range(2, 5))
    assert_same(dict(resumed.state_dict()), dict(straight.state_dict()))


def _optimizers(method: Method) -> dict[str, Any]:
    """A deep copy of the optimisers' states, as a checkpoint holds them."""
    import copy

    return {"optimizers": copy.deepcopy(method.state()["optimizers"])}


@pytest.mark.parametrize("name", METHODS)
def test_only_the_source_and_the_memory_come_with_labels(name: str, stream: DomainStream) -> None:
    stage = stage_of(stream, 2)
    for feed in begun(name, stage).feeds(stage):
        assert (feed.labels is None) == (not feed.name.startswith(("source", "memory")))


def test_grcl_per_domain_has_a_constraint_for_every_episode(stream: DomainStream) -> None:
    dark = stream.targets[0][0].train
    stage = Stage(3, stream.source, (dark, dark), stream.targets[1][0].train.images, Augmentation())
    settings = tiny_settings("grcl", grcl__memory_constraint="per_domain")
    method = METHODS["grcl"](networks.build(Network(), len(CLASSES)), settings.own)
    method.begin(stage)
    method.warm_up(stage)
    log = take_steps(method, stage, range(1))
    assert {name.removeprefix("multiplier/") for name in log if name.startswith("multiplier/")} == {
        "source",
        "memory_1",
        "memory_2",
    }


def test_each_constraint_can_be_switched_off(stream: DomainStream) -> None:
    stage = stage_of(stream, 2)
    for changes, kept in (
        ({"grcl__source_constraint": False}, {"memory"}),
        ({"grcl__memory_constraint": "off"}, {"source"}),
        ({"grcl__source_constraint": False, "grcl__memory_constraint": "off"}, set()),
    ):
        method = METHODS["grcl"](networks.build(Network(), len(CLASSES)), tiny_settings("grcl", **changes).own)
        method.begin(stage)
        method.warm_up(stage)
        log = take_steps(method, stage, range(1))
        assert {name.removeprefix("multiplier/") for name in log if name.startswith("multiplier/")} == kept


def test_grcl_without_constraints_is_multi_task(stream: DomainStream) -> None:
    stage = stage_of(stream, 2)
    free = tiny_settings("grcl", grcl__source_constraint=False, grcl__memory_constraint="off")
    weights = []
    for name, config in (("grcl", free.own), ("multi_task", tiny_settings("multi_task").own)):
        seed_everything(0, "network")
        method = METHODS[name](networks.build(Network(), len(CLASSES)), config)
        method.begin(stage)
        method.warm_up(stage)
        take_steps(method, stage, range(4))
        weights.append(dict(method.state_dict()))
    assert_same(weights[0], weights[1])


def test_to_the_letter_the_head_moves_only_under_an_active_constraint(stream: DomainStream) -> None:
    """The contrastive loss does not reach the classifier head; only +u·g_s and +u·g_dm do."""
    stage = stage_of(stream, 1)
    settings = tiny_settings("grcl", grcl__source_weight=0.0, grcl__optimizer__momentum=0.0)
    seed_everything(0, "network")
    method = METHODS["grcl"](networks.build(Network(), len(CLASSES)), settings.own)
    method.begin(stage)
    method.warm_up(stage)
    feeder = feeder_of(method, stage)
    outcomes = set()
    for step in range(12):
        before = method.network.head.weight.detach().clone()
        seed_everything(0, 1, step)
        log = method.step(feeder.batch(step), 0.0)
        is_active = bool(log["multiplier/source"] > 0)
        assert torch.equal(before, method.network.head.weight) != is_active
        outcomes.add(is_active)
    assert outcomes == {True, False}


def test_source_continued_takes_as_many_steps_as_grcl(stream: DomainStream) -> None:
    for index in (1, 2):
        stage = stage_of(stream, index)
        steps = {name: feeder_of(begun(name, stage), stage).steps_per_epoch for name in ("grcl", "source_continued")}
        assert steps["grcl"] == steps["source_continued"]


def test_every_method_has_one_file_of_its_name() -> None:
    folder = Path(__file__).parents[1] / "src" / "grcl" / "methods"
    assert all((folder / f"{name}.py").exists() for name in METHODS)


def test_no_step_of_grcl_plus_opposes_a_constraint_whatever_its_optimiser_remembers(stream: DomainStream) -> None:
    stage = stage_of(stream, 2)
    method = begun("grcl_plus", stage)
    feeder = feeder_of(method, stage)
    method.train()
    for step in range(20):
        log = method.step(feeder.batch(step), 0.5)
        assert log["applied/source"] == log["applied/memory"] == 0


def test_the_contrast_of_grcl_plus_knows_the_labels_of_all_three_and_is_off_by_default(stream: DomainStream) -> None:
    stage = stage_of(stream, 2)
    assert not any("contrast" in name for name in begun("grcl_plus", stage).state_dict())
    method = begun("grcl_plus", stage, WITH_CONTRAST)
    before = method.state_dict()["contrast.projector.0.weight"].clone()
    take_steps(method, stage, range(2))
    state = method.state_dict()
    known = torch.cat([stage.source.labels, stage.memory[0].labels, state["self_training.labels"]])
    assert torch.equal(state["contrast.labels"], known)
    assert not torch.equal(state["contrast.projector.0.weight"], before)


def test_the_constraints_of_grcl_plus_are_on_images_as_they_are(stream: DomainStream) -> None:
    """Not on those that meet the target: what is taken may not raise the loss on every other image of the batch."""
    stage = stage_of(stream, 2)
    method = begun("grcl_plus", stage)
    feeder, parameters = feeder_of(method, stage), list(method.network.parameters())
    method.train()
    violated = 0.0
    for step in range(20):
        batch = feeder.batch(step)
        slopes = {}
        for name in ("source", "memory"):
            samples = batch[name]
            assert samples.labels is not None
            loss = F.cross_entropy(method.network(samples.images[::2]), samples.labels[::2])
            slopes[name] = torch.cat([slope.flatten() for slope in torch.autograd.grad(loss, parameters)]).double()
        before = torch.cat([parameter.detach().flatten() for parameter in parameters]).double()
        log = method.step(batch, 0.5)
        moved = before - torch.cat([parameter.detach().flatten() for parameter in parameters]).double()
        violated += float(log["violated/source"] + log["violated/memory"])
        for slope in slopes.values():
            assert slope @ moved > -1e-6 * slope.norm() * before.norm()
    assert violated, "there was something to hold back"
