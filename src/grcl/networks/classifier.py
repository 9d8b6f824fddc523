"""A network in two parts: an encoder that makes features z, and a linear head that makes classes of them."""

import torch
from torch import Tensor, nn

from grcl.networks.statistics import batch_norms
from grcl.shapes import Float

Colour = tuple[float, float, float]
_HALF: Colour = (0.5, 0.5, 0.5)


class Classifier(nn.Module):
    """f(x; θ): images in 0..1 to class scores. Mean and standard deviation of the input belong to the network."""

    mean: Tensor
    deviation: Tensor
    has_frozen_statistics = False
    """Whether training leaves the running statistics of batch normalisation as they are, and normalises by them."""

    has_short_passes = False
    """Whether the encoder computes in bf16."""

    def __init__(
        self, encoder: nn.Module, feature_size: int, classes: int, mean: Colour = _HALF, deviation: Colour = _HALF
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(feature_size, classes)
        self.feature_size = feature_size
        self.classes = classes
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(1, 3, 1, 1))

    def train(self, mode: bool = True) -> "Classifier":
        """Training mode, in which frozen statistics stay frozen."""
        super().train(mode)
        if self.has_frozen_statistics:
            for layer in batch_norms(self.encoder):
                layer.eval()
        return self

    def features(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch features"]:
        """z, the encoder's output."""
        # In this layout LeNet-5 is 1.4 times as fast on a CPU, depthwise convolutions 1.6 times, a ResNet as fast.
        normal = ((images - self.mean) / self.deviation).contiguous(memory_format=torch.channels_last)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.has_short_passes):
            z: Tensor = self.encoder(normal)
        return z.float() if self.has_short_passes else z

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
