"""The words of a learner: fit and adapt, evaluate and predict, and what there is to do with its history."""

import argparse
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from grcl.flags import Parser, add_setting_flags, parse
from grcl.runtime.errors import Failure, Refusal

if TYPE_CHECKING:
    from grcl.config import LearnerSettings
    from grcl.learner.learner import Learner


logger = logging.getLogger(__name__)


class Word(NamedTuple):
    """How a command is called and what it does."""

    usage: str
    text: str


WORDS = {
    "fit": Word("SOURCE --state DIR", "Train a learner on a folder of class folders."),
    "adapt": Word("TARGET --state DIR", "Adapt a learner to a folder of images without labels; again and again."),
    "evaluate": Word("FOLDER --state DIR", "Measure a learner on a folder of class folders."),
    "predict": Word("FILES... --state DIR", "Tell the class of images, and whether they look like nothing known."),
    "history": Word("--state DIR", "Show every fit, adapt, rollback and forget of a learner."),
    "rollback": Word("--state DIR --to N", "Put an earlier model and memory in force again."),
    "forget": Word("--state DIR --domain N", "Erase the images of a domain everywhere in the state."),
    "export": Word("--state DIR --format KIND", "Write the model for other programs, once it answers the same there."),
    "report": Word("--state DIR", "Write the page of a learner: its timeline, numbers, examples and memory."),
}


def fit_command(arguments: list[str]) -> None:
    """`grcl fit`."""
    from grcl.commands.learner_output import tell
    from grcl.config import read_preset, resolve_learner
    from grcl.learner.defaults import USUAL_METHOD

    named = _peek(arguments)
    parser = _training_parser("fit")
    parser.add_argument("source", metavar="SOURCE", help="a folder with a folder of images for each class")
    parser.add_argument("--preset", metavar="NAME", help="settings to start from: a preset or a TOML file")
    parser.add_argument(
        "--keep-source", type=int, default=0, metavar="N", help="images of the source that travel in the state (0)"
    )
    method = named.method or USUAL_METHOD
    given, changes = _parse(
        parser, arguments, resolve_learner(method, {}, read_preset(named.preset) if named.preset else {})
    )
    with _at_work(given.state) as learner:
        entry = learner.fit(
            given.source, method=given.method, settings=changes, preset=given.preset, keep_source=given.keep_source
        )
    assert entry.data is not None
    tell(f"learned {len(learner.classes)} classes from {entry.data.images:,} images of {entry.data.name}")
    _report_change(given)


def adapt_command(arguments: list[str]) -> None:
    """`grcl adapt`."""
    from grcl.commands.learner_output import tell_adapt

    named = _peek(arguments)
    parser = _training_parser("adapt")
    parser.add_argument("target", metavar="TARGET", help="a folder of images without labels, flat or nested")
    parser.add_argument("--if-worse", choices=("refuse", "keep"), default="refuse", help="a worse model (refuse)")
    parser.add_argument("--sample", type=Path, metavar="DIR", help="class folders to measure the accuracy on, no more")
    parser.add_argument("--source", type=Path, metavar="DIR", help="the source, if it is not where it was")
    given, changes = _parse(parser, arguments, _settings_of_next_adapt(named))
    with _at_work(given.state) as learner:
        entry = learner.adapt(
            given.target,
            method=given.method,
            if_worse=given.if_worse,
            sample=given.sample,
            source=given.source,
            settings=changes,
        )
    tell_adapt(entry)
    _report_change(given)
    if entry.is_refused:
        raise Failure(
            "the new model is worse, so that the one before stays in force; --if-worse keep takes the new one anyway"
        )


def evaluate_command(arguments: list[str]) -> None:
    """`grcl evaluate`."""
    from grcl.commands.learner_output import evaluation_as_json, tell_evaluation, write_json

    parser = _parser("evaluate")
    parser.add_argument("folder", metavar="FOLDER", help="a folder with a folder of images for each class")
    parser.add_argument("--json", action="store_true", help="for programs")
    given = parser.parse_args(arguments)
    found = _learner(given).evaluate(given.folder)
    if given.json:
        write_json(evaluation_as_json(found))
    else:
        tell_evaluation(found)


def predict_command(arguments: list[str]) -> None:
    """`grcl predict`. Files are called as they were named: from the root, or from where the user is."""
    from grcl.commands.learner_output import write_predictions
    from grcl.learner.folders import common_folder

    parser = _parser("predict")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILES", help="images, or folders of images")
    parser.add_argument(
        "--format", choices=("csv", "jsonl"), default="csv", help="a table or a JSON object a line (csv)"
    )
    given = parser.parse_args(arguments)
    found, folder = _learner(given).look(given.files), common_folder(given.files)
    named = str if any(path.is_absolute() for path in given.files) else os.path.relpath
    write_predictions([each._replace(file=named(folder / each.file)) for each in found], given.format)


def history_command(arguments: list[str]) -> None:
    """`grcl history`."""
    from grcl.commands.learner_output import tell_history, write_json

    parser = _parser("history")
    parser.add_argument("--json", action="store_true", help="for programs, with all settings and monitors")
    given = parser.parse_args(arguments)
    entries = _learner(given).history()
    if given.json:
        write_json([entry.model_dump(mode="json") for entry in entries])
    else:
        tell_history(entries)


