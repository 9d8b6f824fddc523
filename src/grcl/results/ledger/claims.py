"""The paper's claims, and ours, in words, each with its judge."""

from collections.abc import Callable
from typing import NamedTuple

from grcl.results.ledger.contents import CONFIRMED, LETTER
from grcl.results.ledger.evidence import Evidence
from grcl.results.ledger.judges import (
    confirmed_plus_leads,
    confirmed_plus_leads_on_mixed_stages,
    confirmed_plus_leads_with_targets_reversed,
    constraints_against_forgetting,
    constraints_beat_multi_task,
    first_target_is_kept,
    grcl_adapts,
    grcl_leads_on_the_target,
    larger_memory_helps,
    losses_do_not_rise,
    losses_do_not_rise_under_plus,
    memory_against_forgetting,
    more_epochs_help,
    multi_task_sacrifices_the_source,
    no_domain_labels_needed,
    order_of_methods,
    others_forget,
    plus_leads,
    plus_leads_on_mixed_stages,
    plus_leads_with_targets_reversed,
    positive_backward_transfer,
    the_letter_adapts,
)
from grcl.results.ledger.judging import Verdict
from grcl.results.paper import PAPER

OURS = ("mini", *PAPER)


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
        """Whether the claim is made for the benchmark; a setting of ours has only some of the tables."""
        if evidence.benchmark not in self.benchmarks:
            return False
        is_the_papers = not evidence.setting and self.method in ("grcl", LETTER)
        return is_the_papers or any(self.method == entry.line.speaks_for for entry in evidence.entries(self.kind))


CLAIMS = (
    Claim("GRCL is ahead of GRA, GRA of CUA, and CUA of DANN, MCD and DADA in ACC.", order_of_methods),
    Claim("Other methods forget: BWT of DANN, MCD, DADA and CUA is below zero.", others_forget),
    Claim("Methods with a memory (CUA, GRA, GRCL) are ahead of those without in BWT.", memory_against_forgetting),
    Claim("Gradient constraints (GRA, GRCL) keep more than replay (CUA): BWT.", constraints_against_forgetting),
    Claim("The first target loses less with GRCL than with DANN, MCD, DADA, CUA and GRA.", first_target_is_kept),
    Claim(
        "GRCL is ahead of multi-task, the same objective without constraints: ACC, BWT.", constraints_beat_multi_task
    ),
    Claim(
        "Under GRCL no loss rises: source (Eq. 3), memory (Eq. 6), its older episodes (Eq. 5), in any stage.",
        losses_do_not_rise,
    ),
    Claim(
        "Multi-task training sacrifices the source, on one target alone: less than source model, control and GRCL.",
        multi_task_sacrifices_the_source,
        kind="one_target",
    ),
    Claim(
        "On one target alone GRCL is ahead of multi-task, and that of the source model.",
        grcl_leads_on_the_target,
        kind="one_target",
    ),
    Claim("A larger memory helps: ACC.", larger_memory_helps, kind="memory", benchmarks=("digits", "domainnet")),
    Claim("More epochs help: ACC. (The paper says so of 120 to 240.)", more_epochs_help, kind="epochs"),
    Claim("GRCL has positive backward transfer.", positive_backward_transfer, benchmarks=("office_caltech",)),
    Claim(
        "No domain labels are needed: where stages mix domains, GRCL is ahead of control and source model in ACC.",
        no_domain_labels_needed,
        kind="compound",
    ),
    Claim(
        "Our own: GRCL is ahead of its control, the same steps on the source alone, and of the source model.",
        grcl_adapts,
        benchmarks=OURS,
    ),
    Claim("Our own: so is GRCL to the letter.", the_letter_adapts, method=LETTER),
    Claim("Our own: none of these losses rises under GRCL+.", losses_do_not_rise_under_plus, method="grcl_plus"),
    Claim(
        "Our own: GRCL+ is ahead of every other method in ACC.",
        plus_leads,
        method="grcl_plus",
        benchmarks=OURS,
    ),
    Claim(
        "Our own: so is GRCL+ with five parts removed, those that no rehearsal confirms.",
        confirmed_plus_leads,
        method=CONFIRMED,
        benchmarks=OURS,
    ),
    Claim(
        "Our own: GRCL+ is ahead of every other method with the targets reversed in ACC.",
        plus_leads_with_targets_reversed,
        kind="reversed",
        method="grcl_plus",
    ),
    Claim(
        "Our own: so is GRCL+ with five parts removed, with the targets reversed.",
        confirmed_plus_leads_with_targets_reversed,
        kind="reversed",
        method=CONFIRMED,
    ),
    Claim(
        "Our own: GRCL+ is ahead of every other method where stages mix domains in ACC.",
        plus_leads_on_mixed_stages,
        kind="compound",
        method="grcl_plus",
    ),
    Claim(
        "Our own: so is GRCL+ with five parts removed, where stages mix domains.",
        confirmed_plus_leads_on_mixed_stages,
        kind="compound",
        method=CONFIRMED,
    ),
)
