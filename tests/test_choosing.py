"""Settings are ranked by what their logs say; no accuracy is read or shown."""

import re
from pathlib import Path
from typing import Any

import pytest

from grcl.cli import main
from grcl.results.choosing import ALLOWED_RISE, choosing_table, rank
from grcl.runtime.errors import Refusal
from made_up import MadeUp
from tiny import PRESET


def told(stage: int, agreement: float, source: tuple[float, float]) -> list[dict[str, Any]]:
    """What the log of a run says about one stage."""
    monitor = {"kind": "monitor", "stage": stage}
    return [
        {**monitor, "when": "before", "values": {"entropy": 9.0, "agreement": 0.0}},
        {**monitor, "when": "after", "values": {"entropy": 0.5, "agreement": agreement}},
        {"kind": "constraint", "stage": stage, "name": "source", "before": source[0], "after": source[1]},
    ]


def made_up(folder: Path, variant: str, agreements: tuple[float, float], source_after: float, seed: int = 0) -> str:
    log = told(1, agreements[0], (0.2, 0.7)) + told(2, agreements[1], (0.7, source_after))
    run = MadeUp("grcl", [[0.5] * 3] * 3, seed=seed, variant=variant, log=log)
    return str(run.write(folder).relative_to(folder))


def test_the_highest_mean_agreement_comes_first(tmp_path: Path) -> None:
    names = [made_up(tmp_path, "a=1", (0.9, 0.5), 0.2), made_up(tmp_path, "a=2", (0.7, 0.8), 0.2)]
    first, second = rank(tmp_path, names)
    assert (first.name, second.name) == ("grcl/a=2", "grcl/a=1")
    assert (first.agreement, first.entropy) == pytest.approx((0.75, 0.5))


def test_the_source_is_measured_from_the_first_stage_to_the_last(tmp_path: Path) -> None:
    (candidate,) = rank(tmp_path, [made_up(tmp_path, "a=1", (0.5, 0.5), 0.25)])
    assert (candidate.source_loss, candidate.source_rise) == pytest.approx((0.25, 0.05))


def test_whoever_gives_up_the_source_comes_last(tmp_path: Path) -> None:
    lost = 0.2 + ALLOWED_RISE + 0.01
    names = [made_up(tmp_path, "a=1", (0.9, 0.9), lost), made_up(tmp_path, "a=2", (0.1, 0.1), 0.2)]
    assert [candidate.name for candidate in rank(tmp_path, names)] == ["grcl/a=2", "grcl/a=1"]


def test_seeds_are_averaged(tmp_path: Path) -> None:
    names = [made_up(tmp_path, "a=1", (0.8, 0.8), 0.2), made_up(tmp_path, "a=1", (0.6, 0.6), 0.4, seed=1)]
    (candidate,) = rank(tmp_path, names)
    assert candidate.seeds == 2
    assert (candidate.agreement, candidate.source_loss) == pytest.approx((0.7, 0.3))


def rehearsal(folder: Path, variant: str, agreement: float, final: float, seed: int = 0) -> str:
    log, settings = told(1, agreement, (0.2, 0.2)), {"rehearse": True}
    run = MadeUp("grcl", [[0.5] * 2, [final] * 2], seed=seed, variant=variant, log=log, settings=settings)
    return str(run.write(folder).relative_to(folder))


def test_rehearsals_are_ranked_by_their_mean_accuracy(tmp_path: Path) -> None:
    names = [rehearsal(tmp_path, "a=1", 0.9, 0.75), rehearsal(tmp_path, "a=1", 0.9, 0.55, seed=1)]
    names += [rehearsal(tmp_path, "a=2", 0.5, 0.68), rehearsal(tmp_path, "a=2", 0.5, 0.72, seed=1)]
    candidates = rank(tmp_path, names)
    assert [candidate.name for candidate in candidates] == ["grcl/a=2", "grcl/a=1"]
    assert [candidate.rehearsed for candidate in candidates] == pytest.approx([0.7, 0.65])
    table = choosing_table(candidates)
    assert (table.header[2], [row[2] for row in table.rows]) == ("rehearsed ACC (%)", ["70.0", "65.0"])


def test_a_rehearsal_is_not_ranked_beside_a_run_on_targets(tmp_path: Path) -> None:
    names = [rehearsal(tmp_path, "a=1", 0.9, 0.6), made_up(tmp_path, "a=2", (0.7, 0.8), 0.2)]
    with pytest.raises(Refusal, match="with --rehearse or without"):
        rank(tmp_path, names)


def test_accuracies_are_neither_needed_nor_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRCL_PLUGINS", "tiny_plugin")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("COLUMNS", "200")  # no name is folded
    words = ["choose", "tiny", "--preset", PRESET, "--methods", "grcl", "--vary", "memory.size=12,20"]
    words += ["--out", str(tmp_path), "--jobs", "2"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert not re.search("ACC|BWT|accuracy", shown)
    assert "memory.size=12" in shown
    assert not list(tmp_path.glob("comparison.html"))

    for path in tmp_path.rglob("accuracy.json"):
        path.unlink()
    assert main(words) == 0
    assert capsys.readouterr().out == shown
