"""DADA (Peng et al. 2019): features are disentangled into domain-specific, domain-invariant and class-irrelevant ones,
and the invariant ones are aligned. The paper's intent is followed where its public code differs (docs/paper.md)."""

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from grcl.data.feeds import Batch, Feed, Samples
from grcl.data.stream import Stage
from grcl.gradients import descend
from grcl.losses import confusion_loss, domain_loss, ring_loss, uniform_loss
from grcl.methods.base import Method
from grcl.methods.disentangler import KINDS, Disentangler, InformationEstimator
from grcl.methods.feeds import source_feed, target_feed
from grcl.methods.optimizers import Adam, Share
from grcl.methods.source_batches import source_batches
from grcl.networks.classifier import Classifier
from grcl.networks.statistics import kept_statistics
from grcl.runtime.settings import Settings
from grcl.shapes import Float


class Dada(Method):
    """Deep adversarial disentangled autoencoder; source and current target only. Predicts from invariant features."""

    estimator: InformationEstimator
    discriminator: nn.Sequential

    class Config(Settings):
        """DADA's own settings."""

        information_steps: PositiveInt = 1
        """Steps of ascent that the mutual-information estimator takes per batch."""
        information_weight: NonNegativeFloat = 1e-4
        """Weight of the mutual information between class-irrelevant and other features."""
        adversary_weight: NonNegativeFloat = 0.01
        """Weight of the alignment of the invariant features."""
        reconstruction_weight: NonNegativeFloat = 0.01
        """Weight of the reconstruction of z."""
        ring_weight: NonNegativeFloat = 0.01
        """Weight of the ring-style norm of z, taken of lengths relative to their mean."""
        dropout: Share = 0.5
        """Dropout within the disentanglers."""
        warm_up_steps: NonNegativeInt = 400
        """Steps that the parts which θ_0 lacks are trained on the source before stage 1."""
        augment: bool = True
        """Whether source and target come as augmented views."""
        optimizer: Adam = Adam(rate=2e-4, weight_decay=5e-4)

    def __init__(self, network: Classifier, config: Config) -> None:
        super().__init__(network, config)
        self.disentangler = Disentangler(network.feature_size, network.classes, config.dropout)

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        return source_feed(stage, self.config.augment), target_feed(stage, self.config.augment)

    def begin(self, stage: Stage) -> None:
        size = self.network.feature_size
        self.estimator = InformationEstimator(size).to(self.device)
        self.discriminator = nn.Sequential(nn.Linear(size, 256), nn.LeakyReLU(), nn.Linear(256, 1)).to(self.device)
        parts = {kind: self.disentangler.parts[kind] for kind in KINDS}
        modules: dict[str, nn.Module] = {
            **parts,
            "encoder": self.network.encoder,
            "heads": self.disentangler.heads,
            "reconstructor": self.disentangler.reconstructor,
            "estimator": self.estimator,
            "discriminator": self.discriminator,
        }
        self.optimizers = {name: self.config.optimizer.build(part.parameters()) for name, part in modules.items()}

    def warm_up(self, stage: Stage) -> None:
        if stage.index > 1:
            return
        self.disentangler.train()
        optimizer = Adam(rate=2e-3).build(self.disentangler.parameters())
        for samples in source_batches(stage, self.config.warm_up_steps, self.device):
            with torch.no_grad():
                z = self.network.features(samples.images)
            descend(self.class_loss(z, samples), optimizer)

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        source, target = batch["source"], batch["target"]
        encoder, specific, invariant, irrelevant, heads, reconstructor, estimator, critic = (
            self.optimizers[name]
            for name in ("encoder", *KINDS, "heads", "reconstructor", "estimator", "discriminator")
        )
        kinds = (specific, invariant, irrelevant)
        images, count = torch.cat([source.images, target.images]), len(source.index)
        weights = self.config

        # learn the classes; the network is tested with the statistics of these batches
        classes = self.class_loss(self.network.features(source.images), source)
        descend(classes, encoder, *kinds, heads)
        with kept_statistics(self):
            # keep the lengths of the features on a ring
            ring = ring_loss(self.network.features(images))
            descend(weights.ring_weight * ring, encoder)

            # class-irrelevant features tell no class, and little of the other features
            z = self.fixed_features(images)
            confused = uniform_loss(self.disentangler.classes(z, "irrelevant"))
            descend(confused, irrelevant)
            for _ in range(weights.information_steps):
                descend(-self.information(z, count), estimator)
            information = self.information(z, count)
            descend(weights.information_weight * information, *kinds)

            # invariant features tell no domain: the discriminator learns, then is fooled
            domain = domain_loss(*self.domain_scores(z, count))
            descend(domain, critic)
            seen_as_source, seen_as_target = self.domain_scores(self.network.features(images), count)
            fooled = confusion_loss(seen_as_target) + confusion_loss(-seen_as_source)
            descend(weights.adversary_weight * fooled, encoder, invariant)

            # together the parts still hold all that there was
            rebuilt = self.disentangler.reconstruction_loss(self.fixed_features(images))
            descend(weights.reconstruction_weight * rebuilt, *kinds, reconstructor)
        losses = {
            "source": classes,
            "ring": ring,
            "confused": confused,
            "information": information,
            "domain": domain,
            "fooled": fooled,
            "reconstruction": rebuilt,
        }
        return {f"loss/{name}": value.detach() for name, value in losses.items()}

    def see(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Tensor, Tensor]:
        invariant = self.disentangler.parts["invariant"](self.network.features(images))
        return invariant, self.disentangler.heads["invariant"](invariant)

    def class_loss(self, z: Float[Tensor, "batch features"], samples: Samples) -> Float[Tensor, ""]:
        """Cross-entropy through all three branches; the class-irrelevant head must know what it is to be fooled in."""
        labels = samples.labels
        assert labels is not None
        return torch.stack([F.cross_entropy(self.disentangler.classes(z, kind), labels) for kind in KINDS]).sum()

    def fixed_features(self, images: Tensor) -> Float[Tensor, "batch features"]:
        """z, for phases that leave the encoder alone."""
        with torch.no_grad():
            return self.network.features(images)

    def information(self, z: Float[Tensor, "batch features"], count: int) -> Float[Tensor, ""]:
        """How much the class-irrelevant features tell of the others, in the first `count` images and in the rest."""
        kinds = self.disentangler.separate(z)
        domains = ({kind: features[part] for kind, features in kinds.items()} for part in _halves(count))
        return torch.stack([self.estimator.estimate(domain) for domain in domains]).mean()

    def domain_scores(self, z: Float[Tensor, "batch features"], count: int) -> tuple[Tensor, Tensor]:
        """The discriminator's scores of the invariant features of the first `count` images and of the rest."""
        scores = self.discriminator(self.disentangler.parts["invariant"](z))
        return scores[:count], scores[count:]


def _halves(count: int) -> tuple[slice, slice]:
    return slice(None, count), slice(count, None)
