"""Stages of made-up images, and GRCL on them: what the rows measure."""

import torch

from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch, Feeder
from grcl.data.images import ImageArray
from grcl.data.stream import Labelled, Stage
from grcl.methods.base import Method
from grcl.methods.grcl import Grcl
from grcl.methods.grcl_plus import GrclPlus
from grcl.networks import Network, build
from grcl.networks.classifier import Classifier

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
    method = Grcl(_network(network), Grcl.Config())
    method.begin(on)
    method.eval()
    method.warm_up(on)
    method.train()
    return method


def grcl_plus(network: str, on: Stage) -> GrclPlus:
    """GRCL+ with its default settings at the beginning of a stage; its first step labels the target."""
    torch.manual_seed(0)
    method = GrclPlus(_network(network), GrclPlus.Config())
    method.begin(on)
    method.train()
    return method


def _network(name: str) -> Classifier:
    return build(Network(name=name, pretrained=None if name == "lenet5" else False), CLASSES)


def first_batch(method: Method, on: Stage, batch_size: int) -> Batch:
    return feeder(method, on, batch_size).batch(0)


def feeder(method: Method, on: Stage, batch_size: int) -> Feeder:
    return Feeder(method.feeds(on), batch_size, (0, on.index), method.device)
