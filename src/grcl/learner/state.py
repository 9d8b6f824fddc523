"""The directory of a learner. It can be moved; a change is made aside and becomes valid when state.json is replaced.

state.json names all other files with their hashes, so that nothing is read that was not written for this state:
history/, models/, memory/, examples/ (see `history`), and source/kept.ckpt. Beside them lie `lock`, which the process
at work holds, and work/, an adapt or a fit in progress.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeInt, ValidationError
from torch import Tensor

from grcl.data.reading import Side
from grcl.learner.history import Entry
from grcl.runtime.checkpoint import DamagedCheckpoint, decode
from grcl.runtime.errors import Refusal
from grcl.runtime.files import sweep, write_atomically, writing
from grcl.runtime.settings import Settings
from grcl.runtime.turns import alone

FORMAT_VERSION = 1

_FOLDERS = ("history", "models", "memory", "examples", "source")
_NAME = re.compile(r"history/\d{4,}\.json|(models|memory|examples)/\d{4,}\.ckpt|source/kept\.ckpt", re.ASCII)
_OWN = {"state.json", "lock", "work", "report.html", *_FOLDERS}
_LONGEST_TEXT = 64 << 20  # bytes of a .json; ten thousand adapts need a tenth of it
_LARGEST = 4 << 30  # bytes of a .ckpt, which is read as a whole
_CHUNK = 1 << 20


class Damaged(Refusal):
    """A file of the state is missing or is not what was written."""


class SourceFacts(Settings):
    """The labelled images that every adapt needs."""

    name: str
    place: str | None
    """Where the folder was; none for arrays."""
    fingerprint: str
    images: int
    kept: int = 0
    """How many of them are in source/kept.ckpt."""


class Facts(Settings):
    """What state.json holds."""

    format_version: Literal[1] = 1
    classes: tuple[str, ...]
    size: Side
    """Pixels on each side of an image."""
    newest: NonNegativeInt
    """The number of the newest entry, which tells what is in force."""
    source: SourceFacts
    files: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of every file, by its name below the directory."""


