"""One adapt: a stage of Algorithm 1 in the work folder of a state, which a second call goes on with."""

import json
import logging
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from grcl.adaptation import begin_stage, look, prepare
from grcl.config import WITHOUT_EFFECT, LearnerSettings
from grcl.data.stream import Stage
from grcl.evaluate import accuracy
from grcl.learner.evaluation import examples
from grcl.learner.familiarity import learn_familiarity
from grcl.learner.footing import Footing
from grcl.learner.history import Accuracy, Entry, now, plain
from grcl.learner.inputs import Data
from grcl.learner.model import UNADAPTED, Model, continued
from grcl.learner.present import Present
from grcl.learner.steadiness import steadiness
from grcl.learner.verdict import judge
from grcl.learner.vitals import vitals
from grcl.lone_stage import LoneStage
from grcl.loop import Operator
from grcl.memory.episodic import Episode, remember
from grcl.memory.pseudo_labels import look_at
from grcl.memory.sight import Sight
from grcl.runtime import distributed
from grcl.runtime.checkpoint import encode
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import RunDirectory, differences

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Order:
    """What an adapt is asked for."""

    target: Data
    source: Data
    sample: Data | None
    """Labelled images to measure the accuracy on; nothing else sees their labels."""
    settings: LearnerSettings
    keeps_worse: bool


class Adapted(NamedTuple):
    """What a stage has brought."""

    before: Sight
    after: Sight
    steady: Footing
    """How far the model before sees the same in the target's images when they are moved a little."""
    violated: float | None
    """Share of the steps that opposed a constraint before they were projected; none where there is no constraint."""
    episode: Episode


def adapt(present: Present, order: Order, operator: Operator) -> tuple[Entry, dict[str, bytes]]:
    """The entry of an adapt, and the files that go with it; nothing is in force yet."""
    settings, memory = order.settings, present.episodes()
    plan = prepare(settings)
    if distributed.world_size() > 1:
        raise Refusal("a learner trains in one process; start it without torchrun")
    episodes = tuple(episode.labelled() for episode in memory)
    stage = Stage(_index(present), order.source.labelled(), episodes, order.target.images, settings.augmentation)
    old = present.model
    new = continued(present.saved_model, present.fit, settings, len(present.facts.classes), stage.index)
    for model in (old, new):
        model.method.to(plan.device)
    directory = _claim(present.state.work, _config(present, order))
    before = look(old.method, stage)
    steady = steadiness(old.method.eval(), stage.target)
    work = LoneStage(f"adapt to {order.target.name}", stage, directory, plan)
    work.train(new.method, partial(begin_stage, new.method, stage, settings), operator)
    after = look(new.method, stage)
    episode = remember(stage, after, settings.memory, plan.seed).episode
    adapted = Adapted(before, after, steady, violated_share(directory.path), episode)
    new = new.knowing(_familiarity(new, stage, adapted.episode))
    entry = _entry(present, order, (old, new), adapted)
    shown = examples(order.target, adapted.before.target, adapted.after.target, present.facts.classes)
    files = {f"examples/{entry.number:04d}.ckpt": encode(shown)}
    if not entry.is_refused:
        files[f"models/{entry.number:04d}.ckpt"] = new.encoded()
        files[f"memory/{entry.number:04d}.ckpt"] = encode(adapted.episode._asdict())
    return entry, files


def _index(present: Present) -> int:
    """The number of the stage; an adapted model is past the first, also where all that it met is forgotten."""
    return max(len(present.entry.episodes), int(present.saved_model["method"] != UNADAPTED)) + 1


def _config(present: Present, order: Order) -> dict[str, Any]:
    """All that the outcome depends on."""
    files = present.facts.files
    memory = {str(number): files[f"memory/{number:04d}.ckpt"][:16] for number in present.entry.episodes}
    images = {"target": order.target.fingerprint, "source": order.source.fingerprint, "memory": memory}
    return {**order.settings.as_json(), "images of": images, "model": files[present.model_file][:16]}


def _claim(work: Path, config: dict[str, Any]) -> RunDirectory:
    """The work folder for an adapt of this config; an interrupted one of another config cannot be gone on with."""
    directory = RunDirectory(work)
    if (work / "config.json").exists():
        found = differences(directory.read_settings("config.json"), config)
        listed = "; ".join(
            f"{key} was {old}, is {new}" for key, (old, new) in sorted(found.items()) if key not in WITHOUT_EFFECT
        )
        if not listed:
            logger.info("going on with the adapt that was interrupted")
            return directory
        logger.warning("an adapt that was interrupted is dropped, for this one is another (%s)", listed)
    shutil.rmtree(work, ignore_errors=True)
    directory.claim(config)
    return directory


def violated_share(work: Path) -> float | None:
    """From the log, whose lines hold the means of the steps since the line before."""
    lines = [json.loads(line) for line in (work / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [line["values"] for line in lines if line["kind"] == "step"]
    worst = [max(found) for step in steps if (found := [v for k, v in step.items() if k.startswith("violated/")])]
    return sum(worst) / len(worst) if worst else None


def _familiarity(model: Model, stage: Stage, episode: Episode) -> Any:
    """Learned from the source and from every remembered domain, the new one among them."""
    known = [stage.source, *stage.memory, episode.labelled()]
    return learn_familiarity([look_at(model.method, part.images) for part in known])


def _entry(present: Present, order: Order, models: tuple[Model, Model], adapted: Adapted) -> Entry:
    """What the history will tell."""
    number, target = present.facts.newest + 1, order.target
    verdict = judge(adapted.before, adapted.after, adapted.steady, adapted.violated)
    is_refused = verdict.word == "worse" and not order.keeps_worse
    return Entry(
        number=number,
        kind="adapt",
        date=now(),
        data=target.facts,
        method=order.settings.method,
        settings=order.settings.as_json(),
        before=plain(vitals(adapted.before, None)._asdict()),
        after=plain(vitals(adapted.after, adapted.violated)._asdict()),
        verdict=verdict.word,
        reason=verdict.reason,
        is_refused=is_refused,
        accuracy=_accuracy(order.sample, models) if order.sample else None,
        note=_note(present, order),
        model=present.entry.model if is_refused else number,
        episodes=present.entry.episodes if is_refused else (*present.entry.episodes, number),
    )


def _accuracy(sample: Data, models: tuple[Model, Model]) -> Accuracy:
    labelled = sample.labelled()
    before, after = (accuracy(model.method.predict, labelled, model.method.device) for model in models)
    return Accuracy(images=len(sample), before=before, after=after)


def _note(present: Present, order: Order) -> str:
    same = [entry for entry in present.entries if entry.kind == "adapt" and entry.data is not None]
    twins = [entry.number for entry in same if entry.data and entry.data.fingerprint == order.target.fingerprint]
    notes = [f"the same images as in entry {twins[0]}"] if twins else []
    if order.source.fingerprint != present.facts.source.fingerprint:
        notes.append(f"with {len(order.source):,} images of the source ({order.source.note or 'another folder'})")
    if notes:
        logger.info("%s: %s", order.target.name, "; ".join(notes))
    return "; ".join(notes)
