"""Stage 0: the source model θ_0 is a run of its own, trained once and shared by all methods of a seed, also when they
run side by side."""

import hashlib
import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import PIL
import torch

from grcl import networks
from grcl.config import LearnerSettings
from grcl.data.images import Joined
from grcl.data.stream import DomainStream, Stage
from grcl.lone_stage import LoneStage
from grcl.loop import Operator, Plan
from grcl.methods.supervised import Supervised
from grcl.networks.classifier import Classifier
from grcl.runtime import distributed
from grcl.runtime.recipe import recipe
from grcl.runtime.run_directory import RunDirectory
from grcl.runtime.seeding import seed_everything
from grcl.runtime.turns import one_at_a_time

_CODE = Path(__file__).parent
_MADE_BY = (
    *("data/augment.py", "data/decoding.py", "data/feeds.py", "data/images.py", "benchmarks/digits.py"),
    *("loop.py", "schedule.py", "runtime/seeding.py"),
    *("methods/base.py", "methods/feeds.py", "methods/optimizers.py", "methods/supervised.py"),
    *("gradients/flat.py", "gradients/step.py", "networks/*.py"),
)
_RECIPE = recipe(*(path for pattern in _MADE_BY for path in sorted(_CODE.glob(pattern))))


def starting_network(settings: LearnerSettings, stream: DomainStream, plan: Plan) -> Classifier:
    """The network before stage 0; weights that do not fit it are refused here."""
    seed_everything(settings.seed, "network")
    return networks.build(settings.network, len(stream.classes)).to(plan.device)


def source_model(
    network: Classifier, settings: LearnerSettings, stream: DomainStream, folder: Path, plan: Plan, operator: Operator
) -> Classifier:
    """The network with the weights θ_0: read from `folder` if they are there, else trained and left there."""
    config = _identity(settings, stream, plan) | {"start": networks.fingerprint(network)}
    key = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]
    directory = RunDirectory(folder / key)
    network.has_frozen_statistics = settings.network.freezes_statistics(len(stream.source))
    method = Supervised(network, settings.stage0)
    # Of several runs the second waits; the processes of one run share the turn of their first.
    with one_at_a_time(folder / f"{key}.lock") if distributed.is_main() else nullcontext():
        if not distributed.agree(directory.is_done):
            directory.claim(config)
            stage = Stage(0, stream.source, (), Joined([]), settings.augmentation)
            plan = replace(plan, epochs=settings.stage0.epochs, batch_size=settings.stage0.batch_size)
            LoneStage("stage 0", stage, directory, plan).train(method, partial(_begin, method, stage), operator)
            directory.finish()
    state = directory.checkpoints.final()
    method.load_state_dict(state["method"]["modules"])
    return network


def _begin(method: Supervised, stage: Stage, saved: dict[str, Any] | None) -> None:
    method.begin(stage)
    if saved is not None:
        method.restore(saved)


def _identity(settings: LearnerSettings, stream: DomainStream, plan: Plan) -> dict[str, Any]:
    """All that θ_0 depends on besides the weights that it starts from, which count by what they are, not by where."""
    return {
        "stage0": settings.stage0.model_dump(mode="json"),
        "network": settings.network.model_dump(mode="json", exclude={"weights", "pretrained"}),
        "size": networks.input_size(settings.network, settings.images.size),
        "augmentation": settings.augmentation.model_dump(mode="json") if settings.stage0.augment_source else None,
        "source": {domain.name: domain.fingerprint for domain in stream.sources},
        "classes": len(stream.classes),
        "seed": settings.seed,
        "threads": settings.training.threads,
        "processes": distributed.world_size(),
        "device": plan.device.type,
        "torch": torch.__version__,
        "pillow": PIL.__version__,
        "code": _RECIPE,
    }
