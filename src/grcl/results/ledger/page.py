"""The ledger as a page of Markdown, made from the result files and ledger.toml alone."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from grcl.results.comparison_tables import ACC, BWT, mean_and_deviation
from grcl.results.ledger.claims import CLAIMS, Claim
from grcl.results.ledger.contents import SWEPT, command_of, read_ledger
from grcl.results.ledger.evidence import Evidence, all_evidence
from grcl.results.ledger.ledger_tables import domains_table, first_target_table, one_target_table, results_table
from grcl.results.ledger.provenance import provenance
from grcl.results.ledger.sections import Entry, Section, sections, unlisted
from grcl.results.ledger.shelf import KeptRow, Shelf
from grcl.results.ledger.summary import summary_table
from grcl.results.one_target import weights_table
from grcl.results.tables import Table, as_markdown, escaped_markdown
from grcl.runtime.visible import visible

INTRODUCTION = """\
# Results: the ledger

Made by `grcl ledger write` from the result files in `results/` and from `results/ledger.toml`; every number of ours is
computed from these files, and the paper's are its own (arXiv 2007.12942). Not to be edited by hand.

- *ACC* is the mean accuracy over all domains after the last stage, in percent; *BWT* the mean change of a target since
  its own stage, in points. What is never learned cannot be lost: a method that gains nothing on a target has a BWT near
  zero, so read it beside ACC. Means and standard deviations go over seeds. *n/a* is the BWT of what takes no step or
  has one stage, *–* what the paper has no number for.
- *Source continued*, the control, takes as many steps as GRCL on the source alone; what a method gains over it is of
  the targets. *Agreement* is how often k-means and the classifier name an image alike; it needs no true label.
- *GRCL* learns the source along and steps with momentum, of which the paper's text says nothing; *GRCL to the letter*
  does neither ([paper.md](paper.md)). Both have rows, and verdicts where it matters.
- *Gap* is ours minus the paper's. *Reached* means not below the paper's ACC by more than its own standard deviation; it
  tells nothing where the network or the epochs are others, as the notes say.
- Intervals are Student's t over the differences by seed, 95 %. A difference is clear if its interval leaves out zero.
- A claim is *reproduced* if every comparison that it needs is clear, *contradicted* if one of them is clearly the
  other way round even among as many (Bonferroni; one that is so by itself is marked), and *not reproduced* if all were
  run and one is not clear: with three seeds and wide intervals that is no proof of the contrary. It *cannot be told*
  without results of two seeds. The comparisons name the row that speaks for a method, the first of its table: with
  `digits_tuned` the *searched* one. A verdict on a row that was chosen with labels of its targets says *(oracle)*.
- Nearly all rows have 10 epochs a stage where the paper has 240; the verdicts too, unless a number says otherwise.
- That a loss does not rise means in no stage by 0.01 nats or more, before the stage against after it; an episode is
  older from its second stage on.
- *Five parts removed* is GRCL+ without those that were chosen on other streams with their labels in view, and that no
  trial on shifted copies of the source confirms: [grcl_plus.md](grcl_plus.md).
- *Steps* and *minutes* are those of all target stages of one run, without stage 0; the minutes are a median over seeds.
- In a command `DIR` is the folder of the benchmark's images and `N` the seed. The same command gives the same
  accuracies on an equal environment. A row marked *oracle* was chosen with labels of its targets; what was first
  noticed there, and then chosen on other streams, its table tells.
"""

MISSING = """\
**Nothing has been run yet.** The rows below name what is missing, each with its command. Results are added by

    grcl compare digits --data DIR --methods source_only grcl --seeds 0 1 2 --jobs 2 --out FOLDER
    grcl ledger keep FOLDER
    grcl ledger write
