"""GRA: GRCL with ADDA in the place of contrastive learning. The target's features are to pass for the source's, by a
gradient that opposes neither the source nor the memory (Eq. 8)."""

from functools import partial

from pydantic import NonNegativeFloat
from torch import Tensor

from grcl.data.feeds import Batch, Feed
from grcl.data.stream import Stage
from grcl.gradients import descend, descend_within
from grcl.methods.adversary import Adversary, AdversarySettings
from grcl.methods.base import Method, classification_loss
from grcl.methods.feeds import memory_feeds, source_feed, target_feed
from grcl.methods.optimizers import Sgd
from grcl.networks.classifier import Classifier
from grcl.networks.statistics import statistics_from
from grcl.runtime.settings import Settings


class Gra(Method):
    """ADDA's objective under the two gradient constraints."""

    uses_memory = True

    class Config(Settings):
        """GRA's own settings."""

        source_weight: NonNegativeFloat = 1.0
        """Weight of the source's cross-entropy in the objective."""
        augment: bool = True
        """Whether source and target come as augmented views."""
        augment_memory: bool = False
        """Whether the remembered images come as augmented views."""
        adversary: AdversarySettings = AdversarySettings()
        optimizer: Sgd = Sgd()

    def __init__(self, network: Classifier, config: Config) -> None:
        super().__init__(network, config)
        self.adversary = Adversary(config.adversary, network)

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        source, target = source_feed(stage, self.config.augment), target_feed(stage, self.config.augment)
        return source, target, *memory_feeds(stage, "joint", self.config.augment_memory)

    def begin(self, stage: Stage) -> None:
        self.adversary.begin()
        self.optimizers = {
            "network": self.config.optimizer.build(self.network.parameters()),
            "discriminator": self.config.adversary.optimizer.build(self.adversary.discriminator.parameters()),
        }

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        domain = self.adversary.domain_loss(self.network, batch["source"], batch["target"])
        descend(domain, self.optimizers["discriminator"])
        labelled = {name: partial(classification_loss, self.network, batch[name]) for name in batch if name != "target"}
        losses = {"confusion": partial(self.adversary.confusion, self.network, batch["target"]), **labelled}
        objective = {"confusion": 1.0, "source": self.config.source_weight}
        log = descend_within(
            statistics_from(objective, losses, self.network),
            objective=objective,
            constraints=list(labelled),
            optimizer=self.optimizers["network"],
        )
        return {"loss/domain": domain.detach(), **log}
