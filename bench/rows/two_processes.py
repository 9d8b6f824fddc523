"""Two processes of one thread each against one; and one all-reduce of all gradients against one for each."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.line import Line, at_least, seconds
from bench.timing import Times

RUN = ("run", "mini", "--targets", "mnist", "--training.threads", "1", "--training.epochs", "3", "--stage0.epochs", "1")
BATCH = 256
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")


def measure(rounds: int) -> Iterator[Line]:
    """Two processes share the batch of one, or have as many images each as the one."""
    works = {
        "one": lambda: _seconds_per_image(BATCH, "-m", "grcl"),
        "shared": lambda: _seconds_per_image(BATCH, *TORCHRUN, "-m", "grcl"),
        "each": lambda: _seconds_per_image(2 * BATCH, *TORCHRUN, "-m", "grcl"),
    }
    times = Times(works, rounds)
    for name, batches in {"each": f"batches of {2 * BATCH} and {BATCH}", "shared": f"batches of {BATCH}"}.items():
        speeds = (f"{1 / times.of(which):,.0f}/s" for which in (name, "one"))
        what = f"GRCL, LeNet-5, images/s: 2 processes / 1, one thread each, {batches}"
        yield Line("two processes", what, *speeds, times.ratio("one", name), at_least(1.7))
    yield from _reductions()


def _seconds_per_image(batch_size: int, *launcher: str) -> float:
    """Of the training of stage 1, as the run itself has logged it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", *launcher, *RUN, "--training.batch_size", str(batch_size)]
        subprocess.run([*command, "--out", folder], capture_output=True, check=True)
        log = map(json.loads, (Path(folder) / "log.jsonl").read_text().splitlines())
        (stage,) = (line for line in log if line["kind"] == "stage")
        return float(stage["seconds"] / stage["images"])


def _reductions() -> Iterator[Line]:
    command = [sys.executable, "-W", "ignore", *TORCHRUN, "-m", "bench.reductions"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    for entry in map(json.loads, done.stdout.splitlines()):
        what = f"all-reduce of 3 gradients of {entry['network']}: one by one / in one buffer"
        measured = seconds(entry["together"]), seconds(entry["apart"])
        yield Line("two processes", what, *measured, entry["ratio"])
