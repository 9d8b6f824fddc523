"""DADA's parts: what separates features into three kinds, what puts them together, and what measures their overlap."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grcl.losses import mutual_information
from grcl.shapes import Float

KINDS = ("specific", "invariant", "irrelevant")


class Disentangler(nn.Module):
    """Domain-specific, domain-invariant and class-irrelevant features of z, a head of classes for each kind, and the
    linear map that makes z of two kinds again."""

    def __init__(self, feature_size: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({kind: _separator(feature_size, dropout) for kind in KINDS})
        self.heads = nn.ModuleDict({kind: nn.Linear(feature_size, classes) for kind in KINDS})
        self.reconstructor = nn.Linear(2 * feature_size, feature_size)

    def separate(self, z: Float[Tensor, "batch features"]) -> dict[str, Tensor]:
        """The three kinds of features."""
        return {kind: part(z) for kind, part in self.parts.items()}

    def classes(self, z: Float[Tensor, "batch features"], kind: str) -> Float[Tensor, "batch classes"]:
        """What the head of one kind says."""
        scores: Tensor = self.heads[kind](self.parts[kind](z))
        return scores

    def reconstruction_loss(self, z: Float[Tensor, "batch features"]) -> Float[Tensor, ""]:
        """How far z is from what the class-irrelevant features and either other kind tell of it."""
        kinds = self.separate(z)
        pairs = [torch.cat([kinds[kind], kinds["irrelevant"]], dim=1) for kind in ("specific", "invariant")]
        return torch.stack([F.mse_loss(self.reconstructor(pair), z) for pair in pairs]).mean()


def _separator(size: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(size, size),
        nn.BatchNorm1d(size),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(size, size),
        nn.BatchNorm1d(size),
        nn.ReLU(),
    )


class InformationEstimator(nn.Module):
    """MINE (Belghazi et al. 2018): T(x, y) whose ascent estimates the mutual information of two kinds of features."""

    def __init__(self, feature_size: int, hidden: int = 512) -> None:
        super().__init__()
        self.first = nn.Linear(feature_size, hidden)
        self.second = nn.Linear(feature_size, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(
        self, x: Float[Tensor, "batch features"], y: Float[Tensor, "batch features"]
    ) -> Float[Tensor, "batch 1"]:
        score: Tensor = self.out(F.leaky_relu(self.first(x) + self.second(y)))
        return score

    def estimate(self, kinds: dict[str, Tensor]) -> Float[Tensor, ""]:
        """How much the class-irrelevant features tell of the two other kinds; marginals by shuffling the batch."""
        irrelevant = kinds["irrelevant"]
        shuffled = irrelevant[torch.randperm(len(irrelevant)).to(irrelevant.device)]
        return torch.stack(
            [
                mutual_information(self(kinds[kind], irrelevant), self(kinds[kind], shuffled))
                for kind in ("specific", "invariant")
            ]
        ).mean()
