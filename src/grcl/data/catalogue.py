"""What is known of image files: their digests, and whether they decode. Every file is read once; later runs ask the
file system alone whether it has changed."""

import contextlib
import hashlib
import json
import logging
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import PIL

from grcl.data.ahead import in_advance
from grcl.data.decoding import examine, not_opened
from grcl.data.workers import start
from grcl.runtime.cache_folder import cache_folder
from grcl.runtime.files import write_atomically
from grcl.runtime.turns import one_at_a_time

logger = logging.getLogger(__name__)

_FOLDERS_AHEAD = 8  # enough to keep the workers busy where a folder has but a few images
_SECONDS_OF_SILENCE = 10.0


class Entry(NamedTuple):
    """One file. The digest is empty where the bytes cannot be had, and the size is -1 where not even that is known."""

    name: str
    size: int
    digest: str
    problem: str
    """What is wrong with it, in words that follow its name; empty if it decodes."""


class _Known(NamedTuple):
    """What was found in a file, and which size and time of change it had then; nothing found yet without a digest."""

    size: int
    changed: int
    digest: str = ""
    problem: str = ""


_Shelf = dict[str, _Known]
"""What is known of one folder, by the names of its files."""


def catalogue(root: Path, names: Sequence[str], workers: int) -> list[Entry]:
    """An entry for every file below `root`, in the order of the names."""
    root = root.resolve()
    folders: dict[str, list[str]] = defaultdict(list)
    for name in names:
        folders[str(PurePosixPath(name).parent)].append(name)
    entries: dict[str, Entry] = {}
    told = time.monotonic()
    with _in_turn(root):
        started = (_start_folder(root, folder, inside, workers) for folder, inside in folders.items())
        for found in in_advance(started, _FOLDERS_AHEAD):
            entries |= {entry.name: entry for entry in found}
            if time.monotonic() - told > _SECONDS_OF_SILENCE:
                logger.info("read %s of %s images in %s", f"{len(entries):,}", f"{len(names):,}", root)
                told = time.monotonic()
    return [entries[name] for name in names]


@contextlib.contextmanager
def _in_turn(root: Path) -> Iterator[None]:
    """One process at a time, so that several that start together do not all read the same files."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # where no lock can be made, nothing can be kept either
            stack.enter_context(one_at_a_time(_place(root).with_suffix(".lock")))
        yield


def _start_folder(root: Path, folder: str, names: Sequence[str], workers: int) -> Callable[[], list[Entry]]:
    """Begin to read what is new or changed in one folder; calling the result waits for it, and keeps it."""
    place = _place(root / folder)
    shelf = _read_shelf(place)
    found = {name: _look_up(root / name, shelf) for name in names}
    new = [name for name, known in found.items() if not known.digest and not known.problem]
    answers = start(examine, [str(root / name) for name in new], workers=workers)

    def finish() -> list[Entry]:
        for name, (digest, problem) in zip(new, (answer for chunk in answers() for answer in chunk), strict=True):
            found[name] = found[name]._replace(digest=digest, problem=problem)
        if new:
            _keep_shelf(place, shelf | {PurePosixPath(name).name: found[name] for name in new})
        return [Entry(name, known.size, known.digest, known.problem) for name, known in found.items()]

    return finish


def _look_up(path: Path, shelf: _Shelf) -> _Known:
    """What is known of a file as it is now."""
    try:
        state = path.stat()
    except OSError as error:
        return _Known(-1, 0, problem=not_opened(error))
    if not stat.S_ISREG(state.st_mode):  # to open a pipe would be to wait for ever
        return _Known(-1, 0, problem="is not a file")
    now, known = _Known(state.st_size, state.st_mtime_ns), shelf.get(path.name)
    return known if known and known[:2] == now[:2] else now


def _place(folder: Path) -> Path:
    """Where the shelf of a folder is kept."""
    key = hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:24]
    return cache_folder() / "catalogue" / f"{key}.json"


def _read_shelf(place: Path) -> _Shelf:
    """What was kept; the problems only if they were found by this release of Pillow, for another may know more."""
    try:
        digest, _, content = place.read_bytes().partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() != digest:
            raise ValueError("its digest is another")
        kept = json.loads(content)
        shelf = {name: _Known(*known) for name, known in kept["images"].items()}
    except OSError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("the cache file %s cannot be read (%s) and is made anew", place, error)
        return {}
    return {name: known for name, known in shelf.items() if not known.problem or kept["pillow"] == PIL.__version__}


def _keep_shelf(place: Path, shelf: _Shelf) -> None:
    """Keep all but what could not be opened, which may change without a trace; losing it costs time alone."""
    images = {name: known for name, known in shelf.items() if known.digest}
    content = json.dumps({"pillow": PIL.__version__, "images": images}).encode()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    except OSError as error:
        logger.info("nothing is kept in %s (%s); set GRCL_CACHE to a folder that can be written", place.parent, error)
