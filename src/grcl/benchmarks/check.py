"""`grcl data check`: how many images there are of each class, and what is wrong with them.

Nothing found ends the search: a domain that is missing or damaged is a finding among the others.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from grcl.benchmarks import BENCHMARKS, Benchmark, domainnet, office_caltech
from grcl.benchmarks.file_list import FileList
from grcl.benchmarks.findings import DomainFindings, Findings
from grcl.data.catalogue import catalogue
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.runtime.errors import Failure, Refusal

CHUNK = 1024


class FileBenchmark(Protocol):
    """A benchmark whose images are files: what is found in the folder, and what is expected there."""

    def files(self, name: str, data: Path | None) -> FileList: ...

    def layout(self, name: str) -> str: ...


FILE_BENCHMARKS: dict[str, FileBenchmark] = {"office_caltech": office_caltech, "domainnet": domainnet}


def check(benchmark: str, data: Path | None, reading: Reading) -> Findings:
    """Look at every domain of a benchmark."""
    if benchmark not in BENCHMARKS:
        raise Refusal(f"unknown benchmark {benchmark!r}; there are: {', '.join(BENCHMARKS)}")
    chosen = BENCHMARKS[benchmark]
    return Findings(benchmark, tuple(_look(chosen, name, data, reading) for name in chosen.order()))


def _look(benchmark: Benchmark, name: str, data: Path | None, reading: Reading) -> DomainFindings:
    try:
        if source := FILE_BENCHMARKS.get(benchmark.name):
            return _look_at_files(name, source.files(name, data), source.layout(name), benchmark.classes(), reading)
        return _look_at_pool(name, benchmark.pool(name, data, reading), benchmark.classes())
    except (Refusal, Failure, OSError) as error:
        return DomainFindings(name, problem=str(error))


def _look_at_files(name: str, found: FileList, layout: str, classes: Sequence[str], reading: Reading) -> DomainFindings:
    """Open every file once."""
    labels = dict(found.files)
    entries = catalogue(found.root, list(labels), reading.workers)
    sound = [entry for entry in entries if not entry.problem]
    return DomainFindings(
        name,
        {"all": _count(classes, [labels[entry.name] for entry in sound])},
        found.missing,
        tuple(entry.name for entry in entries if entry.size == 0),
        {entry.name: entry.problem for entry in entries if entry.problem and entry.size},
        _groups((entry.digest, entry.name) for entry in sound),
        expected=layout,
    )


def _look_at_pool(name: str, pool: Pool, classes: Sequence[str]) -> DomainFindings:
    """Compare all images as they are read."""
    digests = _digests(pool)
    sides = {"all": torch.arange(len(pool.labels))}
    if pool.sides is not None:
        sides = dict(zip(("train", "test"), pool.sides, strict=True))
    places = [(digests[place], f"{side} {place}") for side, chosen in sides.items() for place in chosen.tolist()]
    groups = _groups(places)
    across = sum(len({place.split()[0] for place in group}) > 1 for group in groups)
    counts = {side: _count(classes, pool.labels[chosen].tolist()) for side, chosen in sides.items()}
    return DomainFindings(name, counts, duplicates=groups, across=across, note=pool.note)


def _digests(pool: Pool) -> list[bytes]:
    chunks = (pool.images.read(places) for places in torch.arange(len(pool.labels)).split(CHUNK))
    return [hashlib.sha256(image.numpy().tobytes()).digest() for chunk in chunks for image in chunk]


def _count(classes: Sequence[str], labels: Iterable[int]) -> dict[str, int]:
    counts = Counter(labels)
    return {name: counts[label] for label, name in enumerate(classes)}


def _groups(images: Iterable[tuple[Any, str]]) -> tuple[tuple[str, ...], ...]:
    """The names of the images that share a digest with another."""
    names: dict[Any, list[str]] = defaultdict(list)
    for digest, name in images:
        names[digest].append(name)
    return tuple(tuple(group) for group in names.values() if len(group) > 1)
