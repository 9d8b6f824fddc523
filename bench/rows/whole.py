"""One epoch of GRCL against one of Avalanche's GEM: the same network, batch, images and number of passes."""

from collections.abc import Iterator

import torch

from bench.line import Line, at_least, seconds
from bench.peer import Peer
from bench.scene import feeder, grcl, stage
from bench.timing import Times, timed
from grcl.data.augment import Augmentation
from grcl.data.stream import Stage
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
        ours = timed(lambda m=method, s=on, b=batch_size, n=steps: epoch(m, s, b, n))
        times = Times({"ours": ours, "theirs": lambda p=peer: p.ask("epoch")}, rounds)
        peer.close()
        what = f"{network}, 32 px, {steps} steps of {batch_size} images, 3 passes each: Avalanche's GEM / GRCL"
        measured = seconds(times.of("ours")), seconds(times.of("theirs"))
        yield Line("whole", what, *measured, times.ratio("theirs", "ours"), at_least(2))


def epoch(method: Grcl, on: Stage, batch_size: int, steps: int) -> None:
    """Like the peer's images, ours are not augmented."""
    for step, batch in enumerate(feeder(method, on, batch_size).batches(0, steps)):
        method.step(batch, step / steps)
