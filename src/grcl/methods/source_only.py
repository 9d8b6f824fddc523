"""The source model, never adapted: the first row of every comparison."""

from torch import Tensor

from grcl.data.feeds import Batch, Feed
from grcl.data.stream import Stage
from grcl.methods.base import Method
from grcl.runtime.settings import Settings


class SourceOnly(Method):
    """θ_0 at every stage."""

    class Config(Settings):
        """Source-only has no settings."""

    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        return ()

    def begin(self, stage: Stage) -> None:
        self.optimizers = {}

    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        return {}
