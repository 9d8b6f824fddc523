"""The report of a run: one self-contained HTML page made from the files of its directory alone."""

from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from grcl.results import run_tables, tables
from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.figures import accuracy_over_stages, both_sides, heat_map, training_lines, training_panels
from grcl.results.page import Plate, plate, render_page, replace_text
from grcl.results.run_files import Curve, RunFiles


class Lines(NamedTuple):
    """Which logged values share a figure, and how it reads."""

    prefix: str
    title: str
    label: str
    limits: tuple[float, float] | None
    caption: str


LINES = (
    Lines(
        "violated/",
        "Conflicts",
        "share of steps",
        (0.0, 1.0),
        "Share of the steps whose gradient, or whose update itself, opposed a constraint, so that it was projected.",
    ),
    Lines(
        "applied/",
        "Conflicts that remained",
        "share of steps",
        (0.0, 1.0),
        "Share of the steps whose update, as applied, still opposed a constraint; momentum can do that to a gradient.",
    ),
    Lines(
        "multiplier/",
        "Multipliers",
        "multiplier u",
        None,
        "Dual variables of the projection (Eq. 9): how much of a constraint's gradient was added, 0 without conflict.",
    ),
    Lines(
        "cosine/",
        "Cosines",
        "cosine",
        None,
        "Cosine between the gradients of the objective and of each constraint; below 0 they are in conflict.",
    ),
)


def write_report(directory: Path) -> Path:
    """Write `report.html` beside the files that it is made from, and return its path."""
    path = directory / "report.html"
    replace_text(path, render(RunFiles.read(directory)))
    return path


def render(run: RunFiles) -> str:
    """The page as text; equal files give equal text."""
    matrix = run.matrix if run.matrix is not None and run.matrix.finished else None
    parts: dict[str, Any] = {
        "run": run,
        "state": _state(run.matrix),
        "matrix": matrix,
        "headline": tables.headline(matrix) if matrix else (),
        "result_plates": _result_plates(matrix) if matrix else [],
        "training_plates": _training_plates(run),
        "constraint_plates": _constraint_plates(run),
        "tables": tables,
        "run_tables": run_tables,
    }
    return render_page("report.html", parts)


def _state(matrix: AccuracyMatrix | None) -> str:
    """Empty for a finished run, else how far it came."""
    if matrix is None:
        return "unfinished: no stage has been evaluated yet"
    return "" if matrix.is_complete else f"unfinished: {matrix.finished} of {len(matrix.stages)} stages"


def _result_plates(matrix: AccuracyMatrix) -> list[Plate]:
    return [
        plate(
            "Accuracy matrix R", "Test accuracy on every domain (columns) after every stage (rows).", heat_map(matrix)
        ),
        plate(
            "Accuracy over the stages",
            "Each domain from stage to stage: dashed before the stage that learns it (large mark), solid after.",
            accuracy_over_stages(matrix),
        ),
    ]


def _training_plates(run: RunFiles) -> list[Plate]:
    known = ("loss/", *(lines.prefix for lines in LINES))
    losses = run.curves("loss/")
    others = {name: curve for name, curve in run.curves("").items() if not name.startswith(known)}
    plates = []
    if losses:
        plates.append(plate("Losses", "Means since the previous line of the log.", _panels(run, losses)))
    if others:
        plates.append(plate("Other values", "What else the method logged.", _panels(run, others)))
    return plates


def _constraint_plates(run: RunFiles) -> list[Plate]:
    plates = [
        plate(lines.title, lines.caption, training_lines(curves, run.stage_labels, lines.label, lines.limits))
        for lines in LINES
        if (curves := run.curves(lines.prefix))
    ]
    if constraints := run.constraints():
        caption = (
            "Mean cross-entropy on the source, on the whole memory M and on each past domain's memory M_k, before and"
            " after every stage. The constraints ask that no bar rises; the projection holds them to first order only."
        )
        plates.append(plate("Both sides of Eq. 5–7", caption, both_sides(constraints)))
    return plates


def _panels(run: RunFiles, curves: dict[str, Curve]) -> Figure:
    return training_panels(curves, run.stage_labels)
