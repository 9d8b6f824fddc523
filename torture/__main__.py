"""The command: kills, then mutated files; the figures are printed and, if asked for, written into the docs."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the small benchmark, learners and miniature files live there
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GRCL_PLUGINS"] = "tiny_plugin"


def main() -> int:
    """Torture; returns 1 if anything was lost."""
    parser = argparse.ArgumentParser("python -m torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="SIGKILLs that must hit (100)")
    parser.add_argument("--victims", nargs="*", help="methods whose runs are killed, and adapt of a learner (all)")
    parser.add_argument("--checkpoints", type=int, default=500, help="mutated checkpoints (500)")
    parser.add_argument("--states", type=int, default=500, help="mutated states of learners (500)")
    parser.add_argument("--files", type=int, default=2000, help="mutated files of data and weights (2000)")
    parser.add_argument("--seed", type=int, default=0, help="of all moments and mutations (0)")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/reliability.md")
    given = parser.parse_args()

    import tiny_plugin  # noqa: F401
    from torture.child import warm_up
    from torture.figures import Figures
    from torture.kills import torment
    from torture.mutations import Amounts, mutate_all
    from torture.victims import victims

    warm_up()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        kills = torment(victims(given.victims), given.kills, given.seed, Path(folder), say)
        amounts = Amounts(given.checkpoints, given.states, given.files)
        files = mutate_all(amounts, given.seed, Path(folder) / "files", say)
    figures = Figures(kills, files, time.monotonic() - began)
    say(figures.summary)
    if given.write:
        figures.write(ROOT / "docs" / "reliability.md")
    return 1 if figures.is_bad else 0


def say(text: str) -> None:
    """One line, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
