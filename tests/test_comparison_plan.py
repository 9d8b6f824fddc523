"""The plan of a comparison: which runs there are, how they are called, and what is refused before any starts."""

from typing import Any

import pytest

from grcl.cli import _run_parser
from grcl.comparison_plan import ABLATIONS, Design, PlannedRun, plan, shared_settings
from grcl.config import resolve
from grcl.flags import parse, parse_varied
from grcl.runtime.errors import Refusal
from tiny import PRESET


def design(*methods: str, **facts: Any) -> Design:
    return Design("tiny", methods, **{"preset": PRESET, **facts})


def names(*methods: str, **facts: Any) -> list[str]:
    return [run.name for run in plan(design(*methods, **facts))]


def test_every_method_has_every_seed() -> None:
    expected = ["source_only/seed-0", "source_only/seed-1", "grcl/seed-0", "grcl/seed-1"]
    assert names("source_only", "grcl", "source_only", seeds=["0", "1", "0"]) == expected


def test_variants_are_named_after_what_differs_from_the_common_settings() -> None:
    found = names("grcl", common={"memory.size": "8"}, varied={"memory.size": ["8", "16"]})
    assert found == ["grcl/seed-0", "grcl/memory.size=16/seed-0"]


def test_varied_settings_multiply_and_equal_variants_are_one() -> None:
    varied = {"memory.size": [8, 16], "training.epochs": [1, 1, 2]}
    assert len(names("grcl", varied=varied)) == 4
    assert "grcl/memory.size=8,training.epochs=1/seed-0" in names("grcl", varied=varied)


def test_a_methods_own_settings_concern_it_alone() -> None:
    runs = plan(
        design("source_only", "grcl", common={"grcl.contrast_weight": 2}, varied={"grcl.source_weight": [0, 1]})
    )
    assert [run.name for run in runs] == ["source_only/seed-0", "grcl/grcl.source_weight=0.0/seed-0", "grcl/seed-0"]
    assert runs[1].settings.as_json()["grcl"]["contrast_weight"] == 2.0


def test_ablations_are_variants_with_names() -> None:
    runs = {run.name: run.settings.as_json() for run in plan(design("multi_task", "grcl", ablations=list(ABLATIONS)))}
    assert len(runs) == 2 + len(ABLATIONS)
    assert runs["grcl/to_the_letter/seed-0"]["grcl"]["source_weight"] == 0.0
    assert runs["grcl/to_the_letter/seed-0"]["grcl"]["optimizer"]["momentum"] == 0.0
    different = {str(settings["grcl"]) for name, settings in runs.items() if name.startswith("grcl")}
    assert len(different) == 1 + len(ABLATIONS)


def test_one_target_takes_every_target_alone_and_a_grid_of_weights() -> None:
    found = names("source_only", "multi_task", one_target=True)
    assert found[:2] == ["source_only/targets=dark/seed-0", "source_only/targets=noisy/seed-0"]
    assert "multi_task/multi_task.contrast_weight=0.01,targets=noisy/seed-0" in found
    assert "multi_task/targets=dark/seed-0" in found
    assert len(found) == 2 + 2 * 6


def test_one_target_can_vary_other_things_too() -> None:
    found = names("multi_task", one_target=True, varied={"multi_task.contrast_weight": [1], "memory.size": [8]})
    assert found == ["multi_task/memory.size=8,targets=dark/seed-0", "multi_task/memory.size=8,targets=noisy/seed-0"]


def test_a_rehearsal_has_no_targets_to_take_one_by_one() -> None:
    assert names("grcl", common={"rehearse": "true"}) == ["grcl/seed-0"]
    with pytest.raises(Refusal, match="this one has no targets; leave it out"):
        names("grcl", one_target=True, common={"rehearse": "true"})


def test_the_number_of_threads_is_one_unless_given() -> None:
    assert [run.settings.training.threads for run in plan(design("grcl"))] == [1]
    assert [run.settings.training.threads for run in plan(design("grcl", common={"training.threads": "2"}))] == [2]


def again(run: PlannedRun) -> Any:
    """The settings that the words of a run give on the command line."""
    preset = resolve(run.settings.benchmark, run.settings.method, {}, run.preset)
    given, overrides = parse(_run_parser(preset), run.words, type(preset))
    return resolve(given.benchmark, given.method, overrides, given.preset)


def test_the_words_of_a_run_give_exactly_its_settings() -> None:
    varied = {"grcl.optimizer.rate": [1e-7, 0.1 + 0.2], "targets": [["noisy"], ["dark+noisy"], ["noisy", "dark"]]}
    common = {"memory.selection": "diverse", "stage0.augment_source": True, "source": "white", "training.device": "cpu"}
    runs = plan(design("grcl", "multi_task", seeds=[3], common=common, varied=varied, ablations=list(ABLATIONS)))
    assert len(runs) > 10
    runs += plan(design("source_only", common={"source": "white+dark+noisy"}))
    for run in runs:
        assert again(run) == run.settings


def test_what_all_methods_share_depends_on_no_method() -> None:
    a, b = (shared_settings(design(*order)) for order in (("grcl", "source_only"), ("source_only", "grcl")))
    assert a == b
    assert "grcl" not in a


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"methods": ("gcrl",)}, "did you mean grcl?"),
        ({"seeds": ["-1"]}, "seed = '-1'"),
        ({"common": {"training.epoch": 1}}, "did you mean training.epochs?"),
        ({"common": {"dann.optimizer.rate": 1}}, "add dann to --methods"),
        ({"varied": {"memory.sizes": [1]}}, "did you mean memory.size?"),
        ({"varied": {"mcd.rate": [1]}}, "add mcd to --methods"),
        ({"varied": {"seed": [1]}}, "use --seeds"),
        ({"varied": {"method": ["grcl"]}}, "use --methods"),
        ({"varied": {"memory.size": ["many"]}}, "memory.size = 'many'"),
        ({"varied": {"targets": [["drak"]]}}, "did you mean dark?"),
        ({"methods": ("source_only",), "ablations": ["two_views"]}, "add grcl to --methods"),
        ({"ablations": ["two_view"]}, "did you mean two_views?"),
        ({"benchmark": "tinny"}, "did you mean tiny?"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(facts: dict[str, Any], expected: str) -> None:
    with pytest.raises(Refusal) as refusal:
        plan(Design(**{"benchmark": "tiny", "methods": ("grcl",), "preset": PRESET, **facts}))
    assert expected in str(refusal.value)


def test_variants_that_would_share_a_folder_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grcl.comparison_plan.variant_name", lambda changes: "same")
    with pytest.raises(Refusal, match="would share the folder grcl/same/seed-0"):
        plan(design("grcl", varied={"memory.size": [8, 16]}))


def test_varied_settings_are_parsed() -> None:
    assert parse_varied(["memory.size=8, 16", "grcl.source-weight=0"]) == {
        "memory.size": ["8", "16"],
        "grcl.source_weight": ["0"],
    }
    assert parse_varied(["targets=a b,b a"]) == {"targets": [["a", "b"], ["b", "a"]]}
