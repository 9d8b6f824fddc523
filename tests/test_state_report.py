"""The report of a learner: complete, self-contained, inert to hostile names, and without images on demand."""

import base64
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from grcl.learner.history import Accuracy, DataFacts, Entry
from grcl.learner.state import Facts, SourceFacts, StateDirectory
from grcl.learner.state_report import write_state_report
from grcl.runtime.checkpoint import encode
from grcl.runtime.errors import Refusal
from test_report import HOSTILE, SHOWN, Page

CLASSES = (*HOSTILE[:2], "mug")
PIXELS = torch.arange(5 * 3 * 96 * 96).remainder(251).to(torch.uint8).view(5, 3, 96, 96)
BEFORE = {
    "entropy": 1.2345,
    "agreement": 0.5,
    "density": 3.0,
    "source_loss": 0.25,
    "memory_loss": None,
    "violated": None,
}
AFTER = BEFORE | {"entropy": 0.4321, "violated": 0.125}


def fit() -> Entry:
    data = DataFacts(name="studio", fingerprint="f0", images=1234)
    return Entry(number=0, kind="fit", date="2026-01-05T09:30:00+00:00", data=data, model=0)


def adapt(number: int, name: str, **changes: Any) -> Entry:
    data = DataFacts(name=name, fingerprint=f"f{number}", images=5, note="2 unreadable images left out")
    facts: dict[str, Any] = {"method": "grcl_plus", "before": BEFORE, "after": AFTER, "model": number}
    date = f"2026-0{number + 1}-07T10:00:00+00:00"
    return Entry(number=number, kind="adapt", date=date, data=data, **facts | changes)


def memory() -> bytes:
    return encode({"pixels": PIXELS, "labels": torch.tensor([0, 0, 0, 1, 2])})


def examples(file: str = "a.jpg") -> bytes:
    said = {"classes": [*CLASSES], "confidence": [0.5, 0.75, 0.875]}
    then = {"classes": [CLASSES[0], "mug", "mug"], "confidence": [0.5, 0.625, 0.999]}
    files = [file, "b.jpg", "c.jpg"]
    return encode({"files": files, "pixels": PIXELS[:3], "before": said, "after": then})


def a_state(path: Path) -> StateDirectory:
    """Fitted; adapted to two domains, one of them refused; rolled back."""
    path.mkdir()
    directory = StateDirectory(path)
    source = SourceFacts(name=HOSTILE[0], place=None, fingerprint="f0", images=1234, kept=7)
    facts = Facts(classes=CLASSES, size=96, newest=0, source=source)
    facts = directory.commit(facts, fit(), {})
    first = adapt(1, HOSTILE[3], verdict="better", reason="agreement rose from 0.50 to 0.80", episodes=(1,))
    files = {"memory/0001.ckpt": memory(), "examples/0001.ckpt": examples(HOSTILE[2])}
    facts = directory.commit(facts, first, files)
    accuracy = Accuracy(images=4, before=0.75, after=0.25)
    refused = adapt(2, HOSTILE[4], verdict="worse", is_refused=True, accuracy=accuracy, model=1, episodes=(1,))
    facts = directory.commit(facts, refused, {"examples/0002.ckpt": examples()})
    back = Entry(number=3, kind="rollback", date="2026-04-01T00:00:00+00:00", to=0, model=0)
    directory.commit(facts, back, {})
    return directory


def forget(directory: StateDirectory) -> None:
    entry = Entry(number=4, kind="forget", date="2026-05-01T00:00:00+00:00", domain=1, model=0)
    directory.commit(directory.facts(), entry, {}, ("memory/0001.ckpt", "examples/0001.ckpt"))


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def test_the_page_tells_the_whole_story(tmp_path: Path) -> None:
    path = write_state_report(a_state(tmp_path / "state").path)
    text = read(path).text
    assert path == tmp_path / "state" / "report.html"
    for words in (
        *("fit on studio", "1,234", "2026-01-05 09:30", "In force: the model of entry 0"),
        *(f"adapt to {SHOWN[3]} by grcl_plus", "better", "agreement rose from 0.50 to 0.80"),
        *(f"adapt to {SHOWN[4]} by grcl_plus, refused", "worse", "75.0 → 25.0", "rollback to entry 0"),
        *("1.234 → 0.432", "0.125", "2 unreadable images left out", "Of the source 7 images are kept here"),
    ):
        assert words in text, words


def test_images_stand_beside_what_was_said_of_them(tmp_path: Path) -> None:
    page = read(write_state_report(a_state(tmp_path / "state").path))
    assert page.tags.count("img") == 3 + 3 + 5
    assert f"{SHOWN[2]} {SHOWN[0]} (50.0 %) → {SHOWN[0]} (50.0 %)" in page.text
    assert f"b.jpg {SHOWN[1]} (75.0 %) → mug (62.5 %)" in page.text
    thumbnails = [link.removeprefix("data:image/png;base64,") for link in page.links if link.startswith("data:")]
    sizes = [Image.open(BytesIO(base64.b64decode(thumbnail, validate=True))).size for thumbnail in thumbnails]
    assert sizes == [(64, 64)] * 11


def test_changed_predictions_are_marked(tmp_path: Path) -> None:
    source = write_state_report(a_state(tmp_path / "state").path).read_text(encoding="utf-8")
    assert source.count('<li class="changed">') == 2  # b.jpg, in the examples of both domains


def test_memory_is_counted_by_domain_and_class(tmp_path: Path) -> None:
    text = read(write_state_report(a_state(tmp_path / "state").path)).text
    assert f"class 1: {SHOWN[3]} {SHOWN[0]} 3 {SHOWN[1]} 1 mug 1 all 5" in text
    # every class comes before a second image of one of them
    assert f"5 of 5 images {SHOWN[0]} {SHOWN[1]} mug {SHOWN[0]} {SHOWN[0]}" in text


@pytest.mark.parametrize("thumbnails", [True, False])
def test_the_page_is_inert_and_needs_nothing_else(tmp_path: Path, thumbnails: bool) -> None:
    path = write_state_report(a_state(tmp_path / "state").path, thumbnails)
    page, source = read(path), path.read_text(encoding="utf-8")
    assert "script" not in page.tags
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert "\x1b" not in source
    assert not re.search(r"https?://", source)


def test_without_thumbnails_no_image_leaves_the_state(tmp_path: Path) -> None:
    page = read(write_state_report(a_state(tmp_path / "state").path, thumbnails=False))
    assert "img" not in page.tags
    assert "made without images" in page.text
    assert "all 5" in page.text  # the counts are told


def test_a_forgotten_domain_leaves_no_image(tmp_path: Path) -> None:
    directory = a_state(tmp_path / "state")
    forget(directory)
    page = read(write_state_report(directory.path))
    assert page.tags.count("img") == 3  # those of the refused domain
    assert "forget domain 1" in page.text
    assert "No domain is remembered" in page.text


def test_equal_states_give_equal_pages(tmp_path: Path) -> None:
    pages = [write_state_report(a_state(tmp_path / name).path).read_bytes() for name in ("here", "there")]
    assert pages[0] == pages[1]


def test_a_fit_alone_has_a_page(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    source = SourceFacts(name="studio", place=None, fingerprint="f0", images=3)
    directory.commit(Facts(classes=CLASSES, size=32, newest=0, source=source), fit(), {})
    text = read(write_state_report(tmp_path)).text
    assert "No adapt yet" in text
    assert "No domain is remembered" in text


def test_a_place_without_a_learner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no learner in"):
        write_state_report(tmp_path)
    assert not list(tmp_path.iterdir())
