"""The figures of a run: plain data in, a matplotlib figure out."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.drawing import COLOURS, GREY, INK, MARKERS, PALE, WIDTH, as_svg, save, short, styled
from grcl.results.run_files import Curve, Sides
from grcl.runtime.visible import visible

__all__ = [
    "accuracy_over_stages",
    "as_svg",
    "both_sides",
    "heat_map",
    "legend_label",
    "save",
    "spaced",
    "training_lines",
    "training_panels",
]

MOST_POINTS = 200  # per line and stage: more cannot be seen, and would make heavy pages


@styled
def heat_map(matrix: AccuracyMatrix) -> Figure:
    """R in percent, a row per stage: a domain's own stage is outlined, the cells before it are pale."""
    rows, columns = len(matrix.stages), len(matrix.domains)
    figure = Figure(figsize=(max(WIDTH, 2 + 0.6 * columns), 1.2 + 0.4 * rows))
    axes = figure.subplots()
    missing = np.full((rows - matrix.finished, columns), np.nan)
    colours = np.vstack([matrix.values, missing])
    axes.pcolormesh(colours, cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=2)
    for column, domain in enumerate(matrix.domains):
        own = matrix.stage_of[domain]
        for row in range(matrix.finished):
            _write_cell(axes, (column, row), matrix.values[row, column], is_seen=row >= own)
        axes.add_patch(Rectangle((column + 0.02, own + 0.03), 0.96, 0.94, fill=False, edgecolor=INK, linewidth=1.3))
    _name_cells(axes, matrix)
    return figure


@styled
def accuracy_over_stages(matrix: AccuracyMatrix) -> Figure:
    """A line per domain, dashed up to the large mark at the stage that learns it."""
    figure = Figure(figsize=(WIDTH, 3.4))
    axes = figure.subplots()
    # the legend lists the domains in the order in which their lines end
    final = matrix.values[-1] if matrix.finished else np.zeros(len(matrix.domains))
    for column in np.argsort(-final, kind="stable"):
        name = matrix.domains[column]
        look: dict[str, Any] = {"color": COLOURS[column % len(COLOURS)], "marker": MARKERS[column % len(MARKERS)]}
        accuracy, own = 100 * matrix.values[:, column], matrix.stage_of[name]
        before, after = np.arange(len(accuracy))[: own + 1], np.arange(len(accuracy))[own:]
        axes.plot(before, accuracy[before], "--", linewidth=0.9, markersize=2.5, **look)
        axes.plot(after, accuracy[after], linewidth=1.6, markersize=3.5, **look)
        axes.plot(after[:1], accuracy[after[:1]], markersize=8, label=legend_label(name), **look)
    axes.set_xticks(range(len(matrix.stages)), spaced([visible(label) for label in matrix.stage_labels]))
    axes.set_xlim(-0.2, len(matrix.stages) - 0.8)
    axes.set_ylabel("accuracy in %")
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    figure.legend(loc="outside right upper", labelspacing=0.8)
    return figure


@styled
def training_panels(curves: Mapping[str, Curve], stage_names: Mapping[int, str]) -> Figure:
    """A panel per logged value, each with a scale of its own."""
    figure = Figure(figsize=(WIDTH, 0.5 + 1.25 * len(curves)))
    panels = figure.subplots(len(curves), sharex=True, squeeze=False)[:, 0]
    stages = _stages_of(curves)
    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        _plot(axes, curve, stages, COLOURS[0])
        axes.set_title(short(name, 60))
        _name_stages(axes, stages, stage_names)
    return figure


@styled
def training_lines(
    curves: Mapping[str, Curve], stage_names: Mapping[int, str], label: str, limits: tuple[float, float] | None = None
) -> Figure:
    """A line per logged value, all on one scale."""
    figure = Figure(figsize=(WIDTH, 2.4))
    axes = figure.subplots()
    stages = _stages_of(curves)
    for index, (name, curve) in enumerate(curves.items()):
        _plot(axes, curve, stages, COLOURS[index % len(COLOURS)], legend_label(name))
    _name_stages(axes, stages, stage_names)
    axes.set_ylabel(label)
    if limits:
        margin = 0.04 * (limits[1] - limits[0])
        axes.set_ylim(limits[0] - margin, limits[1] + margin)
    axes.axhline(0, color=GREY, linewidth=0.6, zorder=0)
    figure.legend(loc="outside right upper")
    return figure


