"""A signal is obeyed after the next step, whatever the run is at, and loses nothing."""

import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from grcl.loop import Interrupted
from grcl.run import run
from grcl.runtime.checkpoint import Checkpoints
from tiny import tiny_settings

SETTINGS = {"training__epochs": 1, "stage0__epochs": 1}


def signalling(function: Callable[..., Any], number: int, call: int) -> Callable[..., Any]:
    """The function, which at one of its calls has a signal sent to this process before it begins."""
    calls = []

    def called(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == call:
            signal.raise_signal(number)
        return function(*arguments)

    return called


@pytest.fixture(scope="module")
def source_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stage0")


@pytest.mark.parametrize(
    ("place", "call", "stage"),
    [
        ("grcl.memory.sight.cluster_by_class", 1, 1),
        ("grcl.memory.sight.cluster_by_class", 2, 2),
        ("grcl.run.accuracy", 2, 1),
        ("grcl.run.accuracy", 5, 2),
    ],
    ids=["k-means before a stage", "k-means after it", "evaluation before the stages", "evaluation between them"],
)
def test_a_signal_between_steps_stops_after_the_next(
    place: str, call: int, stage: int, source_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, name = place.rpartition(".")
    number = signal.SIGTERM if call % 2 else signal.SIGINT
    monkeypatch.setattr(place, signalling(getattr(import_module(module), name), number, call))
    with pytest.raises(Interrupted, match=f"stage {stage}, .*: stopped after step 1 of .*; the same command goes on"):
        run(tiny_settings("source_continued", **SETTINGS), tmp_path, source_models)
    saved = Checkpoints(tmp_path / "checkpoints").final()
    assert (saved["stage"], saved["step"]) == (stage, 1)


@pytest.mark.parametrize(("place", "call"), [("grcl.run.accuracy", 8), ("grcl.run.write_report", 1)])
def test_a_signal_after_the_last_step_lets_the_run_finish(
    place: str, call: int, source_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the report is made."""
    module, _, name = place.rpartition(".")
    monkeypatch.setattr(place, signalling(getattr(import_module(module), name), signal.SIGTERM, call))
    run(tiny_settings("source_continued", **SETTINGS), tmp_path, source_models)
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "done").exists()
