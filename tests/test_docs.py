"""The documentation's code runs, and the files that it names exist."""

import re
from pathlib import Path

import pytest

from grcl.methods import METHODS
from grcl.run import run
from tiny import tiny_settings

ROOT = Path(__file__).parents[1]


def test_the_method_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/new_method.md").read_text(), flags=re.DOTALL | re.M)
    before = dict(METHODS)
    try:
        exec(code, {"__name__": "docs"})
        settings = tiny_settings("entropy", entropy__weight=0.3)
        matrix = run(settings, tmp_path / "a")
        assert matrix.is_complete
    finally:
        METHODS.clear()
        METHODS.update(before)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_links_and_source_files_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"`((?:[a-z_]+/)*[a-z_0-9]+\.py)`", text) if page.name == "paper.md" else ():
        places = [ROOT / name, ROOT / "src/grcl" / name, ROOT / "src/grcl/methods" / name]
        assert any(place.exists() for place in places), name
