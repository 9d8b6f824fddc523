"""How a model is doing on a domain, in numbers that need no label of it."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.evaluate import mean_entropy
from grcl.memory.sight import Sight
from grcl.runtime.seeding import generator
from grcl.shapes import Float

_TEMPERATURE = 0.05  # the value of the paper
_MOST = 10_000  # images that are compared with each other; of a larger domain so many are drawn
_BLOCK = 500  # rows of similarities at a time: 20 MB


class Vitals(NamedTuple):
    """What is watched before and after every adaptation."""

    entropy: float
    """Mean entropy of the target's predictions, in nats; low means sure, not right."""
    agreement: float
    """How often k-means and the classifier give a target image the same class."""
    density: float
    """Soft neighbourhood density of the target, in nats."""
    source_loss: float
    """Mean cross-entropy on the source."""
    memory_loss: float | None
    """Mean cross-entropy on the memory; None while there is none."""
    violated: float | None
    """Share of the steps that opposed a constraint before they were projected; None where there was none of either."""


def vitals(sight: Sight, violated: float | None = None) -> Vitals:
    """The numbers of one look at the source, the memory and the target."""
    return Vitals(
        entropy=mean_entropy(sight.target.scores),
        agreement=sight.agreement,
        density=neighbourhood_density(sight.target.scores.softmax(dim=1)),
        source_loss=sight.losses["source"],
        memory_loss=sight.losses.get("M"),
        violated=violated,
    )


@torch.no_grad()
def neighbourhood_density(outputs: Float[Tensor, "n dim"]) -> float:
    """Soft neighbourhood density (Saito et al. 2021): the mean entropy of each image's similarities to the others.

    Row i of softmax(cos(i, j) / 0.05) over j ≠ i tells which images lie beside image i; its entropy is the logarithm
    of how many they are. A collapse to one class makes it as high as it gets, so it is never read alone.
    """
    if len(outputs) > _MOST:
        drawn = torch.randperm(len(outputs), generator=generator(0, "density"))[:_MOST]
        outputs = outputs[drawn.to(outputs.device)]
    if len(outputs) < 2:
        return 0.0
    unit, places = F.normalize(outputs, dim=1), torch.arange(len(outputs), device=outputs.device)
    total = 0.0
    for block in places.split(_BLOCK):
        similar = (unit[block] @ unit.T / _TEMPERATURE).masked_fill(block[:, None] == places, -torch.inf)
        log_p = similar.log_softmax(dim=1)
        total -= float((log_p.exp() * log_p.clamp(min=-1e4)).sum())  # 0 · log 0 is 0
    return total / len(outputs)
