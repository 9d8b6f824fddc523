"""The commands of docs/learner.md tell one story, in their order, on miniature folders."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from grcl.cli import main
from grcl.flags import as_words
from learners import QUICK, write_flat, write_labelled

PAGE = (Path(__file__).parents[1] / "docs" / "learner.md").read_text()
STORY = [shlex.split(line) for line in re.findall(r"^    ((?:grcl|mv|rm) .*)$", PAGE, flags=re.MULTILINE)]


def test_the_story_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults take minutes, so that the fit gets other ones; targets are too small to be refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "cache"))
    write_labelled(tmp_path / "photos", "white")
    write_labelled(tmp_path / "checked", "noisy", 8)
    for folder, name in (("phone", "white"), ("winter", "noisy")):
        write_flat(tmp_path / folder, name, 8)
    for words in STORY:
        if words[0] == "mv":
            shutil.move(words[1], words[2])
        elif words[0] == "rm":
            shutil.rmtree(words[2])
        else:
            assert main(words[1:] + (as_words(QUICK) if words[1] == "fit" else [])) == 0, words
    entries = [json.loads(path.read_text()) for path in sorted((tmp_path / "archive" / "history").iterdir())]
    assert [entry["kind"] for entry in entries] == ["fit", "adapt", "adapt", "rollback", "forget"]
    assert (tmp_path / "model.onnx").exists()


def test_the_story_leaves_no_word_out() -> None:
    told = {words[1] for words in STORY if words[0] == "grcl"}
    assert told == {"fit", "adapt", "evaluate", "predict", "history", "rollback", "forget", "export", "report"}
