"""The feature bank B_t."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grcl.runtime import distributed
from grcl.shapes import Float, Int


class FeatureBank(nn.Module):
    """One unit-norm key per instance of D_s ∪ M ∪ D_t (Sec. 3.1)."""

    keys: Tensor

    def __init__(self, instances: int, size: int, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("keys", torch.zeros(instances, size))

    @torch.no_grad()
    def fill(self, keys: Float[Tensor, "instances dim"]) -> None:
        """BuildFeatureBank of Algorithm 1; it prints |k|² as the divisor, the norm is meant."""
        self.keys.copy_(on_sphere(keys, otherwise=torch.ones_like(keys)))

    @torch.no_grad()
    def update(self, index: Int[Tensor, " batch"], fresh: Float[Tensor, "batch dim"]) -> None:
        """k ← m·k + (1 − m)·fresh, put back on the sphere. Every process makes the updates of all."""
        index, fresh = distributed.gather_rows(index), distributed.gather_rows(fresh)
        blended = self.momentum * self.keys[index] + (1 - self.momentum) * fresh
        self.keys[index] = on_sphere(blended, otherwise=self.keys[index])

    def draw(self, count: int) -> Int[Tensor, " keys"]:
        """Places of `count` keys drawn at random, from torch's global generator; all of them if there are no more."""
        instances = len(self.keys)
        if count >= instances:
            return torch.arange(instances, device=self.keys.device)
        return torch.randint(instances, (count,)).to(self.keys.device)


def on_sphere(keys: Float[Tensor, "n dim"], otherwise: Float[Tensor, "n dim"]) -> Float[Tensor, "n dim"]:
    """The keys scaled to length 1; a key of no length, which has no direction, is replaced."""
    has_length = keys.norm(dim=1, keepdim=True) > 1e-6
    return F.normalize(torch.where(has_length, keys, otherwise), dim=1)
