"""The state of a learner survives a kill at any moment, a move to another place, and tells what was done to its files;
what is forgotten is gone to the last byte."""

import fcntl
import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from grcl.learner.history import Entry
from grcl.learner.learner import Learner
from grcl.learner.state import StateDirectory
from grcl.loop import Interrupted
from grcl.runtime.checkpoint import decode
from grcl.runtime.errors import Refusal
from grcl.runtime.files import write_atomically
from grcl.runtime.progress import Silent
from learners import fitted, pixels, write_flat

HERE = Path(__file__).parent
LONG = {"training.epochs": 6, "training.checkpoint_seconds": 0.0}


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit and two adapts; copied, never changed."""
    state = tmp_path_factory.mktemp("made") / "state"
    learner = fitted(state, keep_source=16)
    for name in ("dark", "noisy"):
        learner.adapt(pixels(name), if_worse="keep")
    return state


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "state"))


class SignalAt(Silent):
    """Sends this process a signal after so many steps."""

    def __init__(self, steps: int, number: int = signal.SIGINT) -> None:
        self.left, self.number = steps, number

    def step(self, done: int, values: Mapping[str, float], images_per_second: float) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


class Killed(BaseException):
    """Ends the process at once, as far as a test can."""


def contents(state: Path) -> dict[str, bytes]:
    """Every file of a state but its lock."""
    return {
        str(p.relative_to(state)): p.read_bytes() for p in sorted(state.rglob("*")) if p.is_file() and p.name != "lock"
    }


def rewrite(state: Path, **changes: Any) -> None:
    """state.json with other content, and with the checksum that this content has."""
    content = json.loads((state / "state.json").read_text()) | changes
    content.pop("checksum")
    checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (state / "state.json").write_text(json.dumps({**content, "checksum": checksum}))


def test_a_state_can_be_moved_and_goes_on_where_it_is(state: Path, tmp_path: Path) -> None:
    target = write_flat(tmp_path / "camera", "dark")
    learner = Learner.load(state)
    learner.adapt(target, if_worse="keep")
    answers = learner.predict_proba(pixels("dark"))
    moved = state.rename(tmp_path / "ünother place")
    shutil.rmtree(target)
    learner = Learner.load(moved)
    assert torch.equal(learner.predict_proba(pixels("dark")), answers)
    assert learner.adapt(pixels("noisy"), if_worse="keep").episodes == (1, 2, 3, 4)
    assert str(target).encode() not in b"".join(contents(moved).values())


def test_a_copy_is_the_same_and_independent(state: Path, tmp_path: Path) -> None:
    learner, before = Learner.load(state), contents(state)
    learner.save(tmp_path / "copy")
    assert contents(tmp_path / "copy") == before
    learner.rollback(0)
    assert contents(tmp_path / "copy") == before
    with pytest.raises(Refusal, match="holds a learner already"):
        learner.save(tmp_path / "copy")


def test_every_file_is_checked_before_it_is_used(state: Path) -> None:
    assert StateDirectory(state).problems() == []
    (state / "memory" / "0001.ckpt").rename(state / "memory" / "moved")
    shutil.copy(state / "memory" / "0002.ckpt", state / "memory" / "0001.ckpt")
    (state / "examples" / "0002.ckpt").unlink()
    (state / "notes.txt").write_text("mine")
    problems = StateDirectory(state).problems()
    assert len(problems) == 4
    for sentence in (
        "memory/0001.ckpt in the state",
        "examples/0002.ckpt in the state",
        "memory/moved in",
        "notes.txt in",
    ):
        assert any(problem.startswith(sentence) for problem in problems), sentence
    with pytest.raises(Refusal, match=r"memory/0001\.ckpt .* is not the file that was written"):
        Learner.load(state).adapt(pixels("dark"))
    assert Learner.load(state).predict(pixels("dark"))  # which needs no memory


def test_a_damaged_model_tells_the_way_back(state: Path) -> None:
    model = state / "models" / "0002.ckpt"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(content)
    learner = Learner.load(state)
    with pytest.raises(Refusal, match=r"models/0002\.ckpt .*; go back with grcl rollback --to 1"):
        learner.predict(pixels("dark"))
    learner.rollback(1)
    assert len(learner.predict(pixels("dark"))) == 24
    with pytest.raises(Refusal, match=r"models/0002\.ckpt"):
        learner.rollback(2)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format_version": 1}', '{"format_version": {}}'])
def test_a_damaged_root_is_refused(content: str, state: Path) -> None:
    (state / "state.json").write_text(content)
    with pytest.raises(Refusal, match=r"state\.json is damaged|newer release"):
        Learner.load(state)


def test_an_altered_root_is_refused(state: Path) -> None:
    text = (state / "state.json").read_text()
    (state / "state.json").write_text(text.replace('"newest": 2', '"newest": 1'))
    with pytest.raises(Refusal, match=r"state\.json is damaged or was altered"):
        Learner.load(state)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "models/../../secret", "models/0000.ckpt/..", "work/x"])
def test_no_name_leads_out_of_the_directory(name: str, state: Path) -> None:
    (state.parent / "secret").write_text("secret")
    files = json.loads((state / "state.json").read_text())["files"]
    rewrite(state, files={**files, name: hashlib.sha256(b"secret").hexdigest()})
    with pytest.raises(Refusal, match="damaged or was altered"):
        Learner.load(state)


def test_nothing_is_swept_behind_a_link(state: Path, tmp_path: Path) -> None:
    outside = Path(shutil.copytree(state / "models", tmp_path / "outside"))
    (outside / "0099.ckpt").write_text("somebody else's")
    shutil.rmtree(state / "models")
    (state / "models").symlink_to(outside)
    with pytest.raises(Refusal, match="symbolic link"):
        Learner.load(state).rollback(0)
    assert (outside / "0099.ckpt").exists()


def test_a_newer_format_is_refused_with_the_remedy(state: Path) -> None:
    rewrite(state, format_version=2)
    with pytest.raises(Refusal, match=r"newer release .* update grcl"):
        Learner.load(state)


def test_the_second_at_once_is_refused_and_reading_is_not(state: Path) -> None:
    learner = Learner.load(state)
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changes: list[Callable[[], Entry]] = [
            lambda: learner.adapt(pixels("dark")),
            lambda: learner.rollback(0),
            lambda: learner.forget(1),
        ]
        for change in changes:
            with pytest.raises(Refusal, match="another process is changing the state"):
                change()
        assert len(learner.predict(pixels("dark"))) == 24
        assert len(learner.history()) == 3


def test_two_fits_at_once_are_one_too_many(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Refusal, match="another process is changing the state"):
            fitted(tmp_path)


HOLDING = """
import fcntl, sys, time
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(99)
"""


def test_a_killed_process_leaves_no_lock(state: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(state / "lock")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(Refusal, match="another process"):
            Learner.load(state).rollback(0)
        process.kill()
    assert Learner.load(state).rollback(0).number == 3


def test_a_kill_within_a_change_leaves_the_old_state_or_the_new(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before each of its writes in turn, an adapt leaves the last good state, and the same call finishes it."""
    answers = Learner.load(state).predict_proba(pixels("dark"))
    writes = 0
    for fatal in range(5):
        left = fatal

        def killing(path: Path, content: bytes) -> None:
            nonlocal left, writes
            if left == 0:
                raise Killed
            left, writes = left - 1, writes + 1
            write_atomically(path, content)

        monkeypatch.setattr("grcl.learner.state.write_atomically", killing)
        with pytest.raises(Killed):
            Learner.load(state).adapt(pixels("dark"), if_worse="keep")
        monkeypatch.undo()
        learner = Learner.load(state)
        assert len(learner.history()) == 3
        assert torch.equal(learner.predict_proba(pixels("dark")), answers)
    assert writes == 0 + 1 + 2 + 3 + 4
    learner.rollback(1)
    assert StateDirectory(state).problems() == []
    assert not (state / "work").exists()


