"""Work that one process does at a time. A lock of the operating system goes with its process, however that ends."""

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from grcl.runtime.errors import Refusal

logger = logging.getLogger(__name__)

_HOW = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a link or a pipe of that name is nobody's lock


@contextmanager
def one_at_a_time(path: Path, say: Callable[[str], None] = logger.info) -> Iterator[None]:
    """Hold the lock file; whoever comes second waits and says so, and finds done what the first has made."""

    def wait(lock: int) -> None:
        say(f"another process is at the same work ({path}); waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)

    path.parent.mkdir(parents=True, exist_ok=True)
    with _held(path, wait):
        yield


@contextmanager
def alone(path: Path, refusal: str) -> Iterator[None]:
    """Hold the lock file; whoever comes second is refused with this sentence."""

    def refuse(_: int) -> None:
        raise Refusal(refusal)

    with _held(path, refuse):
        yield


@contextmanager
def _held(path: Path, otherwise: Callable[[int], None]) -> Iterator[None]:
    """Hold the lock file, and remove it in the end."""
    lock = _take(path, otherwise)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _take(path: Path, otherwise: Callable[[int], None]) -> int:
    """The file, locked; where another process has it, `otherwise` waits for it or refuses."""
    while True:
        lock = os.open(path, _HOW, 0o666)
        try:
            if os.fstat(lock).st_size:
                raise Refusal(f"{path} is no lock of ours, for it holds something; choose another place, or move it")
            _lock(lock, path, otherwise)
            if _is_at(lock, path):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)  # its holder removed it while we waited


def _lock(lock: int, path: Path, otherwise: Callable[[int], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        otherwise(lock)
    except OSError as error:  # some file systems of clusters have no locks
        logger.warning("%s cannot be locked (%s); take care not to start the same work twice", path, error.strerror)


def _is_at(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
