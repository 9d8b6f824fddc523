"""Numbers that go wrong: what is not finite ends the training before it is saved, and a collapse is told once."""

import json
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grcl import networks
from grcl.alarms import Alarms, Watch
from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch, Feed
from grcl.data.stream import DomainStream, Stage
from grcl.gradients import descend
from grcl.journal import Journal
from grcl.loop import NotFinite, Operator, Plan, Task, train
from grcl.methods import METHODS, Method
from grcl.methods.feeds import source_feed
from grcl.methods.supervised import Supervised
from grcl.networks import Network
from grcl.results.report import render
from grcl.results.run_files import RunFiles
from grcl.results.run_tables import warnings
from grcl.runtime.interruption import Interruption
from grcl.runtime.log import RunLog
from grcl.runtime.progress import Silent
from grcl.runtime.settings import Settings
from tiny import CLASSES, domain, tiny_settings

PLAN = Plan(epochs=4, batch_size=16, seed=0, device=torch.device("cpu"), log_every=1, checkpoint_seconds=0.0)


@pytest.fixture(scope="module")
def stage() -> Stage:
    return DomainStream(CLASSES, (domain("white"),), ((domain("dark"),),)).stage(1, [], Augmentation())


def network() -> networks.Classifier:
    torch.manual_seed(0)
    return networks.build(Network(), len(CLASSES))


@dataclass
class Training:
    """One stage trained in a folder, and what it saved."""

    folder: Path
    saved: list[dict[str, Any]] = field(default_factory=list)

    def train(self, method: Method, stage: Stage) -> None:
        method.begin(stage)
        method.eval()
        method.warm_up(stage)
        (self.folder / "config.json").write_text("{}")
        journal = Journal(RunLog(self.folder, 0, 0))
        task = Task("stage 1, dark", stage, 0, lambda _: self.saved.append(_copied(method.state()["modules"])))
        try:
            train(method, task, PLAN, journal, Operator(Silent(), Interruption()))
        finally:
            journal.log.close()

    def log(self, kind: str) -> list[dict[str, Any]]:
        lines = map(json.loads, (self.folder / "log.jsonl").read_text().splitlines())
        return [line for line in lines if line["kind"] == kind]


def _copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}


class Faulty(Method):
    """Trains on the source, and from the third step on has one kind of fault, while its loss stays finite."""

    class Config(Settings):
        fault: str = "gradient"

    def __init__(self, network: networks.Classifier, config: Config) -> None:
        super().__init__(network, config)
        self.norm, self.steps = nn.BatchNorm1d(3), 0

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        return (source_feed(stage, False, clock=len(stage.source)),)

    def begin(self, stage: Stage) -> None:
        self.optimizers = {"network": Supervised.Config().optimizer.build(self.network.parameters())}

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        self.steps += 1
        first = next(self.network.parameters())
        loss, is_faulty = first.square().sum(), self.steps >= 3
        if is_faulty and self.config.fault == "gradient":
            loss = loss + (0 * first).sum().sqrt()  # 0 forwards, 0 times infinity backwards
        descend(loss, self.optimizers["network"])
        if is_faulty and self.config.fault == "statistics":
            self.norm.get_buffer("running_var").fill_(torch.inf)
        if is_faulty and self.config.fault == "weights":
            with torch.no_grad():
                first.mul_(1e38)
        value = loss.detach()
        return {"loss/source": value / 0 if is_faulty and self.config.fault == "loss" else value}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("loss", "loss/source is inf"),
        ("gradient", "the gradient of network.encoder.layers.0.weight is not finite, though loss/source is "),
        ("statistics", "the running variance of batch normalisation 1 is not finite, though loss/source is "),
        ("weights", "the length of the weights is inf, though loss/source is "),
    ],
)
def test_what_is_not_finite_ends_the_training_and_is_never_saved(
    fault: str, said: str, stage: Stage, tmp_path: Path
) -> None:
    training = Training(tmp_path)
    with pytest.raises(NotFinite) as raised:
        training.train(Faulty(network(), Faulty.Config(fault=fault)), stage)
    sentence = str(raised.value)
    assert sentence.startswith(f"stage 1, dark, step 3: {said}")
    assert "the last checkpoint is good" in sentence
    assert len(training.saved) == 2
    assert all(value.isfinite().all() for state in training.saved for value in state.values())
    (failure,) = training.log("failure")
    assert failure["step"] == 3
    assert len(failure["batch"]["source"]) == 16
    assert f"the batch is source {', '.join(map(str, failure['batch']['source'][:8]))} and 8 more" in sentence


