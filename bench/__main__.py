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
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
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
    clock = {"BENCH_CLOCK": "cpu"} if given.cpu else {}
    lines: list[Line] = []
    reasons: dict[str, str] = {}
    for row in given.rows or ROWS:
        for entry in _entries(row, given.rounds, os.environ | {"OMP_NUM_THREADS": "1"} | clock):
            if "cannot_run" in entry:
                reasons[row] = entry["cannot_run"]
                sys.stderr.write(f"{row}: cannot run: {entry['cannot_run']}\n")
            else:
                lines.append(_line(entry))
                sys.stderr.write("  ".join(lines[-1].cells()) + "\n")
    table = _table(lines, reasons)
    sys.stdout.write(table)
    if given.keep:
        _keep(lines, reasons, table, "CPU seconds" if given.cpu else "seconds")


def _entries(row: str, rounds: int, environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The lines of a row as they come; one that breaks off says so, and the others go on."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.row", row, str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=HERE.parent) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
    if process.returncode:
        yield {"cannot_run": f"it ended with code {process.returncode}"}


def _line(entry: dict[str, Any]) -> Line:
    goal = entry["goal"]
    return Line(**{**entry, "goal": goal and Goal(*goal)})


def _table(lines: list[Line], reasons: dict[str, str]) -> str:
    rows = [HEAD, *(line.cells() for line in lines)]
    rows += [(row, f"cannot run: {reason}", "", "", "", "", "") for row, reason in reasons.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    padded = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([padded[0], rule, *padded[1:]]) + "\n"


def _keep(lines: list[Line], reasons: dict[str, str], table: str, unit: str) -> None:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {unit}"
    results = {"machine": machine, "lines": [line.as_json() for line in lines], "cannot_run": reasons}
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{machine}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
