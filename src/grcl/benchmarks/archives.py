"""Unpacking archives that nobody vouches for: nothing outside the target, no links, bounded, all or nothing."""

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import cast

from grcl.runtime.errors import Failure, Refusal

CHUNK = 1 << 18
OPENERS: dict[str, Callable[[Path], BufferedIOBase]] = {
    ".gz": gzip.GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".tar": lambda path: path.open("rb"),
}
SHORT = {".tgz": ".tar.gz", ".tbz2": ".tar.bz2", ".txz": ".tar.xz"}
# By which the readers of archives say that one is damaged; a name that is no UTF-8 is a ValueError.
BROKEN = (OSError, EOFError, ValueError, NotImplementedError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Limits:
    """What an archive may become."""

    members: int = 1_000_000
    total: int = 64 << 30
    ratio: int = 100
    """Times its own size, where that is more than `harmless`."""
    harmless: int = 256 << 20

    def bytes_from(self, archive: Path) -> int:
        """The bytes that this archive may become."""
        return min(self.total, max(self.harmless, self.ratio * archive.stat().st_size))


LIMITS = Limits()


@dataclass(frozen=True)
class Member:
    """A regular file or a folder of an archive; `content` is read before the next member is asked for."""

    name: str
    content: BufferedIOBase | None


def unpack(archive: Path, target: Path, limits: Limits = LIMITS) -> None:
    """Unpack into a folder aside and rename it to `target`, which must not exist; one process at a time.

    A single file or folder at the top of the archive that is named like the target becomes the target itself.
    """
    if target.exists() or target.is_symlink():
        raise Refusal(f"{target} is there already; move it away to unpack {archive.name}")
    aside = target.with_name(f".{target.name}.unpacking")
    shutil.rmtree(aside, ignore_errors=True)  # of a process that was killed
    content = aside / "content"
    try:
        content.mkdir(parents=True)
        _write_all(archive, target.name, content, limits)
        os.sync()  # one for all: an fsync for each of 100,000 images would take minutes
        top = list(content.iterdir())
        is_alone = [path.name for path in top] == [target.name]
        (top[0] if is_alone else content).rename(target)
    except (Damaged, tarfile.TarError) as error:
        raise Failure(f"{archive} is damaged or no such archive ({error}); remove it and get it again") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_all(archive: Path, name: str, content: Path, limits: Limits) -> None:
    budget = Budget(archive, limits.bytes_from(archive))
    for count, member in enumerate(_members(archive, name, budget), start=1):
        if count > limits.members:
            raise Failure(f"{archive} is refused: it holds more than {limits.members:,} members")
        parts = _safe_parts(archive, member.name)
        if _is_junk(parts):
            continue
        path = content.joinpath(*parts)
        try:
            if member.content is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, member.content)
        except (FileExistsError, NotADirectoryError) as error:
            raise Failure(f"{archive} is refused: it holds {member.name!r} twice") from error


def _write(path: Path, content: BufferedIOBase) -> None:
    with path.open("xb") as out:
        while chunk := content.read(CHUNK):
            out.write(chunk)


def _safe_parts(archive: Path, name: str) -> tuple[str, ...]:
    """The parts of a relative path that stays below its folder on every platform."""
    parts = tuple(part for part in PurePosixPath(name).parts if part != ".")
    is_safe = name.isprintable() and not name.startswith("/") and "\\" not in name and ".." not in parts
    if not is_safe or any(part[1:2] == ":" for part in parts):
        raise Failure(f"{archive} is refused: the path {name!r} could lead out of its folder")
    return parts


def _is_junk(parts: tuple[str, ...]) -> bool:
    """What macOS adds, and what would be taken for damaged images."""
    return not parts or parts[0] == "__MACOSX" or parts[-1] == ".DS_Store" or parts[-1].startswith("._")


class Budget:
    """Bytes that an archive may still become."""

    def __init__(self, archive: Path, left: int) -> None:
        self.archive, self.allowed, self.left = archive, left, left

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise Failure(f"{self.archive} is refused: it unpacks to more than {self.allowed:,} bytes")


class Damaged(Exception):
    """Bytes that cannot be decompressed."""


class Metered(BufferedIOBase):
    """A stream whose every byte is paid for."""

    def __init__(self, stream: BufferedIOBase, budget: Budget) -> None:
        self.stream, self.budget = stream, budget

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            chunk = self.stream.read(size)
        except BROKEN as error:
            raise Damaged(str(error)) from error
        self.budget.spend(len(chunk))
        return chunk


def _members(archive: Path, name: str, budget: Budget) -> Iterator[Member]:
    """The members of the archive, by the ending of its name; a compressed file is an archive of one."""
    full = archive.name
    for short, long in SHORT.items():
        full = full.removesuffix(short) + long if full.endswith(short) else full
    ending = Path(full).suffix
    if ending != ".zip" and ending not in OPENERS:
        raise Refusal(f"{archive} cannot be unpacked: known are .zip, .tar, .gz, .bz2 and .xz")
    try:
        if ending == ".zip":
            yield from _zip_members(archive, budget)
            return
        with OPENERS[ending](archive) as stream:
            if ".tar" in Path(full).suffixes[-2:]:
                yield from _tar_members(archive, Metered(stream, budget))
            else:
                yield Member(name, Metered(stream, budget))
    except BROKEN as error:
        raise Damaged(str(error)) from error


def _zip_members(archive: Path, budget: Budget) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as file:
        if sum(info.file_size for info in file.infolist()) > budget.left:
            budget.spend(budget.left + 1)  # before a single byte is written
        for info in file.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or info.flag_bits & 1:
                raise Failure(f"{archive} is refused: {info.filename!r} is a link, a device or encrypted")
            if "\0" in info.orig_filename:
                raise Failure(f"{archive} is refused: the path {info.orig_filename!r} could lead out of its folder")
            if info.is_dir():
                yield Member(info.filename, None)
            else:
                with file.open(info) as content:
                    yield Member(info.filename, Metered(cast(BufferedIOBase, content), budget))


def _tar_members(archive: Path, stream: Metered) -> Iterator[Member]:
    """The stream is metered below the tar, so that skipped members and huge headers are paid for too."""
    with tarfile.open(fileobj=stream, mode="r|") as file:
        for info in file:
            if info.isdir():
                yield Member(info.name, None)
            elif info.isreg() and not info.issparse() and (content := file.extractfile(info)) is not None:
                yield Member(info.name, cast(BufferedIOBase, content))
            else:
                raise Failure(f"{archive} is refused: {info.name!r} is a link or a device")
