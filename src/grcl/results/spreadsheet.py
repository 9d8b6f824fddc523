"""A comparison as CSV: plain numbers, one line per row, and no cell that a spreadsheet would take for a formula."""

import csv
import io
import math
from collections.abc import Iterator
from typing import Any

from grcl.results.comparison import Comparison, Group, Row
from grcl.results.comparison_tables import ACC, BWT, FURTHER
from grcl.runtime.visible import visible

NAMES = ("benchmark", "domains", "method", "variant")
COSTS = ("steps", "images", "seconds")


def as_csv(comparison: Comparison) -> str:
    """Every row of every group: mean and standard deviation of all measures, costs, and the paper's figures."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _columns(), lineterminator="\n", restval="")
    writer.writeheader()
    for group in comparison.groups:
        for row in group.rows:
            writer.writerow(dict(_cells(group, row)))
    return text.getvalue()


def _columns() -> list[str]:
    scores = [f"{score.name} {part}" for score in (ACC, BWT, *FURTHER) for part in ("mean", "deviation")]
    paper = [f"paper's {score.name} {part}" for score in (ACC, BWT) for part in ("mean", "deviation")]
    return [*NAMES, "seeds", *scores, *COSTS, "peak memory (bytes)", *paper]


def _cells(group: Group, row: Row) -> Iterator[tuple[str, Any]]:
    names = (group.benchmark, " ".join(row.matrix.domains), row.method, row.variant)
    yield from zip(NAMES, map(inert, names), strict=True)
    yield "seeds", len(row.runs)
    for score in (ACC, BWT, *FURTHER):
        if value := score.over_seeds(row):
            yield f"{score.name} mean", _percent(value.mean)
            if value.deviation is not None:
                yield f"{score.name} deviation", _percent(value.deviation)
    for key in COSTS:
        total = row.mean_total(key)
        yield key, "" if math.isnan(total) else f"{round(total, 3):.15g}"
    peaks = [run.peak_memory for run in row.runs if run.peak_memory is not None]
    yield "peak memory (bytes)", f"{max(peaks):.15g}" if peaks else ""
    if group.paper and not row.variant and row.method in group.paper.methods:
        for score, figure in zip((ACC, BWT), group.paper.methods[row.method], strict=True):
            yield f"paper's {score.name} mean", figure.mean
            yield f"paper's {score.name} deviation", figure.deviation


def _percent(share: float) -> float:
    return round(100 * share, 6) + 0.0


def inert(text: str) -> str:
    """Spreadsheets compute what begins like a formula; an apostrophe in front tells them that it is text."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(tuple("=+-@＝＋－＠")) else shown
