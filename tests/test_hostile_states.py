"""The state of a learner from a stranger, all of its hashes right: no code in it runs, nothing outside of it is written
or read, and whatever it holds gets a sentence."""

import hashlib
import json
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grcl.learner.learner import Learner
from grcl.learner.state import StateDirectory
from grcl.learner.state_report import write_state_report
from grcl.runtime.checkpoint import decode, encode
from grcl.runtime.errors import Refusal
from learners import pixels, write_labelled
from test_hostile_files import Payload
from test_state import rewrite

FIRST_FORMAT = Path(__file__).parent / "states" / "v1.tar.xz"  # a fit and an adapt


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "cache"))
    with tarfile.open(FIRST_FORMAT) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "v1" / "state"


def replace(state: Path, name: str, content: bytes) -> None:
    """A file of the state with other content, whose hash is the one that state.json names."""
    (state / name).write_bytes(content)
    files = json.loads((state / "state.json").read_text())["files"]
    rewrite(state, files={**files, name: hashlib.sha256(content).hexdigest()})


def use(state: Path) -> None:
    """All that reads a state."""
    learner = Learner.load(state)
    learner.predict(pixels("dark", 4))
    learner.adapt(pixels("dark", 4), method="source_only")
    write_state_report(state)


@pytest.mark.parametrize(
    "changes",
    [
        {"newest": 10**12},
        {"newest": 10**4000},
        {"newest": -1},
        {"newest": "one"},
        {"newest": [1]},
        {"size": 10**9},
        {"size": 0},
        {"classes": 7},
        {"classes": [["a"]]},
        {"files": []},
        {"files": {"../../x": "0" * 64}},
        {"files": {"models/0000.ckpt": 5}},
        {"files": {"models/../../../x": "0" * 64}},
        {"source": None},
        {"source": {"name": 1, "place": ["/"], "fingerprint": "", "images": 4}},
        {"more": {"than": "expected"}},
    ],
    ids=str,
)
def test_hostile_facts_are_refused(changes: dict[str, Any], state: Path) -> None:
    rewrite(state, **changes)
    with pytest.raises(Refusal, match=r"state\.json is damaged or was altered|history/.* is missing"):
        use(state)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format_version": 1, "checksum": ' + '{"a":' * 100_000,
        '{"format_version": ' + "9" * 100_000 + "}",
        '{"format_version": 1, "checksum": NaN}',
        '"format_version"',
        "\x00\x1b[2J",
        "\ufeff{}",
    ],
    ids=["deep lists", "deep objects", "a huge number", "not a number", "a string", "control characters", "a mark"],
)
def test_hostile_text_is_refused(text: str, state: Path) -> None:
    (state / "state.json").write_text(text)
    with pytest.raises(Refusal, match=r"state\.json is damaged or was altered|newer release"):
        use(state)


def bare(payload: Payload) -> bytes:
    return pickle.dumps({"method": payload, "modules": payload, "familiarity": payload})


def in_a_checkpoint(payload: Payload) -> bytes:
    return encode({"method": payload, "modules": {"network.x": payload}, "familiarity": {}})


@pytest.mark.parametrize("pickled", [bare, in_a_checkpoint])
@pytest.mark.parametrize("name", ["models/0000.ckpt", "models/0001.ckpt", "memory/0001.ckpt", "examples/0001.ckpt"])
def test_no_code_in_a_state_runs(name: str, pickled: Callable[[Payload], bytes], state: Path, tmp_path: Path) -> None:
    learner = Learner.load(state)
    trace = tmp_path / "was here"
    replace(state, name, pickled(Payload(trace)))
    if name == "models/0000.ckpt":
        learner.rollback(0)
    with pytest.raises(Refusal, match=f"{name} in the state .* cannot read"):
        (lambda: write_state_report(state))() if name.startswith("examples") else use(state)
    assert not trace.exists()
    pickle.loads(pickle.dumps(Payload(trace)))
    assert trace.exists()


OTHERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "models/0001.ckpt list for modules": lambda kept: {**kept, "modules": [1]},
    "models/0001.ckpt empty": lambda kept: {},
    "models/0001.ckpt method": lambda kept: {**kept, "method": "../../x"},
    "models/0001.ckpt list for a method": lambda kept: {**kept, "method": ["grcl"]},
    "models/0001.ckpt numbers for tensors": lambda kept: {**kept, "modules": dict.fromkeys(kept["modules"], 1.0)},
    "models/0001.ckpt familiarity": lambda kept: {**kept, "familiarity": {"x": torch.zeros(1)}},
    "memory/0001.ckpt labels": lambda kept: {**kept, "labels": kept["labels"] + 9},
    "memory/0001.ckpt floats": lambda kept: {**kept, "labels": kept["labels"].float()},
    "memory/0001.ckpt sizes": lambda kept: {**kept, "pixels": kept["pixels"][:, :, :-1]},
    "source/kept.ckpt labels": lambda kept: {**kept, "labels": kept["labels"] - 9},
    "examples/0001.ckpt empty": lambda kept: {},
    "examples/0001.ckpt pixels": lambda kept: {**kept, "pixels": [None] * len(kept["files"])},
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_not_expected_in_a_file_gets_a_sentence(case: str, state: Path) -> None:
    name = case.partition(" ")[0]
    replace(state, name, encode(OTHERS[case](decode((state / name).read_bytes()))))
    with pytest.raises(Refusal, match=f"{name} in the state .* cannot read"):
        use(state)