def test_an_interrupted_adapt_changes_nothing_and_goes_on_exactly(state: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(state, tmp_path / "other"))
    straight = Learner.load(other).adapt(pixels("dark"), if_worse="keep", settings=LONG)
    before = contents(state)
    for steps in (2, 1):
        learner = Learner(state, SignalAt(steps))
        with pytest.raises(Interrupted, match="the same command goes on"):
            learner.adapt(pixels("dark"), if_worse="keep", settings=LONG)
        assert {name: c for name, c in contents(state).items() if not name.startswith("work/")} == before
        assert len(learner.predict(pixels("dark"))) == 24
    resumed = Learner(state).adapt(pixels("dark"), if_worse="keep", settings=LONG)
    assert resumed.model_copy(update={"date": straight.date}) == straight
    assert_same_files(state, other)


def test_an_interrupted_fit_goes_on_exactly(made: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        fitted(tmp_path / "state", SignalAt(2), keep_source=16)
    with pytest.raises(Refusal, match="no learner in"):
        Learner.load(tmp_path / "state")
    steps = SignalAt(100)
    fitted(tmp_path / "state", steps, keep_source=16)
    assert steps.left > 100 - 12  # one step for each of its passes
    model = Path("models", "0000.ckpt")
    assert_equal(decode((tmp_path / "state" / model).read_bytes()), decode((made / model).read_bytes()))


KILLED = """
import signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from grcl.learner.learner import Learner
from learners import pixels
from test_state import LONG, SignalAt
Learner(Path(sys.argv[1]), SignalAt(3, signal.SIGKILL)).adapt(pixels("dark"), if_worse="keep", settings=LONG)
"""


def test_a_killed_adapt_goes_on_exactly(state: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(state, tmp_path / "other"))
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(state)], env=path, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list((state / "work" / "checkpoints").iterdir())
    assert len(Learner.load(state).history()) == 3
    steps = SignalAt(100)
    Learner(state, steps).adapt(pixels("dark"), if_worse="keep", settings=LONG)
    assert steps.left > 100 - 6  # it did not begin anew
    Learner(other).adapt(pixels("dark"), if_worse="keep", settings=LONG)
    assert_same_files(state, other)


