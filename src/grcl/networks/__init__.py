"""Networks by name, and what they start from."""

from typing import Any

from grcl.networks.backbones import backbone_size, create, facts_of
from grcl.networks.classifier import Classifier
from grcl.networks.imagenet import imagenet_backbone
from grcl.networks.names import ENCODERS, require_known
from grcl.networks.settings import Network
from grcl.networks.weights import fingerprint, load_weights
from grcl.runtime.errors import Refusal

__all__ = ["ENCODERS", "Classifier", "Network", "build", "fingerprint", "input_size", "require_known"]


def input_size(settings: Network, asked: int | None = None) -> int:
    """The pixels on each side of its images: those asked for, if the network can take them, or else its own."""
    if settings.name not in ENCODERS:
        return backbone_size(settings.name, asked)
    own = ENCODERS[settings.name].input_size
    if asked not in (None, own):
        raise Refusal(f"{settings.name} takes images of {own} pixels; images.size = {asked} needs another network")
    return own


def build(settings: Network, classes: int) -> Classifier:
    """A classifier with the weights that the settings name; all others are drawn from torch's global generator."""
    require_known(settings.name)
    network = _built(settings, classes)
    if settings.weights is not None:
        load_weights(network, settings.weights, settings.name)
    network.has_short_passes = settings.precision == "bf16"
    if settings.compile:
        network.encoder.compile()
    return network


def _built(settings: Network, classes: int) -> Classifier:
    if settings.name in ENCODERS:
        ours = ENCODERS[settings.name]()
        return Classifier(ours, ours.feature_size, classes)
    facts = facts_of(settings.name)
    encoder: Any = imagenet_backbone(settings.name) if settings.is_from_imagenet else create(settings.name)
    return Classifier(encoder, encoder.head_hidden_size, classes, facts.mean, facts.std)
