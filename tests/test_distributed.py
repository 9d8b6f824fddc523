"""Two processes under torchrun equal one: batches, draws, gradients, bank and memory are those of the global batch."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from grcl.methods import METHODS
from grcl.run import run
from grcl.runtime import distributed
from grcl.runtime.checkpoint import Checkpoints
from tiny import tiny_settings

HERE = Path(__file__).parent

# Each process keeps what its method, its bank and its memory hold in the end. One may be killed in the second stage.
PROGRAM = """
import os
import signal
import sys
from pathlib import Path
import torch
if os.environ.get("IN_64_BITS"):
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
import tiny
import grcl.run
from grcl.runtime import distributed
from grcl.runtime.errors import Failure

class Keeping(grcl.run.Experiment):
    def adapt(self, *arguments):
        is_first_start = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if sys.argv[3:] and distributed.rank() == 1 and is_first_start:
            self.method.step = {"die": self.die, "be asked to stop": self.be_asked_to_stop}[sys.argv[3]]
        super().adapt(*arguments)
        memory = {f"memory {k} {i}": value for k, e in enumerate(self.episodes) for i, value in enumerate(e)}
        held = {**self.method.state_dict(), **memory, "accuracy": torch.from_numpy(self.matrix.values)}
        torch.save(held, f"{sys.argv[2]}-rank-{distributed.rank()}")

    def die(self, batch, progress):
        if self.matrix.finished == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return type(self.method).step(self.method, batch, progress)

    def be_asked_to_stop(self, batch, progress):
        if self.matrix.finished == 2:
            signal.raise_signal(signal.SIGTERM)
        return type(self.method).step(self.method, batch, progress)

tiny.register()
grcl.run.Experiment = Keeping
settings = tiny.tiny_settings(sys.argv[1], training__checkpoint_seconds=0.0)
try:
    grcl.run.run(settings, Path(sys.argv[2]), Path(sys.argv[2] + "-stage0"))
except Failure as failure:
    sys.exit(f"grcl: {failure}")
distributed.stop()
"""

# timm is imported while the group is at work. Fails if a thread of gloo is left after `stop`: it would outlive Python.
LEAVING = """
from pathlib import Path
import torch
from grcl.networks import Network, build
from grcl.runtime import distributed

distributed.start("cpu")
build(Network(name="resnet18", pretrained=False), 10)
distributed.average(torch.ones(1000))
distributed.stop()
threads = [comm.read_text() for comm in Path("/proc/self/task").glob("*/comm")]
assert not any("gloo" in thread for thread in threads), threads
"""

# A memory of one image cannot be shared out.
TOO_FEW = """
import sys
from pathlib import Path
import tiny
import grcl.run

tiny.register()
grcl.run.run(tiny.tiny_settings("grcl", memory__size=1), Path(sys.argv[1]))
"""

# DADA's batch statistics and shuffled marginals, GRCL+'s partners in style and veil: of a process's own share.
NOT_SEPARABLE = ("dada", "grcl_plus")


def torchrun(program: Path, *words: str, is_killed: bool = False, restarts: int = 0) -> str:
    """Runs two processes; returns what they said."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = [*launcher, "--max-restarts", str(restarts), str(program)]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *words], capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert (done.returncode != 0) == is_killed, done.stderr[-2000:]
    return done.stderr


def final_modules(path: Path) -> dict[str, Any]:
    state = Checkpoints(path / "checkpoints").newest()
    assert state is not None
    modules: dict[str, Any] = state["method"]["modules"]
    return modules


def held(path: Path, rank: int) -> dict[str, Any]:
    """Weights, bank, memory and accuracies of one process at the end of a run."""
    found: dict[str, Any] = torch.load(f"{path}-rank-{rank}", weights_only=True)
    return found


def run_twice(name: str, folder: Path) -> Path:
    """The run of two processes, which must agree with each other to the bit."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    torchrun(program, name, str(folder / "two"))
    assert (folder / "two" / "done").exists()
    first, second = (held(folder / "two", rank) for rank in (0, 1))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    return folder / "two"


@pytest.fixture
def in_64_bits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two processes add the sums over a batch in another order, and dozens of steps carry the rounding on: in 64 bits
    it stays far below whatever a mistake would do."""
    monkeypatch.setenv("IN_64_BITS", "1")
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def compare(name: str, folder: Path) -> None:
    b = final_modules(run_twice(name, folder))
    run(tiny_settings(name), folder / "one")
    a = final_modules(folder / "one")
    assert a.keys() == b.keys()
    for key in a:
        torch.testing.assert_close(b[key], a[key], rtol=0, atol=1e-9)


@pytest.mark.usefixtures("in_64_bits")
def test_two_processes_equal_one_with_grcl(tmp_path: Path) -> None:
    compare("grcl", tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("in_64_bits")
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("grcl", *NOT_SEPARABLE)])
def test_two_processes_equal_one(name: str, tmp_path: Path) -> None:
    compare(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", NOT_SEPARABLE)
def test_two_processes_agree_with_each_other(name: str, tmp_path: Path) -> None:
    run_twice(name, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_killed_process_ends_the_others_and_a_restart_goes_on_from_the_checkpoint(
    restarts: int, tmp_path: Path
) -> None:
    """By the same command, or by torchrun itself."""
    whole = run_twice("grcl", tmp_path)
    program, words = tmp_path / "program.py", ("grcl", str(tmp_path / "broken"))
    said = torchrun(program, *words, "die", is_killed=not restarts, restarts=restarts)
    assert "process 0 cannot reach another process of this run" in said
    assert (tmp_path / "broken" / "done").exists() == bool(restarts)
    if not restarts:
        torchrun(program, *words)
    assert (tmp_path / "broken" / "done").exists()
    for rank in (0, 1):
        straight, restarted = held(whole, rank), held(tmp_path / "broken", rank)
        assert all(torch.equal(restarted[key], straight[key]) for key in straight)


@pytest.mark.long
def test_a_signal_that_reaches_one_process_stops_all_after_the_same_step(tmp_path: Path) -> None:
    whole = run_twice("grcl", tmp_path)
    program, words = tmp_path / "program.py", ("grcl", str(tmp_path / "stopped"))
    said = torchrun(program, *words, "be asked to stop", is_killed=True)
    assert said.count("stage 2, noisy: stopped after step 1 of") == 2
    torchrun(program, *words)
    for rank in (0, 1):
        straight, resumed = held(whole, rank), held(tmp_path / "stopped", rank)
        assert all(torch.equal(resumed[key], straight[key]) for key in straight)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list the threads of a process")
def test_a_process_that_leaves_leaves_no_thread_behind(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LEAVING)
    torchrun(program)


@pytest.mark.long
def test_fewer_images_than_processes_are_refused_by_all_and_none_waits(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(TOO_FEW)
    said = torchrun(program, str(tmp_path / "run"), is_killed=True)
    assert said.count("memory has fewer images (1) than there are processes (2); start fewer processes") == 2


def test_processes_share_a_pass_over_images_in_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place has one process, in the order of ranks; a process without a place takes the first."""
    for count, world in ((1, 2), (499, 2), (500, 2), (501, 2), (1300, 3), (2600, 4)):
        monkeypatch.setattr(distributed, "world_size", lambda world=world: world)
        runs = []
        for rank in range(world):
            monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
            runs.append(distributed.own_places(count, 500))
        assert all(run.start % 500 == 0 for run in runs)
        with_a_share = [run for rank, run in enumerate(runs) if rank == 0 or run.start > 0]
        assert [place for run in with_a_share for place in run] == list(range(count))
