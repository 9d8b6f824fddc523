"""Gradient Regularized Contrastive Learning (Eq. 7 and 8): descend the contrastive loss by a gradient that opposes
neither the source nor the memory. Every line of Algorithm 1's inner loop is in `step`."""

from functools import partial
from typing import Literal

from pydantic import NonNegativeFloat
from torch import Tensor

from grcl.data.feeds import Batch, Feed
from grcl.data.stream import Stage
from grcl.gradients import Projected, descend_within
from grcl.methods.base import Method, classification_loss_in_parts
from grcl.methods.contrast import Contrast, ContrastSettings
from grcl.methods.feeds import memory_feeds, source_feed
from grcl.methods.optimizers import Sgd
from grcl.networks.classifier import Classifier
from grcl.networks.statistics import statistics_from
from grcl.runtime.settings import Settings


class Grcl(Method):
    """Multi-task's objective under two gradient constraints; `source_weight = 0` is the paper to the letter."""

    uses_memory = True

    class Config(Settings):
        """GRCL's own settings."""

        contrast_weight: NonNegativeFloat = 1.0
        """Weight of the contrastive loss in the objective."""
        source_weight: NonNegativeFloat = 1.0
        """Weight of the source's cross-entropy in the objective; 0 is the paper to the letter."""
        source_constraint: bool = True
        """Whether the step may not raise the source's loss (Eq. 3)."""
        memory_constraint: Literal["joint", "per_domain", "off"] = "joint"
        """No rise of the loss on the whole memory (Eq. 6), on each episode (Eq. 5), or no such constraint."""
        projected: Projected = "gradient"
        """What is projected: the gradient, as in the paper, or the step that the optimiser makes of it."""
        augment_source: bool = True
        """Whether the source's cross-entropy is taken on augmented views."""
        augment_memory: bool = False
        """Whether the remembered images come as augmented views."""
        contrast: ContrastSettings = ContrastSettings()
        optimizer: Sgd = Sgd()

    def __init__(self, network: Classifier, config: Config) -> None:
        super().__init__(network, config)
        self.contrast = Contrast(config.contrast, network.feature_size)

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        source = source_feed(stage, self.config.augment_source)
        return (
            self.contrast.feed(stage),
            source,
            *memory_feeds(stage, self.config.memory_constraint, self.config.augment_memory),
        )

    def begin(self, stage: Stage) -> None:
        self.contrast.begin(stage)
        self.optimizers = {"network": self.config.optimizer.build(self.parameters())}

    def warm_up(self, stage: Stage) -> None:
        self.contrast.fill_bank(self.network, stage)

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        contrast = self.contrast.on(batch["union"], self.network)
        labelled = {
            name: partial(classification_loss_in_parts, self.network, batch[name]) for name in batch if name != "union"
        }
        objective = {"contrast": self.config.contrast_weight, "source": self.config.source_weight}
        log = descend_within(
            statistics_from(objective, {"contrast": contrast.loss, **labelled}, self.network),
            objective=objective,
            constraints=[name for name in labelled if name != "source" or self.config.source_constraint],
            optimizer=self.optimizers["network"],
            projected=self.config.projected,
        )
        contrast.update_keys()
        return log | contrast.signs(log["loss/contrast"])
