"""Losses as pure functions."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.shapes import Bool, Float


def info_nce(
    query: Float[Tensor, "batch dim"],
    positive: Float[Tensor, "batch dim"],
    negatives: Float[Tensor, "keys dim"],
    own: Bool[Tensor, "batch keys"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Cross-entropy of picking the positive among the negatives (Eq. 1), own keys masked out. Inputs are unit-norm."""
    matches = (query * positive).sum(dim=1, keepdim=True)
    others = (query @ negatives.T).masked_fill(own, -torch.inf)
    logits = torch.cat([matches, others], dim=1) / temperature
    first = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return F.cross_entropy(logits, first)
