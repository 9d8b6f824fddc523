"""How far several labels of the same images agree, beyond chance."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.shapes import Int


class Footing(NamedTuple):
    """On how much of the images several labels agree, and on how much they would by chance.

    Chance follows from how often each names each class: where all call everything a mug, agreement is no feat.
    """

    agreement: float
    chance: float

    @classmethod
    def of(cls, *labels: Int[Tensor, " n"]) -> "Footing":
        """The footing of these labels of the same images."""
        given = torch.stack(labels).cpu()  # not every GPU has doubles
        agreement = (given == given[0]).all(dim=0).double().mean()
        chance = F.one_hot(given).double().mean(dim=1).prod(dim=0).sum()
        return cls(float(agreement), float(chance))

    @property
    def share(self) -> float:
        """How far the agreement is on the way from chance (0) to certainty (1); Cohen's kappa for two labels."""
        return (self.agreement - self.chance) / (1 - self.chance) if self.chance < 1 else 0.0

    def __str__(self) -> str:
        return f"agree on {self.agreement:.0%} of the images, and would on {self.chance:.0%} by chance"
