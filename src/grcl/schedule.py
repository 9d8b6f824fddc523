"""Learning-rate factors as pure functions of progress in 0..1; they restart with every stage."""

import math
from collections.abc import Callable, Iterable
from typing import Literal

from torch.optim import Optimizer

ScheduleName = Literal["constant", "cosine", "warm_cosine", "inverse"]


def _cosine(progress: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * progress))


SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "cosine": _cosine,
    "warm_cosine": lambda progress: min(1.0, 5 * progress) * _cosine(progress),  # from zero, for a fifth of a stage
    "inverse": lambda progress: (1 + 10 * progress) ** -0.75,  # DANN's
}


def set_learning_rates(optimizers: Iterable[Optimizer], progress: float) -> None:
    """Give every parameter group its initial rate times the factor of its schedule."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * SCHEDULES[group["schedule"]](progress)
