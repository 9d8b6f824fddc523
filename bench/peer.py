"""What users take instead, in an environment of its own: installed when it is first needed, asked over a pipe."""

import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
# torch is pinned, because newer builds bring gigabytes for GPUs.
PACKAGES = (
    "torch==2.13.0",
    "torchvision<0.29",
    "avalanche-lib==0.6.*",
    "torchjd[quadprog-projector]==0.18.*",
    "lightly==1.*",
    "kornia>=0.8",
    "timm>=1.0.12",  # for the network that both sides train
)


class CannotRun(Exception):
    """A row cannot be measured here; the others can."""


def environment() -> Path:
    """The Python of the peers' environment, which BENCH_VENV may name."""
    folder = Path(os.environ.get("BENCH_VENV", HERE / ".venv"))
    python, mark = folder / "bin" / "python", folder / "installed.txt"
    if mark.exists() and mark.read_text() == "\n".join(PACKAGES):
        return python
    venv.create(folder, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotRun(f"the peers cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    mark.write_text("\n".join(PACKAGES))
    return python


class Peer:
    """A program of `bench/peers` at work: it has set itself up, and does one of its works for every line it reads."""

    def __init__(self, program: str, *words: object) -> None:
        root = HERE.parent
        paths = {"PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
        self._process = subprocess.Popen(
            [str(environment()), "-W", "ignore", "-m", f"bench.peers.{program}", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | paths,
        )
        self._answer()

    def ask(self, work: str) -> float:
        """The seconds that one round of this work takes there."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{work}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> str:
        """The next line that is meant for us; the peers talk too."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("bench:"):
                return line.removeprefix("bench:").strip()
        raise CannotRun(f"the peer ended with code {self._process.wait()}; its last words are above")


def serve(**works: object) -> None:
    """In a peer's program: say that it is set up, then do and time one work for every line that comes."""
    from bench.timing import settle_memory, timed

    settle_memory()
    _say("ready")
    for line in sys.stdin:
        _say(str(timed(works[line.strip()])()))  # type: ignore[arg-type]


def _say(text: str) -> None:
    sys.stdout.write(f"bench:{text}\n")
    sys.stdout.flush()
