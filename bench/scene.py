"""Stages of made-up images, and GRCL on them: what the rows measure."""

import torch

from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch, Feeder
from grcl.data.images import ImageArray
from grcl.data.stream import Labelled, Stage
from grcl.methods.grcl import Grcl
from grcl.networks import Network, build

CLASSES = 10


def pixels(count: int, size: int) -> ImageArray:
    """So many different images."""
    return ImageArray(torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8))


def labelled(count: int, size: int) -> Labelled:
    return Labelled(pixels(count, size), torch.arange(count) % CLASSES)


def stage(images: int, size: int, augmentation: Augmentation | None = None) -> Stage:
    """Source, one episode and target, equally many images each."""
    episode = labelled(images, size)
    return Stage(2, labelled(images, size), (episode,), pixels(images, size), augmentation or Augmentation())


def grcl(network: str, on: Stage) -> Grcl:
    """GRCL with its default settings at the beginning of a stage, its bank filled."""
    torch.manual_seed(0)
    method = Grcl(
        build(Network(name=network, pretrained=False if network != "lenet5" else None), CLASSES), Grcl.Config()
    )
    method.begin(on)
    method.eval()
    method.warm_up(on)
    method.train()
    return method


def first_batch(method: Grcl, on: Stage, batch_size: int) -> Batch:
    return feeder(method, on, batch_size).batch(0)


def feeder(method: Grcl, on: Stage, batch_size: int) -> Feeder:
    return Feeder(method.feeds(on), batch_size, (0, on.index), method.device)
