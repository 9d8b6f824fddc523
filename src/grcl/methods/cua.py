"""CUA (Bobu et al. 2018) as the paper compares it: ADDA, and replay of the memory against forgetting."""

from functools import partial

from pydantic import NonNegativeFloat
from torch import Tensor

from grcl.data.feeds import Batch, Feed
from grcl.data.stream import Stage
from grcl.gradients import descend, descend_within
from grcl.methods.adversary import Adversary, AdversarySettings
from grcl.methods.base import Method, classification_loss
from grcl.methods.feeds import memory_feeds, source_feed, target_feed
from grcl.methods.optimizers import Adam
from grcl.networks.classifier import Classifier
from grcl.networks.statistics import statistics_from
from grcl.runtime.settings import Settings


class Cua(Method):
    """ADDA's objective plus the cross-entropy on source and memory."""

    uses_memory = True

    class Config(Settings):
        """CUA's own settings."""

        replay_weight: NonNegativeFloat = 1.0
        """Weight of the memory's cross-entropy in the objective."""
        augment: bool = True
        """Whether source and target come as augmented views."""
        augment_memory: bool = False
        """Whether the remembered images come as augmented views."""
        adversary: AdversarySettings = AdversarySettings()
        optimizer: Adam = Adam(rate=2e-4, beta1=0.5)

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
        weights = {"confusion": 1.0, "source": 1.0, "memory": self.config.replay_weight}
        objective = {name: weights[name] for name in losses}
        log = descend_within(
            statistics_from(objective, losses, self.network),
            objective=objective,
            constraints=[],
            optimizer=self.optimizers["network"],
        )
        return {"loss/domain": domain.detach(), **log}
