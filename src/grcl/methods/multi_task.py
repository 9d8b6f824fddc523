"""Multi-task learning (Eq. 2): the source's cross-entropy plus λ times the contrastive loss, with no constraint.
The memory takes part in the contrastive loss alone; it is not replayed."""

from functools import partial

from pydantic import NonNegativeFloat
from torch import Tensor

from grcl.data.feeds import Batch, Feed
from grcl.data.stream import Stage
from grcl.gradients import descend_within
from grcl.methods.base import Method, classification_loss_in_parts
from grcl.methods.contrast import Contrast, ContrastSettings
from grcl.methods.feeds import source_feed
from grcl.methods.optimizers import Sgd
from grcl.networks.classifier import Classifier
from grcl.networks.statistics import statistics_from
from grcl.runtime.settings import Settings


class MultiTask(Method):
    """GRCL's objective without its regularisation."""

    uses_memory = True

    class Config(Settings):
        """Multi-task's own settings."""

        contrast_weight: NonNegativeFloat = 1.0
        """λ of Eq. 2."""
        augment_source: bool = True
        """Whether the source's cross-entropy is taken on augmented views."""
        contrast: ContrastSettings = ContrastSettings()
        optimizer: Sgd = Sgd()

    def __init__(self, network: Classifier, config: Config) -> None:
        super().__init__(network, config)
        self.contrast = Contrast(config.contrast, network.feature_size)

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        return self.contrast.feed(stage), source_feed(stage, self.config.augment_source)

    def begin(self, stage: Stage) -> None:
        self.contrast.begin(stage)
        self.optimizers = {"network": self.config.optimizer.build(self.parameters())}

    def warm_up(self, stage: Stage) -> None:
        self.contrast.fill_bank(self.network, stage)

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        contrast = self.contrast.on(batch["union"], self.network)
        source = partial(classification_loss_in_parts, self.network, batch["source"])
        objective = {"contrast": self.config.contrast_weight, "source": 1.0}
        log = descend_within(
            statistics_from(objective, {"contrast": contrast.loss, "source": source}, self.network),
            objective=objective,
            constraints=[],
            optimizer=self.optimizers["network"],
        )
        contrast.update_keys()
        return log | contrast.signs(log["loss/contrast"])
