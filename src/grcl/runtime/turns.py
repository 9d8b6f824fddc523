"""Work that processes do in turns, so that what one has made the next finds done."""

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock file; whoever comes second waits and says so. The lock goes with its process, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process is at the same work (%s); waiting for it", path)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
