"""Peak memory of a GRCL run above `import torch`, against what such a run must hold."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.line import Line, at_most, megabytes

SCENES = (("lenet5", 32, 4096, 256), ("resnet18", 64, 1024, 64))


def measure(rounds: int) -> Iterator[Line]:
    del rounds  # a peak is the same every time
    for network, size, images, batch_size in SCENES:
        words = [network, str(size), str(images), str(batch_size)]
        command = [sys.executable, "-W", "ignore", "-m", "bench.peak", *words]
        root = Path(__file__).parents[2]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=root)
        found = json.loads(done.stdout)
        needed = sum(found["needed"].values())
        what = f"peak above `import torch` / what must be held, {network}, {size} px, batch {batch_size}"
        goal = at_most(1.3)
        yield Line("memory", what, megabytes(found["peak"]), megabytes(needed), found["peak"] / needed, goal)
