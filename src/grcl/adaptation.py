"""One stage of Algorithm 1, for a run on a benchmark and for a learner alike: set up, begin or go on, look over."""

from typing import Any

import torch

from grcl.config import LearnerSettings
from grcl.data.stream import Stage
from grcl.loop import Plan
from grcl.memory.sight import Sight, look_over
from grcl.methods import Method
from grcl.runtime import distributed
from grcl.runtime.errors import Refusal
from grcl.runtime.seeding import seed_everything


def prepare(settings: LearnerSettings) -> Plan:
    """Set torch up as the settings say."""
    training = settings.training
    torch.set_num_threads(training.threads)
    torch.backends.cudnn.deterministic = True
    device = choose_device(training.device)
    distributed.start(device.type)
    return Plan(
        epochs=training.epochs,
        batch_size=training.batch_size,
        seed=settings.seed,
        device=device,
        log_every=training.log_every,
        checkpoint_seconds=training.checkpoint_seconds,
        micro_batch=training.micro_batch,
    )


def choose_device(name: str) -> torch.device:
    """The device by name; auto takes a GPU if there is one."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = next(kind for kind in present if present[kind]) if name == "auto" else name
    if not present[kind]:
        raise Refusal(f"no {kind} device here; use --device cpu")
    return torch.device(kind, distributed.local_rank()) if kind == "cuda" else torch.device(kind)


def begin_stage(method: Method, stage: Stage, settings: LearnerSettings, saved: dict[str, Any] | None = None) -> None:
    """Make what lives for one stage, and fill it by the model of the stage before, or by what was saved within it."""
    seed_everything(settings.seed, stage.index, "begin")
    smallest = min(len(stage.source), len(stage.target))
    method.network.has_frozen_statistics = settings.network.freezes_statistics(smallest)
    method.begin(stage)
    if saved is not None:
        method.restore(saved)
        return
    method.eval()  # a resumed run comes here from the training mode of the stage before
    method.warm_up(stage)


def look(method: Method, stage: Stage) -> Sight:
    """What the method sees in the stage as it is now."""
    method.eval()
    return look_over(method, stage)