@styled
def both_sides(constraints: Mapping[str, Sides]) -> Figure:
    """A panel per constraint: its mean cross-entropy before and after each stage, both sides of Eq. 5-7."""
    columns = min(3, len(constraints))
    rows = math.ceil(len(constraints) / columns)
    stages = sorted({stage for sides in constraints.values() for stage in sides})
    figure = Figure(figsize=(WIDTH, 0.6 + 1.75 * rows))
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for axes, (name, sides) in zip(panels, constraints.items(), strict=False):
        _draw_sides(axes, sides, stages)
        axes.set_title(short(name, 24))
    for axes in panels[len(constraints) :]:
        axes.set_visible(False)
    figure.supylabel("mean cross-entropy", fontsize=9)
    looks = [
        Patch(color=PALE, label="before the stage"),
        Patch(color=COLOURS[0], label="after: held"),
        Patch(facecolor=COLOURS[1], edgecolor="white", hatch="///", label="after: risen"),
    ]
    figure.legend(handles=looks, loc="outside lower center", ncols=3)
    return figure


def _write_cell(axes: Axes, corner: tuple[int, int], accuracy: float, is_seen: bool) -> None:
    column, row = corner
    if not is_seen:
        axes.add_patch(Rectangle(corner, 1, 1, color="white", alpha=0.65, linewidth=0))
    colour = "#505050" if not is_seen else "white" if accuracy > 0.55 else INK
    axes.text(column + 0.5, row + 0.5, f"{100 * accuracy:.1f}", color=colour, ha="center", va="center")


def _name_cells(axes: Axes, matrix: AccuracyMatrix) -> None:
    domains = [short(name) for name in matrix.domains]
    axes.set_xticks(np.arange(len(domains)) + 0.5, domains)
    axes.set_yticks(np.arange(len(matrix.stages)) + 0.5, [short(label, 28) for label in matrix.stage_labels])
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    if max(map(len, domains)) > 9:
        for text in axes.get_xticklabels():
            text.set(rotation=25, horizontalalignment="left", rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    axes.invert_yaxis()
    axes.set_ylabel("after stage")
    axes.set_xlabel("accuracy in %; outlined: the stage that learns the domain; pale: not learnt yet", color=GREY)


def legend_label(name: str) -> str:
    """A name for a legend."""
    # matplotlib hides labels that begin with an underscore
    return f" {short(name)}"


def spaced(labels: Sequence[str]) -> list[str]:
    """Labels that do not run into each other: many stages keep their numbers only."""
    room = 80 // len(labels)
    lines = [[short(line, room) for line in label.split("\n")] for label in labels]
    return ["\n".join(line) if room > 9 else line[0].split()[0] for line in lines]


def _stages_of(curves: Mapping[str, Curve]) -> list[int]:
    return sorted({stage for curve in curves.values() for stage in curve})


def _plot(axes: Axes, curve: Curve, stages: Sequence[int], colour: str, name: str | None = None) -> None:
    """One line with a break between stages, each stage one unit wide whatever its number of steps."""
    for position, stage in enumerate(stages):
        points = _thinned(curve.get(stage, []))
        across = [position + progress for progress, _ in points]
        marker = "." if len(points) == 1 else ""
        axes.plot(across, [value for _, value in points], marker=marker, color=colour, linewidth=1.1, label=name)
        name = None


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `MOST_POINTS` points, each the mean of its neighbours: the values are means over steps already."""
    size = max(1, math.ceil(len(points) / MOST_POINTS))
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(fmean(x for x, _ in group), fmean(y for _, y in group)) for group in groups]


def _name_stages(axes: Axes, stages: Sequence[int], names: Mapping[int, str]) -> None:
    labels = spaced([names.get(stage, str(stage)) for stage in stages])
    axes.set_xticks(np.arange(len(stages)) + 0.5, labels)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(0, len(stages))
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    for border in range(1, len(stages)):
        axes.axvline(border, color="#bdbdbd", linewidth=0.8)


def _draw_sides(axes: Axes, sides: Sides, stages: Sequence[int]) -> None:
    for stage, (before, after) in sides.items():
        risen: dict[str, Any] = {"color": COLOURS[1], "edgecolor": "white", "hatch": "///"}
        axes.bar(stage - 0.2, before, 0.38, color=PALE)
        axes.bar(stage + 0.2, after, 0.38, linewidth=0, **(risen if after > before else {"color": COLOURS[0]}))
    axes.set_xticks(stages)
    axes.set_xlim(min(stages) - 0.7, max(stages) + 0.7)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("stage", color=GREY)
