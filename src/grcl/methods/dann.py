"""DANN (Ganin et al. 2016): features that a discriminator cannot tell apart, by gradient reversal."""

import math

from pydantic import PositiveInt
from torch import Tensor, nn

from grcl.data.feeds import Batch, Feed
from grcl.data.stream import Stage
from grcl.gradients import descend, reverse
from grcl.losses import domain_loss
from grcl.methods.adversary import discriminator
from grcl.methods.base import Method
from grcl.methods.feeds import source_feed, target_feed
from grcl.methods.optimizers import Sgd
from grcl.runtime.settings import Settings


class Dann(Method):
    """Cross-entropy on the source plus the reversed domain loss; source and current target only."""

    discriminator: nn.Sequential

    class Config(Settings):
        """DANN's own settings."""

        hidden: PositiveInt = 500
        """Width of the discriminator's two hidden layers."""
        augment: bool = True
        """Whether source and target come as augmented views."""
        optimizer: Sgd = Sgd(schedule="inverse")

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        return source_feed(stage, self.config.augment), target_feed(stage, self.config.augment)

    def begin(self, stage: Stage) -> None:
        fresh = discriminator(self.network.feature_size, self.config.hidden)
        self.discriminator = fresh.to(self.device)
        self.optimizers = {"all": self.config.optimizer.build(self.parameters())}

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        source, scores = self.network.see(batch["source"].images)
        target = self.network.features(batch["target"].images)
        labels = batch["source"].labels
        assert labels is not None
        classes = nn.functional.cross_entropy(scores, labels)
        strength = reversal_strength(progress)
        domain = domain_loss(*(self.discriminator(reverse(z, strength)) for z in (source, target)))
        descend(classes + domain, self.optimizers["all"])
        return {"loss/source": classes.detach(), "loss/domain": domain.detach()}


def reversal_strength(progress: float) -> float:
    """λ_p = 2/(1 + e^(−10p)) − 1: the discriminator learns first; p restarts with every stage."""
    return 2 / (1 + math.exp(-10 * progress)) - 1
