"""Networks by name."""

from collections.abc import Callable

from torch import nn

from grcl.networks.classifier import Classifier
from grcl.networks.lenet import lenet5_encoder
from grcl.runtime.settings import Settings

__all__ = ["ENCODERS", "Classifier", "Network", "build"]

ENCODERS: dict[str, Callable[[], tuple[nn.Module, int]]] = {"lenet5": lenet5_encoder}


class Network(Settings):
    """Which network is trained."""

    name: str = "lenet5"
    """The encoder; lenet5 is for images of 32x32 pixels."""


def build(settings: Network, classes: int) -> Classifier:
    """A classifier with fresh weights, drawn from torch's global generator."""
    encoder, feature_size = ENCODERS[settings.name]()
    return Classifier(encoder, feature_size, classes)
