"""Settings as flags of the command line, and back: one flag per setting, with the preset's value as its default."""

import argparse
import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from grcl.runtime.errors import Refusal

if TYPE_CHECKING:
    from grcl.config import LearnerSettings, RunSettings

_SHORT = {"training.device": "--device", "network.weights": "--weights", "images.cache": "--cache"}


class Parser(argparse.ArgumentParser):
    """Refuses with one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise Refusal(f"{message}; see {self.prog} --help")

    @property
    def words(self) -> list[str]:
        """The flags that are no dotted settings, without their dashes."""
        return [word[2:] for word in self._option_string_actions if word.startswith("--") and "." not in word]


def peek(arguments: Sequence[str]) -> argparse.Namespace:
    """The benchmark, method and preset named in `arguments`: they decide which flags there are, and their defaults."""
    from grcl.benchmarks import BENCHMARKS

    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--method", default="grcl")
    parser.add_argument("--preset")
    given, rest = parser.parse_known_args(arguments)
    given.benchmark = next((word for word in rest if word in BENCHMARKS), "mini")
    return given


def experiment_parser(command: str, description: str) -> Parser:
    """The flags that all commands with an experiment have."""
    from grcl.benchmarks import BENCHMARKS

    parser = Parser(
        f"grcl {command}",
        description=description,
        allow_abbrev=False,
        usage=f"grcl {command} [BENCHMARK] [--SETTING VALUE ...]",
    )
    names = ", ".join(BENCHMARKS)
    parser.add_argument("benchmark", nargs="?", default="mini", metavar="BENCHMARK", help=f"{names} (mini)")
    parser.add_argument("--preset", metavar="NAME", help="settings to start from: a preset or a TOML file (BENCHMARK)")
    return parser


def merged(presets: Sequence["RunSettings"]) -> "RunSettings":
    """The settings of several methods as one record: what they share, and the own section of each."""
    from pydantic import create_model

    record: Any = create_model("RunSettings", __base__=tuple(dict.fromkeys(type(preset) for preset in presets)))
    settings: RunSettings = record.model_construct(**{name: value for preset in presets for name, value in preset})
    return settings


def add_setting_flags(parser: Parser, preset: "LearnerSettings", without: Collection[str]) -> None:
    """One flag per setting, but those in `without`, with the preset's values as defaults."""
    from grcl.config import flags

    groups: dict[str, Any] = {"": parser}
    for flag in flags(type(preset), preset):
        section = flag.key.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        if flag.key not in without:
            _add_flag(groups[section], *flag)


def _add_flag(group: Any, key: str, field: Any, default: Any) -> None:
    from grcl.config import choices

    shown = " ".join(default) if isinstance(default, tuple) else str(default).lower()
    spelled = " ".join((field.description or "").split())
    options: dict[str, Any] = {"nargs": "*"} if isinstance(default, tuple) else {}
    options |= {"nargs": "?", "const": "true"} if isinstance(default, bool) else {}  # --cache alone means true
    names = [f"--{key.replace('_', '-')}"]
    names += [f"--{key}"] if "_" in key else []
    names += [_SHORT[key]] if key in _SHORT else []
    group.add_argument(
        *names,
        dest=key,
        default=argparse.SUPPRESS,
        metavar=choices(field),
        help=f"{spelled} ({shown})".replace("%", "%%"),
        **options,
    )


def parse(
    parser: Parser, arguments: Sequence[str], record: type["LearnerSettings"]
) -> tuple[argparse.Namespace, dict[str, Any]]:
    """What was asked for, and the settings that were given; a flag that nobody knows is refused with the nearest."""
    from grcl.config import flags

    given, unknown = parser.parse_known_args(arguments)
    for word in unknown:
        if word.startswith("--"):
            raise Refusal(_unknown_flag(word[2:].partition("=")[0], parser, record))
    if unknown:
        raise Refusal(f"unexpected word {unknown[0]!r}; see {parser.prog} --help")
    settings = {flag.key for flag in flags(record)} - {"benchmark", "method"}
    return given, {key: value for key, value in vars(given).items() if key in settings}


def _unknown_flag(name: str, parser: Parser, record: type["LearnerSettings"]) -> str:
    from grcl.config import unknown_key

    near = difflib.get_close_matches(name, parser.words, n=1)
    return f"unknown setting {name!r}; did you mean {near[0]}?" if near else unknown_key(record, name)


def parse_varied(words: Sequence[str]) -> dict[str, list[Any]]:
    """{"memory.size": ["256", "512"]} for "memory.size=256,512"; the domains of a stream are separated by spaces."""
    varied: dict[str, list[Any]] = {}
    for word in words:
        name, sign, values = word.partition("=")
        key = name.strip().replace("-", "_")
        if not sign or not key:
            raise Refusal(f"--vary {word!r} names no values; write it like memory.size=256,512")
        if key in varied:
            raise Refusal(f"{key} is varied twice; list all its values in one --vary")
        varied[key] = [value.split() if key == "targets" else value.strip() for value in values.split(",")]
    return varied


def as_words(settings: Mapping[str, Any]) -> list[str]:
    """The flags that give these settings: the reverse of parsing them."""
    words: list[str] = []
    for key, value in settings.items():
        words += [f"--{key}", *map(str, value)] if isinstance(value, list) else [f"--{key}={value}"]
    return words