@pytest.mark.parametrize(
    "changes",
    [{"number": 7}, {"model": 7}, {"model": -1}, {"settings": None}, {"settings": {"method": "x"}}, {"kind": "else"}],
    ids=str,
)
def test_a_history_that_cannot_be_gets_a_sentence(changes: dict[str, Any], state: Path) -> None:
    name = "history/0000.json"
    replace(state, name, json.dumps(json.loads((state / name).read_text()) | changes).encode())
    with pytest.raises(Refusal, match=r"history/0000\.json in the state .* cannot read|unknown method"):
        use(state)


def change(state: Path) -> None:
    """All that writes into a state."""
    learner = Learner.load(state)
    learner.rollback(0)
    learner.adapt(pixels("dark", 4), method="source_only", if_worse="keep")
    learner.forget(1)
    write_state_report(state)


@pytest.mark.parametrize(
    "name", ["state.json", "lock", "models/0001.ckpt", "history/0000.json", "report.html", "work/log.jsonl"]
)
def test_nothing_is_written_through_a_link_to_a_file(name: str, state: Path, tmp_path: Path) -> None:
    outside, link = tmp_path / "outside", state / name
    outside.write_bytes(link.read_bytes() if link.exists() else b"somebody else's")
    before = outside.read_bytes()
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    with pytest.raises(Refusal, match="link"):
        change(state)
    if name == "report.html":
        write_state_report(state)  # which puts a page in the place of the link
        assert not link.is_symlink()
    assert outside.read_bytes() == before


@pytest.mark.parametrize("name", ["work", "models", "memory", "history", "examples", "source"])
def test_nothing_is_written_through_a_link_to_a_folder(name: str, state: Path, tmp_path: Path) -> None:
    outside, link = tmp_path / "outside", state / name
    link.rename(outside) if link.exists() else outside.mkdir()
    before = sorted((path.name, path.read_bytes()) for path in outside.iterdir())
    link.symlink_to(outside)
    with pytest.raises(Refusal, match="link"):
        change(state)
    assert sorted((path.name, path.read_bytes()) for path in outside.iterdir()) == before


def test_a_link_in_the_place_of_an_unfinished_file_is_not_followed(state: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("somebody else's")
    (state / f".report.html.{os.getpid()}.tmp").symlink_to(tmp_path / "outside")
    write_state_report(state)
    assert (tmp_path / "outside").read_text() == "somebody else's"


def test_a_new_place_with_a_link_in_it_gets_no_copy(state: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "models").symlink_to(tmp_path / "outside")
    with pytest.raises(Refusal, match="models is a symbolic link"):
        Learner.load(state).save(tmp_path / "copy")
    assert not any((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("name", ["state.json", "history/0001.json", "models/0001.ckpt", "work/config.json"])
def test_a_pipe_is_not_waited_for(name: str, state: Path) -> None:
    (state / name).parent.mkdir(exist_ok=True)
    (state / name).unlink(missing_ok=True)
    os.mkfifo(state / name)
    with pytest.raises(Refusal, match="no file at all"):
        use(state)


@pytest.mark.parametrize("name", ["state.json", "history/0001.json", "models/0001.ckpt"])
def test_ten_gigabytes_of_nothing_are_not_read(name: str, state: Path) -> None:
    os.truncate(state / name, 10 << 30)
    with pytest.raises(Refusal, match="File too large"):
        use(state)


def test_a_folder_is_read_only_if_it_is_the_source(state: Path, tmp_path: Path) -> None:
    elsewhere = write_labelled(tmp_path / "private", "noisy", 8)
    source = json.loads((state / "state.json").read_text())["source"]
    rewrite(state, source={**source, "place": str(elsewhere), "kept": 0})
    with pytest.raises(Refusal, match=r"private has changed since the fit; an adapt needs it"):
        Learner.load(state).adapt(pixels("dark", 4), method="source_only")


def test_a_fit_that_was_killed_at_its_very_end_can_be_made_again(tmp_path: Path) -> None:
    (tmp_path / ".state.json.4711.tmp").write_text('{"format_v')
    state = StateDirectory(tmp_path)
    state.require_free()
    with state.changing():
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert not any(tmp_path.iterdir())
