"""Checkpoints: written aside and renamed, with a checksum, and loaded without running code."""

import hashlib
import io
import logging
from pathlib import Path
from typing import Any

import torch

from grcl.runtime.files import write_atomically

logger = logging.getLogger(__name__)

_MAGIC = b"grcl checkpoint 1\n"
_KEPT = 2  # the previous one stays until the next is written


class DamagedCheckpoint(Exception):
    """The file is not what was written."""


def encode(state: dict[str, Any]) -> bytes:
    """Tensors and plain values as bytes that carry their own checksum."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getvalue()
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def decode(content: bytes) -> dict[str, Any]:
    """The reverse of `encode`; anything else is refused before it is interpreted."""
    header = len(_MAGIC) + 32
    digest, payload = content[len(_MAGIC) : header], content[header:]
    if not content.startswith(_MAGIC) or hashlib.sha256(payload).digest() != digest:
        raise DamagedCheckpoint
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True, map_location="cpu")
    except Exception as error:  # torch names no common base of what it raises on a payload that it will not load
        raise DamagedCheckpoint from error
    return state


class Checkpoints:
    """The newest checkpoints of one run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, state: dict[str, Any]) -> None:
        """Write one more and drop all but the last two."""
        self.folder.mkdir(exist_ok=True)
        numbers = self._numbers()
        number = numbers[-1] + 1 if numbers else 1
        write_atomically(self._path(number), encode(state))
        for old in [*numbers, number][:-_KEPT]:
            self._path(old).unlink(missing_ok=True)

    def newest(self) -> dict[str, Any] | None:
        """The newest good state; a damaged one is passed over with a warning."""
        for number in reversed(self._numbers()):
            try:
                return decode(self._path(number).read_bytes())
            except DamagedCheckpoint:
                logger.warning("checkpoint %s is damaged; going back to the one before", self._path(number))
        return None

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.ckpt"

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.ckpt") if path.stem.isdigit())
