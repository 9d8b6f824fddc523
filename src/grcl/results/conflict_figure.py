"""The figure of gradient conflicts: histogram of cosines, share of violated steps and size of the correction."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from grcl.results.conflict import StageConflicts
from grcl.results.drawing import COLOURS, GREY, PALE, WIDTH, short, styled
from grcl.results.figures import legend_label

BINS = 40
Conflicts = Mapping[int, StageConflicts]


@styled
def conflict_panels(methods: Mapping[str, Conflicts]) -> Figure:
    """A line of three panels per method, all by stage."""
    names = list(
        dict.fromkeys(name for stages in methods.values() for each in stages.values() for name in each.cosines)
    )
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
    figure = Figure(figsize=(WIDTH, 0.7 + 2.0 * len(methods)))
    panels = figure.subplots(len(methods), 3, squeeze=False, width_ratios=(2.0, 1.2, 1.0))
    for (left, middle, right), (label, stages) in zip(panels, methods.items(), strict=True):
        _draw_cosines(left, stages, colours)
        left.set_title(f"{short(label, 40)}: cosines")
        _draw_violations(middle, stages, colours)
        middle.set_title("violated steps (%)")
        right.bar([str(stage) for stage in stages], [each.correction for each in stages.values()], 0.5, color=GREY)
        right.set_title("size of the correction")
        for axes in (left, middle, right):
            axes.grid(axis="y", color=PALE, linewidth=0.5)
            axes.set_axisbelow(True)
            axes.tick_params(axis="x", length=0)
    for axes in panels[-1]:
        axes.set_xlabel("stage", color=GREY)
    looks = [Patch(color=colour, label=legend_label(f"against {name}")) for name, colour in colours.items()]
    figure.legend(handles=looks, loc="outside lower center", ncols=min(4, len(looks)))
    return figure


class Slot(NamedTuple):
    """One constraint's share of one stage on the horizontal axis."""

    stage: StageConflicts
    name: str
    start: float
    width: float


def _slots(stages: Conflicts) -> Iterator[Slot]:
    names = list(dict.fromkeys(name for each in stages.values() for name in each.cosines))
    width = 0.84 / len(names)
    for place, each in enumerate(stages.values()):
        for index, name in enumerate(names):
            if name in each.cosines:
                yield Slot(each, name, place - 0.42 + index * width, width)


def _draw_cosines(axes: Axes, stages: Conflicts, colours: Mapping[str, str]) -> None:
    """A histogram per stage and constraint, lying on its side: what reaches below zero is in conflict."""
    edges = np.linspace(-1, 1, BINS + 1)
    for stage, name, start, width in _slots(stages):
        counts, _ = np.histogram(stage.cosines[name], edges)
        ends = start + 0.92 * width * counts / max(1, counts.max())
        axes.stairs(ends, edges, baseline=start, orientation="horizontal", fill=True, color=colours[name])
        axes.vlines(start, -1, 1, color=PALE, linewidth=0.6, zorder=0)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_ylim(-1, 1)
    _name_stages(axes, stages)


def _draw_violations(axes: Axes, stages: Conflicts, colours: Mapping[str, str]) -> None:
    for stage, name, start, width in _slots(stages):
        axes.bar(start, 100 * stage.violated.get(name, 0.0), 0.92 * width, align="edge", color=colours[name])
    _name_stages(axes, stages)


def _name_stages(axes: Axes, stages: Conflicts) -> None:
    axes.set_xticks(range(len(stages)), [str(stage) for stage in stages])
    axes.set_xlim(-0.55, len(stages) - 0.45)
