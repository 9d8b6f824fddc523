"""Which runs a comparison consists of: methods × variants × streams × seeds, all validated before any starts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from grcl.benchmarks import BENCHMARKS
from grcl.config import WITHOUT_EFFECT, RunSettings, known, resolve
from grcl.flags import as_words
from grcl.methods import METHODS
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import RunDirectory, differences, variant_name

# GRCL with one of its parts changed; "to the letter" is the paper without our additions.
ABLATIONS: dict[str, dict[str, Any]] = {
    "to_the_letter": {"grcl.source_weight": 0.0, "grcl.optimizer.momentum": 0.0},
    "no_source_constraint": {"grcl.source_constraint": False},
    "no_memory_constraint": {"grcl.memory_constraint": "off"},
    "no_constraint": {"grcl.source_constraint": False, "grcl.memory_constraint": "off"},
    "constraint_per_domain": {"grcl.memory_constraint": "per_domain"},
    "step_projected": {"grcl.projected": "step"},
    "bank_without_memory": {"grcl.contrast.bank_holds_memory": False},
    "literal_query": {"grcl.contrast.query": "literal"},
    "two_views": {"grcl.contrast.query": "two_views"},
}

# The one-target setting of the paper: these methods, and λ of the multi-task loss from a grid.
ONE_TARGET_METHODS = ("source_only", "multi_task", "grcl")
ONE_TARGET_GRID = {"multi_task.contrast_weight": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]}


@dataclass(frozen=True)
class Design:
    """What is compared; settings in a method's own section concern that method alone."""

    benchmark: str
    methods: Sequence[str]
    seeds: Sequence[int | str] = (0,)
    preset: str | None = None
    common: Mapping[str, Any] = field(default_factory=dict)
    varied: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ablations: Sequence[str] = ()
    one_target: bool = False
    """Every target in a stream of its own."""

    def settings(self, method: str, changes: Mapping[str, Any]) -> RunSettings:
        """The preset with the common settings and these changes on top."""
        # one thread, however many runs go side by side: the number of jobs changes no result
        given = {"training.threads": 1, **self.common, **changes}
        return resolve(self.benchmark, method, {key: given[key] for key in given if concerns(key, method)}, self.preset)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison."""

    name: str
    """Its directory within the comparison's, such as grcl/memory.size=256/seed-0."""
    settings: RunSettings
    preset: str | None

    @property
    def words(self) -> list[str]:
        """The words after `grcl run` that give exactly these settings."""
        wanted, method = self.settings, self.settings.method
        plain = resolve(wanted.benchmark, method, {}, self.preset)
        changes = {key: new for key, (_, new) in sorted(differences(plain.as_json(), wanted.as_json()).items())}
        start = [wanted.benchmark, f"--method={method}", *([f"--preset={self.preset}"] if self.preset else [])]
        return start + as_words(changes)


def plan(design: Design) -> list[PlannedRun]:
    """Every run of the design; seeds come innermost, so that the first runs train different source models."""
    _check(design)
    runs: dict[str, PlannedRun] = {}
    for method in dict.fromkeys(design.methods):
        for run in _runs_of(design, method):
            if runs.setdefault(run.name, run) != run:
                raise Refusal(f"two variants would share the folder {run.name}; rename a domain or vary fewer settings")
    return list(runs.values())


def shared_settings(design: Design) -> dict[str, Any]:
    """What all methods of the design have in common, whatever is varied: comparison.json."""
    method = design.methods[0]
    settings = design.settings(method, {}).as_json()
    return {key: value for key, value in settings.items() if key not in ("method", "seed", method)}


def check_folder(design: Design, runs: Sequence[PlannedRun], folder: Path) -> None:
    """Refuse, before anything starts, a folder whose runs have other settings: they could not be compared."""
    _refuse_differences(folder, "comparison.json", shared_settings(design))
    for run in runs:
        _refuse_differences(folder / run.name, "config.json", run.settings.as_json())


def _refuse_differences(folder: Path, name: str, settings: dict[str, Any]) -> None:
    if not (folder / name).exists():
        return
    found = differences(RunDirectory(folder).read_settings(name), settings)
    listed = [
        f"{key} is {old} there, {new} here"
        for key, (old, new) in sorted(found.items())
        if key not in WITHOUT_EFFECT and not key.startswith("fingerprints.")
    ]
    if listed:
        raise Refusal(
            f"{folder} has other settings ({'; '.join(listed)});"
            " choose another place with --out, or compare both with --vary"
        )


def concerns(key: str, method: str) -> bool:
    """Whether a setting is a common one or the method's own."""
    section = key.partition(".")[0]
    return section not in METHODS or section == method


def _check(design: Design) -> None:
    known(design.benchmark, BENCHMARKS, "benchmark")
    for method in design.methods:
        known(method, METHODS, "method")
    for name in design.ablations:
        known(name, ABLATIONS, "ablation")
    for key in ("benchmark", "method", "seed"):
        if key in design.varied:
            raise Refusal(
                f"{key} cannot be varied with --vary; use {'BENCHMARK' if key == 'benchmark' else f'--{key}s'}"
            )
    given = [*design.common, *design.varied, *(key for name in design.ablations for key in ABLATIONS[name])]
    for key in given:
        if not any(concerns(key, method) for method in design.methods):
            owner = key.partition(".")[0]
            raise Refusal(f"{key} is a setting of {owner}, which is not compared; add {owner} to --methods")


def _runs_of(design: Design, method: str) -> Iterator[PlannedRun]:
    plain = design.settings(method, {})
    for ablation, changes in _variants(design, method):
        for stream in _streams(design.settings(method, changes), design.one_target):
            for seed in design.seeds:
                settings = design.settings(method, {**changes, **stream, "seed": seed})
                changed = differences(plain.as_json(), settings.as_json())
                unnamed = ("seed", *(changes if ablation else ()))
                varied = variant_name({key: new for key, (_, new) in sorted(changed.items()) if key not in unnamed})
                segments = [method, ",".join(filter(None, [ablation, varied])), f"seed-{settings.seed}"]
                yield PlannedRun("/".join(filter(None, segments)), settings, design.preset)


def _variants(design: Design, method: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of an ablation, or none, and the settings that make the variant."""
    every = {**(ONE_TARGET_GRID if design.one_target else {}), **design.varied}
    varied = {key: values for key, values in every.items() if concerns(key, method)}
    for values in product(*varied.values()):
        yield "", dict(zip(varied, values, strict=True))
    for name in design.ablations:
        if all(concerns(key, method) for key in ABLATIONS[name]):
            yield name, ABLATIONS[name]


def _streams(settings: RunSettings, one_target: bool) -> list[dict[str, Any]]:
    if one_target and not settings.targets:
        raise Refusal("--one-target takes a stream apart, and this one has no targets; leave it out")
    return [{"targets": [target]} for target in settings.targets] if one_target else [{}]
