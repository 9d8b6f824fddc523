"""How the claims are judged by the kept results: one small function each, over paired differences."""

from collections.abc import Callable, Sequence

from grcl.results.comparison import Row
from grcl.results.comparison_tables import ACC, BWT, Score
from grcl.results.ledger.contents import CONFIRMED, LETTER
from grcl.results.ledger.evidence import FIRST, GAIN, Evidence
from grcl.results.ledger.judging import BySeed, Part, Verdict, above, below, positive
from grcl.results.ledger.sections import Entry
from grcl.results.spread import paired_difference

WITH_MEMORY = ("cua", "gra", "grcl")
WITHOUT_MEMORY = ("dann", "mcd", "dada")
BOTH = (("ACC", ACC), ("BWT", BWT))
NO_RISE = 0.01  # nats: below it a loss has not risen, but for the noise of a stage


def order_of_methods(evidence: Evidence) -> Verdict:
    """GRCL > GRA > CUA > each of the others in ACC."""
    pairs = [("grcl", "gra"), ("gra", "cua"), *(("cua", other) for other in WITHOUT_MEMORY)]
    return Verdict(tuple(_ahead(evidence, ACC, *pair) for pair in pairs))


def others_forget(evidence: Evidence) -> Verdict:
    """BWT of DANN, MCD, DADA and CUA below zero."""
    scores = {method: evidence.scores(method, BWT) for method in (*WITHOUT_MEMORY, "cua")}
    return Verdict(tuple(below(f"BWT of {evidence.name_of(method)}", found) for method, found in scores.items()))


def memory_against_forgetting(evidence: Evidence) -> Verdict:
    """CUA, GRA and GRCL each ahead of DANN, MCD and DADA in BWT."""
    return Verdict(tuple(_ahead(evidence, BWT, a, b) for a in WITH_MEMORY for b in WITHOUT_MEMORY))


def constraints_against_forgetting(evidence: Evidence) -> Verdict:
    """GRA and GRCL each ahead of CUA in BWT."""
    return Verdict(tuple(_ahead(evidence, BWT, method, "cua") for method in ("gra", "grcl")))


def first_target_is_kept(evidence: Evidence) -> Verdict:
    """The first target loses less with GRCL, from its own stage to the end, than with any other method of Table 1."""
    return Verdict(tuple(_ahead(evidence, FIRST, "grcl", other) for other in (*WITHOUT_MEMORY, "cua", "gra")))


def constraints_beat_multi_task(evidence: Evidence) -> Verdict:
    """GRCL ahead of the same objective without constraints, in ACC and in BWT."""
    scores = {name: (evidence.scores("grcl", score), evidence.scores("multi_task", score)) for name, score in BOTH}
    grcl, multi_task = evidence.name_of("grcl"), evidence.name_of("multi_task")
    return Verdict(tuple(above(f"{name}: {grcl}", a, multi_task, b) for name, (a, b) in scores.items()))


def losses_do_not_rise(evidence: Evidence) -> Verdict:
    """The losses on source (Eq. 3), memory (Eq. 6) and its older episodes (Eq. 5) rise in no stage by 0.01 or more."""
    return _losses_do_not_rise(evidence, "grcl", LETTER)


def losses_do_not_rise_under_plus(evidence: Evidence) -> Verdict:
    """The same of GRCL+."""
    return _losses_do_not_rise(evidence, "grcl_plus")


def is_older_episode(name: str, stage: int) -> bool:
    """M_k after stage k + 1. In that stage it is new: labels that contradict the classifier give it a loss that falls,
    and would hide what becomes of the others."""
    return name.startswith("M_") and stage > int(name.removeprefix("M_")) + 1


LOSSES: dict[str, Callable[[str, int], bool]] = {
    "the source": lambda name, _: name == "source",
    "the memory": lambda name, _: name == "M",
    "older episodes": is_older_episode,
}


def multi_task_sacrifices_the_source(evidence: Evidence) -> Verdict:
    """Alone on one target, multi-task scores less on the source than source model, control and GRCL."""
    others = ("source_only", "source_continued", LETTER)
    multi_task = evidence.alone("multi_task", 0)
    name = evidence.name_of("multi_task", "one_target")
    return Verdict(
        tuple(
            above(evidence.name_of(other, "one_target"), evidence.alone(other, 0), name, multi_task) for other in others
        )
    )


def grcl_leads_on_the_target(evidence: Evidence) -> Verdict:
    """Alone on one target, GRCL scores more on it than multi-task, and multi-task more than the source model."""
    letter, multi_task, source_model = (
        (evidence.name_of(method, "one_target"), evidence.alone(method, 1))
        for method in (LETTER, "multi_task", "source_only")
    )
    return Verdict((above(*letter, *multi_task), above(*multi_task, *source_model)))


def larger_memory_helps(evidence: Evidence) -> Verdict:
    """ACC with the largest memory that has seeds to judge by against the smallest."""
    return _ends_of_sweep(evidence.entries("memory"), "memory")


