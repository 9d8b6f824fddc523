"""Batch normalisation: running statistics follow the objective's batches alone, and small domains leave them alone."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grcl.config import RunSettings
from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch, Feeder
from grcl.data.images import select
from grcl.data.stream import DomainStream, Labelled, Stage
from grcl.methods import METHODS, Method
from grcl.methods.base import classification_loss
from grcl.networks import ENCODERS, Classifier, Network, build
from grcl.networks.statistics import batch_norms, kept_statistics
from grcl.run import open_stream, run
from grcl.runtime.checkpoint import Checkpoints
from grcl.runtime.seeding import seed_everything
from test_run import assert_identical, final_state, signal_at
from tiny import CLASSES, domain, tiny_settings


class SmallEncoder(nn.Module):
    """Two convolutions with batch normalisation."""

    feature_size = 12
    input_size = 32

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=4),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, self.feature_size, 3, stride=2),
            nn.BatchNorm2d(self.feature_size),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images)
        return features


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch, without_report: None) -> None:
    monkeypatch.setitem(ENCODERS, "small", SmallEncoder)


@pytest.fixture(scope="module")
def stage() -> Stage:
    """The second stage of a stream: it has a memory."""
    stream = DomainStream(CLASSES, (domain("white"),), ((domain("dark"),), (domain("noisy"),)))
    dark = stream.targets[0][0].train
    return stream.stage(2, [Labelled(dark.images, dark.labels)], Augmentation())


def begun(name: str, stage: Stage, **changes: Any) -> Method:
    seed_everything(0, "network")
    method = METHODS[name](build(Network(name="small"), len(CLASSES)), tiny_settings(name, **changes).own)
    method.begin(stage)
    method.eval()
    method.warm_up(stage)
    return method.train()


def batch_of(method: Method, stage: Stage, step: int = 0) -> Batch:
    return Feeder(method.feeds(stage), 16, (0, stage.index), torch.device("cpu")).batch(step)


def statistics(module: nn.Module) -> dict[str, Tensor]:
    """Running means, variances and counts of batches."""
    names = ("running_mean", "running_var", "num_batches_tracked")
    return {key: value.clone() for key, value in module.state_dict().items() if key.endswith(names)}


def statistics_after(network: Classifier, batch: Batch, names: Sequence[str]) -> dict[str, Tensor]:
    """What passes of these batches alone would leave."""
    for name in names:
        network.features(batch[name].images)
    return statistics(network)


def has_moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> bool:
    return any(not torch.equal(before[key], after[key]) for key in before)


OBJECTIVES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("grcl", {}, ["union", "source"]),
    ("grcl", {"grcl__source_weight": 0.0}, ["union"]),
    ("grcl", {"grcl__source_constraint": False}, ["union", "source"]),
    ("grcl", {"grcl__memory_constraint": "per_domain"}, ["union", "source"]),
    ("gra", {}, ["target", "source"]),
    ("gra", {"gra__source_weight": 0.0}, ["target"]),
    ("cua", {}, ["target", "source", "memory"]),
    ("cua", {"cua__replay_weight": 0.0}, ["target", "source"]),
    ("multi_task", {}, ["union", "source"]),
    ("multi_task", {"multi_task__contrast_weight": 0.0}, ["source"]),
]


@pytest.mark.parametrize(("name", "changes", "objective"), OBJECTIVES)
def test_statistics_are_those_of_the_objective_s_batches(
    name: str, changes: dict[str, Any], objective: list[str], stage: Stage
) -> None:
    """The source's batch is one of them as soon as its loss has a weight, also while it is a constraint as well."""
    method = begun(name, stage, **changes)
    batch = batch_of(method, stage)
    expected = statistics_after(copy.deepcopy(method.network), batch, objective)
    before = statistics(method.network)
    method.step(batch, 0.0)
    assert_identical(statistics(method.network), expected)
    assert has_moved(before, expected)


def test_dada_is_tested_with_the_statistics_of_the_batches_that_teach_it_the_classes(stage: Stage) -> None:
    """Whatever the target looks like."""
    found = []
    for shade in (0.0, 1.0):
        method = begun("dada", stage)
        batch = batch_of(method, stage)
        target = replace(batch["target"], images=torch.full_like(batch["target"].images, shade))
        before = statistics(method)
        method.step({**batch, "target": target}, 0.0)
        found.append(statistics(method))
        assert has_moved(before, found[-1])
    assert_identical(*found)


def test_mcd_is_tested_with_the_statistics_of_the_steps_that_move_its_encoder(stage: Stage) -> None:
    """One on the classes and four against the discrepancy; not those of the heads against each other."""
    method = begun("mcd", stage)
    method.step(batch_of(method, stage), 0.0)
    counts = [value.item() for key, value in statistics(method).items() if key.endswith("num_batches_tracked")]
    assert counts
    assert set(counts) == {5}


@pytest.mark.parametrize("name", ["grcl", "gra"])
def test_a_constraint_s_batch_is_normalised_by_itself(name: str, stage: Stage) -> None:
    method = begun(name, stage)
    batch = batch_of(method, stage)
    expected = classification_loss(copy.deepcopy(method.network), batch["memory"])
    assert torch.equal(method.step(batch, 0.0)["loss/memory"], expected.detach())


