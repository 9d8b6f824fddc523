"""`grcl data`: lists, gets, makes and checks, refuses in one sentence, and tells programs the same in JSON."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image

from grcl.benchmarks import BENCHMARKS
from grcl.benchmarks.sources import SOURCES, File, Source
from grcl.cli import main
from local_server import LocalServer, answer, local_server
from terminal import shown_on_a_terminal

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data goes to ./data: every test has a current directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """Publishes a benchmark of two domains: a plain file with a digest, and an archive without."""
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr("dark/1.jpg", b"an image")
    with local_server() as running:
        running.files = {"/light.bin": b"light" * 1000, "/dark.zip": archive.getvalue()}
        digest = f"sha256:{hashlib.sha256(b'light' * 1000).hexdigest()}"
        light = File("light.bin", (running.address("/light.bin"),), digest, 5000)
        dark = File("dark.zip", (running.address("/dark.zip"),), unpacked="dark")
        sources = {
            "light": Source(((light,),), page="http://example.org/light"),
            "dark": Source(((dark,),), page="http://example.org/dark", make="grcl data make dark --out DIR"),
        }
        monkeypatch.setitem(SOURCES, "shades", sources)
        yield running


def said(capsys: Capture, code: int, *words: str) -> tuple[str, str]:
    """What a command prints, and what it complains of."""
    assert main(["data", *words]) == code
    streams = capsys.readouterr()
    return streams.out, streams.err


def in_json(capsys: Capture, code: int, *words: str) -> Any:
    return json.loads(said(capsys, code, *words, "--json")[0])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "the following arguments are required: WORD"),
        (["gt"], "invalid choice: 'gt' (choose from"),
        (["get"], "the following arguments are required: BENCHMARK"),
        (["get", "digit"], "invalid choice: 'digit' (choose from"),
        (["get", "mini"], "mini makes its own images; there is nothing to get"),
        (["get", "digits", "mnits"], "digits has no domain 'mnits'; there are: synnum, mnist, mnist_m, usps, svhn"),
        (["get", "digits", "--dta", "x"], "unrecognized arguments: --dta"),
        (["make"], "the following arguments are required: DOMAIN"),
        (["make", "svhn"], "invalid choice: 'svhn'"),
        (["make", "mnist_m", "--mnist", "a", "--out", "b"], "required: --photographs"),
        (["make", "synnum"], "required: --out"),
        (["make", "synnum", "--out", "a", "--train", "many"], "argument --train: invalid int value: 'many'"),
        (["make", "synnum", "--out", "a", "--train", "0"], "at least one training"),
        (["make", "synnum", "--out", "a", "--seed", "-1"], "argument --seed: give a whole number from 0 on"),
        (["check", "nothing"], "invalid choice: 'nothing'"),
        (["check", "digits"], "grcl data check digits needs --data DIR"),
        (["check", "digits", "--data", "nowhere"], "no folder at nowhere; grcl data get digits --data nowhere"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(words: list[str], expected: str, capsys: Capture) -> None:
    out, complaint = said(capsys, 2, *words)
    assert out == ""
    assert expected in complaint
    assert complaint.startswith("grcl: ")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("words", [["list"], ["get", "shades"]])
def test_listing_and_getting_need_no_torch(words: list[str]) -> None:
    script = "import sys; from grcl.cli import main; from grcl.benchmarks.sources import SOURCES\n"
    script += f"SOURCES['shades'] = {{}}\nassert main(['data', *{words!r}]) == 0\n"
    script += "assert 'torch' not in sys.modules, sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_the_list_has_every_benchmark_and_domain(capsys: Capture) -> None:
    out, _ = said(capsys, 0, "list")
    for benchmark, domains in SOURCES.items():
        for domain in domains:
            assert any(line.split()[:2] == [benchmark, domain] for line in out.splitlines())
    assert all(name in out for name in BENCHMARKS)
    assert "246 MB" in out


def test_the_list_for_programs_has_addresses_digests_and_makers(capsys: Capture) -> None:
    listed = in_json(capsys, 0, "list")
    (usps,) = listed["digits"]["usps"]["forms"]
    assert usps[0]["digest"].startswith("md5:")
    assert usps[0]["addresses"][0].endswith("/usps.bz2")
    assert [name for name, facts in listed["digits"].items() if facts["make"]] == ["synnum", "mnist_m"]


def test_getting_brings_all_domains_and_getting_again_asks_for_nothing(server: LocalServer, capsys: Capture) -> None:
    out, progress = said(capsys, 0, "get", "shades")
    assert out.splitlines() == [
        "light: data/shades/light.bin",
        "dark: data/shades/dark",
        "grcl data check shades --data data/shades looks at the images",
    ]
    assert "light.bin: downloading of 0.0 MB" in progress
    assert Path("data/shades/light.bin").read_bytes() == b"light" * 1000
    assert Path("data/shades/dark/1.jpg").read_bytes() == b"an image"
    requests = len(server.requests)
    assert in_json(capsys, 0, "get", "shades")["files"]["dark"] == ["data/shades/dark"]
    assert len(server.requests) == requests


def test_some_domains_into_a_folder_of_choice(server: LocalServer, capsys: Capture) -> None:
    outcome = in_json(capsys, 0, "get", "shades", "dark", "--data", "here")
    assert outcome == {"data": "here", "files": {"dark": ["here/dark"]}, "problems": {}}
    assert [path for path, _, _ in server.requests] == ["/dark.zip"]


def test_what_cannot_be_had_stops_no_other_domain_and_names_the_remedy(server: LocalServer, capsys: Capture) -> None:
    del server.files["/light.bin"]
    out, complaint = said(capsys, 1, "get", "shades")
    assert "dark: data/shades/dark" in out
    last = complaint.splitlines()[-1]
    assert last.startswith("grcl: 1 of 2 domains are missing: light: cannot download light.bin: http://127.0.0.1")
    assert "answered 404; put it into data/shades by hand from http://example.org/light" in last
    server.behaviours = [answer(403)]
    shutil.rmtree("data")
    outcome = in_json(capsys, 1, "get", "shades")
    assert outcome["files"] == {}
    assert outcome["problems"]["dark"].endswith("or make it: grcl data make dark --out DIR")


def test_a_terminal_gets_live_bars(server: LocalServer, tmp_path: Path) -> None:
    """A real pseudo-terminal: a bar with bytes and speed."""
    script = f"""
