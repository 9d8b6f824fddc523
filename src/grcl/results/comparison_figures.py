"""The figures of a comparison: rows of runs in, a matplotlib figure out."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from grcl.results.comparison import Group, Row
from grcl.results.comparison_tables import ACC, BWT, mean_and_deviation
from grcl.results.drawing import COLOURS, GREY, INK, MARKERS, PALE, WIDTH, short, styled
from grcl.results.families import Sweep
from grcl.results.figures import legend_label, spaced
from grcl.results.one_target import OneTarget
from grcl.results.spread import Spread, spread

BEST, OTHERS = COLOURS[0], "#a8c8dd"


class Panel(NamedTuple):
    """One column of bars: a value per label, and the paper's value where it has one, in percent."""

    title: str
    values: Sequence[Spread | None]
    is_change: bool = False
    paper: Mapping[int, float] = {}


@styled
def bars(group: Group) -> Figure:
    """ACC and BWT of every row, with the standard deviation over seeds."""
    known = group.paper.methods if group.paper else {}
    places = {
        place: known[row.method] for place, row in enumerate(group.rows) if not row.variant and row.method in known
    }
    panels = [
        Panel(
            score.name,
            [score.over_seeds(row) for row in group.rows],
            score.is_change,
            {place: figures[column].mean for place, figures in places.items()},
        )
        for column, score in enumerate((ACC, BWT))
    ]
    return _bar_panels([row.label for row in group.rows], panels)


@styled
def one_target_bars(entries: Sequence[OneTarget]) -> Figure:
    """Accuracy on the source and on the target, averaged over the targets."""
    panels = [
        Panel("accuracy on the source (%)", [entry.source for entry in entries]),
        Panel("accuracy on the target (%)", [entry.target for entry in entries]),
    ]
    return _bar_panels([entry.label for entry in entries], panels)


@styled
def first_target(group: Group) -> Figure:
    """Accuracy on the first target after its own stage and every later one, a line per method."""
    adapted = [row for row in group.plain_rows if len(row.matrix.stages) > 1]
    # variants may have other targets, or the same in another order
    rows = [row for row in adapted if row.matrix.stages == adapted[0].matrix.stages]
    figure = Figure(figsize=(WIDTH, 3.6))
    axes = figure.subplots()
    # counted from the end: the best colours go to the methods of the paper
    lines = [(index, row.label, _on_first_target(row)) for index, row in enumerate(reversed(rows))]
    # the legend lists the methods in the order in which their lines end
    for index, label, line in sorted(lines, key=lambda entry: -entry[2][-1].mean):
        # side by side, so that no error bar hides another
        shift = 0.025 * ((len(rows) - 1) / 2 - index)
        _line(axes, [(stage + shift, value) for stage, value in enumerate(line, start=1)], label, index)
    labels = rows[0].matrix.stage_labels[1:]
    axes.set_xticks(range(1, len(labels) + 1), spaced(labels))
    axes.set_xlabel("after stage", color=GREY)
    axes.set_ylabel(f"accuracy on {short('+'.join(rows[0].matrix.stages[1]))} (%)")
    _finish(figure, axes)
    return figure


@styled
def sweep_lines(found: Sequence[Sweep], label: str, paper: Mapping[int, float]) -> Figure:
    """ACC against one setting, a line per method; hollow marks are the paper's."""
    figure = Figure(figsize=(WIDTH, 3.2))
    axes = figure.subplots()
    for index, sweep in enumerate(found):
        _line(axes, sweep.points, sweep.label, index)
    if paper:
        axes.plot(
            *zip(*paper.items(), strict=True), "D:", color=GREY, markerfacecolor="white", label="grcl in the paper"
        )
    values = sorted({value for sweep in found for value, _ in sweep.points} | set(paper))
    if values[0] > 0 and values[-1] / values[0] >= 8:
        axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.set_ylabel(ACC.name)
    _finish(figure, axes)
    return figure


def _bar_panels(labels: Sequence[str], panels: Sequence[Panel]) -> Figure:
    figure = Figure(figsize=(WIDTH, 0.75 + 0.3 * len(labels)))
    for axes, panel in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
        _draw_bars(axes, panel)
        axes.set_yticks(range(len(labels)), [short(label, 34) for label in labels])
        axes.set_ylim(len(labels) - 0.5, -0.5)
    if any(panel.paper for panel in panels):
        figure.legend(handles=[_paper_mark()], loc="outside lower right")
    return figure


def _draw_bars(axes: Axes, panel: Panel) -> None:
    means = [value.mean for value in panel.values if value]
    for place, value in enumerate(panel.values):
        if value is None:
            axes.text(0, place, " n/a", color=GREY, va="center")
            continue
        mean, deviation = 100 * value.mean, 100 * (value.deviation or 0.0)
        axes.barh(place, mean, 0.66, color=BEST if value.mean == max(means) else OTHERS)
        axes.errorbar(mean, place, xerr=deviation or None, color=INK, linewidth=0.9, capsize=2.5, capthick=0.9)
        _write_value(axes, place, panel, value)
    for place, mean in panel.paper.items():
        axes.plot(mean, place, "D", color=INK, markerfacecolor="white", markersize=4.5, zorder=3)
    axes.set_title(panel.title)
    axes.axvline(0, color=GREY, linewidth=0.6)
    axes.margins(x=0.45 if panel.paper else 0.32)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if not panel.is_change:
        limits = axes.get_xlim()
        axes.set_xticks(range(0, 101, 20))
        axes.set_xlim(limits)


def _write_value(axes: Axes, place: int, panel: Panel, value: Spread) -> None:
    """Beyond whatever else is drawn for the bar."""
    sign = -1 if value.mean < 0 else 1
    reach = sign * 100 * value.mean + 100 * (value.deviation or 0.0)
    axes.annotate(
        mean_and_deviation(value, panel.is_change).replace("-", "−"),
        (sign * max(reach, sign * panel.paper.get(place, 0.0)), place),
        xytext=(6 * sign, 0),
        textcoords="offset points",
        ha="right" if sign < 0 else "left",
        va="center",
        fontsize=8,
    )


def _paper_mark() -> Line2D:
    return Line2D(
        [], [], color=INK, marker="D", linestyle="", markerfacecolor="white", markersize=4.5, label="the paper"
    )


def _on_first_target(row: Row) -> list[Spread]:
    """The accuracy on the domains of stage 1 after every stage from 1 on."""
    columns = [row.matrix.domains.index(name) for name in row.matrix.stages[1]]
    stages = range(1, len(row.matrix.stages))
    spreads = [spread(fmean(run.matrix.values[stage, columns]) for run in row.runs) for stage in stages]
    return [value for value in spreads if value is not None]


def _line(axes: Axes, points: Sequence[tuple[float, Spread]], label: str, index: int) -> None:
    colour = COLOURS[index % len(COLOURS)]
    deviations = [100 * (each.deviation or 0.0) for _, each in points]
    axes.errorbar(
        [value for value, _ in points],
        [100 * each.mean for _, each in points],
        yerr=deviations if any(deviations) else None,
        color=colour,
        ecolor=(colour, 0.4),  # the deviations of many methods must not drown their means
        marker=MARKERS[index % len(MARKERS)],
        linestyle="-" if index < len(COLOURS) else "--",
        linewidth=1.4,
        elinewidth=1.0,
        markersize=4.5,
        label=legend_label(label),
    )


def _finish(figure: Figure, axes: Axes) -> None:
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    figure.legend(loc="outside right upper", labelspacing=0.7)
