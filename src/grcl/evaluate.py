"""Applying a network to whole sets of images, which processes share; the only reader of hidden labels."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from grcl.data.ahead import in_advance
from grcl.data.images import Images
from grcl.data.stream import Domain, Labelled
from grcl.runtime import distributed
from grcl.shapes import Bool, Float, Int

_BATCH = 500
# In one call of the network: all 500 of the small images, fewer of the large. A GPU wants more at once; on a CPU more
# would only take memory, and more of it than a pass of the training.
_VALUES = _BATCH * 3 * 32 * 32
_VALUES_OF_A_GPU = _BATCH * 3 * 64 * 64


def batches_of(images: Images, device: torch.device) -> Iterator[Float[Tensor, "batch 3 height width"]]:
    """This process's images in their order, as floats in 0..1; those on disk are read ahead by worker processes."""
    places, values = distributed.own_places(len(images), _BATCH), _VALUES if device.type == "cpu" else _VALUES_OF_A_GPU
    for pixels in in_advance(images.start(index) for index in torch.arange(places.start, places.stop).split(_BATCH)):
        for part in pixels.split(max(1, values // pixels.shape[1:].numel())):
            yield part.to(device).float().div_(255)


@torch.no_grad()
def map_images(function: Callable[[Tensor], Tensor], images: Images, device: torch.device) -> Tensor:
    """`function` of every image, in order."""
    return of_all(images, [function(batch) for batch in batches_of(images, device)])


def of_all(images: Images, made: Sequence[Tensor]) -> Tensor:
    """The rows of all images, out of what this process and the others have made of their `batches_of`."""
    return distributed.gather_places(torch.cat(list(made)), len(images), _BATCH)


def accuracy(predict: Callable[[Tensor], Tensor], labelled: Labelled, device: torch.device) -> float:
    """The share of images whose best-scored class is their own."""
    scores = map_images(predict, labelled.images, device)
    return float((scores.argmax(dim=1).cpu() == labelled.labels).double().mean())


def are_right(domains: tuple[Domain, ...], labels: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Which of the labels given to a stage's training images are right. For reports; no method sees it."""
    return labels.cpu() == torch.cat([domain.train.labels for domain in domains])


def mean_entropy(scores: Float[Tensor, "n classes"]) -> float:
    """Mean entropy of the predictions, in nats; low means sure, not right."""
    log_p = scores.log_softmax(dim=1)
    return float(-(log_p.exp() * log_p).sum(dim=1).mean())
