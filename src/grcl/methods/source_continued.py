"""The control that the paper lacks: as many steps as GRCL takes, on the same augmented views of the source, and no
target image at all. Only what a method gains over this one comes from the target."""

from torch import Tensor

from grcl.data.feeds import Batch, Feed
from grcl.data.stream import Stage
from grcl.gradients import descend
from grcl.methods.base import Method, classification_loss
from grcl.methods.feeds import source_feed
from grcl.methods.optimizers import Sgd
from grcl.runtime.settings import Settings


class SourceContinued(Method):
    """Training on the source goes on."""

    # The memory is kept for its size alone: GRCL's epochs get longer by it, so these do too.
    uses_memory = True

    class Config(Settings):
        """The control's own settings."""

        augment_source: bool = True
        """Whether the source's cross-entropy is taken on augmented views."""
        optimizer: Sgd = Sgd()

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        return (source_feed(stage, self.config.augment_source, clock=len(stage.union())),)

    def begin(self, stage: Stage) -> None:
        self.optimizers = {"network": self.config.optimizer.build(self.parameters())}

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        loss = classification_loss(self.network, batch["source"])
        descend(loss, self.optimizers["network"])
        return {"loss/source": loss.detach()}
