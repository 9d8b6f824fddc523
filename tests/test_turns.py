"""One process at a time: the second waits or is refused, and a lock dies with its process and leaves no file."""

import errno
import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import tiny
from grcl.cli import main
from grcl.run import run
from grcl.runtime.errors import Refusal
from grcl.runtime.progress import Silent
from grcl.runtime.turns import alone, one_at_a_time
from tiny import tiny_settings

COUNTING = """
import sys
from pathlib import Path
from grcl.runtime.turns import one_at_a_time
path = Path(sys.argv[1])
for _ in range(50):
    with one_at_a_time(path.with_suffix(".lock")):
        path.write_text(str(int(path.read_text()) + 1))
"""

HOLDING = """
import sys, time
from pathlib import Path
from grcl.runtime.turns import alone
with alone(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    time.sleep(99)
"""

WORDS = ["run", "tiny", "--preset", tiny.PRESET, "--method", "source_only", "--targets", "dark", "--stage0.epochs", "1"]


def test_processes_take_turns(tmp_path: Path) -> None:
    """The lock's file comes and goes under them, and no number is lost."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNTING, str(counter)]) for _ in range(4)]
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    assert counter.read_text() == "200"
    assert [path.name for path in tmp_path.iterdir()] == ["counter"]


class Second(Silent):
    """Gives the same command again while the first is at work, once."""

    said = ""

    def __init__(self, path: Path) -> None:
        self.path = path

    def step(self, done: int, values: Mapping[str, float], images_per_second: float) -> None:
        if not self.said:
            with pytest.raises(Refusal) as refused:
                run(tiny_settings("source_only", stage0__epochs=1), self.path)
            self.said = str(refused.value)


def test_the_second_of_two_equal_runs_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    second = Second(tmp_path / "run")
    run(tiny_settings("source_only", stage0__epochs=1), second.path, display=second)
    assert (
        second.said == f"another process is at work in {second.path}; wait for it, or choose another place with --out"
    )
    assert (second.path / "done").exists()
    assert not (second.path / "lock").exists()
    assert not list(second.path.rglob("*.lock"))


def test_a_run_waits_for_no_killed_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--out", str(tmp_path)]
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path / "lock")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert main(words) == 2
        assert f"grcl: another process is at work in {tmp_path}" in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
        process.kill()
    assert (tmp_path / "lock").exists()
    assert main(words) == 0
    assert not (tmp_path / "lock").exists()


def test_a_link_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("somebody else's")
    (tmp_path / "lock").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="symbolic links"), alone(tmp_path / "lock", "taken"):
        pass
    assert (tmp_path / "outside").read_text() == "somebody else's"


def test_a_file_of_somebody_elses_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1.0.0")
    with pytest.raises(Refusal, match="no lock of ours"), alone(tmp_path / "lock", "taken"):
        pass
    assert (tmp_path / "lock").read_text() == "1.0.0"


def test_where_there_are_no_locks_the_work_goes_on_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(number: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with caplog.at_level(logging.WARNING), one_at_a_time(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()
    assert "cannot be locked (No locks available)" in caplog.text
