"""The report: complete, self-contained, inert to hostile names, and patient with unfinished runs."""

import html
import json
import re
import stat
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from grcl.results.report import write_report
from grcl.results.run_files import RunFiles
from grcl.runtime.errors import Refusal

HOSTILE = ["<script>alert(1)</script>", "$x$", "\x1b[31m", "[red]", "a|b", "=1+1"]
SHOWN = ["<script>alert(1)</script>", "$x$", "\\x1b[31m", "[red]", "a|b", "=1+1"]
STAGES = [HOSTILE[:1], HOSTILE[1:2], HOSTILE[2:4], HOSTILE[4:]]


class Page(HTMLParser):
    """The visible text, the tags and the links of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(source)
        self.text = " ".join(filter(None, self.words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action")
        ]

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def step(stage: int, step: int, values: Mapping[str, float | None]) -> dict[str, Any]:
    return {"kind": "step", "stage": stage, "epoch": 0, "step": step, "steps": 40, "values": values}


def log_of(stage: int) -> list[dict[str, Any]]:
    constrained = {"violated/source": 0.25, "applied/source": 0.1, "multiplier/source": 0.4, "cosine/source": -0.1}
    values = {"loss/contrast": 2.1, "discrepancy": 0.3, **constrained}
    monitors = {"entropy": 0.41, "agreement": 0.8}
    return [
        {"kind": "monitor", "stage": stage, "when": "before", "values": monitors},
        step(stage, 20, values),
        step(stage, 40, {**values, "loss/contrast": None}),
        {"kind": "constraint", "stage": stage, "name": "source", "before": 0.61, "after": 0.55},
        {"kind": "constraint", "stage": stage, "name": "M_1", "before": 0.51, "after": 0.55},
        {"kind": "episode", "stage": stage, "size": 1024, "agreement": 0.81, "classes": [103, 99, 0]},
        {"kind": "monitor", "stage": stage, "when": "after", "values": {"entropy": 0.312, "agreement": 0.8}},
        {"kind": "stage", "stage": stage, "name": HOSTILE[stage], "steps": 500, "images": 256000, "seconds": 31.0},
        {"kind": "from the future", "stage": stage},
    ]


def write_json(path: Path, record: Any) -> None:
    path.write_text(json.dumps(record), encoding="utf-8")


def make_run(directory: Path) -> None:
    config = {
        "benchmark": HOSTILE[0],
        "method": "grcl",
        "seed": 7,
        "targets": HOSTILE[1:],
        "memory": {"size": 512, "selection": HOSTILE[2]},
    }
    data = {name: {"fingerprint": "f00d", "train": 2000, "test": 500, "note": HOSTILE[0]} for name in HOSTILE}
    environment = {"python": "3.11.7", "packages": {"torch": "2.13.0"}, "commit": None, "command": ["grcl", "run it"]}
    rows = [[0.9, 0.5, 0.4, 0.4, 0.3, 0.2], [0.8, 0.7, 0.5, 0.4, 0.4, 0.3]] * 2
    write_json(directory / "config.json", config)
    write_json(directory / "environment.json", {**environment, "data": data})
    write_json(directory / "accuracy.json", {"domains": HOSTILE, "stages": STAGES, "accuracy": rows})
    lines = [step(0, 40, {"loss/source": 0.3}), *log_of(1), *log_of(2), *log_of(3)]
    (directory / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    make_run(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a finished run."""
    make_run(directory := tmp_path_factory.mktemp("run"))
    return write_report(directory).read_text(encoding="utf-8")


def page_of(directory: Path) -> Page:
    return Page(write_report(directory).read_text(encoding="utf-8"))


def test_every_part_is_there(source: str) -> None:
    text = Page(source).text
    titles = ["Accuracy matrix R", "Accuracy over the stages", "Losses", "Other values", "Conflicts", "Multipliers"]
    titles += ["Cosines", "Both sides of Eq. 5–7", "Memory", "Monitors", "Stages", "Settings", "Environment", "Data"]
    facts = ["grcl on <script>alert(1)</script>, seed 7", "256,000", "81.0", "2 of 3", "0.410 → 0.312", "f00d", "2,000"]
    facts += ["memory.size 512", "packages.torch 2.13.0", "grcl 'run it'", "ACC (%)", "BWT (points)"]
    for part in (*titles, *facts):
        assert part in text
    assert "unfinished" not in text


