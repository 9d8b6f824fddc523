"""What the memory constraint is for: with it, a run loses less of an old target."""

import json
from pathlib import Path

import numpy as np
import pytest

from grcl.run import run
from tiny import tiny_settings


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize("seed", [0, 1])
def test_the_memory_constraint_keeps_the_first_target(seed: int, tmp_path: Path) -> None:
    """Light bars, then dark ones, whose contrastive gradient conflicts with the memory of the light ones.

    Both runs are the same up to the second target; the memory is the only thing that could hold the first.
    """
    final: dict[str, float] = {}
    for constraint in ("joint", "off"):
        settings = tiny_settings(
            "grcl",
            seed=seed,
            targets=["noisy", "dark"],
            stage0__epochs=30,
            training__epochs=10,
            memory__size=96,
            grcl__source_weight=0.0,
            grcl__source_constraint=False,
            grcl__memory_constraint=constraint,
        )
        matrix = run(settings, tmp_path / constraint, tmp_path / "stage0")
        final[constraint] = float(matrix.values[2, 1])
    lines = map(json.loads, (tmp_path / "joint" / "log.jsonl").read_text().splitlines())
    violated = [line["values"]["violated/memory"] for line in lines if line["kind"] == "step" and line["stage"] == 2]
    assert np.mean(violated) > 0.2, "the targets do not conflict, so this test would show nothing"
    assert final["joint"] > final["off"]
