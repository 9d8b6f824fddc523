"""Self-contained HTML pages: templates with everything escaped, figures inline, written in one go."""

from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from grcl.results.drawing import as_svg
from grcl.runtime.files import write_atomically, writing
from grcl.runtime.visible import visible


class Plate(NamedTuple):
    """A figure with its heading and what it shows."""

    title: str
    caption: str
    svg: Markup


def plate(title: str, caption: str, figure: Figure) -> Plate:
    """The figure as it stands in a page."""
    return Plate(title, caption, Markup(as_svg(figure)))


def render_page(template: str, parts: dict[str, Any]) -> str:
    """The page as text; equal parts give equal text."""
    environment = Environment(
        loader=PackageLoader("grcl.results"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(parts)


def _shown(value: Any) -> Any:
    """What the page prints: text with nothing invisible in it, our own markup as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def replace_text(path: Path, text: str) -> None:
    """Write in one go: a reader sees the old page or the new one, never half of it."""
    with writing(path.parent):
        write_atomically(path, text.encode())
