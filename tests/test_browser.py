"""The pages in a real browser: nothing from outside, no error, every row and figure in sight, hostile names as text."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from grcl.results.comparison_page import write_comparison
from grcl.results.figure_kinds import KINDS
from grcl.results.report import write_report
from made_up import HOSTILE, METHODS, make_gallery
from test_report import SHOWN, make_run

pytestmark = pytest.mark.long

QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@dataclass
class Visit:
    """A page that was opened, and all that happened meanwhile."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium; Playwright's own is not needed."""
    executable = shutil.which("chromium")
    if executable is None:
        assert os.environ.get("CI") != "true", "chromium is missing: apt-get install chromium"
        pytest.skip("needs chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(QUIET))
        yield browser
        browser.close()


def visit(browser: Browser, path: Path) -> Visit:
    """Open the page of a file, and scroll through it."""
    seen = Visit(browser.new_page(viewport={"width": 1200, "height": 900}))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on("dialog", lambda dialog: seen.complaints.append(f"dialog: {dialog.message}"))
    seen.page.goto(path.as_uri())
    seen.page.mouse.wheel(0, 20_000)
    seen.page.wait_for_load_state("networkidle")
    return seen


def assert_self_contained(seen: Visit, path: Path) -> None:
    assert seen.requests == [path.as_uri()]
    assert seen.complaints == []


def assert_figures_in_sight(page: Page, titles: list[str]) -> None:
    for title in titles:
        drawing = page.locator("figure", has=page.get_by_role("heading", name=title, exact=True)).locator("svg")
        assert drawing.count() == 1, title
        box = drawing.bounding_box()
        assert drawing.is_visible()
        assert box is not None
        assert min(box["width"], box["height"]) > 100


def test_the_comparison(browser: Browser, tmp_path: Path) -> None:
    make_gallery(tmp_path)
    write_comparison(tmp_path)
    seen = visit(browser, tmp_path / "comparison.html")
    assert_self_contained(seen, tmp_path / "comparison.html")
    rows = seen.page.locator("#results tbody tr")
    names = [rows.nth(index).locator("td").first.inner_text() for index in range(rows.count())]
    assert all(rows.nth(index).is_visible() for index in range(rows.count()))
    assert list(dict.fromkeys(names)) == [*METHODS, HOSTILE[0]]
    assert_figures_in_sight(seen.page, [kind.title for kind in KINDS.values()])
    # nothing of the page is wider than the window
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_report(browser: Browser, tmp_path: Path) -> None:
    make_run(tmp_path)
    write_report(tmp_path)
    seen = visit(browser, tmp_path / "report.html")
    assert_self_contained(seen, tmp_path / "report.html")
    header = seen.page.locator("#results thead th").all_inner_texts()
    assert header[1 : 1 + len(SHOWN)] == SHOWN
    assert_figures_in_sight(seen.page, ["Accuracy matrix R", "Accuracy over the stages", "Losses", "Conflicts"])


def test_the_links_lead_to_the_reports(browser: Browser, tmp_path: Path) -> None:
    make_gallery(tmp_path, seeds=1)
    for config in tmp_path.glob(f"{HOSTILE[0].replace('/', '_')}/*/*/config.json"):
        write_report(config.parent)
    write_comparison(tmp_path)
    page = visit(browser, tmp_path / "comparison.html").page
    links = page.locator("#runs li", has_text=HOSTILE[0]).get_by_role("link")
    links.first.click()
    page.wait_for_load_state()
    assert page.locator("h1").inner_text() == f"{HOSTILE[0]} on digits, seed 0"
