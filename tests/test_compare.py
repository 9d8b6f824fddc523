"""Comparisons of real runs: planned before any starts, skipped when done, gone on with when not, whatever happens."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grcl.cli import main
from grcl.compare import Workforce, compare
from grcl.comparison_plan import ABLATIONS, Design
from grcl.results.comparison import Comparison
from grcl.results.figure_kinds import KINDS
from grcl.run import run
from grcl.runtime.board import SilentBoard
from grcl.runtime.errors import Refusal
from test_report import Page
from test_run import assert_identical, final_state
from tiny import PRESET, tiny_settings

METHODS = ("source_continued", "grcl")
DESIGN = Design("tiny", METHODS, preset=PRESET, common={"training.epochs": "4"})
WORDS = ["compare", "tiny", "--preset", PRESET, "--methods", *METHODS, "--training.epochs", "4", "--jobs", "2"]
RESULTS = {"comparison.html", "table.md", "table.tex", "table.csv"}


@pytest.fixture(autouse=True, scope="module")
def _children_know_tiny() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRCL_PLUGINS", "tiny_plugin")
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        yield


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison that nothing disturbed."""
    folder = tmp_path_factory.mktemp("straight") / "comparison"
    compare(DESIGN, folder, Workforce(jobs=2), SilentBoard())
    return folder


