"""The whole ledger at a glance: a line per stream, what its methods reach."""

from collections.abc import Callable, Sequence

from grcl.results.comparison_tables import ACC, BWT, mean_and_deviation
from grcl.results.ledger.ledger_tables import NONE
from grcl.results.ledger.sections import Entry, Section
from grcl.results.tables import Table

STREAMS = ("table1", "reversed", "compound")


def summary_table(sections: Sequence[Section]) -> Table:
    """Source model, the best of the other methods, GRCL, GRCL+ and the ceiling, for every table that has results."""
    rows = [_line(section) for section in sections if section.contents.paper in STREAMS and section.records]
    header = ("table", "source model", "best row of another method", "GRCL", "GRCL+", "its BWT", "ceiling")
    return Table(header, tuple(rows))


def _line(section: Section) -> tuple[str, ...]:
    run = [entry for entry in section.entries if entry.row]
    others = [entry for entry in run if entry.line.method not in ("source_only", "grcl_plus")]
    best = max(others, key=_mean, default=None)
    plus = _first(run, lambda entry: entry.line.speaks_for == "grcl_plus")
    return (
        section.contents.title,
        _acc(_first(run, lambda entry: entry.line.method == "source_only" and not entry.is_ceiling)),
        f"{_acc(best)} ({best.line.name})" if best else NONE,
        _acc(_first(run, lambda entry: entry.line.speaks_for == "grcl")),
        _acc(plus),
        mean_and_deviation(BWT.over_seeds(plus.row), is_change=True) if plus and plus.row else NONE,
        _acc(_first(run, lambda entry: entry.is_ceiling)),
    )


def _first(entries: Sequence[Entry], is_meant: Callable[[Entry], bool]) -> Entry | None:
    return next(filter(is_meant, entries), None)


def _mean(entry: Entry) -> float:
    found = ACC.over_seeds(entry.row) if entry.row else None
    return found.mean if found else 0.0


def _acc(entry: Entry | None) -> str:
    if entry is None or entry.row is None:
        return NONE
    oracle = " (oracle)" if entry.line.oracle else ""
    return mean_and_deviation(ACC.over_seeds(entry.row)) + oracle
