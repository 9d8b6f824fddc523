"""Time of a step and memory against the size of the bank, and against the number of past domains."""

import tempfile
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import torch

from bench.line import Line, at_most, megabytes, seconds
from bench.scene import CLASSES, feeder, grcl, labelled
from bench.timing import Times, timed
from grcl.data.augment import Augmentation
from grcl.data.images import ImageArray
from grcl.data.stream import Labelled, Stage

SIZE, BATCH, EPISODE = 32, 256, 1024
KEYS = (10_000, 100_000, 1_000_000)
DOMAINS = (1, 5, 20)


def measure(rounds: int) -> Iterator[Line]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        scenes = {f"bank of {keys:,} keys": _with_keys(keys) for keys in KEYS}
        yield from _lines(scenes, rounds)
        scenes = {f"{number} past domains": _with_domains(number, Path(folder)) for number in DOMAINS}
        yield from _lines(scenes, rounds)


def _lines(scenes: dict[str, Stage], rounds: int) -> Iterator[Line]:
    """Every scene against the first: its steps, and the bytes of its bank above so many bytes a key."""
    works, banks = {}, {}
    for name, on in scenes.items():
        method = grcl("lenet5", _small(on))  # the bank's contents do not matter, so they are not computed
        method.begin(on)
        torch.nn.init.normal_(method.contrast.bank.keys)
        batches, steps = feeder(method, on, BATCH), count()
        works[name] = timed(lambda m=method, b=batches, s=steps: m.step(b.batch(next(s)), 0.0))
        banks[name] = method.contrast.bank.keys
    times, (first, *others) = Times(works, rounds), scenes
    for name in others:
        measured = seconds(times.of(name)), seconds(times.of(first))
        yield Line("growth", f"time of a step: {name} / {first}", *measured, times.ratio(name, first), at_most(1.1))
    for small, large in pairwise(scenes):
        per_key = [banks[name].nbytes / len(banks[name]) for name in (large, small)]
        measured = megabytes(banks[large].nbytes), megabytes(banks[small].nbytes)
        what = f"bytes a key: {large} / {small}"
        yield Line("growth", what, *measured, per_key[0] / per_key[1], at_most(1.0))


def _with_keys(keys: int) -> Stage:
    """A stage of so many instances; the target is one image, seen again and again, which takes no room."""
    one = torch.randint(0, 256, (1, 3, SIZE, SIZE), dtype=torch.uint8)
    target = ImageArray(one.expand(keys - 2 * EPISODE, -1, -1, -1))
    return Stage(2, labelled(EPISODE, SIZE), (labelled(EPISODE, SIZE),), target, Augmentation())


def _with_domains(number: int, folder: Path) -> Stage:
    """So many episodes, their images in a memory map."""
    episodes = tuple(_mapped(folder / f"{number}-{k}") for k in range(number))
    return Stage(number + 1, labelled(EPISODE, SIZE), episodes, labelled(EPISODE, SIZE).images, Augmentation())


def _mapped(path: Path) -> Labelled:
    numbers = EPISODE * 3 * SIZE * SIZE
    pixels = torch.from_file(str(path), shared=True, size=numbers, dtype=torch.uint8)
    return Labelled(ImageArray(pixels.view(EPISODE, 3, SIZE, SIZE)), torch.arange(EPISODE) % CLASSES)


def _small(on: Stage) -> Stage:
    return Stage(1, on.source, (), ImageArray(torch.zeros(1, 3, SIZE, SIZE, dtype=torch.uint8)), on.augmentation)
