"""The laws of the check: it counts what is there, names all that is wrong, and no finding ends it."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from grcl.benchmarks import BENCHMARKS, Benchmark
from grcl.benchmarks.check import check
from grcl.benchmarks.findings import DOMAIN_COLUMNS, Findings
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.runtime.errors import Refusal
from miniature import OFFICE_CLASSES, write_classes, write_domainnet

READING = Reading(size=8, workers=0)
SHARED = Path(__file__).parents[2] / "shared" / "data" / "office_caltech"


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is learnt of these files is forgotten with them."""
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def office(tmp_path: Path, cache: None) -> Path:
    for seed, domain in enumerate(("dslr", "amazon", "webcam", "caltech")):
        write_classes(tmp_path / domain, list(OFFICE_CLASSES), seed=seed)
    return tmp_path


def as_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[dict[str, str]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def row_of(findings: Findings, domain: str) -> dict[str, str]:
    return next(row for row in as_table(DOMAIN_COLUMNS, findings.domain_rows()) if row["domain"] == domain)


def test_a_whole_tree_is_counted_and_nothing_is_remarked(office: Path) -> None:
    findings = check("office_caltech", office, READING)
    assert findings.is_whole
    assert findings.remarks() == []
    assert findings.class_columns == ("class", "dslr", "amazon", "webcam", "caltech")
    assert findings.class_rows() == [(name, "3", "3", "3", "3") for name in OFFICE_CLASSES]
    assert [row[:3] for row in findings.domain_rows()] == [
        (name, "30", "10") for name in ("dslr", "amazon", "webcam", "caltech")
    ]


def test_every_fault_is_found_in_one_go(office: Path) -> None:
    shutil.rmtree(office / "webcam")
    shutil.rmtree(office / "dslr" / "mug")
    (office / "amazon" / "bike" / "frame_0001.jpg").write_bytes(b"")
    (office / "amazon" / "bike" / "frame_0002.jpg").write_bytes(b"<html>404</html>")
    whole = (office / "amazon" / "mug" / "frame_0001.jpg").read_bytes()
    (office / "amazon" / "mug" / "frame_0002.jpg").write_bytes(whole[: len(whole) // 2])
    for copy in ("mouse/copy.jpg", "mug/copy.jpg"):
        shutil.copy(office / "caltech" / "mug" / "frame_0003.jpg", office / "caltech" / copy)
    findings = check("office_caltech", office, READING)
    dslr, amazon, webcam, caltech = findings.domains
    assert not findings.is_whole
    assert dslr.absent == ("mug",)
    assert amazon.empty == ("bike/frame_0001.jpg",)
    assert list(amazon.unreadable) == ["bike/frame_0002.jpg", "mug/frame_0002.jpg"]
    assert all(amazon.unreadable.values())
    assert (amazon.images, amazon.counts["all"]["bike"], amazon.counts["all"]["mug"]) == (27, 1, 2)
    assert "no images of webcam" in webcam.problem
    assert [sorted(group) for group in caltech.duplicates] == [["mouse/copy.jpg", "mug/copy.jpg", "mug/frame_0003.jpg"]]
    assert (caltech.images, caltech.is_whole) == (32, True)
    assert [len(remarks) for remarks in (dslr.remarks(), amazon.remarks(), webcam.remarks())] == [1, 2, 1]
    for domain in (dslr, webcam):
        assert f"expected: DATA/{domain.name}/<class>/*.jpg" in domain.remarks()[0]
    assert row_of(findings, "amazon") == dict(
        zip(DOMAIN_COLUMNS, ("amazon", "27", "10", "0", "1", "2", "0"), strict=True)
    )


def test_nothing_there_is_a_finding_for_every_domain(tmp_path: Path) -> None:
    for data in (tmp_path, tmp_path / "nowhere", None):
        findings = check("office_caltech", data, READING)
        assert not findings.is_whole
        assert all(domain.problem and domain.images == 0 for domain in findings.domains)
        assert len(findings.remarks()) == 4
        assert findings.class_rows() == []


@pytest.mark.usefixtures("cache")
def test_domainnet_tells_missing_images_and_a_false_list_apart(tmp_path: Path) -> None:
    write_domainnet(tmp_path, images=1, domains=("clipart", "real"))
    for number in range(1, 6):
        (tmp_path / "clipart" / "axe" / f"clipart_012_{number:06}.jpg").unlink(missing_ok=True)
    shutil.rmtree(tmp_path / "clipart" / "zigzag")
    with (tmp_path / "real_train.txt").open("a") as file:
        file.write("real/axe/real_012_000001.jpg 3\n")
    findings = check("domainnet", tmp_path, READING)
    clipart, real, infograph, _, _ = findings.domains
    assert clipart.images == 2 * 345 - 4
    assert len(clipart.missing) == 4
    assert clipart.absent == ("axe", "zigzag")
    assert "clipart: 4 missing: clipart/axe/clipart_012_000001.jpg" in "\n".join(clipart.remarks())
    assert "and 1 more" in "\n".join(clipart.remarks())
    assert "real_train.txt, line 346: axe has the label 3" in real.problem
    assert "no list infograph_train.txt" in infograph.problem
    assert len(findings.class_rows()) == 345


def test_programs_get_everything(office: Path) -> None:
    for number in range(9):
        (office / "amazon" / "bike" / f"empty{number}.jpg").write_bytes(b"")
    shutil.rmtree(office / "dslr")
    told = json.loads(json.dumps(check("office_caltech", office, READING).to_json()))
    assert (told["benchmark"], told["is_whole"]) == ("office_caltech", False)
    dslr, amazon, *_ = told["domains"]
    assert (amazon["name"], amazon["images"], amazon["counts"]["all"]["bike"]) == ("amazon", 30, 3)
    assert len(amazon["empty"]) == 9
    assert "no images of dslr" in dslr["problem"]


# This module is the benchmark of the next test.
CLASSES = ("even", "odd")
ORDER = ("only",)


def pool(name: str, data: Path | None, reading: Reading) -> Pool:
    """Ten images of two classes; 1 = 2 within training, 3 = 9 across the sides."""
    pixels = torch.arange(10, dtype=torch.uint8).reshape(10, 1, 1, 1).repeat(1, 3, 4, 4)
    pixels[2], pixels[9] = pixels[1], pixels[3]
    places = torch.arange(10)
    return Pool(ImageArray(pixels), places % 2, "0" * 16, (places[:6], places[6:]), note="re-created")


def test_arrays_are_counted_by_side_and_compared_across(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "twins", Benchmark("twins", __name__, "two classes"))
    findings = check("twins", None, READING)
    (domain,) = findings.domains
    assert domain.counts == {"train": {"even": 3, "odd": 3}, "test": {"even": 2, "odd": 2}}
    assert findings.class_columns == ("class", "only train", "only test")
    assert findings.class_rows() == [("even", "3", "2"), ("odd", "3", "2")]
    assert domain.duplicates == (("train 1", "train 2"), ("train 3", "test 9"))
    assert domain.across == 1
    assert findings.domain_rows()[0][:3] == ("only", "6 + 4", "2")
    note, twins = findings.remarks()
    assert note == "only: re-created"
    assert "2 groups of identical images, 1 of them in both training and test" in twins


def test_mini_is_whole() -> None:
    findings = check("mini", None, Reading(size=32))
    assert findings.is_whole
    assert findings.domains[0].counts["test"] == dict.fromkeys("0123456789", 50)
    assert not any(domain.duplicates for domain in findings.domains)


def test_an_unknown_benchmark_is_refused() -> None:
    with pytest.raises(Refusal, match=r"unknown benchmark 'offices'; there are: mini"):
        check("offices", None, READING)


@pytest.mark.usefixtures("cache")
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real Office-Caltech is not on this machine")
def test_the_real_images_are_counted_and_their_twins_found() -> None:
    findings = check("office_caltech", SHARED, READING)
    assert findings.is_whole
    assert {domain.name: domain.images for domain in findings.domains} == {
        "amazon": 958,
        "caltech": 1123,
        "dslr": 157,
        "webcam": 295,
    }
    groups = {domain.name: len(domain.duplicates) for domain in findings.domains}
    assert groups == {"amazon": 17, "caltech": 1, "dslr": 0, "webcam": 0}
