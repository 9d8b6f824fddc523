"""The paper's claims, and ours, judged by the kept results: one small function each, over paired differences."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean
from typing import NamedTuple

from grcl.results.comparison import Row
from grcl.results.comparison_tables import ACC, BWT, Score
from grcl.results.ledger.ledger_tables import interval
from grcl.results.ledger.sections import Entry, Section
from grcl.results.paper import PAPER
from grcl.results.spread import paired_difference
from grcl.results.tables import points

WITH_MEMORY = ("cua", "gra", "grcl")
WITHOUT_MEMORY = ("dann", "mcd", "dada")
OURS = ("mini", *PAPER)

BySeed = dict[int, float]


class Outcome(Enum):
    """What the results say of a claim or of one comparison that it needs; of several the first here decides."""

    CONTRADICTED = "contradicted"
    OPEN = "cannot be told"
    NOT_REPRODUCED = "not reproduced"
    REPRODUCED = "reproduced"


class Part(NamedTuple):
    """One comparison that a claim needs, in words, and what came out of it."""

    text: str
    outcome: Outcome
    is_run: bool = True
    """Whether there are results that it could be judged by."""


@dataclass(frozen=True)
class Verdict:
    """A claim on one benchmark."""

    parts: tuple[Part, ...]

    @property
    def outcome(self) -> Outcome:
        """A comparison that clearly fails contradicts a claim, one without an interval leaves it open, and one that is
        not clear is enough not to reproduce it."""
        found = {part.outcome for part in self.parts}
        return next((outcome for outcome in Outcome if outcome in found), Outcome.OPEN)


@dataclass(frozen=True)
class Evidence:
    """All that is kept of one benchmark with one preset."""

    benchmark: str
    preset: str
    sections: tuple[Section, ...]

    @property
    def name(self) -> str:
        """What it is called on the page."""
        return f"{self.benchmark}, preset {self.preset}" if self.preset else self.benchmark

    @property
    def is_there(self) -> bool:
        """Whether anything has been run."""
        return any(section.records for section in self.sections)

    def entries(self, kind: str) -> list[Entry]:
        """The rows of the tables of a kind, those chosen with target labels left out."""
        found = [section for section in self.sections if section.contents.paper == kind]
        return [entry for section in found for entry in section.entries if not entry.line.oracle]

    def entry(self, method: str, kind: str = "table1") -> Entry | None:
        """The first row of a method: it speaks for the method."""
        return next((entry for entry in self.entries(kind) if entry.line.method == method), None)

    def scores(self, method: str, score: Score, kind: str = "table1") -> BySeed:
        """A measure of a method by seed; nothing if it has not been run."""
        entry = self.entry(method, kind)
        return score.by_seed(entry.row) if entry and entry.row else {}

    def alone(self, method: str, column: int) -> BySeed:
        """In the one-target setting, accuracy on the source (column 0) or the target (1), mean over the targets."""
        entry = self.entry(method, "one_target")
        if entry is None or entry.alone is None:
            return {}
        rows = [
            {run.seed: float(run.matrix.values[1, column]) for run in row.runs} for row in entry.alone.chosen.values()
        ]
        seeds = set.intersection(*(set(row) for row in rows))
        return {seed: fmean(row[seed] for row in rows) for seed in sorted(seeds)}


def order_of_methods(evidence: Evidence) -> Verdict:
    """GRCL > GRA > CUA > each of the others in ACC."""
    pairs = [("grcl", "gra"), ("gra", "cua"), *(("cua", other) for other in WITHOUT_MEMORY)]
    return Verdict(tuple(_ahead(evidence, ACC, *pair) for pair in pairs))


def memory_against_forgetting(evidence: Evidence) -> Verdict:
    """CUA, GRA and GRCL each ahead of DANN, MCD and DADA in BWT."""
    return Verdict(tuple(_ahead(evidence, BWT, a, b) for a in WITH_MEMORY for b in WITHOUT_MEMORY))


def constraints_against_forgetting(evidence: Evidence) -> Verdict:
    """GRA and GRCL each ahead of CUA in BWT."""
    return Verdict(tuple(_ahead(evidence, BWT, method, "cua") for method in ("gra", "grcl")))


def multi_task_sacrifices_the_source(evidence: Evidence) -> Verdict:
    """Alone on one target, multi-task scores less on the source than the source model and than GRCL."""
    scores = {method: evidence.alone(method, 0) for method in ("multi_task", "source_only", "grcl")}
    return Verdict(
        tuple(_above(other, scores[other], "multi_task", scores["multi_task"]) for other in list(scores)[1:])
    )


def grcl_leads_on_the_target(evidence: Evidence) -> Verdict:
    """Alone on one target, GRCL scores more on it than multi-task, and multi-task more than the source model."""
    scores = {method: evidence.alone(method, 1) for method in ("grcl", "multi_task", "source_only")}
    pairs = [("grcl", "multi_task"), ("multi_task", "source_only")]
    return Verdict(tuple(_above(a, scores[a], b, scores[b]) for a, b in pairs))


def larger_memory_helps(evidence: Evidence) -> Verdict:
    """ACC with the largest memory that has seeds to judge by against the smallest."""
    return _ends_of_sweep(evidence.entries("memory"), "memory")


def more_epochs_help(evidence: Evidence) -> Verdict:
    """ACC with the most epochs that have seeds to judge by against the fewest."""
    return _ends_of_sweep(evidence.entries("epochs"), "epochs")


def positive_backward_transfer(evidence: Evidence) -> Verdict:
    """BWT of GRCL above zero."""
    scores = evidence.scores("grcl", BWT)
    return Verdict((_above("BWT of grcl", scores, "zero", dict.fromkeys(scores, 0.0)),))


def no_domain_labels_needed(evidence: Evidence) -> Verdict:
    """Where a stage mixes domains without a word, GRCL still adapts: it is ahead of the control on the same stream."""
    return Verdict((_ahead(evidence, ACC, "grcl", "source_continued", "compound"),))


def ahead_of_the_control(evidence: Evidence) -> Verdict:
    """GRCL ahead of the same steps on source images alone."""
    return Verdict((_ahead(evidence, ACC, "grcl", "source_continued"),))


def plus_leads(evidence: Evidence) -> Verdict:
    """GRCL+ ahead of every other method of the table in ACC."""
    return _plus_leads(evidence, "table1")


def plus_leads_with_targets_reversed(evidence: Evidence) -> Verdict:
    """The same where the targets come in the opposite order."""
    return _plus_leads(evidence, "reversed")


def plus_leads_on_mixed_stages(evidence: Evidence) -> Verdict:
    """The same where a stage mixes domains."""
    return _plus_leads(evidence, "compound")


class Claim(NamedTuple):
    """A claim in words, and how it is judged."""

    text: str
    judge: Callable[[Evidence], Verdict]
    kind: str = "table1"
    """The kind of table that it is judged by."""
    method: str = "grcl"
    """The method that it is about."""
    benchmarks: tuple[str, ...] = tuple(PAPER)
    """Those that it is made for."""

    def concerns(self, evidence: Evidence) -> bool:
        """Whether the claim is made for the benchmark; a preset of ours has only some of the tables."""
        if evidence.benchmark not in self.benchmarks:
            return False
        is_the_papers = not evidence.preset and self.method == "grcl"
        return is_the_papers or evidence.entry(self.method, self.kind) is not None


CLAIMS = (
    Claim("GRCL is ahead of GRA, GRA of CUA, and CUA of DANN, MCD and DADA in ACC.", order_of_methods),
    Claim("Methods with a memory (CUA, GRA, GRCL) are ahead of those without in BWT.", memory_against_forgetting),
    Claim("Gradient constraints (GRA, GRCL) keep more than replay (CUA): BWT.", constraints_against_forgetting),
    Claim(
        "Multi-task training sacrifices the source, on one target alone.",
        multi_task_sacrifices_the_source,
        kind="one_target",
    ),
    Claim(
        "On one target alone GRCL is ahead of multi-task, and that of the source model.",
        grcl_leads_on_the_target,
        kind="one_target",
    ),
    Claim("A larger memory helps: ACC.", larger_memory_helps, kind="memory", benchmarks=("digits", "domainnet")),
    Claim("More epochs help: ACC.", more_epochs_help, kind="epochs"),
    Claim("GRCL has positive backward transfer.", positive_backward_transfer, benchmarks=("office_caltech",)),
    Claim(
        "No domain labels are needed: where stages mix domains, GRCL is ahead of the control on that stream in ACC.",
        no_domain_labels_needed,
        kind="compound",
    ),
    Claim("Our own: GRCL is ahead of the control `source_continued` in ACC.", ahead_of_the_control, benchmarks=OURS),
    Claim(
        "Our own: GRCL+ is ahead of every other method of its table in ACC.",
        plus_leads,
        method="grcl_plus",
        benchmarks=OURS,
    ),
    Claim(
        "Our own: GRCL+ is ahead of every other method with the targets reversed in ACC.",
        plus_leads_with_targets_reversed,
        kind="reversed",
        method="grcl_plus",
    ),
    Claim(
        "Our own: GRCL+ is ahead of every other method where stages mix domains in ACC.",
        plus_leads_on_mixed_stages,
        kind="compound",
        method="grcl_plus",
    ),
)


def all_evidence(sections: Iterable[Section]) -> list[Evidence]:
    """By benchmark and preset, in the order of their tables."""
    grouped: dict[tuple[str, str], list[Section]] = {}
    for section in sections:
        grouped.setdefault((section.contents.benchmark, section.contents.preset), []).append(section)
    return [Evidence(*stream, tuple(found)) for stream, found in grouped.items()]


def _ahead(evidence: Evidence, score: Score, a: str, b: str, kind: str = "table1") -> Part:
    return _above(a, evidence.scores(a, score, kind), b, evidence.scores(b, score, kind))


def _above(a: str, ours: BySeed, b: str, others: BySeed) -> Part:
    """Whether a is above b: clear if the interval of 95 % of the paired difference leaves out zero."""
    if missing := [name for name, scores in ((a, ours), (b, others)) if not scores]:
        return Part(f"{a} − {b}: no results of {' and '.join(missing)}", Outcome.OPEN, is_run=False)
    difference = paired_difference(ours, others)
    if difference is None:
        common = [ours[seed] - others[seed] for seed in ours if seed in others]
        return Part(f"{a} − {b}: {f'{points(common[0])}, one seed' if common else 'no common seed'}", Outcome.OPEN)
    if not difference.is_clear:
        return Part(f"{a} − {b}: {interval(difference)}, not clear", Outcome.NOT_REPRODUCED)
    return Part(
        f"{a} − {b}: {interval(difference)}", Outcome.REPRODUCED if difference.mean > 0 else Outcome.CONTRADICTED
    )


def _plus_leads(evidence: Evidence, kind: str) -> Verdict:
    others = dict.fromkeys(entry.line.method for entry in evidence.entries(kind))
    return Verdict(tuple(_ahead(evidence, ACC, "grcl_plus", other, kind) for other in others if other != "grcl_plus"))


def _ends_of_sweep(entries: Sequence[Entry], what: str) -> Verdict:
    run: dict[int, Row] = {}
    for entry in entries:
        if entry.row and entry.line.value is not None:
            run.setdefault(entry.line.value, entry.row)
    if len(run) < 2:
        text = f"{len(run)} of {len(entries)} values of {what} have results"
        return Verdict((Part(text, Outcome.OPEN, is_run=False),))
    (small, least), *larger = ((value, ACC.by_seed(row)) for value, row in sorted(run.items()))
    judged = [(value, scores) for value, scores in larger if paired_difference(scores, least)]
    large, most = (judged or larger)[-1]
    beyond = [_above(f"{value:,}", scores, f"{small:,}", least).text for value, scores in larger if value > large]
    part = _above(f"{what} {large:,}", most, f"{small:,}", least)
    return Verdict((part._replace(text="; ".join([part.text, *beyond])),))
