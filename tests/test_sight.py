"""One look at a stage tells the losses that a slow recount tells, and looks at no image twice."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from grcl.data.images import ImageArray
from grcl.data.stream import Labelled, Stage
from grcl.memory.sight import look_over
from grcl.networks import Classifier
from test_episodic import COUNT, a_network, a_stage, colourful


class Watched:
    """A network that counts the images it is shown."""

    def __init__(self, network: Classifier) -> None:
        self.network, self.seen = network, 0

    @property
    def device(self) -> torch.device:
        return self.network.device

    def see(self, images: Tensor) -> tuple[Tensor, Tensor]:
        self.seen += len(images)
        return self.network.see(images)


def with_memory(stage: Stage, *sizes: int) -> Stage:
    episodes = [Labelled(ImageArray(colourful(size, size)), torch.arange(size) % 4) for size in sizes]
    return replace(stage, memory=tuple(episodes))


def recounted(network: Classifier, *parts: Labelled) -> float:
    """The mean of -log p(label), image by image."""
    losses = []
    for part in parts:
        for place in range(len(part)):
            image = part.images.read(torch.tensor([place])).float() / 255
            log_p = network(image)[0].double().log_softmax(dim=0)
            losses.append(-float(log_p[part.labels[place]]))
    return sum(losses) / len(losses)


@torch.no_grad()
def test_losses_are_those_of_a_slow_recount() -> None:
    network, stage = a_network(), with_memory(a_stage(COUNT), 7, 30)
    first, second = stage.memory
    losses = look_over(network, stage).losses
    sets = {"source": (stage.source,), "M": (first, second), "M_1": (first,), "M_2": (second,)}
    assert list(losses) == list(sets)
    for name, parts in sets.items():
        assert losses[name] == pytest.approx(recounted(network, *parts), rel=1e-5)


def test_every_image_is_looked_at_once() -> None:
    model, stage = Watched(a_network()), with_memory(a_stage(COUNT), 7, 30)
    look_over(model, stage)
    assert model.seen == len(stage.source) + 7 + 30 + COUNT


def test_without_a_memory_there_is_no_loss_on_it() -> None:
    assert list(look_over(a_network(), a_stage(COUNT)).losses) == ["source"]
