"""Checkpoints: written aside, proven and renamed, with a checksum, and loaded without running code."""

import hashlib
import logging
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

import torch

from grcl.runtime import distributed
from grcl.runtime.errors import Failure
from grcl.runtime.files import sweep, write_atomically, writing
from grcl.runtime.torch_files import load_torch

logger = logging.getLogger(__name__)

_MAGIC = b"grcl checkpoint 1\n"
_CHUNK = 1 << 20
_KEPT = 2  # the previous one stays until the next is written and read back


class DamagedCheckpoint(Exception):
    """The file is not what was written."""


def encode(state: dict[str, Any]) -> bytes:
    """Tensors and plain values as bytes that carry their own checksum."""
    buffer = BytesIO()
    torch.save(state, buffer)
    payload = buffer.getvalue()
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def decode(content: bytes) -> dict[str, Any]:
    """The reverse of `encode`; anything else is refused before it is interpreted."""
    return _read(BytesIO(content))


class Checkpoints:
    """The newest checkpoints of one run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._damaged: set[int] = set()

    def save(self, state: dict[str, Any]) -> None:
        """Write one more; once it is proven, drop all but the last two."""
        with writing(self.folder):
            self.folder.mkdir(exist_ok=True)
            numbers = self._numbers()
            number = numbers[-1] + 1 if numbers else 1
            write_atomically(self._path(number), encode(state))
            whole = [old for old in numbers if old not in self._damaged]
            for old in set(numbers) - set(whole[1 - _KEPT :]):
                self._path(old).unlink(missing_ok=True)

    def newest(self) -> dict[str, Any] | None:
        """The newest good state; a damaged one is passed over with a warning, and so is the lack of any other."""
        if distributed.is_main():
            sweep(self.folder)
        numbers = self._numbers()
        for number in reversed(numbers):
            try:
                with self._path(number).open("rb") as file:
                    return _read(file)
            except (DamagedCheckpoint, OSError):
                self._damaged.add(number)
                rest = "the work begins anew, for there is no other" if number == numbers[0] else "going back by one"
                logger.warning("checkpoint %s is damaged; %s", self._path(number), rest)
        return None

    def final(self) -> dict[str, Any]:
        """The newest good state of work that is done and cannot begin anew by itself."""
        state = self.newest()
        if state is None:
            raise Failure(
                f"no checkpoint in {self.folder} can be read, though the work is done; put a good copy there, "
                f"or remove {self.folder.parent} and give the same command again"
            )
        return state

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.ckpt"

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.ckpt") if path.stem.isdigit())


def _read(file: BufferedReader | BytesIO) -> dict[str, Any]:
    """A checkpoint whose opening and checksum are right; what is not one takes no memory."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise DamagedCheckpoint
    expected, digest = file.read(32), hashlib.sha256()
    while part := file.read(_CHUNK):
        digest.update(part)
    if digest.digest() != expected:
        raise DamagedCheckpoint
    file.seek(len(_MAGIC) + len(expected))
    try:
        state: dict[str, Any] = load_torch(BytesIO(file.read()))
    except Exception as error:  # torch names no common base of what it raises on a payload that it will not load
        raise DamagedCheckpoint from error
    return state
