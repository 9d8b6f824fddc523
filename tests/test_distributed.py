"""Two processes under torchrun equal one: batches, draws, gradients, bank and memory are those of the global batch."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from grcl.methods import METHODS
from grcl.run import run
from grcl.runtime.checkpoint import Checkpoints
from tiny import tiny_settings

HERE = Path(__file__).parent

PROGRAM = """
import sys
from pathlib import Path
import tiny
from grcl.run import run
from grcl.runtime import distributed

tiny.register()
run(tiny.tiny_settings(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[2] + "-stage0"))
distributed.stop()
"""


def torchrun(program: Path, *words: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(program)]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *words], capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def final_modules(path: Path) -> dict[str, Any]:
    state = Checkpoints(path / "checkpoints").newest()
    assert state is not None
    modules: dict[str, Any] = state["method"]["modules"]
    return modules


def compare(name: str, folder: Path) -> None:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    torchrun(program, name, str(folder / "two"))
    run(tiny_settings(name), folder / "one")
    assert (folder / "two" / "done").exists()
    a, b = final_modules(folder / "one"), final_modules(folder / "two")
    assert a.keys() == b.keys()
    for key in a:
        # The sums over a batch are taken in another order, and dozens of steps carry that on.
        torch.testing.assert_close(b[key], a[key], rtol=0, atol=3e-5)


def test_two_processes_equal_one_with_grcl(tmp_path: Path) -> None:
    compare("grcl", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in METHODS if name != "grcl"])
def test_two_processes_equal_one(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path)
