"""Networks by name."""

from grcl.networks.classifier import Classifier
from grcl.networks.lenet import LeNet5
from grcl.runtime.settings import Settings

__all__ = ["ENCODERS", "Classifier", "Network", "build"]

ENCODERS = {"lenet5": LeNet5}


class Network(Settings):
    """Which network is trained."""

    name: str = "lenet5"
    """The encoder; lenet5 is for images of 32x32 pixels."""


def input_size(settings: Network) -> int:
    """The pixels on each side that the network is made for."""
    return ENCODERS[settings.name].input_size


def build(settings: Network, classes: int) -> Classifier:
    """A classifier with fresh weights, drawn from torch's global generator."""
    encoder = ENCODERS[settings.name]()
    return Classifier(encoder, encoder.feature_size, classes)
