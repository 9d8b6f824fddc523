"""Times of works that take turns, so that a slow spell of the machine hits all of them."""

import os
import resource
import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

Seconds = Callable[[], float]


def now() -> float:
    """Seconds on the wall; with BENCH_CLOCK=cpu those that this process and its children have computed."""
    if os.environ.get("BENCH_CLOCK") != "cpu":
        return time.perf_counter()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def timed(work: Callable[[], object]) -> Seconds:
    """A call that does the work and tells how long it took."""

    def call() -> float:
        start = now()
        work()
        return now() - start

    return call


def settle_memory() -> None:
    """Have glibc keep freed pages, as in training once it has seen a large block freed; no page is touched here."""
    torch.empty(31 * 2**20, dtype=torch.uint8)  # its bound for what counts as large ends at 32 MB


class Times:
    """What some works took in every round."""

    def __init__(self, works: Mapping[str, Seconds], rounds: int) -> None:
        settle_memory()
        for work in works.values():  # the first call fills caches and is not counted
            work()
        self._times = [{name: work() for name, work in works.items()} for _ in range(rounds)]

    def of(self, name: str) -> float:
        """The median time of a work."""
        return median(times[name] for times in self._times)

    def ratio(self, name: str, other: str) -> float:
        """How many times as long as the other a work takes: the median over the rounds, each with its own weather."""
        return median(times[name] / times[other] for times in self._times)
