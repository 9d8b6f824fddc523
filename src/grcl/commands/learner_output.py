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
    tell(f"verdict: {entry.verdict}: {entry.reason}", *_measured(entry))


def tell_history(entries: Sequence["Entry"]) -> None:
    """A paragraph for each entry, the newest last; it may be long, and a table of it would not fit a terminal."""
    for entry in entries:
        images = f", {entry.data.images:,} images" if entry.data else ""
        tell(f"{entry.number:>3}  {entry.date[:16].replace('T', ' ')}  {entry.deed}{images}")
        notes = [entry.data.note if entry.data else "", entry.note]
        judged = [f"{entry.verdict}{', refused' if entry.is_refused else ''}: {entry.reason}"] if entry.verdict else []
        tell(*(f"     {line}" for line in [*judged, *_measured(entry), *filter(None, notes)]))
    now = entries[-1]
    domains = ", ".join(map(str, now.episodes)) or "no domain"
    tell(f"in force: the model of entry {now.model}; remembered: {domains}")


def _measured(entry: "Entry") -> list[str]:
    """The accuracies of an adapt, where a labelled sample was given."""
    if entry.accuracy is None:
        return []
    before, after = percent(entry.accuracy.before), percent(entry.accuracy.after)
    return [f"right on the labelled sample of {entry.accuracy.images:,} images: {before} % before, {after} % after"]


def tell_evaluation(found: "Evaluation") -> None:
    """How often the learner is right, class by class, and the confusion matrix as far as it is not 0."""
    rows = [
        (name, f"{sum(counts):,}", percent(found.per_class[name]), _mistakes(found.classes, name, counts))
        for name, counts in zip(found.classes, found.confusion.tolist(), strict=True)
        if sum(counts)
    ]
    show(Table(("class", "images", "right (%)", "taken for"), tuple(rows)))
    tell(f"{percent(found.accuracy)} % of {found.images:,} images are right")


def _mistakes(classes: Sequence[str], name: str, counts: Sequence[int]) -> str:
    """What images of a class were taken for, the most frequent first."""
    others = [(-count, other) for other, count in zip(classes, counts, strict=True) if count and other != name]
    return ", ".join(f"{other} {-count:,}" for count, other in sorted(others))


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


def show(table: Table) -> None:
    """A table for people."""
    from rich.console import Console

    from grcl.results.tables import as_rich

    Console().print(as_rich(table))


def write_json(value: Mapping[str, Any] | list[Any]) -> None:
    """Values for programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
