"""Time of a step and memory against the size of the bank, and against the number of past domains."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import torch

from bench.line import Line, at_most, megabytes, seconds
from bench.scene import CLASSES, feeder, grcl, labelled
from bench.timing import Times, timed
from grcl.data.augment import Augmentation
from grcl.data.feeds import Feeder
from grcl.data.images import ImageArray
from grcl.data.stream import Labelled, Stage
from grcl.methods.grcl import Grcl
from grcl.runtime.environment import peak_memory

SIZE, BATCH, EPISODE = 32, 256, 1024
KEYS = (10_000, 100_000, 1_000_000)
DOMAINS = (1, 5, 20)


def measure(rounds: int) -> Iterator[Line]:
    torch.set_num_threads(1)
    for kind, numbers in {"keys": KEYS, "domains": DOMAINS}.items():
        with tempfile.TemporaryDirectory() as folder:
            yield from _times(kind, numbers, Path(folder), rounds)
        yield from _peaks(kind, numbers)


def _times(kind: str, numbers: tuple[int, ...], folder: Path, rounds: int) -> Iterator[Line]:
    """The steps of every scene against those of the first."""
    works = {}
    for number in numbers:
        method, batches = _scene(kind, number, folder)
        steps = count()
        works[_name(kind, number)] = timed(lambda m=method, b=batches, s=steps: m.step(b.batch(next(s)), 0.0))
    times, (first, *others) = Times(works, 4 * rounds), works
    for name in others:
        measured = seconds(times.of(name)), seconds(times.of(first))
        yield Line("growth", f"time of a step: {name} / {first}", *measured, times.ratio(name, first), at_most(1.1))


def _peaks(kind: str, numbers: tuple[int, ...]) -> Iterator[Line]:
    """What the peak memory of two processes differs by, against the keys by which their banks do."""
    found = {number: _peak(kind, number) for number in numbers}
    for small, large in pairwise(numbers):
        more = {what: found[large][what] - found[small][what] for what in ("peak", "keys")}
        what = f"growth of the peak / of the keys: {_name(kind, large)} after {_name(kind, small)}"
        measured = megabytes(more["peak"]), megabytes(more["keys"])
        # Of a few megabytes the pages that a process happens to touch are a large part.
        goal = at_most(1.1) if more["keys"] > 2**24 else None
        yield Line("growth", what, *measured, more["peak"] / more["keys"], goal)


def _peak(kind: str, number: int) -> dict[str, int]:
    """What `main` finds in a process of its own, where glibc keeps no large block that was freed.

    How many it keeps otherwise is chance: a few megabytes more or less from one run to the next.
    """
    command = [sys.executable, "-W", "ignore", "-m", "bench.rows.growth", kind, str(number)]
    surroundings = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**17)}
    repository = Path(__file__).parents[2]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=repository, env=surroundings)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def main(kind: str, number: str) -> None:
    """The peak of a process that takes a few steps in one scene, and the bytes of its bank's keys, as JSON."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        method, batches = _scene(kind, int(number), Path(folder))
        for step in range(3):
            method.step(batches.batch(step), 0.0)
        found = {"peak": peak_memory(), "keys": method.contrast.bank.keys.nbytes}
    sys.stdout.write(json.dumps(found) + "\n")


def _scene(kind: str, number: int, folder: Path) -> tuple[Grcl, Feeder]:
    on = _with_keys(number) if kind == "keys" else _with_domains(number, folder)
    method = grcl("lenet5", _small(on))  # the bank's contents do not matter, so they are not computed
    method.begin(on)
    torch.nn.init.normal_(method.contrast.bank.keys)
    return method, feeder(method, on, BATCH)


def _name(kind: str, number: int) -> str:
    return f"bank of {number:,} keys" if kind == "keys" else f"{number} past domains"


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


if __name__ == "__main__":
    main(*sys.argv[1:])
