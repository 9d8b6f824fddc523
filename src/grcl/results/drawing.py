"""How every figure looks, and how it is written: SVG that is the same to the byte each time, or PNG."""

import hashlib
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib.style
from matplotlib.figure import Figure

from grcl.runtime.visible import visible

INK, GREY, PALE = "#222222", "#6b6b6b", "#d9d9d9"
# Okabe and Ito's colours, which stay apart for colour-blind readers; their yellow is too faint on white
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", INK)
MARKERS = "osD^vPX*"
WIDTH = 8.6
STYLE: dict[str, Any] = {
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "grcl",
}
UNDATED = {"Creator": None, "Date": None, "Format": None, "Type": None}
Arguments = ParamSpec("Arguments")


@contextmanager
def _style() -> Iterator[None]:
    """Our style on matplotlib's defaults, so that nobody's matplotlibrc changes a report."""
    with matplotlib.style.context(STYLE, after_reset=True), warnings.catch_warnings():
        # a reader's browser knows more alphabets than matplotlib's font
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def styled(draw: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """The drawing function in our style, its layout settled: matplotlib would move it a little at every rendering."""

    @wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Figure:
        with _style():
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            return figure

    return drawn


def short(text: str, limit: int = 20) -> str:
    """A name that fits a label; the tables have it in full."""
    shown = visible(text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def as_svg(figure: Figure) -> str:
    """The figure as one `<svg>` element that stands in HTML or in a file of its own."""
    with _style(), StringIO() as stream:
        figure.savefig(stream, format="svg", metadata=UNDATED)
        text = stream.getvalue()
    return _with_own_ids(text[text.index("<svg") :])


def save(figure: Figure, path: Path) -> None:
    """Write the figure as SVG or PNG, by the ending of `path`."""
    if path.suffix == ".svg":
        path.write_text(as_svg(figure), encoding="utf-8")
    elif path.suffix == ".png":
        with _style():
            figure.savefig(path, dpi=200, metadata={"Software": None})
    else:
        raise ValueError(f"cannot write a figure as {path.name}; name a file that ends in .svg or .png")


def _with_own_ids(svg: str) -> str:
    """The SVG with ids that no other figure of the same page uses, numbered in the order in which they appear.

    matplotlib makes ids of places to the last bit, and the last bit of a layout is not the same each time.
    """
    reference = re.compile(r'( id="|url\(#|href="#)([^")]+)')
    numbers: dict[str, int] = {}

    def renamed(text: str, name: Callable[[str], str]) -> str:
        return re.sub(r"<[^>]+>", lambda tag: reference.sub(lambda found: found[1] + name(found[2]), tag[0]), text)

    numbered = renamed(svg, lambda name: str(numbers.setdefault(name, len(numbers))))
    prefix = "g" + hashlib.sha256(numbered.encode()).hexdigest()[:8]
    return renamed(numbered, lambda number: f"{prefix}-{number}")
