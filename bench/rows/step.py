"""A GRCL step against the bare forward and backward passes that it needs."""

from collections.abc import Iterator

import torch

from bench.line import Line, at_most, seconds
from bench.scene import first_batch, grcl, stage
from bench.timing import Times, timed
from grcl.data.feeds import Batch
from grcl.methods.base import classification_loss
from grcl.methods.grcl import Grcl


def measure(rounds: int) -> Iterator[Line]:
    for network, size, batch_size, repeats in (("lenet5", 32, 256, 6), ("resnet18", 64, 64, 2)):
        on = stage(1024, size)
        method = grcl(network, on)
        batch = first_batch(method, on, batch_size)
        works = {
            "ours": timed(lambda m=method, b=batch: m.step(b, 0.0)),
            "bare": timed(lambda m=method, b=batch: bare(m, b)),
        }
        times = Times(works, repeats * rounds)  # what is sought is a few percent
        what = f"GRCL step / its bare passes, {network}, {size} px, batch {batch_size}"
        yield Line(
            "step",
            what,
            *map(seconds, (times.of("ours"), times.of("bare"))),
            times.ratio("ours", "bare"),
            at_most(1.05),
        )


def bare(method: Grcl, batch: Batch) -> None:
    """The three losses and their gradients, and nothing done with them."""
    contrast = method.contrast.on(batch["union"], method.network)
    parameters = list(method.parameters())
    losses = [
        contrast.loss,
        *(lambda name=name: classification_loss(method.network, batch[name]) for name in ("source", "memory")),
    ]
    for loss in losses:
        torch.autograd.grad(loss(), parameters, allow_unused=True)
