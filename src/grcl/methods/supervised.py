"""Stage 0: plain supervised training on the source. It makes θ_0, which every method of a seed starts from."""

from torch import Tensor

from grcl.data.feeds import Batch, Feed
from grcl.data.stream import Stage
from grcl.gradients import descend
from grcl.methods.base import Method, classification_loss
from grcl.methods.feeds import source_feed
from grcl.methods.optimizers import Adam
from grcl.runtime.settings import Settings


class Supervised(Method):
    """Cross-entropy on the labelled source."""

    class Config(Settings):
        """How the source model is trained."""

        augment_source: bool = False
        """Whether it is trained on augmented views."""
        optimizer: Adam = Adam(rate=2e-3, weight_decay=1e-4, schedule="cosine")

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        return (source_feed(stage, self.config.augment_source, clock=len(stage.source)),)

    def begin(self, stage: Stage) -> None:
        self.optimizers = {"network": self.config.optimizer.build(self.parameters())}

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        loss = classification_loss(self.network, batch["source"])
        descend(loss, self.optimizers["network"])
        return {"loss/source": loss.detach()}
