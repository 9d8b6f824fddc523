"""One epoch of GRCL against one of Avalanche's GEM: the same network, batch, images and number of passes."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from bench.line import Line, at_least, seconds
from bench.peer import Peer
from bench.scene import CLASSES, feeder, grcl, stage
from bench.timing import Times, timed
from grcl.data.augment import Augmentation
from grcl.data.stream import Stage
from grcl.gradients import descend_within
from grcl.methods.base import classification_loss
from grcl.methods.grcl import Grcl

# GEM's own experiments have batches of 10 and a ResNet-18.
SCENES = (("lenet5", 256, 16), ("resnet18", 32, 4))
PLAIN = Augmentation(brightness=0, contrast=0, saturation=0, hue=0, blur_probability=0, flip_probability=0)


def measure(rounds: int) -> Iterator[Line]:
    torch.set_num_threads(1)
    for network, batch_size, steps in SCENES:
        on = stage(batch_size * steps // 2, 32, PLAIN)
        method = grcl(network, on)
        peer = Peer("whole", network, batch_size, steps)
        works = {
            "GRCL": timed(lambda m=method, s=on, b=batch_size, n=steps: epoch(m, s, b, n)),
            "our step of GEM's three losses": timed(
                lambda m=method, s=on, b=batch_size, n=steps: epoch_of_gem(m, s, b, n)
            ),
            "GEM": lambda p=peer: p.ask("epoch"),
        }
        times = Times(works, rounds)
        peer.close()
        for ours in list(works)[:2]:
            what = f"{network}, 32 px, {steps} steps of {batch_size} images, 3 passes each: Avalanche's GEM / {ours}"
            measured = seconds(times.of(ours)), seconds(times.of("GEM"))
            yield Line("whole", what, *measured, times.ratio("GEM", ours), at_least(2))


def epoch(method: Grcl, on: Stage, batch_size: int, steps: int) -> None:
    """Like the peer's images, ours are not augmented."""
    for step, batch in enumerate(feeder(method, on, batch_size).batches(0, steps)):
        method.step(batch, step / steps)


def epoch_of_gem(method: Grcl, on: Stage, batch_size: int, steps: int) -> None:
    """Cross-entropy of the new images, held by that of two older sets: GEM without contrast, projector and bank."""
    for batch in feeder(method, on, batch_size).batches(0, steps):
        new = batch["union"]
        batch["union"] = replace(new, labels=new.index % CLASSES)
        losses = {name: partial(classification_loss, method.network, samples) for name, samples in batch.items()}
        descend_within(losses, {"union": 1.0}, ["source", "memory"], method.optimizers["network"])