@pytest.mark.parametrize("name", [name for name in METHODS if name != "source_only"])
def test_a_frozen_stage_leaves_the_statistics_and_moves_the_rest(name: str, stage: Stage) -> None:
    method = begun(name, stage)
    method.network.has_frozen_statistics = True
    method.train()
    before, weights = statistics(method.network), copy.deepcopy(dict(method.network.named_parameters()))
    for step in range(2):
        method.step(batch_of(method, stage, step), 0.0)
    assert_identical(statistics(method.network), before)
    after = dict(method.network.named_parameters())
    encoder = [key for key in after if key.startswith("encoder.") and not key.endswith("bias")]
    assert all(not torch.equal(weights[key], after[key]) for key in encoder)


def test_frozen_statistics_are_what_training_normalises_by() -> None:
    network = build(Network(name="small"), len(CLASSES))
    images = torch.rand(8, 3, 32, 32)
    for _ in range(3):
        network.features(images)
    network.has_frozen_statistics = True
    assert torch.equal(network.train().features(images), network.eval().features(images))
    network.has_frozen_statistics = False
    assert not torch.equal(network.train().features(images), network.eval().features(images))
    assert all(layer.training for layer in batch_norms(network.train()))


def test_kept_statistics_end_with_their_block_also_after_an_error() -> None:
    network = build(Network(name="small"), len(CLASSES)).train()
    before = statistics(network)
    with kept_statistics(network), kept_statistics(network):
        network.features(torch.full((4, 3, 32, 32), torch.inf))
    with pytest.raises(RuntimeError), kept_statistics(network):
        network.encoder(torch.rand(4, 5, 32, 32))
    assert_identical(statistics(network), before)
    network.features(torch.rand(4, 3, 32, 32))
    assert has_moved(before, statistics(network))


@pytest.mark.parametrize(
    ("network", "smallest", "is_frozen"),
    [
        (Network(name="resnet18"), 999, True),
        (Network(name="resnet18"), 1000, False),
        (Network(name="lenet5", weights=Path("theta")), 999, True),
        (Network(name="resnet18", pretrained=False), 999, False),  # it has none that are worth keeping
        (Network(name="resnet18", pretrained=False, weights=Path("theta")), 999, True),
        (Network(name="resnet18", statistics="learned"), 999, False),
        (Network(name="resnet18", statistics="frozen"), 1000, True),
    ],
)
def test_small_domains_freeze_the_statistics_that_a_network_starts_from(
    network: Network, smallest: int, is_frozen: bool
) -> None:
    assert network.freezes_statistics(smallest) == is_frozen


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A file of weights with statistics of its own."""
    network = build(Network(name="small"), len(CLASSES)).train()
    network.features(torch.rand(16, 3, 32, 32))
    torch.save(network.encoder.state_dict(), tmp_path / "weights.pt")
    return tmp_path / "weights.pt"


@pytest.mark.parametrize(
    ("rule", "small", "learns"),
    [("auto", 1000, (False, False)), ("auto", 96, (True, False)), ("learned", 1000, (True, True))],
)
def test_every_stage_of_a_run_keeps_or_learns_them(
    rule: str, small: int, learns: tuple[bool, bool], tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source has 96 images and the target 48: both are small, or the target alone; also when the run stops within
    stage 1 and goes on."""
    monkeypatch.setattr("grcl.networks.settings.SMALL_DOMAIN", small)
    monkeypatch.setattr("grcl.run.open_stream", half_a_target)
    network = {"network__name": "small", "network__weights": weights, "network__statistics": rule}
    settings = tiny_settings("gra", targets=["dark"], **network)
    with signal_at(14, "stage 1"):
        run(settings, tmp_path / "run")
    run(settings, tmp_path / "run")
    (source,) = (tmp_path / "run" / "stage0").glob("*/checkpoints")
    given = {f"network.encoder.{key}": value for key, value in torch.load(weights).items() if "running" in key}
    learnt = [Checkpoints(folder).newest() for folder in (source, tmp_path / "run" / "checkpoints")]
    theta_0, final = ({key: state["method"]["modules"][key] for key in given} for state in learnt if state)
    assert (has_moved(given, theta_0), has_moved(theta_0, final)) == learns


def half_a_target(settings: RunSettings) -> DomainStream:
    stream = open_stream(settings)
    ((target,),) = stream.targets
    half = Labelled(select(target.train.images, torch.arange(48)), target.train.labels[:48])
    return replace(stream, targets=((replace(target, train=half),),))


def test_resume_is_exact_also_between_two_stages(tmp_path: Path) -> None:
    """A run that stopped after stage 1 was recorded fills the next bank in the same mode as one that went on."""
    settings = tiny_settings("grcl", network__name="small")
    run(settings, tmp_path / "a", tmp_path / "stage0")
    with signal_at(13):
        run(settings, tmp_path / "b", tmp_path / "stage0")
    newest = max((tmp_path / "b" / "checkpoints").glob("*.ckpt"))
    newest.unlink()
    saved = Checkpoints(newest.parent).newest()
    assert saved is not None
    assert (saved["stage"], saved["step"]) == (1, 12)
    run(settings, tmp_path / "b", tmp_path / "stage0")
    assert_identical(final_state(tmp_path / "b"), final_state(tmp_path / "a"))
