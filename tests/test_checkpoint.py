"""Files that can be trusted: whole or refused, never half written, and never run; a directory belongs to one run."""

import hashlib
import io
import json
import os
import pickle
import resource
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grcl.runtime.checkpoint import Checkpoints, DamagedCheckpoint, decode, encode
from grcl.runtime.errors import Failure, Refusal
from grcl.runtime.files import write_atomically
from grcl.runtime.log import RunLog
from grcl.runtime.run_directory import RunDirectory, differences, variant_name

SMALL = encode({"step": 3, "weights": torch.arange(6.0)})
MAGIC = b"grcl checkpoint 1\n"


def sealed(payload: bytes) -> bytes:
    """Any payload with the right opening and the right checksum."""
    return MAGIC + hashlib.sha256(payload).digest() + payload


def flipped(content: bytes, place: int, mask: int) -> bytes:
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


def test_what_is_decoded_is_what_was_encoded() -> None:
    plain = {"step": 12, "seconds": 0.1 + 0.2, "name": "θ", "nothing": None, "list": [1, (True, {"deep": 2})]}
    tensors = {
        "images": torch.randint(256, (2, 3, 4, 4), dtype=torch.uint8),
        "nested": {"rows": [torch.arange(3), torch.tensor([])], "pair": (torch.randn(2, 3).double(), {})},
    }
    again = decode(encode({**plain, **tensors}))
    torch.testing.assert_close({name: again.pop(name) for name in tensors}, tensors, rtol=0, atol=0)
    assert again == plain


def test_an_optimizer_goes_on_as_if_nothing_had_happened() -> None:
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([w], lr=0.1)
    w.grad = torch.ones(3)
    optimizer.step()
    other = torch.optim.Adam([w], lr=0.5)
    other.load_state_dict(decode(encode(optimizer.state_dict())))
    assert str(other.state_dict()) == str(optimizer.state_dict())


@settings(deadline=None)
@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_refused(place: int, mask: int) -> None:
    with pytest.raises(DamagedCheckpoint):
        decode(flipped(SMALL, place, mask))


@settings(deadline=None)
@given(st.integers(0, len(SMALL) - 1))
def test_a_part_of_a_checkpoint_is_refused(length: int) -> None:
    for part in (SMALL[:length], SMALL + SMALL[: length + 1]):
        with pytest.raises(DamagedCheckpoint):
            decode(part)


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedCheckpoint):
        decode(content)


class Bomb:
    """Unpickled by careless hands, it leaves a file behind."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.victim),)


def as_pickle(state: Any) -> bytes:
    return pickle.dumps(state, protocol=2)


def as_torch_file(state: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def open_carelessly(content: bytes) -> None:
    torch.load(io.BytesIO(content), weights_only=False)


@pytest.mark.parametrize(("write", "read"), [(as_pickle, pickle.loads), (as_torch_file, open_carelessly)])
def test_code_in_a_checkpoint_is_not_run(
    write: Callable[[Any], bytes], read: Callable[[bytes], Any], tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    content = write({"step": Bomb(victim)})
    with pytest.raises(DamagedCheckpoint):
        decode(sealed(content))
    assert not victim.exists()
    read(content)
    assert victim.exists()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_two_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.newest() is None
    for step in range(5):
        checkpoints.save({"step": step})
        assert checkpoints.newest() == {"step": step}
        assert len(names_in(checkpoints.folder)) == min(step + 1, 2)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_one_is_passed_over_with_a_warning(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"step": 1})
    checkpoints.save({"step": 2})
    newest = tmp_path / names_in(tmp_path)[-1]
    content = newest.read_bytes()
    newest.write_bytes({"flip": flipped(content, len(content) // 2, 1), "cut": content[:-1], "empty": b""}[damage])
    assert checkpoints.newest() == {"step": 1}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert newest.name in caplog.text
    checkpoints.save({"step": 3})
    assert checkpoints.newest() == {"step": 3}


def test_if_all_are_damaged_it_says_that_the_work_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save({"step": step})
    for name in names_in(tmp_path):
        (tmp_path / name).write_bytes(b"")
    assert checkpoints.newest() is None
    first, second = (record.getMessage() for record in caplog.records)
    assert first.endswith("00000002.ckpt is damaged; going back by one")
    assert second.endswith("00000001.ckpt is damaged; the work begins anew, for there is no other")
    with pytest.raises(Failure, match="though the work is done; put a good copy there"):
        checkpoints.final()


def test_a_good_one_outlives_a_damaged_one(tmp_path: Path) -> None:
    """The last two that are kept are two good ones, as far as is known."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"step": 1})
    checkpoints.save({"step": 2})
    (tmp_path / names_in(tmp_path)[-1]).write_bytes(b"rotten")
    assert checkpoints.newest() == {"step": 1}
    checkpoints.save({"step": 3})
    (tmp_path / names_in(tmp_path)[-1]).write_bytes(b"rotten too")
    assert checkpoints.newest() == {"step": 1}


def test_what_killed_processes_left_aside_is_swept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"step": 1})
    (tmp_path / ".00000002.ckpt.4711.tmp").write_bytes(b"half of a checkp")
    assert checkpoints.newest() == {"step": 1}
    assert names_in(tmp_path) == ["00000001.ckpt"]


def test_a_run_that_was_killed_while_it_took_its_directory_takes_it_again(tmp_path: Path) -> None:
    (tmp_path / ".config.json.4711.tmp").write_bytes(b'{"seed"')
    RunDirectory(tmp_path).claim(CONFIG)
    assert names_in(tmp_path) == ["config.json"]


