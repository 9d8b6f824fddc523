"""The adversarial part that CUA and GRA share: ADDA (Tzeng et al. 2017) against the source features of θ_0."""

import copy

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from grcl.data.feeds import Samples
from grcl.losses import confusion_loss, domain_loss
from grcl.methods.optimizers import Adam
from grcl.networks.classifier import Classifier
from grcl.networks.statistics import kept_statistics
from grcl.runtime.settings import Settings
from grcl.shapes import Float


class AdversarySettings(Settings):
    """The discriminator between domains."""

    hidden: PositiveInt = 500
    """Width of its two hidden layers."""
    optimizer: Adam = Adam(rate=2e-4, beta1=0.5)


def discriminator(feature_size: int, hidden: int) -> nn.Sequential:
    """A network that scores features: high for target, low for source."""
    return nn.Sequential(
        nn.Linear(feature_size, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 1),
    )


class Adversary(nn.Module):
    """The discriminator of a stage, and the frozen θ_0 whose source features the target is to resemble."""

    discriminator: nn.Sequential

    def __init__(self, settings: AdversarySettings, network: Classifier) -> None:
        super().__init__()
        self.settings = settings
        self.reference = copy.deepcopy(network).requires_grad_(False)

    def train(self, mode: bool = True) -> "Adversary":
        """The reference always stays as it was when it was frozen."""
        super().train(mode)
        self.reference.eval()
        return self

    def begin(self) -> None:
        """A new discriminator for every stage."""
        fresh = discriminator(self.reference.feature_size, self.settings.hidden)
        self.discriminator = fresh.to(self.reference.device)

    def domain_loss(self, network: Classifier, source: Samples, target: Samples) -> Float[Tensor, ""]:
        """What the discriminator descends: telling θ_0's source features from the live target features."""
        with torch.no_grad(), kept_statistics(network):  # they follow what moves the network
            known, new = self.reference.features(source.images), network.features(target.images)
        return domain_loss(self.discriminator(known), self.discriminator(new))

    def confusion(self, network: Classifier, target: Samples) -> Float[Tensor, ""]:
        """What the network descends: target features that pass for source."""
        return confusion_loss(self.discriminator(network.features(target.images)))
