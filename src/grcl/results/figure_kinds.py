"""The figures that can be made of a folder of runs, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from grcl.results.comparison import Comparison
from grcl.results.comparison_figures import bars, first_target, one_target_bars, sweep_lines
from grcl.results.conflict import conflicts_of
from grcl.results.conflict_figure import conflict_panels
from grcl.results.drawing import save
from grcl.results.families import sweeps
from grcl.results.one_target import one_target
from grcl.results.page import Plate, plate
from grcl.runtime.errors import Refusal


@dataclass(frozen=True)
class Kind:
    """A figure: what it is called, how it is drawn if the runs allow it, and which runs it needs."""

    title: str
    caption: str
    draw: Callable[[Comparison], Figure | None]
    needs: str


def write_figure(name: str, folder: Path, out: Path | None = None) -> list[Path]:
    """Draw the figure `name` of the runs below `folder`; returns its files, SVG and PNG unless `out` names one."""
    kind = KINDS[name]
    figure = kind.draw(Comparison.read(folder))
    if figure is None:
        raise Refusal(f"{folder} has nothing for the figure {name!r}: it needs {kind.needs}")
    place = out or folder / name
    paths = (
        [place] if place.suffix in (".svg", ".png") else [place.with_name(place.name + end) for end in (".svg", ".png")]
    )
    try:
        for path in paths:
            save(figure, path)
    except OSError as error:
        raise Refusal(f"cannot write to {place}: {error.strerror}; choose another place with --out") from None
    return paths


def plates(comparison: Comparison, *names: str) -> list[Plate]:
    """Those of the named figures that the runs allow."""
    drawn = [(KINDS[name], KINDS[name].draw(comparison)) for name in names]
    return [plate(kind.title, kind.caption, figure) for kind, figure in drawn if figure is not None]


def _bars(comparison: Comparison) -> Figure | None:
    return bars(comparison.main) if comparison.main else None


def _first_target(comparison: Comparison) -> Figure | None:
    main = comparison.main
    return first_target(main) if main and any(len(row.matrix.stages) > 2 for row in main.plain_rows) else None


def _one_target(comparison: Comparison) -> Figure | None:
    entries = one_target(comparison)
    return one_target_bars(entries) if entries else None


def _memory(comparison: Comparison) -> Figure | None:
    return _sweep(comparison, "memory.size", "images remembered of every stage (memory.size)")


def _epochs(comparison: Comparison) -> Figure | None:
    return _sweep(comparison, "training.epochs", "epochs of every stage (training.epochs)")


def _sweep(comparison: Comparison, key: str, label: str) -> Figure | None:
    main = comparison.main
    found = sweeps(main, key) if main else []
    if main is None or not found:
        return None
    paper = {"memory.size": main.paper.memory, "training.epochs": main.paper.epochs}[key] if main.paper else {}
    return sweep_lines(found, label, paper if any(sweep.method == "grcl" for sweep in found) else {})


def _conflict(comparison: Comparison) -> Figure | None:
    rows = comparison.main.rows if comparison.main else comparison.rows
    methods = {row.label: stages for row in rows if (stages := conflicts_of(row))}
    return conflict_panels(methods) if methods else None


KINDS = {
    "bars": Kind(
        "ACC and BWT",
        "Mean over seeds, with the standard deviation; the highest in the strong colour.",
        _bars,
        "finished runs on one stream",
    ),
    "first-target": Kind(
        "The first target as more domains are seen",
        "Accuracy on the first target after its own stage and after every later one: a falling line forgets."
        " Mean over seeds, with the standard deviation.",
        _first_target,
        "finished runs on a stream of two targets or more",
    ),
    "one-target": Kind(
        "One target at a time",
        "Every target in a stream of its own, averaged over the targets. Where several weights of the contrastive loss"
        " were run, each target has the one after which k-means and the classifier agree most often: that needs no"
        " label.",
        _one_target,
        "runs with a single target each, as grcl compare --one-target makes them",
    ),
    "memory": Kind(
        "ACC against the size of the memory",
        "Mean over seeds, with the standard deviation; all other settings are equal.",
        _memory,
        "runs that differ in memory.size alone; try grcl compare --vary memory.size=256,512,1024,2048",
    ),
    "epochs": Kind(
        "ACC against the epochs of every stage",
        "Mean over seeds, with the standard deviation; all other settings are equal.",
        _epochs,
        "runs that differ in training.epochs alone; try grcl compare --vary training.epochs=120,180,240,300",
    ),
    "conflict": Kind(
        "Gradient conflicts",
        "By stage, over the steps of all seeds. Cosines between the gradient of the objective and that of each"
        " constraint, as histograms on their sides: below zero they are in conflict. Violated: the share of steps in"
        " which what is projected, the gradient or the step made of it, opposed a constraint. Correction: mean length"
        " of what the projection changed, relative to what is projected.",
        _conflict,
        "runs of a method with gradient constraints, such as grcl",
    ),
}