@pytest.fixture
def small_disk() -> Iterator[None]:
    """A limit of the system itself on how large a file may grow: writing more fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_last_good_checkpoint_and_a_sentence(small_disk: None, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"step": 1})
    with pytest.raises(Failure, match=r"cannot write to .*: File too large; .* make room there and give the same"):
        checkpoints.save({"step": 2, "weights": torch.zeros(10_000)})
    assert names_in(tmp_path) == ["00000001.ckpt"]
    assert checkpoints.newest() == {"step": 1}


def test_a_full_disk_ends_the_log_with_a_sentence(small_disk: None, tmp_path: Path) -> None:
    log = RunLog(tmp_path, 0, 0)
    with pytest.raises(Failure, match="make room there"):
        log.write("step", text="x" * 30_000)
    with suppress(Failure):  # what could not be written before cannot be written now
        log.close()


def test_a_disk_that_rots_is_noticed_before_the_old_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"step": 1})
    monkeypatch.setattr(os, "fsync", lambda number: os.pwrite(number, b"rot", 30))
    with pytest.raises(Failure, match=r"00000002.ckpt reads back otherwise than it was written"):
        checkpoints.save({"step": 2})
    assert names_in(tmp_path) == ["00000001.ckpt"]
    assert checkpoints.newest() == {"step": 1}


def test_a_log_that_a_power_cut_shortened_is_not_filled_up(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(b'{"kind": "a"}\n')
    log = RunLog(tmp_path, offset=1000, step=0)
    log.write("b")
    log.close()
    assert (tmp_path / "log.jsonl").read_bytes() == b'{"kind": "a"}\n{"kind": "b"}\n'


def test_writing_leaves_the_new_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"old", b"", b"new" * 1000):
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert names_in(tmp_path) == ["file"]


def test_a_full_disk_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_a_folder_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="file"):
        write_atomically(tmp_path / "file", b"new")
    assert names_in(tmp_path) == ["file"]


CONFIG: dict[str, Any] = {"seed": 0, "memory": {"size": 24, "labels": "clusters"}, "targets": ["a", "b"]}


def test_a_run_finds_its_directory_again(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "deep" / "run")
    for _ in range(2):
        directory.claim(CONFIG)
        assert json.loads((directory.path / "config.json").read_text(encoding="utf-8")) == CONFIG
    assert names_in(directory.path) == ["config.json"]
    assert not directory.is_done
    directory.finish()
    assert directory.is_done


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": 1}, "seed is 0 there, 1 here"),
        ({"memory": {"size": 256, "labels": "clusters"}}, "memory.size is 24 there, 256 here"),
        ({"targets": ["b", "a"]}, r"targets is \['a', 'b'\] there, \['b', 'a'\] here"),
        ({"extra": 5}, "extra is None there, 5 here"),
    ],
)
def test_other_settings_are_refused_with_both_values(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.claim(CONFIG)
    with pytest.raises(Refusal, match=sentence):
        directory.claim(CONFIG | change)
    assert directory.read_json("config.json") == CONFIG
    directory.claim(CONFIG | change, without_effect=["seed", "memory.size", "targets", "extra"])


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(Refusal, match=r"is not empty and holds no run \(thesis.tex\)"):
        RunDirectory(tmp_path).claim(CONFIG)
    assert names_in(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("below", ["", "run", "run/deep"])
def test_a_path_at_or_below_a_file_is_refused(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Refusal, match="choose another place with --out"):
        RunDirectory(tmp_path / "file" / below).claim(CONFIG)


values = st.integers() | st.text(max_size=3) | st.booleans()
configs = st.dictionaries(
    st.sampled_from("abc"), values | st.dictionaries(st.sampled_from("de"), values, min_size=1), max_size=3
)


@settings(deadline=None)
@given(configs, configs)
def test_configs_differ_where_their_leaves_do(old: dict[str, Any], new: dict[str, Any]) -> None:
    def leaf(config: dict[str, Any], key: str) -> Any:
        section, _, name = key.partition(".")
        value = config.get(section)
        if name:
            return value.get(name) if isinstance(value, dict) else None
        return None if isinstance(value, dict) else value

    keys = [*"abc", *(f"{section}.{name}" for section in "abc" for name in "de")]
    expected = {key: (leaf(old, key), leaf(new, key)) for key in keys if leaf(old, key) != leaf(new, key)}
    assert differences(old, new) == expected
    assert differences(old, old) == {}


def test_a_variant_is_named_after_its_changes() -> None:
    assert variant_name({}) == ""
    assert variant_name({"memory.size": 256}) == "memory.size=256"
    assert (
        variant_name({"grcl.optimizer.rate": 0.01, "targets": ["a", "b+c"]}) == "grcl.optimizer.rate=0.01,targets=a-b+c"
    )


hostile = st.text(st.characters(max_codepoint=0x2FF)) | st.sampled_from(
    ["/", "..", "../..", "\0", "a/b\n", "~", "x" * 500]
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["network.name", "memory.size"]), hostile, min_size=1))
def test_a_variant_is_one_short_and_safe_path_segment(changes: dict[str, Any]) -> None:
    name = variant_name(changes)
    assert Path(name).parts == (name,)
    assert name not in (".", "..")
    assert not set(name) & set("/\\\0\n :*?\"<>|'$`&;")
    assert len(name.encode()) <= 255


def test_long_variants_that_differ_at_the_end_have_names_of_their_own() -> None:
    names = {variant_name({"network.name": "x" * 300 + end}) for end in "abc"}
    assert len(names) == 3
