"""The short version of `make torture`: real processes killed, real files mutated, nothing lost and nothing let in."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
METHODS = ("source_continued", "dann", "cua", "grcl", "grcl_plus")


def torture(*words: str) -> str:
    """What the command prints; it must find nothing wrong."""
    command = [sys.executable, "-m", "torture", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_run_that_is_killed_ends_as_one_that_is_not() -> None:
    said = torture("--kills", "5", "--checkpoints", "0", "--files", "0", "--methods", *METHODS)
    assert "kills tried / results identical / lost = 5 / 5 / 0" in said
    assert [line.partition(":")[0] for line in said.splitlines()[:5]] == list(METHODS)


def test_mutated_files_are_refused_or_noticed() -> None:
    said = torture("--kills", "0", "--checkpoints", "60", "--files", "150")
    assert "checkpoint: mutated files tried / refused or noticed / crashed = 60 / 60 / 0" in said
    assert "mutated files tried / refused or noticed / crashed = 210 / 210 / 0" in said.splitlines()[-1]


def test_the_table_of_the_docs_lost_nothing() -> None:
    """The last whole torture is the one that the docs show."""
    page = (ROOT / "docs" / "reliability.md").read_text()
    tried, identical, lost = map(int, re.findall(r"identical / lost = (\d+) / (\d+) / (\d+)", page)[0])
    assert (tried, lost) == (identical, 0)
    assert tried >= 100
    tried, noticed, crashed = map(int, re.findall(r"noticed / crashed = (\d+) / (\d+) / (\d+)", page)[0])
    assert (tried, crashed) == (noticed, 0)
    assert tried >= 3000
