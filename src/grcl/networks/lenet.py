"""LeNet-5 for 32x32 colour digits (LeCun et al. 1998, with ReLU and max-pooling)."""

from torch import nn


def lenet5_encoder() -> tuple[nn.Module, int]:
    """The layers up to the 84 features z, and their number; with a head of ten classes it has 62,006 parameters."""
    layers = nn.Sequential(
        nn.Conv2d(3, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
    )
    return layers, 84
