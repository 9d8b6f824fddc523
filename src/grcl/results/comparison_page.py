"""A comparison as files: comparison.html, table.md, table.tex and table.csv, made from the runs' own files alone."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from grcl.results import comparison_tables
from grcl.results.comparison import Comparison, Group
from grcl.results.comparison_tables import ACC, BWT, differences_table, further_table, main_table
from grcl.results.figure_kinds import plates
from grcl.results.latex import as_latex, escaped
from grcl.results.one_target import one_target, weights_table
from grcl.results.page import render_page, replace_text
from grcl.results.run_tables import flattened
from grcl.results.spreadsheet import as_csv
from grcl.results.tables import Measure, as_markdown, escaped_markdown
from grcl.runtime.visible import visible

NOTE = (
    "Mean ± sample standard deviation over seeds; the best in bold. Time is that of the training of all target stages,"
    " memory the most that a run held."
)
DIFFERENCES_NOTE = (
    "Row minus column, paired by seed, in percentage points: the mean and, in brackets, its 95% interval by Student's"
    " t. Bold: the interval leaves out zero. Nothing is corrected for the number of pairs."
)


def write_comparison(folder: Path) -> Comparison:
    """Write the page and the tables of the runs below `folder` into it."""
    comparison = Comparison.read(folder)
    texts = {
        "comparison.html": render(comparison),
        "table.md": as_text(comparison),
        "table.tex": as_tex(comparison),
        "table.csv": as_csv(comparison),
    }
    for name, text in texts.items():
        replace_text(folder / name, text)
    return comparison


def render(comparison: Comparison) -> str:
    """The page as text; equal files give equal text."""
    parts: dict[str, Any] = {
        "comparison": comparison,
        "title": title(comparison),
        "headline": _headline(comparison.main),
        "result_plates": plates(comparison, "bars", "first-target"),
        "one_target_plates": plates(comparison, "one-target"),
        "weights": weights_table(one_target(comparison)),
        "ablation_plates": plates(comparison, "memory", "epochs"),
        "conflict_plates": plates(comparison, "conflict"),
        "tables": comparison_tables,
        "note": NOTE,
        "heading": heading,
        "data_note": data_note,
        "differences_note": differences_note,
        "reports": _reports(comparison),
        "settings": _shared_settings(comparison),
    }
    return render_page("comparison.html", parts)


def as_text(comparison: Comparison) -> str:
    """The tables in Markdown."""
    parts = [f"# {escaped_markdown(title(comparison))}"]
    for group in comparison.groups:
        parts += [f"## {escaped_markdown(heading(group))}", as_markdown(main_table(group)), NOTE]
        parts += [f"{escaped_markdown(data_note(group))}."] if group.notes else []
        parts += _further(group) if group is comparison.main else []
    weights = weights_table(one_target(comparison))
    if weights.rows:
        parts += ["## Weights chosen without labels", as_markdown(weights)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _further(group: Group) -> list[str]:
    differences = [table for score in (ACC, BWT) if (table := differences_table(group, score)).rows]
    glossary = "\n".join(f"- {name}: {meaning}" for name, meaning in comparison_tables.meanings())
    return [
        "### Paired differences",
        differences_note(group),
        *map(as_markdown, differences),
        "### Further measures",
        as_markdown(further_table(group)),
        glossary,
    ]


def as_tex(comparison: Comparison) -> str:
    """The main tables in LaTeX, which needs the package booktabs."""
    heads = [filter(None, (heading(group), data_note(group))) for group in comparison.groups]
    notes = ["\n".join(f"% {visible(line)}" for line in lines) for lines in heads]
    tables = [as_latex(main_table(group)) for group in comparison.groups]
    parts = [f"{note}\n{table}" for note, table in zip(notes, tables, strict=True)]
    return f"% {escaped(title(comparison))}; needs \\usepackage{{booktabs}}\n" + "\n".join(parts)


def title(comparison: Comparison) -> str:
    """What is compared, in words."""
    benchmarks = list(dict.fromkeys(group.benchmark for group in comparison.groups))
    return f"Methods compared on {' and '.join(benchmarks)}" if benchmarks else "No finished run yet"


def heading(group: Group) -> str:
    """Which rows can be compared: those on the same domains."""
    return f"{group.benchmark}: {' → '.join(group.domains)}"


def data_note(group: Group) -> str:
    """What must be known of the images, such as that a domain is re-created."""
    return "; ".join(f"{domain}: {note}" for domain, note in group.notes.items())


def _headline(group: Group | None) -> list[Measure]:
    """The best rows, and how many seeds stand behind them."""
    if group is None:
        return []
    table, measures = main_table(group), []
    for score in (ACC, BWT):
        column = table.header.index(score.name)
        best = [row for row, place in sorted(table.best) if place == column]
        if best:
            labels = " and ".join(group.rows[row].label for row in best)
            measures.append(Measure(f"Best {score.name}", table.rows[best[0]][column], labels))
    runs = sum(len(row.runs) for row in group.rows)
    return [*measures, Measure("Seeds", str(len(group.seeds)), f"{runs} finished runs")]


def differences_note(group: Group) -> str:
    """What the differences are, and over how many seeds."""
    counts = [len(row.runs) for row in group.rows]
    if max(counts, default=0) < 2:
        return "None: an interval needs two seeds or more."
    few, many = min(count for count in counts if count > 1), max(counts)
    return f"{DIFFERENCES_NOTE} Over {many if few == many else f'{few} to {many}'} seeds."


def _reports(comparison: Comparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """Per row, the seeds and where their own reports are."""
    return [
        (row.label, [(str(run.seed), _link(run.files.directory, comparison.folder)) for run in row.runs])
        for row in comparison.rows
    ]


def _link(directory: Path, folder: Path) -> str:
    return quote(f"./{(directory / 'report.html').relative_to(folder).as_posix()}")


def _shared_settings(comparison: Comparison) -> list[tuple[str, str]]:
    """The settings that all runs have in common."""
    configs = [dict(flattened(run.files.config)) for row in comparison.rows for run in row.runs]
    if not configs:
        return []
    return [(key, value) for key, value in configs[0].items() if all(each.get(key) == value for each in configs)]
