"""Figures: the same bytes each time, names as inert text, and no trouble with odd data."""

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.results.figures import (
    MOST_POINTS,
    accuracy_over_stages,
    as_svg,
    both_sides,
    heat_map,
    save,
    training_lines,
    training_panels,
)
from grcl.results.run_files import Curve

HOSTILE = ("<script>alert(1)</script>", "$x$", "\x1b[31m", "[red]", "a|b", "=1+1", "_hidden", "数字", "]]>-->")
CURVES: dict[str, Curve] = {
    "source": {1: [(0.5, 1.0), (1.0, 0.5)], 2: [(0.5, 0.7)]},
    "memory": {2: [(0.5, math.nan), (1.0, 0.4)]},
}
LABELS = {1: "1 a\n20 steps", 2: "2 b\n20 steps"}


def hostile_matrix(finished: int = 2) -> AccuracyMatrix:
    matrix = AccuracyMatrix.empty([HOSTILE[:1], HOSTILE[1:]])
    for _ in range(finished):
        matrix = matrix.recorded([0.5] * len(HOSTILE))
    return matrix


def texts_of(svg: str) -> set[str]:
    return {element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}


def draw_all() -> list[Figure]:
    return [
        heat_map(hostile_matrix()),
        accuracy_over_stages(hostile_matrix()),
        training_panels(CURVES, LABELS),
        training_lines(CURVES, LABELS, "share", (0.0, 1.0)),
        both_sides({"source": {1: (0.5, 0.4), 2: (0.4, 0.5)}, "M": {2: (0.3, math.nan)}}),
    ]


def test_equal_data_give_equal_bytes() -> None:
    assert [as_svg(figure) for figure in draw_all()] == [as_svg(figure) for figure in draw_all()]


def test_no_setting_of_the_reader_changes_a_figure() -> None:
    usual = as_svg(training_panels(CURVES, LABELS))
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "axes.facecolor": "black"}):
        assert as_svg(training_panels(CURVES, LABELS)) == usual


def test_figures_are_self_contained_and_undated() -> None:
    for figure in draw_all():
        svg = as_svg(figure)
        assert not re.search(r"href=\"[^#]|<image|<metadata|<script", svg)
        assert set(re.findall(r"https?://[^\"]*", svg)) <= {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }


def test_ids_differ_between_figures_and_resolve_within() -> None:
    seen: set[str] = set()
    for figure in draw_all():
        svg = as_svg(figure)
        ids = set(re.findall(r' id="([^"]+)"', svg))
        assert set(re.findall(r'(?:url\(|href=")#([^")]+)', svg)) <= ids
        assert not ids & seen
        seen |= ids


@pytest.mark.parametrize("draw", [heat_map, accuracy_over_stages])
def test_hostile_names_are_text(draw: object) -> None:
    shown = {text.strip() for text in texts_of(as_svg(draw(hostile_matrix())))}  # type: ignore[operator]
    expected = {"$x$", "\\x1b[31m", "[red]", "a|b", "=1+1", "_hidden", "数字", "]]>-->"}
    assert expected <= shown
    assert any(text.startswith("<script>alert(1)</s") for text in shown)


@pytest.mark.parametrize("finished", [0, 1])
def test_unfinished_matrices_are_drawn(finished: int) -> None:
    assert "<svg" in as_svg(heat_map(hostile_matrix(finished)))
    assert "<svg" in as_svg(accuracy_over_stages(hostile_matrix(finished)))


def test_the_heat_map_writes_percent() -> None:
    matrix = AccuracyMatrix.empty([["s"], ["a"]]).recorded([0.936, 0.5])
    assert {"93.6", "50.0", "s", "0 s", "1 a"} <= texts_of(as_svg(heat_map(matrix)))


def test_stages_name_their_steps() -> None:
    assert {"1 a", "2 b", "20 steps", "source", "memory"} <= texts_of(as_svg(training_panels(CURVES, LABELS)))


def test_many_stages_keep_their_numbers() -> None:
    curves: dict[str, Curve] = {"loss": {stage: [(1.0, 1.0)] for stage in range(20)}}
    labels = {stage: f"{stage} a-long-name\n10 steps" for stage in range(20)}
    texts = texts_of(as_svg(training_panels(curves, labels)))
    assert {str(stage) for stage in range(20)} <= texts


def test_long_logs_make_light_pages() -> None:
    points = [(index / 5000, math.sin(index)) for index in range(5000)]
    figure = training_lines({"loss": {1: points}}, {}, "loss")
    assert len(figure.axes[0].lines[0].get_xdata()) <= MOST_POINTS  # type: ignore[arg-type]


def test_values_that_are_no_numbers_leave_gaps() -> None:
    curves: dict[str, Curve] = {"loss": {1: [(0.5, math.nan), (1.0, math.inf)]}}
    assert "<svg" in as_svg(training_panels(curves, {}))


def test_save_by_ending(tmp_path: Path) -> None:
    figure = heat_map(hostile_matrix())
    save(figure, tmp_path / "r.svg")
    save(figure, tmp_path / "r.png")
    assert (tmp_path / "r.svg").read_text(encoding="utf-8") == as_svg(figure)
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"ends in \.svg or \.png"):
        save(figure, tmp_path / "r.gif")
