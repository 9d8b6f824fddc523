"""Optimisers as settings; each remembers its initial rate and its schedule, which the loop follows."""

from collections.abc import Iterable
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import nn
from torch.optim import Optimizer

from grcl.runtime.settings import Settings
from grcl.schedule import ScheduleName

Share = Annotated[float, Field(ge=0, lt=1)]


class Sgd(Settings):
    """Stochastic gradient descent: without momentum its step keeps a projected gradient's promise."""

    rate: PositiveFloat = 0.01
    """Initial learning rate."""
    momentum: Share = 0.9
    """Heavy-ball momentum; above zero a step may break a constraint that its gradient obeys."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty."""
    schedule: ScheduleName = "cosine"
    """How the rate changes over a stage."""

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The optimiser of these parameters."""
        optimizer = torch.optim.SGD(
            parameters, lr=self.rate, momentum=self.momentum, weight_decay=self.weight_decay, foreach=True
        )
        return _following(optimizer, self.rate, self.schedule)


class Adam(Settings):
    """Adam."""

    rate: PositiveFloat = 2e-3
    """Initial learning rate."""
    beta1: Share = 0.9
    """Decay of the mean gradient."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty."""
    schedule: ScheduleName = "constant"
    """How the rate changes over a stage."""

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The optimiser of these parameters."""
        optimizer = torch.optim.Adam(
            parameters, lr=self.rate, betas=(self.beta1, 0.999), weight_decay=self.weight_decay, foreach=True
        )
        return _following(optimizer, self.rate, self.schedule)


class Descent(Settings):
    """Either of the two, for a method that projects the step, so that neither breaks a constraint."""

    rule: Literal["adam", "sgd"] = "adam"
    """How a step is made of the gradients; give a rate with it."""
    rate: PositiveFloat = 2e-3
    """Initial learning rate; plain descent (sgd) wants two to three times as much as Adam."""
    momentum: Share = 0.9
    """Heavy-ball momentum, or Adam's decay of the mean gradient."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty."""
    schedule: ScheduleName = "cosine"
    """How the rate changes over a stage."""

    def build(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The optimiser of these parameters."""
        values = self.model_dump(exclude={"rule", "momentum"})
        rule = Adam(beta1=self.momentum, **values) if self.rule == "adam" else Sgd(momentum=self.momentum, **values)
        return rule.build(parameters)


def _following(optimizer: Optimizer, rate: float, schedule: str) -> Optimizer:
    for group in optimizer.param_groups:
        group["initial_lr"], group["schedule"] = rate, schedule
    return optimizer
