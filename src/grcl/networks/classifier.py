"""A network in two parts: an encoder that makes features z, and a linear head that makes classes of them."""

import torch
from torch import Tensor, nn

from grcl.shapes import Float


class Classifier(nn.Module):
    """f(x; θ): images in 0..1 to class scores. Mean and standard deviation of the input belong to the network."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, encoder: nn.Module, feature_size: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(feature_size, classes)
        self.feature_size = feature_size
        self.classes = classes
        self.register_buffer("mean", torch.full((1, 3, 1, 1), 0.5))
        self.register_buffer("deviation", torch.full((1, 3, 1, 1), 0.5))

    def features(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch features"]:
        """z, the encoder's output."""
        z: Tensor = self.encoder((images - self.mean) / self.deviation)
        return z

    def see(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Tensor, Tensor]:
        """Features and class scores, from one pass."""
        z = self.features(images)
        return z, self.head(z)

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch classes"]:
        return self.see(images)[1]

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.mean.device
