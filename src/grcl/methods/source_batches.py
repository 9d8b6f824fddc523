"""Batches of the source for warming up what θ_0 lacks, before the first stage."""

from collections.abc import Iterator

import torch

from grcl.data.feeds import Samples
from grcl.data.stream import Stage

_SIZE = 128


def source_batches(stage: Stage, count: int, device: torch.device) -> Iterator[Samples]:
    """So many batches without augmentation, drawn from torch's global generator."""
    size = min(_SIZE, len(stage.source))
    for _ in range(count):
        index = torch.randperm(len(stage.source))[:size]
        images = stage.source.images.read(index).to(device).float() / 255
        yield Samples(images, index.to(device), stage.source.labels[index].to(device))
