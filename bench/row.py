"""`python -m bench.row NAME ROUNDS`: one row in a process of its own; its lines go to the standard output as JSON."""

import json
import sys
from importlib import import_module

from bench.line import Line
from bench.peer import CannotRun


def main(name: str, rounds: str) -> None:
    try:
        for line in import_module(f"bench.rows.{name}").measure(int(rounds)):
            assert isinstance(line, Line)
            _say(line._asdict())
    except CannotRun as reason:
        _say({"cannot_run": str(reason)})


def _say(entry: object) -> None:
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