"""


def ledger_page(results: Path) -> str:
    """The whole page."""
    shelf = Shelf.read(results)
    made = sections(read_ledger(results), shelf)
    parts = [INTRODUCTION, _summary(made) if shelf.rows else MISSING, _verdicts(made)]
    parts += [_section(section) for section in made]
    parts.append(_others(unlisted(made, shelf)))
    return "\n".join(filter(None, parts))


def _summary(made: Sequence[Section]) -> str:
    return f"## At a glance\n\nACC in percent, BWT in points.\n\n{as_markdown(summary_table(made))}"


def _verdicts(made: Sequence[Section]) -> str:
    """Every claim with its verdict on every benchmark that it is made for: a table, and the comparisons behind it."""
    streams = all_evidence(made)
    missing = [escaped_markdown(evidence.name) for evidence in streams if not evidence.is_there]
    told = [evidence for evidence in streams if evidence.is_there]
    lines = ["## The claims\n"]
    lines += [f"Nothing has been run on {', '.join(missing)}: there they cannot be told.\n"] if missing else []
    lines += [as_markdown(_outcomes(told)), "### The comparisons behind them\n"] if told else []
    for claim in CLAIMS:
        concerned = [evidence for evidence in streams if claim.concerns(evidence)]
        judged = [_verdict(claim, evidence) for evidence in concerned if evidence.is_there]
        untold = ", ".join(escaped_markdown(evidence.name) for evidence in concerned)
        lines += [f"{claim.text}\n", *(judged or [f"- {untold}: **cannot be told**: nothing has been run there."]), ""]
    return "\n".join(lines)


def _outcomes(streams: Sequence[Evidence]) -> Table:
    """A row for every claim, a column for every benchmark."""
    rows = [(claim.text, *(_outcome(claim, evidence) for evidence in streams)) for claim in CLAIMS]
    return Table(("claim", *(evidence.name for evidence in streams)), tuple(rows))


def _outcome(claim: Claim, evidence: Evidence) -> str:
    return claim.judge(evidence).text if claim.concerns(evidence) else "–"


def _verdict(claim: Claim, evidence: Evidence) -> str:
    verdict = claim.judge(evidence)
    told = [part.text for part in verdict.parts if part.is_run]
    left = len(verdict.parts) - len(told)
    told += [f"{left} of {len(verdict.parts)} comparisons not run"] if left else []
    return f"- {escaped_markdown(evidence.name)}: **{verdict.text}**: {escaped_markdown('; '.join(told))}."


def _section(section: Section) -> str:
    """One table with its notes, the tables that go with it, and how each row was chosen and made."""
    contents = section.contents
    reason = "" if section.records or not contents.why_not_run else f"Not run: {contents.why_not_run}"
    parts = [f"## {contents.title}\n", _paragraph(contents.notes), _paragraph(reason)]
    parts += map(as_markdown, _tables(section))
    chosen = f"How the settings were chosen, where a row does not say otherwise: {contents.chosen}"
    parts += [_paragraph(provenance(section.records)), _paragraph(chosen if contents.chosen else "")]
    parts.append("\n".join(_lines(section)) + "\n")
    return "\n".join(filter(None, parts))


def _tables(section: Section) -> Iterator[Table]:
    if section.is_one_target:
        yield one_target_table(section)
        yield from _if_filled(weights_table([entry.alone for entry in section.entries if entry.alone]))
        return
    yield results_table(section)
    if section.contents.paper not in SWEPT:
        yield from _if_filled(domains_table(section))
    if section.contents.paper == "table1":
        yield from _if_filled(first_target_table(section))


def _lines(section: Section) -> Iterator[str]:
    """How every row was chosen, why it was not run, and the command that makes it."""
    for entry in section.entries:
        line = entry.line
        reason = f"Not run: {line.why_not_run}" if line.why_not_run and not entry.kept else ""
        said = " ".join(f"{line.chosen} {reason}".split())
        yield f"- {escaped_markdown(line.name)}: {said}".rstrip()
        yield from (f"  {_code(command)}" for command in _commands(section, entry))


def _commands(section: Section, entry: Entry) -> list[str]:
    """Those of its kept runs; in the one-target setting, of the runs that its means are made of."""
    rows = [entry.row] if entry.row and not section.is_one_target else []
    rows += list(entry.alone.chosen.values()) if entry.alone else []
    kept = [kept for kept in entry.kept if any(kept.row is row for row in rows)]
    found = [command for each in kept for command in each.commands]
    return found or [command_of(section.contents.benchmark, entry.line, section.is_one_target)]


def _others(rows: Sequence[KeptRow]) -> str:
    """What is kept and stands in no table: nothing is hidden."""
    if not rows:
        return ""
    cells = [
        (
            str(kept.records[0]["benchmark"]),
            kept.row.label,
            str(len(kept.records)),
            mean_and_deviation(ACC.over_seeds(kept.row)),
            mean_and_deviation(BWT.over_seeds(kept.row), is_change=True),
        )
        for kept in rows
    ]
    table = Table(("benchmark", "row", "seeds", ACC.name, BWT.name), tuple(cells))
    return f"## Kept, and in no table above\n\n{as_markdown(table)}"


def _if_filled(table: Table) -> list[Table]:
    return [table] if table.rows else []


def _paragraph(text: str) -> str:
    return f"{text.strip()}\n" if text.strip() else ""


def _code(text: str) -> str:
    """A span of code that nothing in the text can end."""
    shown = visible(text)
    fence = "`" * (1 + max(map(len, re.findall(r"`+", shown)), default=0))
    return f"{fence}{shown}{fence}" if len(fence) == 1 else f"{fence} {shown} {fence}"
