"""A whole continual experiment on one page: Algorithm 1's outer loop, for any method."""

import logging
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grcl.adaptation import begin_stage, look, prepare
from grcl.benchmarks import BENCHMARKS
from grcl.config import WITHOUT_EFFECT, RunSettings
from grcl.data.rehearsal import rehearsal
from grcl.data.split import describe_splits
from grcl.data.stream import DomainStream, Stage
from grcl.evaluate import accuracy, are_right
from grcl.journal import Journal
from grcl.loop import Operator, Plan, Task, train
from grcl.memory.episodic import Episode, remember
from grcl.methods import METHODS, Method
from grcl.networks import input_size
from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.report import write_report
from grcl.runtime import distributed
from grcl.runtime.environment import describe_environment, gone_on_in, peak_memory
from grcl.runtime.errors import Refusal
from grcl.runtime.interruption import Interruption
from grcl.runtime.progress import Display, Silent
from grcl.runtime.run_directory import RunDirectory
from grcl.runtime.seeding import seed_everything
from grcl.source_model import source_model, starting_network

logger = logging.getLogger(__name__)


def run(
    settings: RunSettings, path: Path, source_models: Path | None = None, display: Display | None = None
) -> AccuracyMatrix:
    """Train stage 0, adapt to every target stage in turn, and leave R and all else in the run directory `path`.

    A finished run is not run again, and an unfinished one goes on where it stopped.
    """
    stream, plan, directory = open_stream(settings), prepare(settings), RunDirectory(path)
    warn_of_clamping(settings, stream)
    fingerprints = {domain.name: domain.fingerprint for domain in stream.domains}
    # Weights that do not fit are refused before the directory is taken.
    network = None if distributed.agree(directory.is_done) else starting_network(settings, stream, plan)
    with directory.at_work(), Interruption() as interruption:  # to the end: a report that was begun is finished
        directory.claim(settings.as_json() | {"fingerprints": fingerprints}, WITHOUT_EFFECT)
        if network is not None:
            directory.write_json("splits.json", describe_splits(stream.domains))
            facts = describe_environment(plan.device) | {"data": describe_data(stream)}
            if (path / "environment.json").exists():
                facts = gone_on_in(facts, directory.read_settings("environment.json"))
            directory.write_json("environment.json", facts)
            operator = Operator(display or Silent(), interruption)
            network = source_model(network, settings, stream, source_models or path / "stage0", plan, operator)
            seed_everything(settings.seed, "method")
            method = METHODS[settings.method](network, settings.own).to(plan.device)
            Experiment(settings, stream, method, plan).adapt(directory, operator)
            if distributed.is_main():
                write_report(path)
            directory.finish()
    return AccuracyMatrix.from_json(directory.read_json("accuracy.json"))


