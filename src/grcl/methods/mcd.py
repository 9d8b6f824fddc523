"""MCD (Saito et al. 2018): two heads find the target images on which they disagree; the encoder reconciles them."""

import torch
import torch.nn.functional as F
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from grcl.data.feeds import Batch, Feed, Samples
from grcl.data.stream import Stage
from grcl.gradients import descend
from grcl.losses import classifier_discrepancy
from grcl.methods.base import Method
from grcl.methods.feeds import source_feed, target_feed
from grcl.methods.optimizers import Adam
from grcl.methods.source_batches import source_batches
from grcl.networks.classifier import Classifier
from grcl.networks.statistics import kept_statistics
from grcl.runtime.settings import Settings
from grcl.shapes import Float


class Mcd(Method):
    """Maximum classifier discrepancy; source and current target only. Predicts with the sum of both heads."""

    class Config(Settings):
        """MCD's own settings."""

        encoder_steps: PositiveInt = 4
        """Steps of the encoder against the discrepancy, per batch."""
        warm_up_steps: NonNegativeInt = 200
        """Steps that the second head, which θ_0 lacks, is trained on the source before stage 1."""
        augment: bool = True
        """Whether source and target come as augmented views."""
        optimizer: Adam = Adam(rate=2e-4, weight_decay=5e-4)

    def __init__(self, network: Classifier, config: Config) -> None:
        super().__init__(network, config)
        # From another start: a copy of the first head would agree with it for ever.
        self.second_head = nn.Linear(network.feature_size, network.classes)

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        return source_feed(stage, self.config.augment), target_feed(stage, self.config.augment)

    def begin(self, stage: Stage) -> None:
        heads = [*self.network.head.parameters(), *self.second_head.parameters()]
        self.optimizers = {
            "encoder": self.config.optimizer.build(self.network.encoder.parameters()),
            "heads": self.config.optimizer.build(heads),
        }

    def warm_up(self, stage: Stage) -> None:
        if stage.index > 1:
            return
        optimizer = Adam(rate=2e-3).build(self.second_head.parameters())
        for samples in source_batches(stage, self.config.warm_up_steps, self.device):
            with torch.no_grad():
                features = self.network.features(samples.images)
            assert samples.labels is not None
            descend(F.cross_entropy(self.second_head(features), samples.labels), optimizer)

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        source, target = batch["source"], batch["target"]
        encoder, heads = self.optimizers["encoder"], self.optimizers["heads"]
        descend(loss := self.source_loss(source), encoder, heads)  # A: learn the classes
        with kept_statistics(self.network):  # they follow what moves the encoder
            descend(self.source_loss(source) - self.discrepancy(target), heads)  # B: heads disagree on the target
        for _ in range(self.config.encoder_steps):
            descend(discrepancy := self.discrepancy(target), encoder)  # C: the encoder reconciles them
        return {"loss/source": loss.detach(), "loss/discrepancy": discrepancy.detach()}

    def see(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Tensor, Tensor]:
        features, first = self.network.see(images)
        return features, first + self.second_head(features)

    def scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What each head says."""
        features, first = self.network.see(images)
        return first, self.second_head(features)

    def source_loss(self, samples: Samples) -> Float[Tensor, ""]:
        """The cross-entropies of both heads."""
        labels = samples.labels
        assert labels is not None
        first, second = self.scores(samples.images)
        return F.cross_entropy(first, labels) + F.cross_entropy(second, labels)

    def discrepancy(self, samples: Samples) -> Float[Tensor, ""]:
        """How far the heads are from each other."""
        return classifier_discrepancy(*self.scores(samples.images))