@contextmanager
def start(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The same comparison as a process of its own, which does not outlive a failed test."""
    command = [sys.executable, "-m", "grcl", *WORDS, "--out", str(folder), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def is_in_stage_1(path: Path) -> bool:
    """Whether the run has taken a step for its first target, and saved it."""
    log = path / "log.jsonl"
    return log.exists() and '"kind": "step"' in log.read_text() and any((path / "checkpoints").glob("*.ckpt"))


def processes_of(path: Path) -> list[int]:
    """The processes that work on the run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile
            continue
        found += [int(entry.parent.name)] if f"--out={path}".encode() in words else []
    return found


def assert_same_outcome(folder: Path, straight: Path) -> None:
    """The same accuracies and, to the last bit, the same weights."""
    for method in METHODS:
        a, b = folder / method / "seed-0", straight / method / "seed-0"
        assert (a / "accuracy.json").read_bytes() == (b / "accuracy.json").read_bytes()
        assert_identical(final_state(a), final_state(b))


def snapshot(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name not in RESULTS}


def test_a_comparison_leaves_the_runs_and_their_tables(straight: Path) -> None:
    assert {path.name for path in straight.iterdir()} == {*METHODS, "stage0", "comparison.json", *RESULTS}
    (group,) = Comparison.read(straight).groups
    assert [row.method for row in group.rows] == list(METHODS)
    assert len(list((straight / "stage0").glob("*/done"))) == 1
    log = (straight / "grcl" / "seed-0.log").read_text()
    assert log.startswith("$ ")
    assert "stage 2, noisy: step" in log


def test_a_run_of_a_comparison_is_the_same_as_one_by_hand(straight: Path, tmp_path: Path) -> None:
    run(tiny_settings("grcl", training__epochs=4), tmp_path / "a")
    assert_identical(final_state(tmp_path / "a"), final_state(straight / "grcl" / "seed-0"))
    config = json.loads((straight / "grcl" / "seed-0" / "config.json").read_text())
    assert config["training"]["threads"] == 1


def test_the_second_call_runs_nothing(straight: Path) -> None:
    before = snapshot(straight)
    (straight / "comparison.html").unlink()
    assert main([*WORDS, "--out", str(straight)]) == 0
    after = snapshot(straight)
    changed = {path.name for path in after if after[path] != before.get(path)}
    assert changed <= {"comparison.json"}
    assert (straight / "comparison.html").exists()


def test_other_settings_in_the_same_folder_are_refused(straight: Path) -> None:
    other = Design("tiny", METHODS, preset=PRESET, common={"training.epochs": 7})
    with pytest.raises(Refusal, match=r"training\.epochs is 4 there, 7 here"):
        compare(other, straight, Workforce(), SilentBoard())
    own = Design("tiny", METHODS, preset=PRESET, common={"training.epochs": 4, "grcl.source_weight": 0})
    with pytest.raises(Refusal, match=r"grcl/seed-0 .*grcl\.source_weight is 1\.0 there, 0\.0 here"):
        compare(own, straight, Workforce(), SilentBoard())


def test_a_failed_run_stops_no_other_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "tiny", "--preset", PRESET, "--methods", "grcl", "source_only", "--jobs", "2"]
    assert main([*words, "--grcl.optimizer.rate", "1e30", "--out", str(tmp_path / "a")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("grcl: 1 of 2 runs failed; the same command goes on with them") for line in lines)
    assert lines[-1].startswith("  grcl/seed-0: stage 1, dark, step")
    assert "try a smaller learning rate" in lines[-1]
    assert "1 of 2 runs done; 1 failed" in lines
    page = Page((tmp_path / "a" / "comparison.html").read_text())
    assert "1 unfinished, left out: grcl/seed-0" in page.text
    assert [row.method for row in Comparison.read(tmp_path / "a").rows] == ["source_only"]


def test_a_killed_run_takes_no_other_with_it_and_is_finished_to_the_same_bits(straight: Path, tmp_path: Path) -> None:
    """What is done by then is not touched again."""
    folder = tmp_path / "killed"
    with start(folder, "--training.checkpoint-seconds", "0") as process:
        wait_until(lambda: is_in_stage_1(folder / "grcl" / "seed-0"))
        (victim,) = processes_of(folder / "grcl" / "seed-0")
        os.kill(victim, signal.SIGKILL)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "grcl/seed-0: killed by SIGKILL" in said
    assert (folder / "source_continued" / "seed-0" / "done").exists()
    assert not (folder / "grcl" / "seed-0" / "done").exists()
    before = snapshot(folder / "source_continued")
    compare(DESIGN, folder, Workforce(jobs=2), SilentBoard())
    assert_same_outcome(folder, straight)
    assert snapshot(folder / "source_continued") == before


def test_stopping_saves_the_run_at_work_starts_no_other_and_says_how_to_go_on(tmp_path: Path) -> None:
    first, second = (tmp_path / "stopped" / method / "seed-0" for method in METHODS)
    words = ["--jobs", "1", "--training.epochs", "500", "--training.checkpoint-seconds", "0"]
    with start(tmp_path / "stopped", *words) as process:
        wait_until(lambda: is_in_stage_1(first))
        process.terminate()
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "grcl: stopped with 0 of 2 runs done; the same command goes on from there"
    assert not processes_of(first)
    assert "stopped after step" in first.with_name("seed-0.log").read_text().splitlines()[-1]
    assert not second.exists()


@pytest.mark.long
def test_ray_makes_the_same_runs(straight: Path, tmp_path: Path) -> None:
    with start(tmp_path / "ray", "--engine", "ray") as process:
        _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert_same_outcome(tmp_path / "ray", straight)


@pytest.mark.long
def test_stopping_reaches_the_runs_on_ray(tmp_path: Path) -> None:
    paths = [tmp_path / "ray" / method / "seed-0" for method in METHODS]
    words = ["--engine", "ray", "--training.epochs", "500", "--training.checkpoint-seconds", "0"]
    with start(tmp_path / "ray", *words) as process:
        wait_until(lambda: any(map(is_in_stage_1, paths)))
        process.terminate()
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    wait_until(lambda: not any(map(processes_of, paths)))


@pytest.mark.long
def test_the_example_of_the_page_on_comparing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[1] / "docs" / "comparing.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert (tmp_path / "cmp" / "source_only" / "seed-0" / "done").exists()


def test_the_page_on_comparing_names_every_figure_and_ablation() -> None:
    page = (Path(__file__).parents[1] / "docs" / "comparing.md").read_text()
    assert all(f"`{name}`" in page for name in (*KINDS, *ABLATIONS))
