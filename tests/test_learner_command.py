"""The words of a learner on real folders: what they say, what they leave behind, and how they refuse."""

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import tiny
from grcl.cli import main
from grcl.flags import as_words
from grcl.learner.learner import Learner
from learners import QUICK, save, write_flat, write_labelled

FLAGS = as_words(QUICK)
QUIET = "--no-thumbnails"  # drawing them takes time


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit on `white` and adapts to `dark` and, by another method, to `noisy`; copied, never changed."""
    place = tmp_path_factory.mktemp("made")
    write_labelled(place / "white", "white", 48)
    for name in ("dark", "noisy"):
        write_flat(place / name, name)
    words = ["--state", str(place / "state"), QUIET]
    assert main(["fit", str(place / "white"), *words, *FLAGS]) == 0
    assert main(["adapt", str(place / "dark"), *words, "--if-worse", "keep"]) == 0
    assert main(["adapt", str(place / "noisy"), *words, "--if-worse", "keep", "--method", "grcl"]) == 0
    return place


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with `state`, whose source still lies where it was, and copies of the targets."""
    for name in ("state", "dark", "noisy"):
        shutil.copytree(made / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints when all goes well."""
    capsys.readouterr()
    code = main([*words, *([] if "--state" in words else ["--state", "state"])])
    streams = capsys.readouterr()
    assert code == 0, streams.err
    return streams.out


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """The one sentence of a command that is not done; nothing in the state has changed."""
    before = facts() if Path("state/state.json").exists() else None
    capsys.readouterr()
    assert main(list(words)) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert before is None or facts() == before
    (line,) = [line for line in streams.err.splitlines() if line.startswith("grcl: ")]
    return line


def facts() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path("state/state.json").read_text())
    return content


def answers(folder: str) -> Tensor:
    return Learner.load("state").predict_proba(folder)


def write_noise(folder: Path, count: int = 24) -> Path:
    """Images that show nothing."""
    source = torch.Generator().manual_seed(0)
    for place in range(count):
        save(torch.randint(256, (3, 32, 32), generator=source, dtype=torch.uint8), folder / f"{place:03}.png")
    return folder


def test_the_history_tells_every_deed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "history").splitlines()
    assert lines[0].endswith("fit on white, 48 images")
    assert any(line.endswith("adapt to dark by grcl_plus, 24 images") for line in lines)
    assert any(line.endswith("adapt to noisy by grcl, 24 images") for line in lines)
    assert lines[-1] == "in force: the model of entry 2; remembered: 1, 2"
    entries = json.loads(said(capsys, "history", "--json"))
    assert [(each["kind"], each["method"], each["model"]) for each in entries] == [
        ("fit", None, 0),
        ("adapt", "grcl_plus", 1),
        ("adapt", "grcl", 2),
    ]
    assert entries[0]["settings"]["network"]["name"] == "lenet5"
    assert entries[1]["data"]["name"] == "dark"
    assert entries[2]["before"].keys() == entries[2]["after"].keys()


def test_an_adapt_tells_what_it_brought(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = write_labelled(here / "sample", "dark")
    out = said(capsys, "adapt", "noisy", "--if-worse", "keep", "--sample", str(sample), QUIET)
    first, verdict, accuracy, report = out.splitlines()
    assert first == "entry 3: 24 images of noisy, grcl"  # the method goes on
    assert verdict.startswith(("verdict: better: ", "verdict: no change: ", "verdict: worse: "))
    measured = Learner.load("state").score(sample)
    assert accuracy.startswith("right on the labelled sample of 24 images: ")
    assert accuracy.endswith(f"{100 * measured:.1f} % after")
    assert report == "report: state/report.html"
    assert "the same images as in entry 2" in said(capsys, "history")


def test_what_is_worse_is_refused_unless_it_is_to_be_kept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_noise(here / "noise")
    before = answers("dark")
    assert main(["adapt", "noise", "--state", "state", QUIET]) == 1
    streams = capsys.readouterr()
    assert "verdict: worse: " in streams.out
    assert streams.err.splitlines()[-1] == (
        "grcl: the new model is worse, so that the one before stays in force; --if-worse keep takes the new one anyway"
    )
    assert torch.equal(answers("dark"), before)
    (refusal,) = json.loads(said(capsys, "history", "--json"))[3:]
    assert (refusal["is_refused"], refusal["model"], refusal["episodes"]) == (True, 2, [1, 2])
    said(capsys, "adapt", "noise", "--if-worse", "keep", QUIET)
    assert json.loads(said(capsys, "history", "--json"))[4]["model"] == 4
    assert not torch.equal(answers("dark"), before)


def test_an_evaluation_is_for_people_and_for_programs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_labelled(here / "labelled", "white", 24)
    (folder / "star").mkdir()
    shutil.copy(folder / "cross" / "002.png", folder / "star" / "a.png")
    found = json.loads(said(capsys, "evaluate", "labelled", "--json"))
    assert found["classes"] == sorted(tiny.CLASSES)
    assert found["unknown"] == {"star": 1}
    assert (found["images"], sum(map(sum, found["confusion"]))) == (24, 24)
    assert found["accuracy"] == sum(found["confusion"][k][k] for k in range(4)) / 24
    main(["evaluate", "labelled", "--state", "state"])
    streams = capsys.readouterr()
    assert f"{100 * found['accuracy']:.1f} % of 24 images are right" in streams.out
    for name, counts in zip(found["classes"], found["confusion"], strict=True):
        (line,) = [line for line in streams.out.splitlines() if line.strip().startswith(name)]
        mistakes = {other: n for other, n in zip(found["classes"], counts, strict=True) if n and other != name}
        assert line.split()[1] == "6"
        assert all(f"{other} {n}" in line for other, n in mistakes.items())
        assert mistakes or line.rstrip().endswith("100.0")
    assert "classes that the learner does not know are left out: star (1)" in streams.err


def test_predictions_call_files_as_they_were_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(said(capsys, "predict", "dark", "noisy/000.png").splitlines()))
    assert [row["file"] for row in rows] == [*(f"dark/{place:03}.png" for place in range(24)), "noisy/000.png"]
    expected = Learner.load("state").look([here / "dark", here / "noisy" / "000.png"])
    for row, found in zip(rows, expected, strict=True):
        assert (row["class"], float(row["confidence"])) == (found.label, round(found.confidence, 6))
        assert row["out_of_domain"] == str(found.is_strange).lower()
    path = here / "dark" / "001.png"
    (line,) = said(capsys, "predict", str(path), "--format", "jsonl").splitlines()
    assert json.loads(line) == {
        "file": str(path),
        "class": expected[1].label,
        "confidence": round(expected[1].confidence, 6),
        "out_of_domain": expected[1].is_strange,
    }


def test_a_prediction_passes_over_what_it_cannot_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "dark" / "=1+1,\n.png").write_bytes((here / "dark" / "000.png").read_bytes())
    (here / "broken.png").touch()
    main(["predict", "broken.png", "dark", "--state", "state"])
    streams = capsys.readouterr()
    rows = list(csv.reader(streams.out.splitlines()))
    assert len(rows) == 1 + 25
    assert "broken.png" in streams.err
    assert [row[0] for row in rows if "1+1" in row[0]] == ["dark/=1+1,\\n.png"]
    assert "no readable image" in refused(capsys, "predict", "broken.png", "--state", "state")
    assert "no file or folder" in refused(capsys, "predict", "missing.png", "--state", "state")


def test_back_and_forth_and_out_of_mind(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = answers("dark")
    assert said(capsys, "rollback", "--to", "1", QUIET).startswith("entry 3: ")
    assert not torch.equal(answers("dark"), before)
    said(capsys, "rollback", "--to", "2")
    assert torch.equal(answers("dark"), before)
    assert Path("state/memory/0001.ckpt").exists()
    assert "<img" in Path("state/report.html").read_text()
    assert "no image of domain 1 is left" in said(capsys, "forget", "--domain", "1", QUIET)
    assert torch.equal(answers("dark"), before)
    assert not Path("state/memory/0001.ckpt").exists()
    assert not Path("state/examples/0001.ckpt").exists()
    assert "<img" not in Path("state/report.html").read_text()
    kinds = [entry["kind"] for entry in json.loads(said(capsys, "history", "--json"))]
    assert kinds == ["fit", "adapt", "adapt", "rollback", "rollback", "forget"]


@pytest.mark.parametrize(
    ("file", "remedy", "end"),
    [
        ("examples/0001.ckpt", "report --state state --no-thumbnails", "does without"),
        ("memory/0001.ckpt", "forget --state state --domain 1", "drops that domain"),
    ],
)
def test_what_is_done_stays_done_if_its_report_cannot_be_made(
    file: str,
    remedy: str,
    end: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("state", file).unlink()
    assert "in force again" in said(capsys, "rollback", "--to", "0")
    assert f"{file} in the state state is missing; grcl {remedy} {end}" in caplog.text
    assert "all is done but the report" in caplog.text
    assert len(Learner.load("state").history()) == 4
    assert "is missing" in refused(capsys, "report", "--state", "state")
    assert main(remedy.split()) == 0
    assert "report: state/report.html" in capsys.readouterr().out


def test_a_report_shows_images_unless_it_is_not_to(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, has_images in (([], True), ([QUIET], False)):
        assert said(capsys, "report", *words) == "report: state/report.html\n"
        assert ("<img" in Path("state/report.html").read_text()) == has_images


def test_an_export_has_a_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "export", "--format", "safetensors") == "model.safetensors\n"
    assert said(capsys, "export", "--format", "safetensors", "--out", "mine") == "mine\n"
    assert Path("mine").read_bytes() == Path("model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["adapt", "dark"], "the following arguments are required: --state"),
        (["adapt", "dark", "--state", "nowhere"], "no learner in nowhere (there is none); make one with grcl fit"),
        (["predict", "dark", "--state", "dark"], "no learner in dark"),
        (["history", "--state", "dark/000.png"], "no learner in dark/000.png"),
        (["report", "--state", "nowhere"], "no learner in nowhere"),
        (["adapt", "dark", "--state", "state", "--epochs", "3"], "did you mean training.epochs?"),
        (["adapt", "dark", "--state", "state", "--if-wrose", "keep"], "did you mean if-worse?"),
        (["adapt", "dark", "--state", "state", "--if-worse", "maybe"], "invalid choice: 'maybe'"),
        (["adapt", "dark", "--state", "state", "--training.epochs", "none"], "training.epochs = 'none'"),
        (["adapt", "dark", "--state", "state", "--images.size", "64"], "images.size is chosen by grcl fit"),
        (["adapt", "dark", "--state", "state", "--method", "grlc"], "did you mean grcl?"),
        (["adapt", "dark", "--state", "state", "--method", "dada"], "dada classifies by parts of its own"),
        (["adapt", "missing", "--state", "state"], "there is no folder missing"),
        (["adapt", "empty", "--state", "state"], "there is no image in empty"),
        (["adapt", "dark", "noisy", "--state", "state"], "unexpected word 'noisy'"),
        (["evaluate", "dark", "--state", "state"], "dark has no class folders"),
        (["rollback", "--state", "state", "--to", "7"], "there is no entry 7; the history has 0 to 2"),
        (["rollback", "--state", "state", "--to", "one"], "invalid int value: 'one'"),
        (["forget", "--state", "state", "--domain", "0"], "entry 0 is a fit and brought no domain"),
        (["export", "--state", "state", "--format", "onxn"], "invalid choice: 'onxn'"),
        (["export", "--state", "state", "--format", "onnx", "--out", "no/x.onnx"], "no folder at no"),
        (["fit", "dark", "--state", "new"], "dark has no class folders"),
        (["fit", "dark", "--state", "state"], "state holds a learner already"),
        (["fit", "dark", "--state", "noisy"], "noisy is not empty (000.png)"),
        (["fit", "dark", "--state", "new", "--keep-source", "-1"], "keep_source = -1"),
        (["fit", "dark", "--state", "new", "--preset", "none"], "no preset 'none'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    words: list[str], sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "empty").mkdir()
    assert sentence in refused(capsys, *words)
    assert not (here / "new").exists()
    assert not (here / "nowhere").exists()


@pytest.mark.parametrize("word", ["fit", "adapt", "evaluate", "predict", "history", "rollback", "forget", "export"])
def test_every_word_explains_itself(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([word, "--help"])
    assert "--state DIR" in capsys.readouterr().out


def test_a_second_adapt_is_refused_while_one_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = ("adapt", "dark", "--state", "state", "--training.epochs", "9999", "--training.checkpoint-seconds", "0")
    with subprocess.Popen([sys.executable, "-m", "grcl", *long], stderr=subprocess.DEVNULL) as first:
        try:
            while not list(Path("state").glob("work/checkpoints/*.ckpt")):
                assert first.poll() is None
                time.sleep(0.05)
            sentence = refused(capsys, "adapt", "noisy", "--state", "state")
            assert "another process is changing the state state; wait for it, or work on a copy" in sentence
            assert len(said(capsys, "predict", "noisy").splitlines()) == 25  # reading goes on
        finally:
            first.kill()
    said(capsys, "rollback", "--to", "1", QUIET)  # a killed process leaves no lock behind


def test_it_goes_on_elsewhere_when_old_folders_are_gone(
    here: Path, made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is moved; the first target and then the source are gone."""
    source = Path(shutil.copytree(made / "white", here / "white"))
    said(capsys, "fit", "white", "--state", "own", *FLAGS, QUIET)
    said(capsys, "adapt", "dark", "--state", "own", "--if-worse", "keep", QUIET)
    before = Learner.load("own").predict_proba("noisy")
    (here / "another place").mkdir()
    Path("own").rename("another place/state")
    shutil.rmtree("dark")
    source.rename(here / "another place" / "labelled")
    monkeypatch.chdir(here / "another place")
    assert torch.equal(answers("../noisy"), before)
    sentence = refused(capsys, "adapt", "../noisy", "--state", "state")
    assert sentence.endswith("an adapt needs it: name it with --source (in Python: source=)")
    said(capsys, "adapt", "../noisy", "--source", "labelled", "--if-worse", "keep", QUIET)
    said(capsys, "adapt", "../noisy", "--if-worse", "keep", QUIET)  # the new place is remembered
    assert [entry["episodes"] for entry in json.loads(said(capsys, "history", "--json"))] == [
        [],
        [1],
        [1, 2],
        [1, 2, 3],
    ]


def test_a_part_of_the_source_may_travel(here: Path, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(shutil.copytree(made / "white", here / "white"))
    said(capsys, "fit", "white", "--state", "own", "--keep-source", "8", *FLAGS, QUIET)
    shutil.rmtree(source)
    said(capsys, "adapt", "dark", "--state", "own", "--if-worse", "keep", QUIET)
    (entry,) = json.loads(said(capsys, "history", "--state", "own", "--json"))[1:]
    assert entry["note"] == "with 8 images of the source (the kept part)"


def odd_folder(folder: Path) -> Path:
    """Files as cameras, scanners and people make them, beside a whole domain."""
    write_flat(folder, "dark")
    plain = Image.open(folder / "000.png")
    plain.convert("L").save(folder / "grey.png")
    plain.quantize(4).save(folder / "palette.gif")
    plain.convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray(np.full((32, 32), 200 << 8, np.uint16)).save(folder / "deep.png")
    plain.convert("RGBA").save(folder / "clear.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    plain.save(folder / "turned.jpg", exif=exif)
    plain.save(folder / "moving.gif", save_all=True, append_images=[Image.new("RGB", (32, 32))])
    plain.save(folder / ("x" * 250 + ".png"))
    plain.save(folder / "été ☃ <b>.png")
    shutil.copy(folder / "000.png", folder / os.fsdecode(b"no\xffunicode.png"))
    (folder / "link.png").symlink_to(folder / "001.png")
    (folder / "itself").symlink_to(folder)
    plain.close()
    (folder / "cut.png").write_bytes((folder / "000.png").read_bytes()[:200])
    (folder / "nothing.png").touch()
    (folder / "letter.jpg").write_text("Dear reader")
    (folder / "notes.txt").write_text("not an image")
    return folder


def test_odd_files_are_taken_or_passed_over(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the adapt to the report: what can be read is used, and the rest stops nobody."""
    odd = odd_folder(here / os.fsdecode(b"odd \xff \x1b[31m"))
    said(capsys, "adapt", str(odd), "--if-worse", "keep")
    (entry,) = json.loads(said(capsys, "history", "--json"))[3:]
    assert entry["data"]["images"] == 24 + 11
    assert entry["data"]["note"] == "1 file of other kinds passed over; 3 unreadable images left out"
    assert main(["adapt", str(odd), "--state", "state", "--images.unreadable", "refuse"]) != 0
    assert "images.unreadable = skip" in capsys.readouterr().err
    main(["predict", odd.name, "--state", "state"])
    streams = capsys.readouterr()
    assert len(streams.out.splitlines()) == 1 + 24 + 11
    assert all(name in streams.err for name in ("cut.png", "nothing.png", "letter.jpg"))
    assert "\x1b" not in streams.out + streams.err + said(capsys, "history")
    assert "<b>.png" not in Path("state/report.html").read_text()


def test_odd_folders_are_fitted_with_a_word(here: Path, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty class, a class of broken images, and one image for each of the others."""
    write_labelled(here / "four", "white", 4)
    (here / "four" / "bird").mkdir()
    (here / "four" / "fish").mkdir()
    (here / "four" / "fish" / "a.png").touch()
    main(["fit", "four", "--state", "own", *FLAGS, QUIET])
    streams = capsys.readouterr()
    assert "learned 4 classes from 4 images of four" in streams.out
    assert "1 class folder without an image left out: bird" in streams.err
    assert "fish/a.png" in streams.err
    save(torch.zeros(3, 32, 32, dtype=torch.uint8), here / "one" / "a.png")
    out = said(capsys, "adapt", "one", "--state", "own", QUIET)
    assert "verdict: no change: the target has 1 of the 10 images that it takes to tell" in out
    shutil.rmtree(here / "four" / "cross")
    assert main(["evaluate", "four", "--state", "own"]) == 0
    (here / "four").rename(here / "only")
    for name in ("bird", "fish", "square", "vertical"):
        shutil.rmtree(here / "only" / name)
    assert "only has one class alone, horizontal" in refused(capsys, "fit", "only", "--state", "new", *FLAGS)