import sys
from grcl.benchmarks.sources import SOURCES, File, Source
from grcl.cli import main
file = File("light.bin", ({server.address("/light.bin")!r},), None, 5000)
SOURCES["shades"] = {{"light": Source(((file,),), page="")}}
sys.exit(main(["data", "get", "shades"]))
"""
    shown = shown_on_a_terminal(script, {"COLUMNS": "120"}, tmp_path)
    assert "━" in shown
    assert "5.0/5.0 kB" in shown


def digits(count: int) -> dict[str, Any]:
    """Arrays as `<domain>.npz` holds them, every image another."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 10
    parts = {"train": labels, "test": labels}
    images = {f"x_{part}": rng.integers(256, size=(count, 28, 28, 3), dtype=np.uint8) for part in parts}
    return images | {f"y_{part}": values for part, values in parts.items()}


def write_digits(folder: Path) -> None:
    folder.mkdir()
    for name in ("synnum", "mnist", "mnist_m", "usps", "svhn"):
        np.savez(folder / f"{name}.npz", **digits(20))


def test_a_whole_benchmark_is_counted(capsys: Capture) -> None:
    write_digits(Path("d"))
    out, complaint = said(capsys, 0, "check", "digits", "--data", "d")
    assert complaint == ""
    rows = [line.split() for line in out.splitlines()]
    assert ["7", *["2"] * 6] in rows
    assert ["7", *["2"] * 4] in rows, "the sixth and later columns stand in a table of their own"
    findings = in_json(capsys, 0, "check", "digits", "--data", "d")
    assert findings["is_whole"]
    assert [domain["images"] for domain in findings["domains"]] == [40] * 5


def test_a_missing_and_a_damaged_domain_are_named_and_the_others_counted(capsys: Capture) -> None:
    write_digits(Path("d"))
    Path("d/usps.npz").unlink()
    Path("d/svhn.npz").write_bytes(b"not an archive")
    out, complaint = said(capsys, 1, "check", "digits", "--data", "d")
    assert "usps.bz2 + usps.t.bz2" in out, "the layout that is expected"
    assert "svhn: " in out
    assert complaint == "grcl: digits is not whole in d: see what is said of usps, svhn\n"
    findings = in_json(capsys, 1, "check", "digits", "--data", "d")
    assert [domain["is_whole"] for domain in findings["domains"]] == [True, True, True, False, False]


def test_hostile_file_names_are_shown_as_text(capsys: Capture) -> None:
    folder = Path("d/amazon/mug")
    folder.mkdir(parents=True)
    (folder / "\x1b[2J[red]\n.jpg").write_bytes(b"no image")
    out, complaint = said(capsys, 1, "check", "office_caltech", "--data", "d")
    assert "\x1b" not in out + complaint
    assert r"\x1b[2J[red]\n.jpg" in out


def test_synnum_is_made_as_asked_and_the_same_again(capsys: Capture) -> None:
    words = ("make", "synnum", "--train", "20", "--test", "10", "--seed", "3", "--out")
    (path,) = said(capsys, 0, *words, "a")[0].splitlines()
    (again,) = said(capsys, 0, *words, "b")[0].splitlines()
    with np.load(path) as first, np.load(again) as second:
        assert len(first["y_train"]) == 20
        assert len(first["y_test"]) == 10
        assert np.array_equal(first["x_train"], second["x_train"])


def test_mnist_m_is_made_from_mnist_and_photographs(capsys: Capture) -> None:
    Path("m").mkdir()
    grey = {name: array[..., 0] if name.startswith("x") else array for name, array in digits(20).items()}
    np.savez("m/mnist.npz", **grey)
    Path("photographs").mkdir()
    for k in range(5):
        Image.new("RGB", (50, 40), (40 * k, 0, 0)).save(f"photographs/{k}.png")
    words = ("make", "mnist_m", "--mnist", "m", "--photographs", "photographs", "--out", "o")
    (path,) = said(capsys, 0, *words)[0].splitlines()
    with np.load(path) as made:
        assert made["x_train"].shape == (20, 28, 28, 3)
        assert np.array_equal(made["y_train"], np.arange(20) % 10)
