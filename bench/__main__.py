"""`python -m bench [ROW ...]`: measure the rows, print the table, keep it in results.json and docs/performance.md."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.line import Goal, Line
from bench.rows import ROWS

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
Found = dict[str, dict[str, Any]]
HEAD = ("row", "what", "ours", "against", "ratio", "goal", "met")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"some of: {', '.join(ROWS)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=7, help="times that every work is done (7)")
    parser.add_argument("--keep", action="store_true", help="write results.json and docs/performance.md")
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds, where the machine is busy otherwise")
    given = parser.parse_args()
    if unknown := set(given.rows) - set(ROWS):
        parser.error(f"no row is named {', '.join(sorted(unknown))}; there are: {', '.join(ROWS)}")
    found = {row: _measured(row, given.rounds, given.cpu) for row in given.rows or ROWS}
    sys.stdout.write(_table(found))
    if given.keep:
        _keep(found)


def _measured(row: str, rounds: int, cpu: bool) -> dict[str, Any]:
    """The lines of a row, told as they come; one that breaks off says so, and the others go on."""
    lines, reason = [], None
    for entry in _entries(row, rounds, os.environ | {"OMP_NUM_THREADS": "1"} | ({"BENCH_CLOCK": "cpu"} if cpu else {})):
        if reason := entry.get("cannot_run"):
            sys.stderr.write(f"{row}: cannot run: {reason}\n")
        else:
            lines.append(entry)
            sys.stderr.write("  ".join(_line(entry).cells()) + "\n")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {'CPU seconds' if cpu else 'seconds'}"
    return {"machine": machine, "lines": lines, "cannot_run": reason}


def _entries(row: str, rounds: int, environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-W", "ignore", "-m", "bench.row", row, str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=HERE.parent) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
    if process.returncode:
        yield {"cannot_run": f"it ended with code {process.returncode}"}


def _line(entry: dict[str, Any]) -> Line:
    goal = entry["goal"]
    return Line(**{**entry, "goal": goal and Goal(*goal)})


def _table(found: Found) -> str:
    rows = [HEAD, *(_line(entry).cells() for row in found.values() for entry in row["lines"])]
    broken = {name: row["cannot_run"] for name, row in found.items() if row["cannot_run"]}
    rows += [(name, f"cannot run: {reason}", "", "", "", "", "") for name, reason in broken.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    padded = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([padded[0], rule, *padded[1:]]) + "\n"


def _keep(found: Found) -> None:
    """Rows that were measured before, and not now, stay."""
    kept: Found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept |= {row: entry for row, entry in found.items() if row not in kept or not entry["cannot_run"]}
    kept = {row: kept[row] for row in ROWS if row in kept}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    rows: dict[str, list[str]] = {}
    for row, entry in kept.items():
        rows.setdefault(entry["machine"], []).append(row)
    machines = "; ".join(f"{machine} ({', '.join(names)})" for machine, names in rows.items())
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{_table(kept)}\n{machines}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
