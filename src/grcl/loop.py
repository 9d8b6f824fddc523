"""The loop: epochs x batches -> method.step. Stage 0 and every later stage go through it."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from grcl.alarms import Alarms, in_words, without_signs
from grcl.data.feeds import Batch, Feeder
from grcl.data.stream import Stage
from grcl.methods.base import Method
from grcl.runtime import distributed
from grcl.runtime.errors import Failure
from grcl.runtime.interruption import Interruption
from grcl.runtime.log import RunLog
from grcl.runtime.progress import Display
from grcl.runtime.seeding import seed_everything
from grcl.schedule import set_learning_rates

logger = logging.getLogger(__name__)


class Interrupted(Failure):
    """A signal ended the training after a step; the state is saved."""

    exit_code = 130


class NotFinite(Failure):
    """A number became infinite or no number at all."""


@dataclass(frozen=True)
class Plan:
    """How long and how a stage is trained."""

    epochs: int
    batch_size: int
    seed: int
    device: torch.device
    log_every: int
    checkpoint_seconds: float
    micro_batch: int | None = None


@dataclass(frozen=True)
class Operator:
    """The person at the console: what they see, and whether they have asked to stop."""

    display: Display
    interruption: Interruption


@dataclass
class Journal:
    """The log of a run and its running totals."""

    log: RunLog
    steps: int = 0
    """Optimiser steps of the run so far."""
    seconds: float = 0.0
    """Time that the current stage has trained."""
    recent: dict[str, list[Tensor]] = field(default_factory=lambda: defaultdict(list))

    def note(self, values: Mapping[str, Tensor]) -> None:
        """What one more step returned."""
        for name, value in values.items():
            self.recent[name].append(value)
        self.steps += 1

    def warn(self, stage: int, sentence: str) -> None:
        """Tell what went wrong, in the terminal, in the log and so in the report; the work goes on."""
        logger.warning("%s", sentence)
        self.log.write("warning", stage=stage, text=sentence)

    def take_recent(self) -> tuple[dict[str, float], dict[str, list[float]]]:
        """The means of the values since the last call, and every single cosine, for histograms."""
        recent = {name: torch.stack(values) for name, values in self.recent.items()}
        self.recent.clear()
        means = {name: float(values.mean()) for name, values in recent.items()}
        return means, {name: values.tolist() for name, values in recent.items() if name.startswith("cosine/")}


@dataclass(frozen=True)
class Task:
    """One stage to be trained: from step `start` on, calling `save` with the number of finished steps."""

    title: str
    stage: Stage
    start: int
    save: Callable[[int], None]


def train(method: Method, task: Task, plan: Plan, journal: Journal, operator: Operator) -> int:
    """Train one stage; returns how many steps it has."""
    stage = task.stage
    feeder = Feeder(method.feeds(stage), plan.batch_size, (plan.seed, stage.index), plan.device, plan.micro_batch)
    images, total = sum(feeder.sizes.values()), plan.epochs * feeder.steps_per_epoch
    operator.display.stage(task.title, total, task.start, feeder.steps_per_epoch)
    alarms = Alarms(method, feeder.steps_per_epoch)
    method.train()
    tick = saved = time.monotonic()
    for step, batch in enumerate(feeder.batches(task.start, total), task.start):
        # one update, whose every draw depends on (seed, stage, step) alone
        seed_everything(plan.seed, stage.index, step)
        set_learning_rates(method.optimizers.values(), step / total)
        values, signs = without_signs(method.step(batch, step / total))
        distributed.average_statistics(method)
        if trouble := alarms.not_finite(values):
            raise _failure(trouble, task, step, batch, journal)

        # tell
        for sentence in alarms.raised_by(signs):
            journal.warn(stage.index, f"{task.title}, step {step + 1}: {sentence}")
        journal.note(values)
        now = time.monotonic()
        journal.seconds, tick = journal.seconds + now - tick, now
        if (step + 1) % plan.log_every == 0 or step + 1 == total:
            means, cosines = journal.take_recent()
            speed = images * (step + 1) / journal.seconds
            place = {"stage": stage.index, "epoch": step // feeder.steps_per_epoch, "step": step + 1, "steps": total}
            facts = {"learning_rate": _rate(method), "images_per_second": speed}
            journal.log.write("step", **place, **facts, values=means, cosines=cosines)
            journal.log.scalars(means, journal.steps)
            operator.display.step(step + 1, means, speed)

        # save
        is_asked_to_stop = operator.interruption.is_asked  # asked once: a signal may come between two looks
        if is_asked_to_stop or now - saved > plan.checkpoint_seconds:
            task.save(step + 1)
            tick = saved = time.monotonic()
        if is_asked_to_stop:
            raise Interrupted(
                f"{task.title}: stopped after step {step + 1} of {total}; the same command goes on from there"
            )
    if task.start < total:
        facts = {"steps": total, "images": total * images, "seconds": journal.seconds}
        journal.log.write("stage", stage=stage.index, name=task.title, **facts)
        task.save(total)
    return total


def _failure(trouble: str, task: Task, step: int, batch: Batch, journal: Journal) -> NotFinite:
    """What ends the training before it gets into a checkpoint; the log tells every image of the batch."""
    places = {name: samples.index.tolist() for name, samples in batch.items()}
    journal.log.write("failure", stage=task.stage.index, step=step + 1, text=trouble, batch=places)
    return NotFinite(
        f"{task.title}, step {step + 1}: {trouble}; the batch is {in_words(places)}; "
        "try a smaller learning rate (the last checkpoint is good)"
    )


def _rate(method: Method) -> float:
    return float(next(iter(method.optimizers.values())).param_groups[0]["lr"])
