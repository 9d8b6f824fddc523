"""A GRCL step against the bare forward and backward passes that it needs; and a step of GRCL+ against one of GRCL."""

from collections.abc import Iterator

import torch

from bench.line import Goal, Line, at_most, seconds
from bench.scene import first_batch, grcl, grcl_plus, stage
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
        yield _line(what, times, ("ours", "bare"), at_most(1.05))
    yield _plus_against_grcl(6 * rounds)


def _plus_against_grcl(rounds: int) -> Line:
    """Steps between two refreshes of GRCL+'s labels."""
    on = stage(1024, 32)
    methods = {"grcl": grcl("lenet5", on), "grcl_plus": grcl_plus("lenet5", on)}
    batches = {name: first_batch(method, on, 256) for name, method in methods.items()}
    works = {name: timed(lambda n=name: methods[n].step(batches[n], 0.0)) for name in methods}
    what = "GRCL+ step / GRCL step, lenet5, 32 px, batch 256"
    return _line(what, Times(works, rounds), ("grcl_plus", "grcl"), None)


def _line(what: str, times: Times, names: tuple[str, str], goal: Goal | None) -> Line:
    ours, against = (seconds(times.of(name)) for name in names)
    return Line("step", what, ours, against, times.ratio(*names), goal)


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
