"""The words of the command line; each command calls one function. Heavy imports wait until a command is known."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grcl.commands.learner import COMMANDS as LEARNER_COMMANDS
from grcl.commands.learner import WORDS
from grcl.flags import Parser, add_setting_flags, experiment_parser, parse, peek
from grcl.runtime.errors import Failure, Refusal
from grcl.runtime.plugins import load_plugins
from grcl.runtime.visible import visible

if TYPE_CHECKING:
    from grcl.config import RunSettings
    from grcl.results.accuracy_matrix import AccuracyMatrix


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_debugging = "--debug" in given
    given = [word for word in given if word != "--debug"]
    try:
        command = _parse_command(given)
        load_plugins()
        COMMANDS[command][0](given[1:])
        return 0
    except (Refusal, Failure) as error:
        if is_debugging:
            raise
        sentence, *details = error.args or ("",)
        _say(f"grcl: {sentence}")
        for line in details:
            _say(f"  {line}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("grcl: stopped at once; what was saved stays, and the same command goes on from it")
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

    from grcl.config import resolve

    named = peek(arguments)
    preset = resolve(named.benchmark, named.method, {}, named.preset)
    given, overrides = parse(_run_parser(preset), arguments, type(preset))
    settings = resolve(given.benchmark, given.method, overrides, given.preset)

    from grcl.run import run
    from grcl.runtime import distributed
    from grcl.runtime.console import set_up_logging
    from grcl.runtime.progress import Silent, display_for

    path, source_models = _places(settings, given.preset, given.out)
    source_models = given.source_models or source_models
    console = Console(stderr=True)
    set_up_logging(console)
    display = display_for(console) if int(os.environ.get("RANK", "0")) == 0 else Silent()
    try:
        matrix = run(settings, path, source_models, display)
    finally:
        display.close()
        distributed.stop()
    if int(os.environ.get("RANK", "0")) == 0:
        _show(matrix, path)


def compare_command(arguments: list[str]) -> None:
    """`grcl compare`."""
    from grcl.commands.comparison import compare_command

    compare_command(arguments, COMMANDS["compare"][1])


def choose_command(arguments: list[str]) -> None:
    """`grcl choose`."""
    from grcl.commands.comparison import choose_command

    choose_command(arguments, COMMANDS["choose"][1])


def figure_command(arguments: list[str]) -> None:
    """`grcl figure`."""
    from grcl.results.figure_kinds import KINDS, write_figure

    parser = Parser("grcl figure", description=COMMANDS["figure"][1], usage="grcl figure KIND DIR [--out FILE]")
    kinds = "; ".join(f"{name}: {kind.title}" for name, kind in KINDS.items())
    parser.add_argument("kind", metavar="KIND", help=kinds)
    parser.add_argument("folder", metavar="DIR", type=Path, help="a folder of runs, such as the --out of grcl compare")
    parser.add_argument("--out", type=Path, metavar="FILE", help="an .svg or a .png, or a name for both (DIR/KIND)")
    given = parser.parse_args(arguments)
    if given.kind not in KINDS:
        raise Refusal(_unknown("figure", given.kind, KINDS))
    for path in write_figure(given.kind, given.folder, given.out):
        sys.stdout.write(f"{path}\n")


def data_command(arguments: list[str]) -> None:
    """`grcl data`."""
    from grcl.commands.data import data_command

    data_command(arguments, COMMANDS["data"][1])


def ledger_command(arguments: list[str]) -> None:
    """`grcl ledger`."""
    from grcl.commands.ledger import ledger_command

    ledger_command(arguments, COMMANDS["ledger"][1])


def _run_parser(preset: "RunSettings") -> Parser:
    """The flags of `grcl run`: one per setting, with the preset's values as defaults."""
    from grcl.methods import METHODS

    parser = experiment_parser("run", COMMANDS["run"][1])
    parser.add_argument("--method", default="grcl", metavar="NAME", help=f"{', '.join(METHODS)} (grcl)")
    parser.add_argument(
        "--out", type=Path, metavar="PATH", help="the run directory (runs/BENCHMARK/METHOD[/PRESET,CHANGES]/seed-N)"
    )
    parser.add_argument(
        "--source-models", type=Path, metavar="PATH", help="folder of source models to share (runs/BENCHMARK/stage0)"
    )
    add_setting_flags(parser, preset, without=("benchmark", "method"))
    return parser


def _places(settings: "RunSettings", preset: str | None, out: Path | None) -> tuple[Path, Path]:
    """The run directory, and where source models are shared."""
    from grcl.config import variant
    from grcl.runtime.run_directory import variant_name

    if out is not None:
        return out, out / "stage0"
    root = Path("runs") / settings.benchmark
    named = Path(preset or settings.benchmark).stem
    changes = [named if named != settings.benchmark else "", variant_name(variant(settings, preset))]
    segment = ",".join(filter(None, changes))
    return root / settings.method / segment / f"seed-{settings.seed}", root / "stage0"


def _show(matrix: "AccuracyMatrix", path: Path) -> None:
    from rich.console import Console

    from grcl.results.tables import as_rich, matrix_table, summary_table

    console = Console()
    console.print(as_rich(matrix_table(matrix)))
    console.print(as_rich(summary_table(matrix)))
    console.print(f"report: {path / 'report.html'}", markup=False, highlight=False, soft_wrap=True)


COMMANDS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "run": (run_command, "Train on the source, adapt to every target in turn, report. An unfinished run goes on."),
    "compare": (compare_command, "Set methods side by side over seeds and variants. What is done is not run again."),
    "choose": (
        choose_command,
        "Rank settings without a target label: by numbers of the log, or by accuracy with --rehearse.",
    ),
    "figure": (figure_command, "Draw one of the paper's figures from a folder of runs, as SVG and PNG."),
    "ledger": (ledger_command, "Keep the results of finished runs, and write the page made from what is kept."),
    "data": (data_command, "List, get, make and check the images of the benchmarks."),
    **{name: (act, WORDS[name].text) for name, act in LEARNER_COMMANDS.items()},
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
        raise Refusal(_unknown("command", first.command, COMMANDS))
    return str(first.command)


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"unknown {what} {name!r}; " + (f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}")


def _say(text: str) -> None:
    sys.stderr.write(visible(text) + "\n")
