"""The words of the command line; each command calls one function. Heavy imports wait until a command is known."""

import argparse
import difflib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from grcl.runtime.errors import Failure, Refusal

if TYPE_CHECKING:
    from grcl.config import RunSettings
    from grcl.results.accuracy_matrix import AccuracyMatrix


class Parser(argparse.ArgumentParser):
    """Refuses with one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise Refusal(f"{message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_debugging = "--debug" in given
    given = [word for word in given if word != "--debug"]
    try:
        command = _parse_command(given)
        COMMANDS[command][0](given[1:])
        return 0
    except (Refusal, Failure) as error:
        if is_debugging:
            raise
        _say(f"grcl: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("grcl: stopped at once; the same command goes on from the last checkpoint")
        return 130
    except BrokenPipeError:
        return 0
    except Exception as error:
        if is_debugging:
            raise
        _say(f"grcl: unexpected {type(error).__name__}: {error}; --debug shows where")
        return 1


def run_command(arguments: list[str]) -> None:
    """`grcl run`."""
    from rich.console import Console

    from grcl.config import resolve, settings_class, variant

    given, unknown = _run_parser(_preset_named_in(arguments)).parse_known_args(arguments)
    _refuse_unknown(unknown, settings_class(given.method))
    overrides = {key: value for key, value in vars(given).items() if key not in _PLACES}
    settings = resolve(given.benchmark, given.method, overrides, given.preset)

    from grcl.run import run
    from grcl.runtime import distributed
    from grcl.runtime.progress import Silent, display_for

    path, source_models = _places(settings, variant(settings, given.preset), given.out)
    source_models = given.source_models or source_models
    console = Console(stderr=True)
    _set_up_logging(console)
    display = display_for(console) if int(os.environ.get("RANK", "0")) == 0 else Silent()
    try:
        matrix = run(settings, path, source_models, display)
    finally:
        display.close()
        distributed.stop()
    if int(os.environ.get("RANK", "0")) == 0:
        _show(matrix, path)


# Flags that say what to run and where; all others are settings.
_PLACES = ("benchmark", "method", "preset", "out", "source_models")


def _preset_named_in(arguments: list[str]) -> "RunSettings":
    """The settings that a run starts from: they decide which flags there are, and their defaults."""
    from grcl.benchmarks import BENCHMARKS
    from grcl.config import resolve

    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--method", default="grcl")
    parser.add_argument("--preset")
    given, rest = parser.parse_known_args(arguments)
    benchmark = next((word for word in rest if word in BENCHMARKS), "mini")
    return resolve(benchmark, given.method, {}, given.preset)


def _run_parser(preset: "RunSettings") -> Parser:
    """The flags of `grcl run`: one per setting, with the preset's values as defaults."""
    from grcl.benchmarks import BENCHMARKS
    from grcl.methods import METHODS

    parser = Parser(
        "grcl run",
        description=COMMANDS["run"][1],
        allow_abbrev=False,
        usage="grcl run [BENCHMARK] [--SETTING VALUE ...]",
    )
    benchmarks, methods = ", ".join(BENCHMARKS), ", ".join(METHODS)
    parser.add_argument("benchmark", nargs="?", default="mini", metavar="BENCHMARK", help=f"{benchmarks} (mini)")
    parser.add_argument("--method", default="grcl", metavar="NAME", help=f"{methods} (grcl)")
    parser.add_argument("--preset", metavar="NAME", help="settings to start from: a preset or a TOML file (BENCHMARK)")
    parser.add_argument(
        "--out", type=Path, metavar="PATH", help="the run directory (runs/BENCHMARK/METHOD[/CHANGES]/seed-N)"
    )
    parser.add_argument(
        "--source-models", type=Path, metavar="PATH", help="folder of source models to share (runs/BENCHMARK/stage0)"
    )
    _add_setting_flags(parser, preset)
    return parser


def _add_setting_flags(parser: Parser, preset: "RunSettings") -> None:
    from grcl.config import choices, flags

    groups: dict[str, Any] = {"": parser}
    for key, field, default in flags(type(preset), preset):
        if key in ("benchmark", "method"):
            continue
        section = key.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        shown = " ".join(default) if isinstance(default, tuple) else str(default).lower()
        spelled = " ".join((field.description or "").split())
        options: dict[str, Any] = {"nargs": "+"} if isinstance(default, tuple) else {}
        names = [f"--{key.replace('_', '-')}"]
        names += [f"--{key}"] if "_" in key else []
        names += ["--device"] if key == "training.device" else []
        groups[section].add_argument(
            *names,
            dest=key,
            default=argparse.SUPPRESS,
            metavar=choices(field),
            help=f"{spelled} ({shown})".replace("%", "%%"),
            **options,
        )


def _refuse_unknown(unknown: list[str], record: Any) -> None:
    from grcl.config import unknown_key

    for word in unknown:
        if word.startswith("--"):
            name = word[2:].partition("=")[0]
            near = difflib.get_close_matches(
                name, ["method", "preset", "out", "seed", "data", "source", "targets"], n=1
            )
            raise Refusal(f"unknown setting {name!r}; did you mean {near[0]}?" if near else unknown_key(record, name))
    if unknown:
        raise Refusal(f"unexpected word {unknown[0]!r}; see grcl run --help")


def _places(settings: "RunSettings", changes: dict[str, Any], out: Path | None) -> tuple[Path, Path]:
    """The run directory, and where source models are shared."""
    from grcl.runtime.run_directory import variant_name

    if out is not None:
        return out, out / "stage0"
    root = Path("runs") / settings.benchmark
    return root / settings.method / variant_name(changes) / f"seed-{settings.seed}", root / "stage0"


def _show(matrix: "AccuracyMatrix", path: Path) -> None:
    from rich.console import Console

    from grcl.results.tables import as_rich, matrix_table, summary_table

    console = Console()
    console.print(as_rich(matrix_table(matrix)))
    console.print(as_rich(summary_table(matrix)))
    console.print(f"report: {path / 'report.html'}", markup=False, highlight=False, soft_wrap=True)


def _set_up_logging(console: Any) -> None:
    from rich.logging import RichHandler

    is_first = int(os.environ.get("RANK", "0")) == 0
    if console.is_terminal:
        handler: logging.Handler = RichHandler(console=console, show_time=False, show_path=False, markup=False)
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logging.getLogger("grcl").handlers = [handler]
    logging.getLogger("grcl").setLevel(logging.INFO if is_first else logging.ERROR)


COMMANDS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "run": (run_command, "Train on the source, adapt to every target in turn, report. An unfinished run goes on."),
}


def _parse_command(given: list[str]) -> str:
    """The command's name; help and version are answered here."""
    commands = "\n".join(f"  {name:10} {text}" for name, (_, text) in COMMANDS.items())
    parser = Parser(
        "grcl",
        description="Continual unsupervised domain adaptation.",
        epilog=f"commands:\n{commands}\n\ngrcl COMMAND --help tells more; --debug shows where an error came from.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="grcl [-h] [--version] COMMAND ...",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=", ".join(COMMANDS))
    first = parser.parse_args(given[:1])
    if first.version:
        from grcl import __version__

        sys.stdout.write(f"grcl {__version__}\n")
        sys.exit(0)
    if first.command is None:
        parser.print_help()
        sys.exit(0)
    if first.command not in COMMANDS:
        near = difflib.get_close_matches(first.command, COMMANDS, n=1)
        raise Refusal(
            f"unknown command {first.command!r}; " + (f"did you mean {near[0]}?" if near else "see grcl --help")
        )
    return str(first.command)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