def assert_same_files(a: Path, b: Path) -> None:
    """The same models, memory and examples, to the last bit."""
    ours, theirs = contents(a), contents(b)
    assert ours.keys() == theirs.keys()
    for name in ours:
        if name.endswith(".ckpt"):
            assert_equal(decode(ours[name]), decode(theirs[name]))


def assert_equal(a: Any, b: Any) -> None:
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_equal(a[key], b[key])
    else:
        assert a == b


def test_another_adapt_than_the_interrupted_one_begins_anew(
    state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = write_flat(tmp_path / "camera", "dark")
    other = Path(shutil.copytree(state, tmp_path / "other"))
    with pytest.raises(Interrupted):
        Learner(state, SignalAt(2)).adapt(target, if_worse="keep", settings=LONG)
    (target / "000.png").unlink()
    with caplog.at_level(logging.WARNING):
        Learner(state).adapt(target, if_worse="keep", settings=LONG)
    assert "an adapt that was interrupted is dropped" in caplog.text
    assert "images of.target" in caplog.text
    Learner(other).adapt(target, if_worse="keep", settings=LONG)
    assert_same_files(state, other)


def traces(state: Path, name: str) -> int:
    """How many of a domain's images are anywhere in the files of a state."""
    everything = b"".join(contents(state).values())
    return sum(image.numpy().tobytes() in everything for image in pixels(name))


def test_what_is_forgotten_is_gone_to_the_last_byte(state: Path) -> None:
    learner = Learner.load(state)
    learner.adapt(pixels("dark"), if_worse="keep")  # the same domain once more
    (state / "report.html").write_text("with thumbnails")
    with pytest.raises(Interrupted):
        Learner(state, SignalAt(1)).adapt(pixels("dark"), settings=LONG)
    assert traces(state, "dark") >= 12
    assert traces(state, "noisy") >= 12
    answers = learner.predict_proba(pixels("dark"))
    entry = learner.forget(1)
    assert (entry.kind, entry.domain, entry.model, entry.episodes) == ("forget", 1, 3, (2,))
    assert traces(state, "dark") == 0
    assert traces(state, "noisy") >= 12
    assert not (state / "report.html").exists()
    assert not (state / "work").exists()
    assert torch.equal(learner.predict_proba(pixels("dark")), answers)  # the weights stay as they became
    assert learner.rollback(1).episodes == ()
    assert traces(state, "dark") == 0
    assert learner.adapt(pixels("noisy"), if_worse="keep").episodes == (6,)
    with pytest.raises(Refusal, match="entry 0 is a fit"):
        learner.forget(0)


def test_a_state_of_the_first_format_still_loads(tmp_path: Path) -> None:
    """tests/states/v1.tar.xz was written by `python tests/test_state.py` when the format was new."""
    with tarfile.open(HERE / "states" / "v1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / "v1" / "expected.json").read_text())
    (tmp_path / "v1" / "expected.json").unlink()
    state = tmp_path / "v1" / "state"
    learner = Learner.load(state)
    assert StateDirectory(state).problems() == []
    assert [entry.kind for entry in learner.history()] == ["fit", "adapt"]
    found = learner.predict_proba(pixels("dark", 4))
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0)
    entry = learner.adapt(pixels("noisy", 8), method="grcl_plus", if_worse="keep")
    assert entry.episodes == (1, 2)
    # its rate is of a time when GRCL+ knew plain descent alone
    assert entry.settings is not None
    assert (entry.settings["grcl_plus"]["optimizer"]["rule"], entry.settings["grcl_plus"]["optimizer"]["rate"]) == (
        "sgd",
        0.01,
    )


def write_first_format() -> None:
    """The state that the test above reads."""
    place = HERE / "states" / "v1"
    learner = fitted(place / "state", keep_source=4)
    learner.adapt(pixels("dark", 8), method="source_only", if_worse="keep", settings={"memory.size": 2})
    (place / "expected.json").write_text(json.dumps(learner.predict_proba(pixels("dark", 4)).tolist()))
    with tarfile.open(HERE / "states" / "v1.tar.xz", "w:xz") as archive:
        archive.add(place, "v1")
    shutil.rmtree(place)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_first_format()
