"""What the words of a learner print: sentences and tables for people, CSV and JSON for programs."""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grcl.results.spreadsheet import inert
from grcl.results.tables import Table, percent
from grcl.runtime.visible import visible

if TYPE_CHECKING:
    from grcl.learner.evaluation import Evaluation, Prediction
    from grcl.learner.history import Entry


def tell(*lines: str) -> None:
    """Names come from outside: nothing in them reaches the terminal as a command."""
    for line in lines:
        sys.stdout.write(visible(line) + "\n")


def tell_adapt(entry: "Entry") -> None:
    """What an adapt has brought."""
    assert entry.data is not None
    tell(f"entry {entry.number}: {entry.data.images:,} images of {entry.data.name}, {entry.method}")
    tell(f"verdict: {entry.verdict}: {entry.reason}")
    if entry.accuracy:
        before, after = percent(entry.accuracy.before), percent(entry.accuracy.after)
        tell(f"right on the labelled sample of {entry.accuracy.images:,} images: {before} % before, {after} % after")


def tell_evaluation(found: "Evaluation") -> None:
    """How often the learner is right, class by class, and what it takes for what."""
    rows = found.confusion.tolist()
    counts = [(name, row) for name, row in zip(found.classes, rows, strict=True) if sum(row)]
    per_class = [(name, f"{sum(row):,}", percent(found.per_class[name])) for name, row in counts]
    show(
        Table(("class", "images", "right (%)"), tuple(per_class)),
        Table(
            ("is / taken for", *found.classes), tuple((name, *(f"{count:,}" for count in row)) for name, row in counts)
        ),
    )
    tell(f"{percent(found.accuracy)} % of {found.images:,} images are right")


def evaluation_as_json(found: "Evaluation") -> dict[str, Any]:
    """The same for programs."""
    return {
        "accuracy": found.accuracy,
        "images": found.images,
        "per_class": found.per_class,
        "classes": list(found.classes),
        "confusion": found.confusion.tolist(),
        "unknown": dict(found.unknown),
    }


def write_predictions(predictions: Sequence["Prediction"], form: str) -> None:
    """A line for each image: CSV that no spreadsheet computes, or JSON objects with the names as they are."""
    header = ("file", "class", "confidence", "out_of_domain")
    rows = [(each.file, each.label, round(each.confidence, 6), each.is_strange) for each in predictions]
    if form == "jsonl":
        for row in rows:
            sys.stdout.write(json.dumps(dict(zip(header, row, strict=True))) + "\n")
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    for file, label, confidence, is_strange in rows:
        writer.writerow((inert(file), inert(label), confidence, str(is_strange).lower()))


def show(*tables: Table) -> None:
    """Tables for people."""
    from rich.console import Console

    from grcl.results.tables import as_rich

    console = Console()
    for table in tables:
        console.print(as_rich(table))


def write_json(value: Mapping[str, Any] | list[Any]) -> None:
    """Values for programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