def collapsed() -> networks.Classifier:
    """A network that sees the same in every image."""
    dead = network()
    with torch.no_grad():
        for parameter in dead.encoder.parameters():
            parameter.fill_(0.0 if parameter.ndim > 1 else 1.0)
    return dead


def settings_of(name: str, **changes: Any) -> Any:
    return tiny_settings(name, **{f"{name}__{key}": value for key, value in changes.items()}).own


@pytest.mark.parametrize("name", ["grcl", "multi_task"])
def test_a_collapsed_representation_is_told_once_in_log_terminal_and_report(
    name: str, stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings_of(name, optimizer__rate=1e-12, contrast__hidden=16, contrast__negatives=64)
    training = Training(tmp_path)
    training.train(METHODS[name](collapsed(), config), stage)
    told = [line["text"] for line in training.log("warning")]
    assert [text.partition(": ")[2].partition(":")[0] for text in told] == [
        "the representation has collapsed",
        "the contrastive loss stays at ln(negatives + 1), where no image is told from another; try a lower "
        "temperature or another learning rate",
    ]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == told
    run = RunFiles.read(tmp_path)
    assert warnings(run) == told
    assert "the representation has collapsed" in render(run)


def test_dead_pseudo_labels_are_told_at_once(stage: Stage, tmp_path: Path) -> None:
    one_sided = network()
    with torch.no_grad():
        one_sided.head.bias.copy_(torch.tensor([100.0, 0, 0, 0]))
    training = Training(tmp_path)
    training.train(METHODS["grcl_plus"](one_sided, settings_of("grcl_plus", optimizer__rate=1e-12)), stage)
    (warning,) = training.log("warning")
    assert warning["text"].startswith("stage 1, dark, step 1: the pseudo-labels are dead")


def test_a_sign_must_last_for_an_epoch_without_a_break() -> None:
    alarms, harm, health = Alarms(Faulty(network(), Faulty.Config()), 12, Watch()), torch.tensor(1.0), torch.tensor(0.5)
    values = [harm] * 11 + [health] + [harm] * 11
    assert not [text for value in values for text in alarms.raised_by({"alarm/likeness": value})]
    assert len(alarms.raised_by({"alarm/likeness": harm})) == 1
    assert not [text for _ in range(50) for text in alarms.raised_by({"alarm/likeness": harm})]


def test_a_stage_that_is_gone_on_with_remembers_what_was_seen_and_told(tmp_path: Path) -> None:
    harm, faulty = {"alarm/likeness": torch.tensor(1.0)}, Faulty(network(), Faulty.Config())
    saved: dict[str, Any] = {}

    def told(steps: int, is_new_stage: bool = False) -> int:
        """How often, in so many steps after a stop."""
        nonlocal saved
        journal = Journal.open(tmp_path, saved, torch.device("cpu"))
        with closing(journal.log):
            if is_new_stage:
                journal.begin_stage()
            alarms = Alarms(faulty, 12, journal.watch)
            sentences = [text for _ in range(steps) for text in alarms.raised_by(harm)]
            saved = journal.state()
        return len(sentences)

    assert [told(steps) for steps in (7, 4, 1, 20)] == [0, 0, 1, 0]
    assert told(12, is_new_stage=True) == 1


def test_a_healthy_training_raises_no_alarm(stage: Stage, tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.train(METHODS["grcl"](network(), settings_of("grcl", contrast__hidden=64)), stage)
    assert not training.log("warning")
    assert not training.log("failure")
    assert not [name for line in training.log("step") for name in line["values"] if name.startswith("alarm/")]
