"""All result files below a folder, as rows over seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from grcl.results.comparison import Row
from grcl.results.ledger.kept import Kept, read_kept
from grcl.results.run_files import Record
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import differences, flat

Name = tuple[str, str, str]  # benchmark, method, variant

# Settings that may differ within a row: the page tells of them with the machines.
WITHIN_A_ROW = ("seed", "training.threads", "training.device")


class KeptRow(NamedTuple):
    """One method, or one variant of it, over all its seeds."""

    row: Row
    records: tuple[Record, ...]

    @property
    def commands(self) -> list[str]:
        """The commands that make its runs again, the seed left open."""
        return list(dict.fromkeys(_with_open_seed(record) for record in self.records))


@dataclass(frozen=True)
class Shelf:
    """The kept rows by name."""

    rows: dict[Name, KeptRow]

    @classmethod
    def read(cls, results: Path) -> "Shelf":
        """The rows of the result files below `results`; there may be none."""
        grouped: dict[Name, list[Kept]] = {}
        for path in sorted(results.rglob("seed-*.json")):
            kept = read_kept(path, results)
            name = (str(kept.record["benchmark"]), kept.run.method, kept.run.variant)
            grouped.setdefault(name, []).append(kept)
        return cls({name: _row(kept) for name, kept in grouped.items()})

    def of_benchmark(self, benchmark: str) -> Iterator[KeptRow]:
        """The rows of one benchmark."""
        return (kept for (name, _, _), kept in self.rows.items() if name == benchmark)


def _row(listed: Sequence[Kept]) -> KeptRow:
    kept = sorted(listed, key=lambda entry: entry.run.seed)
    first = kept[0].record
    for other in kept[1:]:
        found = differences(first["settings"], other.record["settings"])
        # A setting that one of them does not know came later, and its default is what was before it.
        known = flat(first["settings"]).keys() & flat(other.record["settings"]).keys() - set(WITHIN_A_ROW)
        if wrong := [f"{key} is {found[key][0]} and {found[key][1]}" for key in sorted(found.keys() & known)]:
            name = "/".join(filter(None, (first["benchmark"], first["method"], first["variant"])))
            seeds = f"seeds {first['seed']} and {other.record['seed']}"
            raise Refusal(f"the results of {name} differ in more than the seed ({seeds}: {wrong[0]}); run one again")
    return KeptRow(Row(tuple(entry.run for entry in kept)), tuple(entry.record for entry in kept))


def _with_open_seed(record: Record) -> str:
    return str(record["command"]).removesuffix(f"--seed={record['seed']}") + "--seed=N"
