"""The words of `grcl compare` and `grcl choose`: many runs of one design."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grcl.flags import Parser, add_setting_flags, experiment_parser, merged, parse, parse_varied, peek
from grcl.runtime.errors import Refusal

if TYPE_CHECKING:
    from grcl.comparison_plan import Design
    from grcl.config import RunSettings
    from grcl.results.comparison import Comparison


def compare_command(arguments: list[str], description: str) -> None:
    """`grcl compare`."""
    given, design = _design("compare", arguments, description)
    folder = given.out or Path("comparisons") / given.benchmark

    from grcl.compare import compare

    _show_comparison(_work_off(compare, given, design, folder), folder)


def choose_command(arguments: list[str], description: str) -> None:
    """`grcl choose`."""
    given, design = _design("choose", arguments, description)

    from rich.console import Console

    from grcl.compare import choose
    from grcl.results.choosing import choosing_table
    from grcl.results.tables import as_rich

    candidates = _work_off(choose, given, design, given.out or Path("choices") / given.benchmark)
    Console().print(as_rich(choosing_table(candidates)))


def _design(command: str, arguments: list[str], description: str) -> tuple[argparse.Namespace, "Design"]:
    """What `compare` and `choose` are asked to run."""
    from grcl.config import resolve
    from grcl.methods import METHODS

    named = peek(arguments)
    preset = merged([resolve(named.benchmark, method, {}, named.preset) for method in METHODS])
    given, common = parse(_parser(command, description, preset), arguments, type(preset))

    from grcl.comparison_plan import ABLATIONS, ONE_TARGET_METHODS, Design

    return given, Design(
        given.benchmark,
        given.methods or (ONE_TARGET_METHODS if given.one_target else tuple(METHODS)),
        given.seeds,
        given.preset,
        common=common,
        varied=parse_varied(given.vary),
        ablations=tuple(ABLATIONS) if given.ablations == [] else given.ablations or (),
        one_target=given.one_target,
    )


def _work_off(work: Callable[..., Any], given: argparse.Namespace, design: "Design", folder: Path) -> Any:
    """Make the runs of a design with as many hands as asked for, and show how far they are."""
    from rich.console import Console

    from grcl.compare import Workforce
    from grcl.runtime.board import board_for

    workforce, board = Workforce(_at_least_one(given.jobs), given.engine), board_for(Console(stderr=True))
    try:
        return work(design, folder, workforce, board)
    finally:
        board.close()


def _parser(command: str, description: str, preset: "RunSettings") -> Parser:
    """The flags of `grcl compare` and `grcl choose`; a setting given holds for every method that has it."""
    from grcl.comparison_plan import ABLATIONS
    from grcl.engines import ENGINES
    from grcl.methods import METHODS

    parser = experiment_parser(command, description)
    parser.add_argument("--methods", nargs="+", metavar="NAME", help=f"{', '.join(METHODS)} (all of them)")
    parser.add_argument("--seeds", nargs="+", default=[0], metavar="N", help="one run per method and seed (0)")
    parser.add_argument("--jobs", default="1", metavar="N", help="runs side by side, each on one CPU thread (1)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where all goes (comparisons/BENCHMARK or choices/BENCHMARK)"
    )
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="SETTING=VALUE,...",
        help="one variant per value; several --vary multiply",
    )
    parser.add_argument(
        "--ablations", nargs="*", metavar="NAME", help=f"variants of grcl by name: {', '.join(ABLATIONS)} (none)"
    )
    parser.add_argument("--one-target", action="store_true", help="every target in a stream of its own")
    parser.add_argument("--engine", default="local", choices=ENGINES, help="where the runs are worked on (local)")
    add_setting_flags(parser, preset, without=("benchmark", "method", "seed"))
    return parser


def _at_least_one(jobs: str) -> int:
    if not jobs.isascii() or not jobs.isdigit() or int(jobs) < 1:
        raise Refusal(f"--jobs {jobs}: give a whole number from 1 on")
    return int(jobs)


def _show_comparison(comparison: "Comparison", folder: Path) -> None:
    from rich.console import Console

    from grcl.results.comparison_page import data_note
    from grcl.results.comparison_tables import brief_table
    from grcl.results.tables import as_rich
    from grcl.runtime.visible import visible

    console = Console()
    for group in comparison.groups:
        console.print(as_rich(brief_table(group)))
        if group.notes:
            console.print(visible(data_note(group)), markup=False, highlight=False, soft_wrap=True)
    console.print(f"comparison: {folder / 'comparison.html'}", markup=False, highlight=False, soft_wrap=True)
