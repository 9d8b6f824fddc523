"""The words of `grcl ledger`: keep the results of finished runs, and write the page made from what is kept."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grcl.flags import Parser, peek
from grcl.runtime.errors import Failure, Refusal
from grcl.runtime.visible import visible

if TYPE_CHECKING:
    from grcl.results.comparison import FinishedRun
    from grcl.results.ledger.kept import Identity
    from grcl.results.run_files import Record

# Settings that name a file: of a path on this machine the name alone is kept.
FILES = ("split.file", "network.weights")


def ledger_command(arguments: list[str], description: str) -> None:
    """`grcl ledger`."""
    parser = Parser("grcl ledger", description=description)
    words = parser.add_subparsers(metavar="WORD", required=True)
    _add_keep(words)
    _add_write(words)
    given = parser.parse_args(arguments)
    given.act(given)


def _add_keep(words: Any) -> None:
    parser = words.add_parser("keep", help="put finished runs among the results, a small file each", allow_abbrev=False)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="holds runs, such as the --out of grcl compare")
    parser.add_argument("--preset", metavar="NAME", help="the preset of the runs (that which their commands name)")
    parser.add_argument("--replace", action="store_true", help="overwrite results of other settings or environments")
    _add_results(parser)
    parser.set_defaults(act=_keep)


def _add_write(words: Any) -> None:
    parser = words.add_parser("write", help="make the page from what is kept", allow_abbrev=False)
    page = Path("docs/results.md")
    parser.add_argument("--out", type=Path, default=page, metavar="FILE", help=f"the page ({page})")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is not up to date")
    _add_results(parser)
    parser.set_defaults(act=_write)


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="what is kept (results)")


def _keep(given: argparse.Namespace) -> None:
    from grcl.results.ledger.keeping import keep, runs_below
    from grcl.results.ledger.kept import record_of

    runs, unfinished = runs_below(given.folder)
    if not runs:
        raise Refusal(f"no finished run below {given.folder}; grcl compare and grcl run leave some")
    records = [record_of(run, identity(run, given.preset)) for run in runs]
    for path, is_new in keep(records, given.results, given.replace).items():
        _tell(f"{'kept' if is_new else 'there already'}: {path}")
    for directory in unfinished:
        _tell(f"unfinished, left out: {directory}")


def _tell(line: str) -> None:
    sys.stdout.write(visible(line) + "\n")


def _write(given: argparse.Namespace) -> None:
    from grcl.results.ledger.page import ledger_page
    from grcl.runtime.files import write_atomically

    page = ledger_page(given.results).encode()
    if given.check:
        if not given.out.is_file() or given.out.read_bytes() != page:
            raise Failure(f"{given.out} is not what {given.results} says; run grcl ledger write")
        return
    try:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(given.out, page)
    except OSError as error:
        raise Refusal(f"cannot write to {given.out}: {error.strerror}; choose another place with --out") from None
    sys.stdout.write(f"{given.out}\n")


def identity(run: "FinishedRun", preset: str | None = None) -> "Identity":
    """What a run is called relative to its preset, and the command that makes it again on any machine."""
    from grcl.comparison_plan import PlannedRun
    from grcl.config import resolve, variant
    from grcl.results.ledger.kept import Identity
    from grcl.runtime.run_directory import nested

    config, preset = _settings(run.files.config), preset or _named_preset(run.files.environment)
    benchmark, method = str(run.files.config.get("benchmark")), run.method
    overrides = {key: value for key, value in config.items() if key not in ("benchmark", "method")}
    try:
        settings = resolve(benchmark, method, overrides, preset)
    except Refusal as error:
        raise Refusal(f"{run.files.directory} cannot be made again as it is: {error}") from None
    name = Path(preset or benchmark).stem
    parts = [name if name != benchmark else "", *_spelled(variant(settings, preset))]
    data = {"data": "DIR"} if run.files.config.get("data") else {}
    unseeded = resolve(benchmark, method, {**overrides, **data, "seed": 0}, preset)
    words = [_without_folder(word) for word in PlannedRun("", unseeded, preset).words]
    command = shlex.join(["grcl", "run", *words, f"--seed={settings.seed}"])
    return Identity(name, ",".join(filter(None, parts)), nested(config), command)


def _spelled(changes: dict[str, Any]) -> list[str]:
    return [f"{key}={'-'.join(value) if isinstance(value, list) else value}" for key, value in changes.items()]


def _settings(config: "Record") -> dict[str, Any]:
    """The settings that have an effect, one level deep, and without the folders of this machine."""
    from grcl.config import WITHOUT_EFFECT
    from grcl.runtime.run_directory import flat

    left = {key: value for key, value in flat(config).items() if key not in WITHOUT_EFFECT}
    left = {key: value for key, value in left.items() if not key.startswith("fingerprints.")}
    return left | {key: Path(left[key]).name for key in FILES if left.get(key)}


def _named_preset(environment: "Record") -> str | None:
    """The preset that a run's own command names."""
    command = environment.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    named: str | None = peek(words[2:]).preset if words[1:2] == ["run"] else None
    return named


def _without_folder(word: str) -> str:
    """A preset from a file goes by the file's name."""
    flag, sign, value = word.partition("=")
    return f"{flag}{sign}{Path(value).name}" if flag == "--preset" else word
