"""The loop: epochs x batches -> method.step. Stage 0 and every later stage go through it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from grcl.alarms import Alarms, in_words, without_signs
from grcl.data.feeds import Batch, Feeder
from grcl.data.stream import Stage
from grcl.journal import Journal
from grcl.methods.base import Method
from grcl.runtime import distributed
from grcl.runtime.errors import Failure
from grcl.runtime.interruption import Interruption
from grcl.runtime.progress import Display
from grcl.runtime.seeding import seed_everything
from grcl.schedule import set_learning_rates


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
    alarms = Alarms(method, feeder.steps_per_epoch, journal.watch)
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
        is_last = step + 1 == total
        if is_last or (step + 1) % plan.log_every == 0:
            means, cosines = journal.take_recent()
            speed = images * (step + 1) / journal.seconds
            place = {"stage": stage.index, "epoch": step // feeder.steps_per_epoch, "step": step + 1, "steps": total}
            facts = {"learning_rate": _rate(method), "images_per_second": speed}
            journal.log.write("step", **place, **facts, values=means, cosines=cosines)
            journal.log.scalars(means, journal.steps)
            operator.display.step(step + 1, means, speed)
        if is_last:  # before it is saved: a finished stage is not gone on with
            facts = {"steps": total, "images": total * images, "seconds": journal.seconds}
            journal.log.write("stage", stage=stage.index, name=task.title, **facts)

        # save
        # Asked once, since a signal may come between two looks; and together, since it reaches processes one by one.
        is_asked_to_stop = distributed.any_of(operator.interruption.is_asked, plan.device)
        if is_asked_to_stop or is_last or now - saved > plan.checkpoint_seconds:
            task.save(step + 1)
            tick = saved = time.monotonic()
        if is_asked_to_stop:
            raise Interrupted(
                f"{task.title}: stopped after step {step + 1} of {total}; the same command goes on from there"
            )
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