class StateDirectory:
    """Reading needs no lock; a change needs it, and there is one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"

    @property
    def is_there(self) -> bool:
        """Whether a fit has been finished here."""
        return (self.path / "state.json").exists()

    def facts(self) -> Facts:
        """What is in force."""
        try:
            with self._open("state.json") as file:
                content = json.loads(file.read())
            version = content["format_version"]
            checksum = content.pop("checksum")
        except OSError as error:
            reason = "there is none" if isinstance(error, FileNotFoundError) else error.strerror
            raise Refusal(f"no learner in {self.path} ({reason}); make one with grcl fit") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._damaged_root() from None
        if not isinstance(version, int) or version > FORMAT_VERSION:
            raise Refusal(f"{self.path} was written by a newer release (its format is {version}); update grcl")
        try:
            facts = Facts.model_validate(content)
        except ValidationError:
            raise self._damaged_root() from None
        if checksum != _checksum(content) or not all(map(_NAME.fullmatch, facts.files)):
            raise self._damaged_root()
        return facts

    def _damaged_root(self) -> Damaged:
        return Damaged(f"{self.path / 'state.json'} is damaged or was altered; put back a copy of the directory")

    def entries(self, facts: Facts) -> list[Entry]:
        """The history."""
        found: list[Entry] = []
        for number in range(facts.newest + 1):
            name = f"history/{number:04d}.json"
            with self.understanding(name):
                found.append(Entry.model_validate_json(self.read(facts, name)))
                if found[-1].number != number or not 0 <= found[-1].model <= number:
                    raise ValueError
        return found

    def load(self, facts: Facts, name: str) -> dict[str, Any]:
        """The tensors and plain values of a .ckpt file."""
        content = self.read(facts, name)
        with self.understanding(name):
            state = decode(content)
            if not isinstance(state, dict):
                raise TypeError
        return state

    def images(self, facts: Facts, name: str) -> tuple[Tensor, Tensor]:
        """The pixels and labels in a .ckpt file."""
        kept = self.load(facts, name)
        with self.understanding(name):
            pixels, labels = kept["pixels"], kept["labels"]
            is_known = (labels >= 0) & (labels < len(facts.classes))
            shape = (len(labels), 3, facts.size, facts.size)
            if (
                pixels.shape != shape
                or pixels.dtype != torch.uint8
                or labels.dtype != torch.int64
                or not is_known.all()
            ):
                raise ValueError
        return pixels, labels

    @contextmanager
    def understanding(self, name: str) -> Iterator[None]:
        """Within this, what a file holds besides what is expected there gets a sentence: a right hash proves little."""
        try:
            yield
        except (AttributeError, DamagedCheckpoint, IndexError, KeyError, RuntimeError, TypeError, ValueError):
            raise self._damaged(name, "holds what this release of grcl or torch cannot read") from None

    def read(self, facts: Facts, name: str) -> bytes:
        """A file's bytes, if they are those that state.json names; other ones are not even held in memory."""
        if name not in facts.files:
            raise self._damaged(name, "is missing")
        digest = hashlib.sha256()
        try:
            with self._open(name) as file:
                while part := file.read(_CHUNK):
                    digest.update(part)
                if digest.hexdigest() != facts.files[name]:
                    raise self._damaged(name, "is not the file that was written there")
                file.seek(0)
                return file.read()
        except OSError as error:
            reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
            raise self._damaged(name, reason) from None

    def _damaged(self, name: str, what: str) -> Damaged:
        """What is wrong with a file, and for one of a domain's images how to go on without them."""
        folder, _, file = name.partition("/")
        remedies = {
            "memory": f"; grcl forget --state {self.path} --domain {Path(file).stem.lstrip('0')} drops that domain",
            "examples": f"; grcl report --state {self.path} --no-thumbnails does without",
        }
        return Damaged(f"{name} in the state {self.path} {what}{remedies.get(folder, '')}")

    def _open(self, name: str) -> BufferedReader:
        """A file of the state itself: no link leads out of it, no pipe hangs, and none is larger than plausible."""
        path = self.path / name
        is_linked = path.is_symlink() or ("/" in name and path.parent.is_symlink())
        if is_linked or (path.exists() and not path.is_file()):
            raise OSError(errno.EINVAL, "it is a link or no file at all")
        if path.stat().st_size > (_LONGEST_TEXT if path.suffix == ".json" else _LARGEST):
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return path.open("rb")

    def problems(self) -> list[str]:
        """Everything that is missing, altered or not of this state, one sentence each; reads all files."""
        facts, found = self.facts(), []
        for name in sorted(facts.files):
            try:
                self.read(facts, name)
            except Damaged as error:
                found.append(str(error))
        extra = [path.name for path in self.path.iterdir() if path.name not in _OWN]
        extra += [name for name in self._present() if name not in facts.files]
        return found + [f"{name} in {self.path} is no part of the state" for name in sorted(extra)]

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Be the one process that changes the state; a state whose parts lie elsewhere is not changed at all."""
        refusal = f"another process is changing the state {self.path}; wait for it, or work on a copy"
        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(alone(self.path / "lock", refusal))
            except OSError as error:
                raise Refusal(f"cannot write to the state {self.path}: {error.strerror}") from None
            self._require_plain()
            sweep(self.path)
            yield

    def require_free(self) -> None:
        """Refuse a place where a learner is already, or that holds other things."""
        if self.is_there:
            raise Refusal(f"{self.path} holds a learner already; choose another place with --state")
        if self.path.exists() and not self.path.is_dir():
            raise Refusal(f"{self.path} is no folder; choose another place with --state")
        unfinished = set(self.path.glob(".state.json.*.tmp"))  # of a fit that was killed at its very end
        foreign = sorted(p.name for p in self.path.glob("*") if p.name not in _OWN and p not in unfinished)
        if foreign:
            raise Refusal(f"{self.path} is not empty ({foreign[0]}); choose another place with --state")

    def commit(self, facts: Facts, entry: Entry, new: Mapping[str, bytes], erased: tuple[str, ...] = ()) -> Facts:
        """Make the entry and the new files valid all at once, then sweep away what is not mentioned any more."""
        written = {**new, f"history/{entry.number:04d}.json": (entry.model_dump_json(indent=2) + "\n").encode()}
        kept = {name: digest for name, digest in facts.files.items() if name not in erased}
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in written.items()}
        facts = facts.model_copy(update={"newest": entry.number, "files": kept | hashes})
        self._write(written, facts)
        self._sweep(facts)
        return facts

    def _write(self, files: Mapping[str, bytes], facts: Facts) -> None:
        """The files first, for they are not valid before state.json names them."""
        with writing(self.path):
            for name, content in files.items():
                (self.path / name).parent.mkdir(exist_ok=True)
                write_atomically(self.path / name, content)
            write_atomically(self.path / "state.json", _as_json(facts))

    def _sweep(self, facts: Facts) -> None:
        """Remove the work that is done, and the files that state.json does not name."""
        shutil.rmtree(self.work, ignore_errors=True)
        for name in self._present():
            if name not in facts.files:
                (self.path / name).unlink(missing_ok=True)

    def copy_to(self, place: Path) -> None:
        """The same state in another, empty place."""
        facts, other = self.facts(), StateDirectory(place)
        other.require_free()
        with other.changing():
            other.require_free()
            other._write({name: self.read(facts, name) for name in facts.files}, facts)

    def _present(self) -> list[str]:
        folders = [self.path / folder for folder in _FOLDERS]
        return [f"{folder.name}/{path.name}" for folder in folders if folder.is_dir() for path in folder.iterdir()]

    def _require_plain(self) -> None:
        """Nothing is written or swept where a link leads out of the state, and no pipe is waited for."""
        for folder, folders, files in os.walk(self.path):
            for path in (Path(folder, name) for name in (*folders, *files)):
                if path.is_symlink() or not (path.is_file() or path.is_dir()):
                    raise Refusal(f"{path} is a symbolic link or no file at all; a state holds its files itself")


def _as_json(facts: Facts) -> bytes:
    content = facts.model_dump(mode="json")
    return (json.dumps({**content, "checksum": _checksum(content)}, indent=2) + "\n").encode()


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
