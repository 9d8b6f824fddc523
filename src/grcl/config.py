"""Run settings: typed, frozen, validated before any work is done. This record is the only place where a setting has a
name, a type, a bound, a default and a sentence; command line, TOML presets and config.json are views of it."""

import difflib
import sys
import types
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError, create_model
from pydantic.fields import FieldInfo

from grcl.benchmarks import BENCHMARKS
from grcl.data.augment import Augmentation
from grcl.data.reading import Reading
from grcl.data.split import Split
from grcl.memory.episodic import Memory
from grcl.methods import METHODS
from grcl.methods.supervised import Supervised
from grcl.networks import Network, require_known
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import differences, flat, nested
from grcl.runtime.settings import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Settings that change neither the result nor what it is called.
WITHOUT_EFFECT = ("data", "images.cache", "images.workers", "training.log_every", "training.checkpoint_seconds")


class Training(Settings):
    """How every target stage is trained, whatever the method."""

    epochs: PositiveInt = 240
    """Passes per stage; for the contrastive methods over the source, the memory and the target together."""
    batch_size: PositiveInt = 256
    """Images per batch and feed, over all processes; clamped to the domain."""
    micro_batch: PositiveInt | None = None
    """Images of a pass at most, where a batch does not fit into the memory of a GPU; for grcl, grcl_plus and
    multi_task, whose gradients add up."""
    threads: PositiveInt = 2
    """CPU threads; another number changes the order of sums and so the last bits of a result."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute; auto takes a GPU if there is one."""
    log_every: PositiveInt = 10
    """Steps between two lines of the log."""
    checkpoint_seconds: NonNegativeFloat = 60.0
    """Seconds between two checkpoints within a stage."""


class Stage0(Supervised.Config):
    """How the source model is trained, once for all methods of a seed."""

    epochs: PositiveInt = 40
    """Passes over the source."""
    batch_size: PositiveInt = 128
    """Images per batch."""


class LearnerSettings(Settings):
    """How a network is trained and adapted, whatever the images."""

    method: str = "grcl"
    """The method."""
    seed: NonNegativeInt = 0
    """Seed of all draws of the training; data and splits have their own."""
    training: Training = Training()
    stage0: Stage0 = Stage0()
    memory: Memory = Memory()
    network: Network = Network()
    augmentation: Augmentation = Augmentation()
    images: Reading = Reading()

    @property
    def own(self) -> Settings:
        """The method's own section."""
        section: Settings = getattr(self, self.method)
        return section

    def as_json(self) -> dict[str, Any]:
        """The settings as plain values, as config.json holds them."""
        return self.model_dump(mode="json")


class RunSettings(LearnerSettings):
    """One continual run on a benchmark."""

    benchmark: str = "mini"
    """The benchmark."""
    data: Path | None = None
    """Folder that holds the benchmark's data; mini needs none."""
    source: str = ""
    """The labelled domain; the benchmark's first if none is named. a+b takes two, and all of them the ceiling of what
    adaptation can reach."""
    targets: tuple[str, ...] = ()
    """The unlabelled domains in their order; a+b mixes two in one stage."""
    rehearse: bool = False
    """Rehearse on the source alone: two fifths of its training images are the source, two fifths, under known shifts,
    every target, and the rest tests; so accuracies tell settings apart without a label of a target."""
    split: Split = Split()


Record = TypeVar("Record", bound=LearnerSettings)


class Flag(NamedTuple):
    """One setting as a flag of the command line."""

    key: str
    field: FieldInfo
    default: Any


def settings_class(method: str) -> type[RunSettings]:
    """The record of a run with this method: the common settings, and the method's own in a section of its name."""
    return _with_section(RunSettings, method)


def learner_settings_class(method: str) -> type[LearnerSettings]:
    """The record of a learner with this method."""
    return _with_section(LearnerSettings, method)


def _with_section(base: type[Record], method: str) -> type[Record]:
    return _record(base, method, METHODS[known(method, METHODS, "method")].Config)


@cache
def _record(base: type[Record], method: str, section: type[Settings]) -> type[Record]:
    return create_model(base.__name__, __base__=base, **{method: (section, section())})  # type: ignore[call-overload, no-any-return]


def resolve(benchmark: str, method: str, overrides: Mapping[str, Any], preset: str | None = None) -> RunSettings:
    """The preset of the benchmark, with `overrides` such as {"memory.size": 256} on top, validated."""
    record = settings_class(method)
    known(benchmark, BENCHMARKS, "benchmark")
    values = _values(record, method, read_preset(preset or benchmark), overrides)
    settings = _validated(record, values | {"benchmark": benchmark, **_stream(benchmark, values)})
    if not settings.rehearse:
        return settings
    if overrides.get("targets"):
        raise Refusal("a rehearsal makes its targets of the source; leave out targets, or rehearse")
    return settings.model_copy(update={"targets": ()})


def resolve_learner(method: str, overrides: Mapping[str, Any], preset: Mapping[str, Any]) -> LearnerSettings:
    """A learner's settings: those of `preset`, nested as in a TOML file, with `overrides` on top, validated.

    What a preset says of a benchmark's domains and its split is passed over.
    """
    record = learner_settings_class(method)
    of_a_run = RunSettings.model_fields.keys() - LearnerSettings.model_fields.keys()
    preset = {key: value for key, value in preset.items() if key not in of_a_run}
    return _validated(record, _values(record, method, preset, overrides))


