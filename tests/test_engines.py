"""Jobs as processes: exit codes, logs, signals, and never two processes on one run. The board that shows them."""

import fcntl
import io
import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from grcl.compare import Foreman
from grcl.engines import BUSY, ENGINES, Here, Job
from grcl.runtime.board import Clock, LiveBoard, PlainBoard, SilentBoard, State, board_for, duration
from grcl.runtime.errors import Refusal
from grcl.runtime.plugins import load_plugins

SAVING = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(130)))
print("ready", flush=True)
time.sleep(60)
"""


def job(folder: Path, name: str, program: str) -> Job:
    return Job(name, [sys.executable, "-c", program], folder, folder / name / "seed-0.log", {"GREETING": "hi"}, False)


def work_off(jobs: list[Job], at_once: int = 2) -> dict[str, int]:
    with closing(Here()) as engine:
        return Foreman(engine, SilentBoard(), 0).work_off(jobs, at_once)


def test_every_job_has_its_exit_code_and_its_log(tmp_path: Path) -> None:
    programs = {
        "good": "import os; print(os.environ['GREETING'])",
        "bad": "import sys; sys.stderr.write('oh'); sys.exit(3)",
        "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    }
    codes = work_off([job(tmp_path, name, program) for name, program in programs.items()])
    assert codes == {"good": 0, "bad": 3, "killed": -signal.SIGKILL}
    lines = (tmp_path / "good" / "seed-0.log").read_text().splitlines()
    assert lines[0].startswith(f"$ {sys.executable} -c ")
    assert lines[1] == "hi"
    assert (tmp_path / "bad" / "seed-0.log").read_text().endswith("oh")


def test_no_more_jobs_than_asked_for_run_side_by_side(tmp_path: Path) -> None:
    program = "import time; print(time.monotonic()); time.sleep(0.3); print(time.monotonic())"
    jobs = [job(tmp_path, str(index), program) for index in range(5)]
    work_off(jobs, at_once=2)
    spans = [tuple(map(float, each.log.read_text().split("\n")[1:3])) for each in jobs]
    assert max(sum(start <= moment < end for start, end in spans) for moment, _ in spans) <= 2


def test_a_run_that_another_process_works_on_is_left_alone(tmp_path: Path) -> None:
    mine = job(tmp_path, "a", "print('mine')")
    mine.log.parent.mkdir()
    with mine.log.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert work_off([mine]) == {"a": BUSY}
    assert mine.log.read_text() == ""
    assert work_off([mine]) == {"a": 0}


def test_the_lock_lives_as_long_as_the_process(tmp_path: Path) -> None:
    sleeper = job(tmp_path, "a", SAVING)
    with closing(Here()) as engine:
        engine.start(sleeper)
        engine.start(sleeper._replace(name="b"))
        assert engine.ended() == {"b": BUSY}
    assert work_off([sleeper._replace(command=[sys.executable, "-c", ""])]) == {"a": 0}


def test_stopping_lets_a_job_save(tmp_path: Path) -> None:
    sleeper = job(tmp_path, "a", SAVING)
    with closing(Here()) as engine:
        engine.start(sleeper)
        while not sleeper.log.read_text().endswith("\nready\n"):
            time.sleep(0.01)
        engine.stop()
        while not (ended := engine.ended()):
            time.sleep(0.01)
    assert ended == {"a": 130}
    assert sleeper.log.read_text().endswith("saved\n")


def test_closing_leaves_no_process_behind(tmp_path: Path) -> None:
    with closing(Here()) as engine:
        engine.start(job(tmp_path, "a", "import os; print(os.getpid(), flush=True); import time; time.sleep(60)"))
        log = tmp_path / "a" / "seed-0.log"
        while len(log.read_text().splitlines()) < 2:
            time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text().splitlines()[1]), 0)


def test_without_ray_the_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Refusal, match=r'pip install "grcl\[ray\]"'):
        ENGINES["ray"]()


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRCL_PLUGINS", "math, nowhere_to_be_found")
    with pytest.raises(Refusal, match=r"cannot import 'nowhere_to_be_found'.*PYTHONPATH"):
        load_plugins()


def test_plain_lines_tell_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    board = PlainBoard()
    for state in (State(1, 0, 3, ("a/seed-0",)),) * 2 + (State(1, 1, 3, ("b/seed-0",)), State(2, 1, 3, ())):
        board.show(state)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "1 of 3 runs done; at work: a/seed-0"
    assert lines[1].startswith("1 of 3 runs done; 1 failed; at work: b/seed-0; about 0 s left")
    assert lines[2] == "2 of 3 runs done; 1 failed"


def test_a_terminal_gets_a_bar_with_names_as_text() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    board = board_for(console)
    assert isinstance(board, LiveBoard)
    board.show(State(1, 0, 3, ("[red]/seed-0",)))
    board.say("[bold]stopping")
    board.close()
    assert "━" in stream.getvalue()
    assert "1/3" in stream.getvalue()
    assert "at work: [red]/seed-0" in stream.getvalue()
    assert "[bold]stopping" in stream.getvalue()


def test_the_time_left_counts_what_ended_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("grcl.runtime.board.time.monotonic", lambda: now)
    clock = Clock()
    assert clock.left(State(4, 0, 10, ())) is None
    now = 160.0
    assert clock.left(State(5, 1, 10, ())) == 30.0 * 4


@pytest.mark.parametrize(("seconds", "text"), [(45.4, "45 s"), (130.0, "2 min"), (9000.0, "2.5 h")])
def test_a_time_has_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text
