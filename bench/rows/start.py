"""How long a person waits: for the help, and for the first step of a run whose data are cached."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.line import Line, at_most, seconds
from bench.peer import CannotRun
from bench.timing import Times, timed

PATIENCE = 300.0


def measure(rounds: int) -> Iterator[Line]:
    command = [sys.executable, "-m", "grcl"]
    times = Times(
        {"help": timed(lambda: subprocess.run([*command, "--help"], capture_output=True, check=True))}, rounds
    )
    yield Line("start", "seconds of `grcl --help`", seconds(times.of("help")), "", times.of("help"), at_most(0.5))
    times = Times({"run": timed(lambda: _first_step([*command, "run", "mini"]))}, max(1, rounds // 3))
    what = "seconds of `grcl run mini` to its first step, data cached"
    yield Line("start", what, seconds(times.of("run")), "", times.of("run"), at_most(10))


def _first_step(command: list[str]) -> None:
    """Start a run and end it when its log tells of a step."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*command, "--out", f"{folder}/run", "--training.log_every", "1"]
        with (Path(folder) / "words").open("w") as said:
            process = subprocess.Popen(words, stdout=said, stderr=said, env=os.environ)
        try:
            _wait_for_step(Path(folder), process)
        finally:
            process.kill()
            process.wait()


def _wait_for_step(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if any('"kind": "step"' in log.read_text() for log in folder.glob("run/**/log.jsonl")):
            return
        if process.poll() is not None:
            raise CannotRun(f"the run ended with code {process.returncode}: {(folder / 'words').read_text()[-300:]}")
        time.sleep(0.02)
    raise CannotRun(f"there was no step within {PATIENCE:.0f} s")
