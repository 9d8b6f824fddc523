"""LeNet-5 for 32x32 colour digits (LeCun et al. 1998, with ReLU and max-pooling)."""

from torch import Tensor, nn

from grcl.shapes import Float


class LeNet5(nn.Module):
    """The layers up to the 84 features z; with a head of ten classes it has 62,006 parameters."""

    feature_size = 84
    input_size = 32

    def __init__(self) -> None:
        super().__init__()
        # ReLU after pooling gives the same numbers as before it, from a quarter of the work.
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(6, 16, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, self.feature_size),
            nn.ReLU(),
        )

    def forward(self, images: Float[Tensor, "batch 3 32 32"]) -> Float[Tensor, "batch 84"]:
        z: Tensor = self.layers(images)
        return z
