"""Optimisers as settings: what is built is torch's own, and remembers what the loop follows."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from grcl.methods.optimizers import Descent


def path_down(optimizer: Optimizer, parameter: nn.Parameter) -> Tensor:
    """Ten steps down a bent bowl."""
    for _ in range(10):
        optimizer.zero_grad()
        (parameter**4 + parameter**2).sum().backward()
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize(
    ("rule", "theirs", "own"),
    [("adam", Adam, {"betas": (0.8, 0.999)}), ("sgd", SGD, {"momentum": 0.8})],
)
def test_descent_is_the_optimiser_that_it_names(rule: Any, theirs: Any, own: dict[str, Any]) -> None:
    ours, reference = (nn.Parameter(torch.linspace(-1, 1, 5)) for _ in range(2))
    settings = Descent(rule=rule, rate=0.02, momentum=0.8, weight_decay=0.1, schedule="inverse")
    built = settings.build([ours])
    expected = path_down(theirs([reference], lr=0.02, weight_decay=0.1, **own), reference)
    assert torch.equal(path_down(built, ours), expected)
    assert (built.param_groups[0]["initial_lr"], built.param_groups[0]["schedule"]) == (0.02, "inverse")