class Experiment:
    """One method on one stream, from θ_0 to the last target; its state is what a checkpoint holds."""

    def __init__(self, settings: RunSettings, stream: DomainStream, method: Method, plan: Plan) -> None:
        self.settings, self.stream, self.method, self.plan = settings, stream, method, plan
        self.matrix = AccuracyMatrix.empty(stream.stage_names)
        self.episodes: list[Episode] = []
        self.before: dict[str, dict[str, float]] = {}

    def adapt(self, directory: RunDirectory, operator: Operator) -> None:
        """Algorithm 1: for t = 1..N train on D_t, remember M_t, record row t of R."""
        saved = directory.checkpoints.newest()
        journal = self._resume(saved, directory)
        with closing(journal.log):
            for index in range(saved["stage"] if saved else 1, len(self.stream.targets) + 1):
                memory = [episode.labelled() for episode in self.episodes]
                stage = self.stream.stage(index, memory, self.settings.augmentation)
                start = self._begin(stage, saved, journal)
                save = partial(self._save, directory, journal, index)
                title = f"stage {index}, {'+'.join(self.stream.stage_names[index])}"
                steps = train(self.method, Task(title, stage, start, save), self.plan, journal, operator)
                if self.matrix.finished == index:
                    self._remember(stage, journal)
                    self._record(self.method.predict)
                    save(steps)
                directory.write_json("accuracy.json", self.matrix.to_json())
            directory.write_json("accuracy.json", self.matrix.to_json())  # also where there is no target
            journal.log.write("end", peak_memory=peak_memory())

    def _resume(self, saved: dict[str, Any] | None, directory: RunDirectory) -> Journal:
        if saved is None:
            self._record(self.method.network)
            return Journal.open(directory.path, {}, self.plan.device)
        self.episodes = [Episode(**episode) for episode in saved["episodes"]]
        self.matrix = AccuracyMatrix.from_json(saved["matrix"])
        self.before = saved["before"]
        return Journal.open(directory.path, saved, self.plan.device)

    def _begin(self, stage: Stage, saved: dict[str, Any] | None, journal: Journal) -> int:
        """Make or restore what lives for one stage; returns the step to go on from."""
        if saved and stage.index == saved["stage"]:
            begin_stage(self.method, stage, self.settings, saved["method"])
            return int(saved["step"])
        begin_stage(self.method, stage, self.settings)
        self.before = look(self.method, stage).monitors()
        journal.begin_stage()
        return 0

    def _remember(self, stage: Stage, journal: Journal) -> None:
        """UpdateMemory of Algorithm 1, and what there is to tell about the stage."""
        sight = look(self.method, stage)
        after = sight.monitors()
        for when, values in (("before", self.before), ("after", after)):
            journal.log.write("monitor", stage=stage.index, when=when, values=values["target"])
        for name, value in self.before["constraints"].items():
            journal.log.write(
                "constraint", stage=stage.index, name=name, before=value, after=after["constraints"][name]
            )
        if not self.method.uses_memory:
            return
        new = remember(stage, sight, self.settings.memory, self.plan.seed)
        self.episodes.append(new.episode)
        counts = torch.bincount(new.episode.labels, minlength=len(self.stream.classes)).tolist()
        if sum(count > 0 for count in counts) < 2:
            journal.warn(stage.index, f"stage {stage.index}: the remembered pseudo-labels name one class only")
        right = are_right(self.stream.targets[stage.index - 1], new.labels).double()
        rates = {
            "pseudo_label_accuracy": float(right.mean()),
            "remembered_label_accuracy": float(right[new.chosen].mean()),
        }
        facts = {"size": len(new.episode.labels), "classes": counts, "agreement": new.agreement}
        journal.log.write("episode", stage=stage.index, **facts, **rates)

    def _record(self, predict: Callable[[Tensor], Tensor]) -> None:
        """One more row of R: the accuracy on every domain, also on those still to come."""
        self.method.eval()
        row = [accuracy(predict, domain.test, self.plan.device) for domain in self.stream.domains]
        self.matrix = self.matrix.recorded(row)

    def _save(self, directory: RunDirectory, journal: Journal, stage: int, step: int) -> None:
        if not distributed.is_main():
            return
        place = {"stage": stage, "step": step, "before": self.before, "matrix": self.matrix.to_json()}
        episodes = [episode._asdict() for episode in self.episodes]
        directory.checkpoints.save({**journal.state(), **place, "episodes": episodes, "method": self.method.state()})


def open_stream(settings: RunSettings) -> DomainStream:
    """The benchmark's domains in the order of the settings."""
    if settings.data is not None and not settings.data.is_dir():
        raise Refusal(
            f"no folder at {settings.data}; --data takes the folder that holds the images of {settings.benchmark}"
        )
    benchmark = BENCHMARKS[settings.benchmark]
    size = input_size(settings.network, settings.images.size)
    reading = settings.images.model_copy(update={"size": size})
    domain = partial(benchmark.domain, data=settings.data, reading=reading, split=settings.split)
    sources, *targets = (tuple(map(domain, stage.split("+"))) for stage in (settings.source, *settings.targets))
    stream = DomainStream(benchmark.classes(), sources, tuple(targets))
    return rehearsal(stream) if settings.rehearse else stream


def warn_of_clamping(settings: RunSettings, stream: DomainStream) -> None:
    """Tell once where a batch or the memory asks for more images than a domain has."""
    smallest = min(stream.domains, key=lambda domain: len(domain.train))
    asked = {"training.batch_size": settings.training.batch_size, "memory.size": settings.memory.size}
    for name, size in asked.items():
        if size > len(smallest.train):
            logger.warning(
                "%s = %d is clamped where a domain has fewer images (%s: %d)",
                *(name, size, smallest.name, len(smallest.train)),
            )


def describe_data(stream: DomainStream) -> dict[str, Any]:
    """What was trained and tested on, for environment.json."""
    return {
        domain.name: {
            "fingerprint": domain.fingerprint,
            "train": len(domain.train),
            "test": len(domain.test),
            "note": domain.note,
        }
        for domain in stream.domains
    }
