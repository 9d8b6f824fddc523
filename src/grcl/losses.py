"""Losses as pure functions."""

import math

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
    logits = _likeness(query, positive, negatives, own, temperature)
    first = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return F.cross_entropy(logits, first)


def class_nce(
    query: Float[Tensor, "batch dim"],
    positive: Float[Tensor, "batch dim"],
    keys: Float[Tensor, "keys dim"],
    own: Bool[Tensor, "batch keys"],
    alike: Bool[Tensor, "batch keys"],
    temperature: float,
) -> Float[Tensor, ""]:
    """The same with all keys of one's class as positives beside one's own: the mean over them (Khosla et al. 2020)."""
    log_p = _likeness(query, positive, keys, own, temperature).log_softmax(dim=1)
    is_positive = F.pad(alike & ~own, (1, 0), value=True)
    return -(log_p.where(is_positive, 0).sum(dim=1) / is_positive.sum(dim=1)).mean()


def domain_loss(source: Float[Tensor, "batch 1"], target: Float[Tensor, "others 1"]) -> Float[Tensor, ""]:
    """Binary cross-entropy of telling source features (0) from target features (1), each side counting half."""
    return (F.softplus(source).mean() + F.softplus(-target).mean()) / 2


def confusion_loss(target: Float[Tensor, "batch 1"]) -> Float[Tensor, ""]:
    """The same with the target's label turned round: low where the discriminator takes it for source (ADDA)."""
    return F.softplus(target).mean()


def classifier_discrepancy(
    first: Float[Tensor, "batch classes"], second: Float[Tensor, "batch classes"]
) -> Float[Tensor, ""]:
    """Mean over the batch of Σ|p₁ − p₂| / 10 (MCD). The original's mean over classes equals it for ten classes only,
    and vanishes for many."""
    return (first.softmax(dim=1) - second.softmax(dim=1)).abs().sum(dim=1).mean() / 10


def uniform_loss(scores: Float[Tensor, "batch classes"]) -> Float[Tensor, ""]:
    """Cross-entropy to the uniform distribution: low where no class can be told (DADA)."""
    return -scores.log_softmax(dim=1).mean()


def ring_loss(features: Float[Tensor, "batch features"]) -> Float[Tensor, ""]:
    """Twice the mean squared deviation of the features' lengths from their mean (DADA's ring-style norm), as shares of
    the mean, so that the scale of the features does not matter."""
    lengths: Tensor = features.norm(dim=1)
    mean = lengths.mean().detach().clamp(min=torch.finfo(lengths.dtype).tiny)
    return 2 * ((lengths - lengths.mean()) / mean).square().mean()


def mutual_information(joint: Float[Tensor, "batch 1"], marginal: Float[Tensor, "batch 1"]) -> Float[Tensor, ""]:
    """The lower bound E[T(x, y)] − log E[exp T(x, y′)] of Donsker and Varadhan (MINE)."""
    return joint.mean() - marginal.logsumexp(dim=0).squeeze() + math.log(len(marginal))


def _likeness(
    query: Float[Tensor, "batch dim"],
    positive: Float[Tensor, "batch dim"],
    keys: Float[Tensor, "keys dim"],
    own: Bool[Tensor, "batch keys"],
    temperature: float,
) -> Float[Tensor, "batch 1+keys"]:
    """q·k / τ of a query with its positive, which comes first, and with all keys but its own."""
    matches = (query * positive).sum(dim=1, keepdim=True)
    others = (query @ keys.T).masked_fill(own, -torch.inf)
    return torch.cat([matches, others], dim=1) / temperature