def test_hostile_names_are_text(source: str) -> None:
    page = Page(source)
    assert "script" not in page.tags
    for name in SHOWN:
        assert name in page.text
    assert "\x1b" not in source
    assert "\\x1b[31m" in html.unescape(source)


def test_nothing_is_loaded_from_outside(source: str) -> None:
    page = Page(source)
    assert all(link.startswith("#") for link in page.links)
    assert not {"script", "link", "img", "image", "iframe", "object", "embed"} & set(page.tags)
    assert not re.search(r"@import|url\((?!#)", source)
    assert set(re.findall(r"https?:[^\s\"]*", source)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_links_within_the_page_resolve(source: str) -> None:
    ids = re.findall(r' id="([^"]+)"', source)
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in Page(source).links} <= set(ids)


def test_equal_files_give_equal_bytes(directory: Path, source: str) -> None:
    assert write_report(directory).read_text(encoding="utf-8") == source
    assert write_report(directory).read_text(encoding="utf-8") == source


def test_the_page_is_written_in_one_go_and_readable_by_others(directory: Path) -> None:
    before = {path.name for path in directory.iterdir()}
    path = write_report(directory)
    assert {path.name for path in directory.iterdir()} == before | {"report.html"}
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((directory / "config.json").stat().st_mode)


def test_settings_alone_make_a_report(directory: Path) -> None:
    for name in ("environment.json", "accuracy.json", "log.jsonl"):
        (directory / name).unlink()
    text = page_of(directory).text
    assert "unfinished: no stage has been evaluated yet" in text
    assert "memory.selection" in text


def test_an_empty_log_makes_a_report(directory: Path) -> None:
    (directory / "log.jsonl").write_text("", encoding="utf-8")
    text = page_of(directory).text
    assert "This run logged no losses." in text
    assert "This run kept no memory." in text


@pytest.mark.parametrize("finished", [0, 1, 3])
def test_an_unfinished_run_says_so(directory: Path, finished: int) -> None:
    record = json.loads((directory / "accuracy.json").read_text(encoding="utf-8"))
    write_json(directory / "accuracy.json", {**record, "accuracy": record["accuracy"][:finished]})
    assert f"unfinished: {finished} of 4 stages" in page_of(directory).text


def test_a_line_cut_short_is_passed_over(directory: Path) -> None:
    whole = RunFiles.read(directory).log
    with (directory / "log.jsonl").open("ab") as log:
        log.write('{"kind": "step", "stage": 3, "name": "é'.encode()[:-1])
    assert RunFiles.read(directory).log == whole
    assert "256,000" in page_of(directory).text


def test_a_resumed_run_may_repeat_lines(directory: Path) -> None:
    with (directory / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(step(1, 20, {"loss/contrast": 9.0})) + "\n")
    assert RunFiles.read(directory).curves("loss/")["contrast"][1][0] == (0.5, 9.0)


def test_curves_and_constraints_are_found_by_name(directory: Path) -> None:
    run = RunFiles.read(directory)
    assert run.curves("violated/") == {"source": {stage: [(0.5, 0.25), (1.0, 0.25)] for stage in (1, 2, 3)}}
    assert run.constraints()["M_1"] == dict.fromkeys((1, 2, 3), (0.51, 0.55))


def test_no_run_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="name the directory of a run"):
        write_report(tmp_path)


def test_a_damaged_file_is_named(directory: Path) -> None:
    (directory / "accuracy.json").write_text('{"domains": [', encoding="utf-8")
    with pytest.raises(Refusal, match=r"accuracy\.json is not a JSON object"):
        write_report(directory)
    write_json(directory / "accuracy.json", {"domains": ["s"], "stages": [["s"]], "accuracy": [[93.6]]})
    with pytest.raises(Refusal, match=r"accuracy\.json: .* not percent"):
        write_report(directory)
