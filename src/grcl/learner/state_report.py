"""The report of a learner: one self-contained HTML page made from the files of its state alone."""

import base64
from collections.abc import Iterator
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor

from grcl.learner.history import Entry
from grcl.learner.state import Facts, StateDirectory
from grcl.learner.vitals import Vitals
from grcl.results.page import render_page, replace_text
from grcl.results.tables import Table, percent
from grcl.runtime.errors import Refusal
from grcl.shapes import UInt8

_SIDE = 64  # pixels of a thumbnail: enough to know an object, few enough for a light page
_MOST_REMEMBERED = 24  # thumbnails of one domain's memory


class Picture(NamedTuple):
    """A thumbnail and the lines below it."""

    png: str
    lines: tuple[str, ...]
    is_changed: bool = False


class Strip(NamedTuple):
    """The pictures of one domain."""

    title: str
    note: str
    pictures: tuple[Picture, ...]


def write_state_report(state: Path, thumbnails: bool = True) -> Path:
    """Write `report.html` into the state, and return its path; without thumbnails it holds no image of anyone's."""
    directory = StateDirectory(state)
    text, path = render(directory, thumbnails), state / "report.html"
    try:
        replace_text(path, text)
    except OSError as error:
        raise Refusal(f"cannot write {path}: {error.strerror}") from None
    return path


def render(directory: StateDirectory, thumbnails: bool) -> str:
    """The page as text; equal files give equal text."""
    facts = directory.facts()
    entries = directory.entries(facts)
    memories = {entry.number: _memory(directory, facts, entry) for entry in entries}
    present = [entry for entry in entries if memories[entry.number]]
    parts: dict[str, Any] = {
        "facts": facts,
        "now": entries[-1],
        "timeline": timeline(entries),
        "vitals": vitals_table(entries),
        "memory": memory_table(facts, present, memories),
        "examples": [_examples(directory, facts, entry) for entry in entries] if thumbnails else [],
        "remembered": [_remembered(facts, entry, memories[entry.number]) for entry in present] if thumbnails else [],
        "thumbnails": thumbnails,
    }
    return render_page("state.html", parts)


def timeline(entries: list[Entry]) -> Table:
    """What happened, from the first day on."""
    rows = [
        (
            str(entry.number),
            entry.date[:16].replace("T", " "),
            entry.deed + (", refused" if entry.is_refused else ""),
            f"{entry.data.images:,}" if entry.data else "–",
            entry.verdict or "–",
            "; ".join(filter(None, [entry.reason, entry.data.note if entry.data else "", entry.note])),
            f"{percent(entry.accuracy.before)} → {percent(entry.accuracy.after)}" if entry.accuracy else "–",
            str(entry.model),
        )
        for entry in entries
    ]
    header = ("entry", "date (UTC)", "what", "images", "verdict", "why", "accuracy (%)", "model in force")
    return Table(header, tuple(rows))


def vitals_table(entries: list[Entry]) -> Table:
    """Every number without labels as its value before and after each adapt."""
    adapts = [entry for entry in entries if entry.before is not None and entry.after is not None]
    rows = [(_title(entry), *(_both_sides(entry, name) for name in Vitals._fields)) for entry in adapts]
    return Table(("adapt", *(name.replace("_", " ") for name in Vitals._fields)), tuple(rows))


def memory_table(facts: Facts, present: list[Entry], memories: dict[int, dict[str, Any]]) -> Table:
    """How many images of each class are kept of each domain."""
    counts = [torch.bincount(memories[entry.number]["labels"], minlength=len(facts.classes)) for entry in present]
    rows = [(name, *(f"{int(count[k]):,}" for count in counts)) for k, name in enumerate(facts.classes)]
    total = ("all", *(f"{int(count.sum()):,}" for count in counts))
    return Table(("class", *map(_title, present)), (*rows, total) if present else ())


def _title(entry: Entry) -> str:
    return f"{entry.number}: {entry.data.name if entry.data else 'nothing'}"


def _both_sides(entry: Entry, name: str) -> str:
    before, after = ((side or {}).get(name) for side in (entry.before, entry.after))
    if before is None:
        return "–" if after is None else f"{after:.3f}"
    return f"{before:.3f} → {'–' if after is None else f'{after:.3f}'}"


def _memory(directory: StateDirectory, facts: Facts, entry: Entry) -> dict[str, Any]:
    """The remembered images of an entry; nothing of a domain that was forgotten or left nothing behind."""
    name = f"memory/{entry.number:04d}.ckpt"
    return dict(zip(("pixels", "labels"), directory.images(facts, name), strict=True)) if name in facts.files else {}


def _examples(directory: StateDirectory, facts: Facts, entry: Entry) -> Strip:
    """Images of a domain with what the model before and the new one say, where there are any."""
    name = f"examples/{entry.number:04d}.ckpt"
    if name not in facts.files:
        return Strip("", "", ())
    kept = directory.load(facts, name)
    with directory.understanding(name):
        return _strip_of_examples(kept, entry)


def _strip_of_examples(kept: dict[str, Any], entry: Entry) -> Strip:
    before, after = (
        [
            f"{name} ({percent(share)} %)"
            for name, share in zip(kept[side]["classes"], kept[side]["confidence"], strict=True)
        ]
        for side in ("before", "after")
    )
    is_changed = [old != new for old, new in zip(kept["before"]["classes"], kept["after"]["classes"], strict=True)]
    pictures = [
        Picture(_png(pixels), (file, old, f"→ {new}"), changed)
        for file, pixels, old, new, changed in zip(
            kept["files"], kept["pixels"], before, after, is_changed, strict=True
        )
    ]
    note = "the new model was refused" if entry.is_refused else ""
    return Strip(_title(entry), note, tuple(pictures))


def _remembered(facts: Facts, entry: Entry, memory: dict[str, Any]) -> Strip:
    """Some of the images that are kept of a domain, of every class in turn, with the label that they were given."""
    labels: Tensor = memory["labels"]
    chosen = list(_in_turn(labels))[:_MOST_REMEMBERED]
    pictures = [Picture(_png(memory["pixels"][place]), (facts.classes[int(labels[place])],)) for place in chosen]
    return Strip(_title(entry), f"{len(chosen)} of {len(labels):,} images", tuple(pictures))


def _in_turn(labels: Tensor) -> Iterator[int]:
    """All places: the first of every class, then the second of every class, and so on."""
    classes = [torch.nonzero(labels == k)[:, 0].tolist() for k in labels.unique()]
    for row in zip_longest(*classes):
        yield from (place for place in row if place is not None)


def _png(pixels: UInt8[Tensor, "3 height width"]) -> str:
    """A thumbnail in the letters that a page can hold."""
    image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    image.thumbnail((_SIDE, _SIDE))
    with BytesIO() as buffer:
        image.save(buffer, format="PNG")
        return base64.b64encode(buffer.getvalue()).decode()