def rollback_command(arguments: list[str]) -> None:
    """`grcl rollback`."""
    from grcl.commands.learner_output import tell

    parser = _changing_parser("rollback")
    parser.add_argument("--to", type=int, required=True, metavar="N", help="the number of an entry; see grcl history")
    given = parser.parse_args(arguments)
    entry = _learner(given).rollback(given.to)
    tell(f"entry {entry.number}: the model and the memory of entry {given.to} are in force again")
    _report_change(given)


def forget_command(arguments: list[str]) -> None:
    """`grcl forget`."""
    from grcl.commands.learner_output import tell

    parser = _changing_parser("forget")
    parser.add_argument(
        "--domain", type=int, required=True, metavar="N", help="the number of its adapt; see grcl history"
    )
    given = parser.parse_args(arguments)
    entry = _learner(given).forget(given.domain)
    tell(f"entry {entry.number}: no image of domain {given.domain} is left in the state; the weights stay as they are")
    _report_change(given)


def export_command(arguments: list[str]) -> None:
    """`grcl export`."""
    from grcl.commands.learner_output import tell

    endings = {"onnx": ".onnx", "export": ".pt2", "safetensors": ".safetensors"}
    parser = _parser("export")
    parser.add_argument("--format", required=True, choices=list(endings), help="what other programs read")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file (model with the format's ending)")
    given = parser.parse_args(arguments)
    place = given.out or Path("model").with_suffix(endings[given.format])
    _learner(given).export(place, given.format)
    tell(str(place))


def report_command(arguments: list[str]) -> None:
    """`grcl report`."""
    given = _changing_parser("report").parse_args(arguments)
    _learner(given)  # says in one sentence if there is none
    _report(given)


COMMANDS = {
    "fit": fit_command,
    "adapt": adapt_command,
    "evaluate": evaluate_command,
    "predict": predict_command,
    "history": history_command,
    "rollback": rollback_command,
    "forget": forget_command,
    "export": export_command,
    "report": report_command,
}


def _parser(word: str) -> Parser:
    usage, text = WORDS[word]
    parser = Parser(f"grcl {word}", description=text, usage=f"grcl {word} {usage} [...]", allow_abbrev=False)
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="the directory of the learner")
    return parser


def _changing_parser(word: str) -> Parser:
    parser = _parser(word)
    parser.add_argument("--no-thumbnails", action="store_true", help="a report that shows no image")
    return parser


def _training_parser(word: str) -> Parser:
    from grcl.methods import METHODS

    parser = _changing_parser(word)
    parser.epilog = (
        "What a fit is not told is chosen by the number and the size of the images, whatever stands above; "
        "what an adapt is not told, by its fit. grcl history --json tells what was chosen."
    )
    parser.add_argument("--method", metavar="NAME", help=f"{', '.join(METHODS)} (grcl_plus, or that of the last adapt)")
    return parser


def _peek(arguments: Sequence[str]) -> argparse.Namespace:
    """What decides which flags there are, and their defaults."""
    parser = Parser(add_help=False, allow_abbrev=False)
    for flag in ("--method", "--preset", "--state"):
        parser.add_argument(flag)
    return parser.parse_known_args(arguments)[0]


def _parse(
    parser: Parser, arguments: Sequence[str], preset: "LearnerSettings"
) -> tuple[argparse.Namespace, dict[str, Any]]:
    add_setting_flags(parser, preset, without=("method",))
    return parse(parser, arguments, type(preset))


def _settings_of_next_adapt(named: argparse.Namespace) -> "LearnerSettings":
    """Those that an adapt starts from; where there is no learner yet, as for --help, those of the package."""
    from grcl.config import resolve_learner
    from grcl.learner.defaults import USUAL_METHOD
    from grcl.learner.present import Present
    from grcl.learner.state import StateDirectory

    state = StateDirectory(Path(named.state)) if named.state else None
    if state is None or not state.is_there:
        return resolve_learner(named.method or USUAL_METHOD, {}, {})
    return Present(state).settings_for(named.method, {})


def _learner(given: argparse.Namespace) -> "Learner":
    from rich.console import Console

    from grcl.learner.learner import Learner
    from grcl.runtime.console import set_up_logging

    set_up_logging(Console(stderr=True))
    return Learner.load(given.state)


@contextmanager
def _at_work(state: Path) -> Iterator["Learner"]:
    """A learner that shows its progress."""
    from rich.console import Console

    from grcl.learner.learner import Learner
    from grcl.runtime.console import set_up_logging
    from grcl.runtime.progress import display_for

    console = Console(stderr=True)
    set_up_logging(console)
    display = display_for(console)
    try:
        yield Learner(state, display)
    finally:
        display.close()


def _report(given: argparse.Namespace) -> None:
    from grcl.commands.learner_output import tell
    from grcl.learner.state_report import write_state_report

    tell(f"report: {write_state_report(given.state, thumbnails=not given.no_thumbnails)}")


def _report_change(given: argparse.Namespace) -> None:
    """The report after a change. The change is made and stays, so that a report which fails is told and no more."""
    try:
        _report(given)
    except (Refusal, Failure) as error:
        logger.warning("%s; all is done but the report, which grcl report --state %s makes", error, given.state)