def more_epochs_help(evidence: Evidence) -> Verdict:
    """ACC with the most epochs that have seeds to judge by against the fewest."""
    return _ends_of_sweep(evidence.entries("epochs"), "epochs")


def positive_backward_transfer(evidence: Evidence) -> Verdict:
    """BWT of GRCL above zero."""
    return Verdict((positive(f"BWT of {evidence.name_of('grcl')}", evidence.scores("grcl", BWT)),))


def no_domain_labels_needed(evidence: Evidence) -> Verdict:
    """Where a stage mixes domains without a word, GRCL still adapts."""
    return _adapts(evidence, "grcl", "compound")


def grcl_adapts(evidence: Evidence) -> Verdict:
    """GRCL ahead of the same steps on source images alone, and of the source model."""
    return _adapts(evidence, "grcl", "table1")


def the_letter_adapts(evidence: Evidence) -> Verdict:
    """The same of GRCL to the letter."""
    return _adapts(evidence, LETTER, "table1")


def plus_leads(evidence: Evidence) -> Verdict:
    """GRCL+ ahead of every other method of the table in ACC."""
    return _plus_leads(evidence, "table1")


def confirmed_plus_leads(evidence: Evidence) -> Verdict:
    """The same of GRCL+ without the parts that no rehearsal confirms."""
    return _plus_leads(evidence, "table1", CONFIRMED)


def plus_leads_with_targets_reversed(evidence: Evidence) -> Verdict:
    """GRCL+ ahead of every other method where the targets come in the opposite order."""
    return _plus_leads(evidence, "reversed")


def confirmed_plus_leads_with_targets_reversed(evidence: Evidence) -> Verdict:
    """The same without the parts that no rehearsal confirms."""
    return _plus_leads(evidence, "reversed", CONFIRMED)


def plus_leads_on_mixed_stages(evidence: Evidence) -> Verdict:
    """GRCL+ ahead of every other method where a stage mixes domains."""
    return _plus_leads(evidence, "compound")


def confirmed_plus_leads_on_mixed_stages(evidence: Evidence) -> Verdict:
    """The same without the parts that no rehearsal confirms."""
    return _plus_leads(evidence, "compound", CONFIRMED)


def _losses_do_not_rise(evidence: Evidence, *methods: str) -> Verdict:
    rises = {(method, what): evidence.rise_of_loss(method, LOSSES[what]) for method in methods for what in LOSSES}
    return Verdict(
        tuple(
            below(f"{evidence.name_of(method)}, largest rise of the loss on {what}", by_seed, NO_RISE, scale=1.0)
            for (method, what), by_seed in rises.items()
        )
    )


def _ahead(evidence: Evidence, score: Score, a: str, b: str, kind: str = "table1") -> Part:
    ours, others = evidence.scores(a, score, kind), evidence.scores(b, score, kind)
    return above(evidence.name_of(a, kind), ours, evidence.name_of(b, kind), others)


def _adapts(evidence: Evidence, method: str, kind: str) -> Verdict:
    """Ahead of the control, which sees no target, and of the source model."""
    control = _ahead(evidence, ACC, method, "source_continued", kind)
    return Verdict(
        (control, positive(f"{evidence.name_of(method, kind)} − source model", evidence.scores(method, GAIN, kind)))
    )


def _plus_leads(evidence: Evidence, kind: str, name: str = "grcl_plus") -> Verdict:
    """Ahead of every row of another method, also of those with other settings than its first."""
    rows = evidence.entries(kind)
    plus = next(entry for entry in rows if entry.line.speaks_for == name)
    others = [entry for entry in rows if entry.line.method != "grcl_plus" and not entry.is_ceiling]
    parts = (above(plus.line.name, _acc(plus), other.line.name, _acc(other)) for other in others)
    return Verdict(tuple(parts), plus.line.oracle)


def _acc(entry: Entry) -> BySeed:
    return ACC.by_seed(entry.row) if entry.row else {}


def _ends_of_sweep(entries: Sequence[Entry], what: str) -> Verdict:
    run: dict[int, Row] = {}
    for entry in entries:
        if entry.row and entry.line.value is not None and not entry.line.oracle:
            run.setdefault(entry.line.value, entry.row)
    if len(run) < 2:
        text = f"{len(run)} of {len(entries)} values of {what} have results"
        return Verdict((Part(text, is_run=False),))
    (small, least), *larger = ((value, ACC.by_seed(row)) for value, row in sorted(run.items()))
    judged = [(value, scores) for value, scores in larger if paired_difference(scores, least)]
    large, most = (judged or larger)[-1]
    beyond = [above(f"{value:,}", scores, f"{small:,}", least).text for value, scores in larger if value > large]
    part = above(f"{what} {large:,}", most, f"{small:,}", least)
    return Verdict((part._replace(text="; ".join([part.text, *beyond])),))
