"""The short version of `make torture`: real processes killed, real files mutated, nothing lost and nothing let in."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A run whose report is quickly drawn, with memory and a discriminator; the adapt is one of grcl_plus.
WORDS = ["--kills", "5", "--victims", "cua", "adapt", "--checkpoints", "20", "--states", "40", "--files", "75"]


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the command prints; it must find nothing wrong."""
    command = [sys.executable, "-m", "torture", *WORDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_work_that_is_killed_ends_as_work_that_is_not(said: list[str]) -> None:
    assert said[0] == "cua: kills tried / results identical / lost = 2 / 2 / 0"
    assert said[1] == "adapt: kills tried / results identical / lost = 5 / 5 / 0"


def test_mutated_files_are_refused_or_noticed(said: list[str]) -> None:
    assert "checkpoint: mutated files tried / refused or noticed / crashed = 20 / 20 / 0" in said
    assert "state of a learner: mutated files tried / refused or noticed / crashed = 40 / 40 / 0" in said
    assert said[-1] == "mutated files tried / refused or noticed / crashed = 135 / 135 / 0"


def test_the_table_of_the_docs_lost_nothing() -> None:
    """The last whole torture is the one that the docs show."""
    page = (ROOT / "docs" / "reliability.md").read_text()
    tried, identical, lost = map(int, re.findall(r"identical / lost = (\d+) / (\d+) / (\d+)", page)[0])
    assert (tried, lost) == (identical, 0)
    assert tried >= 100
    tried, noticed, crashed = map(int, re.findall(r"noticed / crashed = (\d+) / (\d+) / (\d+)", page)[0])
    assert (tried, crashed) == (noticed, 0)
    assert tried >= 3000
