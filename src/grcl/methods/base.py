"""The method interface. A method knows no loop, and the loop knows no method."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from grcl.data.feeds import Batch, Feed, Samples, in_parts
from grcl.data.stream import Stage
from grcl.networks.classifier import Classifier
from grcl.runtime.settings import Settings
from grcl.shapes import Float


class Method(nn.Module, ABC):
    """A way to adapt a network. Subclasses are final; all they make is a submodule, a buffer or an optimiser."""

    Config: ClassVar[type[Settings]]
    uses_memory: ClassVar[bool] = False

    def __init__(self, network: Classifier, config: Any) -> None:
        """Make what lives for the whole run, and all that `predict` uses."""
        super().__init__()
        self.network = network
        self.config = config
        self.optimizers: dict[str, Optimizer] = {}

    @abstractmethod
    def feeds(self, stage: Stage) -> tuple[Feed, ...]:
        """What a batch holds; none if there is nothing to train in this stage."""

    @abstractmethod
    def begin(self, stage: Stage) -> None:
        """Make what lives for one stage: optimisers, bank, discriminator, frozen copies."""

    def warm_up(self, stage: Stage) -> None:
        """Fill what `begin` made, from the model of the previous stage; a resumed stage restores it instead."""

    @abstractmethod
    def step(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        """One update, in as many phases as it likes; returns detached scalars to log, and signs of `grcl.alarms`."""

    def see(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Tensor, Tensor]:
        """The features that the method classifies by, and its class scores."""
        return self.network.see(images)

    def predict(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch classes"]:
        """Class scores."""
        return self.see(images)[1]

    @property
    def device(self) -> torch.device:
        """Where the method is."""
        return self.network.device

    def state(self) -> dict[str, Any]:
        """All that a stage in progress consists of."""
        optimizers = {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        return {"modules": self.state_dict(), "optimizers": optimizers}

    def restore(self, state: dict[str, Any]) -> None:
        """The reverse of `state`, after `begin` of the same stage."""
        self.load_state_dict(state["modules"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])


def classification_loss(network: Classifier, samples: Samples) -> Float[Tensor, ""]:
    """L_ce: cross-entropy of a labelled part of a batch."""
    assert samples.labels is not None
    return F.cross_entropy(network(samples.images), samples.labels)


def classification_loss_in_parts(network: Classifier, samples: Samples) -> Tensor | Iterator[Tensor]:
    """The same, as parts that add up to it where a pass cannot take the whole batch."""
    return in_parts(partial(classification_loss, network), samples)