def _values(
    record: type[LearnerSettings], method: str, preset: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """All settings by key; the sections of other methods, which a preset may have, are passed over."""
    chosen = {key: value for key, value in preset.items() if key not in METHODS or key == method}
    settings = {flag.key: flag for flag in flags(record)}
    values = {key: flag.default for key, flag in settings.items()}
    for key, value in {**flat(chosen), **overrides}.items():
        if key not in values or key in ("benchmark", "method"):
            raise Refusal(unknown_key(record, key))
        values[key] = None if _is_none(value, settings[key].field) else value
    return values | {"method": method}


def _is_none(value: Any, entry: FieldInfo) -> bool:
    """Whether a word, from the command line or a TOML file, says that an optional setting has no value."""
    return type(None) in get_args(entry.annotation) and isinstance(value, str) and value.lower() == "none"


def _validated(record: type[Record], values: dict[str, Any]) -> Record:
    try:
        settings = record.model_validate(nested(values))
    except ValidationError as error:
        raise Refusal(_sentence(error)) from None
    require_known(settings.network.name)
    return settings


def variant(settings: RunSettings, preset: str | None = None) -> dict[str, Any]:
    """The settings in which a run differs from its preset: what its directory is named after."""
    plain = resolve(settings.benchmark, settings.method, {}, preset)
    unnamed = ("seed", "training.device", "training.threads", *WITHOUT_EFFECT)
    changed = differences(plain.as_json(), settings.as_json())
    return {key: new for key, (_, new) in sorted(changed.items()) if key not in unnamed}


def read_preset(name: str, within: tuple[str, ...] = ()) -> dict[str, Any]:
    """A preset of the package by name, or a TOML file by path. One that is `made_of` others has all that these say: a
    later one overrules an earlier one, and its own words overrule all."""
    if name in within:
        raise Refusal(f"preset {name} is made of itself; take it out of the made_of of {within[-1]}")
    preset = _read_toml(name)
    parts = preset.pop("made_of", [])
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise Refusal(f"preset {name}: made_of takes a list of names")
    values: dict[str, Any] = {}
    for part in parts:
        # a file is named from where the preset stands
        place = str(Path(name).parent / part) if name.endswith(".toml") and part.endswith(".toml") else part
        values = _overruled(values, read_preset(place, (*within, name)))
    return _overruled(values, preset)


def _overruled(values: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """Nested settings with later ones on top."""
    both = {key for key in later if isinstance(values.get(key), dict) and isinstance(later[key], dict)}
    return values | later | {key: _overruled(values[key], later[key]) for key in both}


def _read_toml(name: str) -> dict[str, Any]:
    shipped = resources.files("grcl") / "presets" / f"{name}.toml"
    try:
        text = Path(name).read_text(encoding="utf-8") if name.endswith(".toml") else shipped.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"preset {name} is not valid TOML: {error}") from None
    except (OSError, ValueError):  # the latter for a name that no file can have
        names = sorted(path.name.removesuffix(".toml") for path in (resources.files("grcl") / "presets").iterdir())
        raise Refusal(f"no preset {name!r}; give a .toml file or one of: {', '.join(names)}") from None


def flags(record: type[BaseModel], default: BaseModel | None = None, prefix: str = "") -> Iterator[Flag]:
    """All settings of a record, sections included, as dotted keys."""
    for name, entry in record.model_fields.items():
        key, kind = f"{prefix}{name}", entry.annotation
        value = getattr(default, name, entry.get_default())
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from flags(kind, value, f"{key}.")
        else:
            yield Flag(key, entry, value)


def choices(entry: FieldInfo) -> str:
    """The values that a flag takes, for its help: {cpu,cuda}, INT, FLOAT ..."""
    kind: Any = entry.annotation
    if get_origin(kind) is Literal:
        return "{" + ",".join(map(str, get_args(kind))) + "}"
    if get_origin(kind) in (Union, types.UnionType):
        kind = get_args(kind)[0]
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    names = {int: "N", float: "X", bool: "{true,false}", Path: "PATH"}
    return names.get(kind, "NAME")


def known(name: str, names: Mapping[str, Any], what: str) -> str:
    """`name`, if it is one of `names`; else a refusal that tells the nearest."""
    if name in names:
        return name
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
    raise Refusal(f"unknown {what} {name!r}; {hint}")


def unknown_key(record: type[BaseModel], key: str) -> str:
    """The sentence that refuses a setting nobody knows, with the nearest one that exists."""
    keys = [flag.key for flag in flags(record)]
    plain = key.replace("-", "_")
    same_word = [candidate for candidate in keys if candidate.split(".")[-1] == plain.split(".")[-1]]
    near = difflib.get_close_matches(plain, same_word or keys, n=1, cutoff=0.0 if same_word else 0.5)
    if "." not in plain:  # the last word alone means the first section that has it: "epochs" is training.epochs
        near = same_word[:1] or near
    return f"unknown setting {key!r}" + (f"; did you mean {near[0]}?" if near else "; --help lists them all")


def _stream(benchmark: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Source and targets spelled out: the benchmark's own order where none is given."""
    order = BENCHMARKS[benchmark].order()
    names = dict.fromkeys(order)
    source, targets = values["source"] or order[0], values["targets"]
    if not isinstance(source, str) or not isinstance(targets, str | list | tuple):
        raise Refusal("source takes the name of a domain, and targets a list of names")
    rest = [name for name in order if name not in source.split("+")]
    targets = [targets] if isinstance(targets, str) else targets or rest
    mentioned: list[str] = []
    for name in (part for stage in (source, *targets) for part in str(stage).split("+")):
        if known(name, names, "domain") in mentioned:
            raise Refusal(f"domain {name!r} comes twice in the stream; every domain has one stage")
        mentioned.append(name)
    return {"source": source, "targets": tuple(targets)}


def _sentence(error: ValidationError) -> str:
    """One sentence for the first thing that is wrong."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{key} = {first['input']!r}: {message[0].lower()}{message[1:]}"
