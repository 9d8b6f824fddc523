"""The tables of the ledger: ours beside the paper's, accuracies by domain, the first target over the stages."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from grcl.results.comparison import Row
from grcl.results.comparison_tables import ACC, BWT, mean_and_deviation
from grcl.results.ledger.sections import Entry, Section
from grcl.results.paper import PAPER, Figure
from grcl.results.spread import Spread, paired_difference
from grcl.results.tables import Table, interval, percent, signed

NONE = "–"
AGAINST_THE_FIRST = ("compound", "reversed", "none")
NAMES = {"memory": "memory size", "epochs": "epochs of a stage"}


def results_table(section: Section) -> Table:
    """A row per method or variant; columns in which nothing stands are left out."""
    entries, figures = section.entries, [paper_figures(section, entry) for entry in section.entries]
    ours = [_over_seeds(entry) for entry in entries]
    paper = [acc for acc, _ in figures]
    columns = {
        NAMES.get(section.contents.paper, "method"): [_name(entry) for entry in entries],
        "paper: ACC": [_figure(acc) for acc in paper],
        "ACC (%)": [mean_and_deviation(value) if value else NONE for value in ours],
        "gap (points)": [_gap(value, acc) for value, acc in zip(ours, paper, strict=True)],
        "to the first row": _changes(section),
        "paper: BWT": [_figure(bwt, is_change=True) for _, bwt in figures],
        "BWT (points)": [
            mean_and_deviation(BWT.over_seeds(entry.row), True) if entry.row else NONE for entry in entries
        ],
        "status": [status(value, acc) for value, acc in zip(ours, paper, strict=True)],
        "ACC by seed": [_each_seed(entry.row) for entry in entries],
        "steps": [f"{entry.row.mean_total('steps'):,.0f}" if entry.row else NONE for entry in entries],
        "minutes": [_minutes(entry.row) for entry in entries],
    }
    return _table(columns)


def domains_table(section: Section) -> Table:
    """The last row of R, mean over seeds: what adaptation bought on every domain."""
    rows = _comparable(section)
    domains = rows[0][1].matrix.domains if rows else ()
    cells = [(name, *(percent(_final(row, domain)) for domain in domains), str(len(row.runs))) for name, row in rows]
    return Table(("% after the last stage", *domains, "seeds"), tuple(cells))


def first_target_table(section: Section) -> Table:
    """Accuracy on the first target before its stage, after it, and after every later one."""
    listed = _comparable(section)
    rows = [(name, row) for name, row in listed if row.matrix.stages == listed[0][1].matrix.stages]
    labels = rows[0][1].matrix.stage_labels if rows else ()
    cells = [(name, *(percent(_on_first(row, stage)) for stage in range(len(labels)))) for name, row in rows]
    target = "+".join(rows[0][1].matrix.stages[1]) if rows else "the first target"
    return Table((f"% on {target} after stage", *labels), tuple(cells))


def one_target_table(section: Section) -> Table:
    """Accuracy on source and target, averaged over streams of one target each."""
    means = [entry.alone for entry in section.entries]
    columns = {
        "method": [_name(entry) for entry in section.entries],
        "source (%)": [mean_and_deviation(mean.source) if mean else NONE for mean in means],
        "target (%)": [mean_and_deviation(mean.target) if mean else NONE for mean in means],
        "seeds": [str(mean.target.seeds) if mean else NONE for mean in means],
        "status": [_completeness(entry) for entry in section.entries],
    }
    return Table(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def paper_figures(section: Section, entry: Entry) -> tuple[Figure | None, Figure | None]:
    """The paper's ACC and BWT for a row, in percent; none for a stream of another length."""
    contents, line = section.contents, entry.line
    known = PAPER.get(contents.benchmark)
    if known is None or (entry.row and len(entry.row.matrix.domains) != known.domains):
        return None, None
    if contents.paper == "table1":
        return known.methods.get(line.method, (None, None))
    swept = {"memory": known.memory, "epochs": known.epochs}.get(contents.paper, {})
    acc = swept.get(line.value) if line.value is not None else None
    return (None if acc is None else Figure(acc, 0.0)), None


def status(ours: Spread | None, paper: Figure | None) -> str:
    """Reached: not below the paper's ACC by more than its own standard deviation; ours, if large, would excuse much."""
    if ours is None:
        return "not run"
    if paper is None:
        return NONE
    # rounded, so that the border belongs to what is reached
    return "reached" if round(100 * ours.mean - paper.mean + paper.deviation, 6) >= 0 else "not reached"


def _over_seeds(entry: Entry) -> Spread | None:
    return ACC.over_seeds(entry.row) if entry.row else None


def _name(entry: Entry) -> str:
    return entry.line.name if entry.line.value is None or entry.line.label else f"{entry.line.value:,}"


def _figure(value: Figure | None, is_change: bool = False) -> str:
    if value is None:
        return NONE
    mean = signed(value.mean) if is_change else f"{value.mean:.2f}"
    return f"{mean} ± {value.deviation:.2f}" if value.deviation else mean


def _gap(ours: Spread | None, paper: Figure | None) -> str:
    return NONE if ours is None or paper is None else signed(100 * ours.mean - paper.mean)


def _changes(section: Section) -> list[str]:
    """In our own tables and those of compound stages, ACC against that of the first row, paired by seed."""
    first = section.entries[0].row if section.entries else None
    if section.contents.paper not in AGAINST_THE_FIRST or first is None:
        return [NONE] * len(section.entries)
    return [_change(first, entry.row) for entry in section.entries]


def _change(first: Row, row: Row | None) -> str:
    if row is None or row is first:
        return NONE
    ours, its = ACC.by_seed(row), ACC.by_seed(first)
    if difference := paired_difference(ours, its):
        return interval(difference)
    common = [100 * (ours[seed] - its[seed]) for seed in ours if seed in its]
    return signed(common[0]) if common else NONE


def _each_seed(row: Row | None) -> str:
    return ", ".join(f"{seed}: {100 * value:.2f}" for seed, value in ACC.by_seed(row).items()) if row else NONE


def _minutes(row: Row | None) -> str:
    """The median over seeds: a run may stand still for an hour while the machine does other things."""
    return f"{median(run.total('seconds') for run in row.runs) / 60:.1f}" if row else NONE


def _completeness(entry: Entry) -> str:
    if entry.alone:
        return "run"
    return "some targets are missing" if entry.kept else "not run"


def _comparable(section: Section) -> list[tuple[str, Row]]:
    """The rows with results on the same domains as the first."""
    rows = [(entry.line.name, entry.row) for entry in section.entries if entry.row]
    return [(name, row) for name, row in rows if set(row.matrix.domains) == set(rows[0][1].matrix.domains)]


def _final(row: Row, domain: str) -> float:
    return fmean(run.matrix.values[-1, run.matrix.domains.index(domain)] for run in row.runs)


def _on_first(row: Row, stage: int) -> float:
    names = row.matrix.stages[1]
    return fmean(run.matrix.values[stage, run.matrix.domains.index(name)] for run in row.runs for name in names)


def _table(columns: Mapping[str, Sequence[str]]) -> Table:
    kept = {name: cells for name, cells in columns.items() if any(cell != NONE for cell in cells)}
    return Table(tuple(kept), tuple(zip(*kept.values(), strict=True)))
