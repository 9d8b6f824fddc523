"""Work that is begun before its result is needed."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Result = TypeVar("Result")


def in_advance(started: Iterable[Callable[[], Result]], ahead: int = 2) -> Iterator[Result]:
    """The results in their order, while the next `ahead` are under way.

    The iterable begins a piece of work when it is asked for one, and calling the piece waits for its result.
    """
    under_way: deque[Callable[[], Result]] = deque()
    for work in started:
        under_way.append(work)
        if len(under_way) > ahead:
            yield under_way.popleft()()
    while under_way:
        yield under_way.popleft()()
