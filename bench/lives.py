"""`python -m bench.lives [DIR]`: which method serves a learner best that meets one domain after another.

A learner is fitted on one domain and adapted to the others in their order, with its defaults and whatever the verdict
says. Of `mini`, each of its domains as the source, or of Office-Caltech, where DIR is its folder, from DSLR on, which
takes half an hour. Accuracies are those on test images, which the learner never sees.
"""

import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from torch import Tensor

from bench.verdicts import SETTINGS, arrays, tell
from grcl.benchmarks import BENCHMARKS
from grcl.data.reading import Reading
from grcl.data.split import Split
from grcl.learner.learner import Learner
from grcl.loop import NotFinite

METHODS = ("source_continued", "multi_task", "dann", "cua", "gra", "grcl", "grcl_plus")


class World(NamedTuple):
    """Training images of every domain and test images of each, with labels."""

    train: dict[str, tuple[Tensor, Tensor]]
    test: dict[str, tuple[Tensor, Tensor]]


class End(NamedTuple):
    """How much a learner had right after the fit and at the end of its life, on each domain, the source first."""

    first: list[float]
    last: list[float]

    def gain(self, domains: slice) -> float:
        """Points that it gained on these domains, in the mean."""
        return 100 * (mean(self.last[domains]) - mean(self.first[domains]))


def main() -> None:
    """Print a line for each method, in Markdown."""
    tell("method", "all domains", "targets", "source", "all domains, by source")
    tell("---", *["---:"] * 3, "---")
    if len(sys.argv) > 1:
        world = _world("office_caltech", Path(sys.argv[1]), Split(train=100), 96)
        tell_methods(world, list(world.train)[:1])
    else:
        world = _world("mini", None, Split(), 32)
        tell_methods(world, list(world.train))


def tell_methods(world: World, sources: list[str]) -> None:
    """A line for each method, mean over the domains that are the source in turn."""
    fits = {source: _fitted(world, source) for source in sources}
    for method in METHODS:
        tell(method, *_gains({source: life(world, source, fits[source], method) for source in sources}))


def life(world: World, source: str, fit: Learner, method: str) -> End:
    """Adapt a copy of the learner to all other domains, one after another."""
    order = [source, *(name for name in world.train if name != source)]
    with tempfile.TemporaryDirectory() as folder:
        fit.save(Path(folder) / "state")
        learner = Learner.load(Path(folder) / "state")
        first = _scores(world, order, learner)
        for target in order[1:]:
            pixels, _ = world.train[target]
            with suppress(NotFinite):  # there is no new model: the one before stays, as it does for a user
                learner.adapt(pixels, method=method, source=world.train[source], if_worse="keep", settings=SETTINGS)
        return End(first, _scores(world, order, learner))


def _scores(world: World, order: list[str], learner: Learner) -> list[float]:
    return [learner.score(*world.test[name]) for name in order]


def _fitted(world: World, source: str) -> Learner:
    learner = Learner()
    learner.fit(*world.train[source], settings=SETTINGS)
    return learner


def _gains(ends: Mapping[str, End]) -> list[str]:
    everywhere, targets, source = slice(None), slice(1, None), slice(1)
    means = [mean(end.gain(domains) for end in ends.values()) for domains in (everywhere, targets, source)]
    each = ", ".join(f"{source} {end.gain(everywhere):+.1f}" for source, end in ends.items())
    return [*(f"{gain:+.1f}" for gain in means), each]


def _world(benchmark: str, data: Path | None, split: Split, size: int) -> World:
    known = BENCHMARKS[benchmark]
    domains = {name: known.domain(name, data, Reading(size=size), split) for name in known.order()}
    return World(
        {name: arrays(domain.train) for name, domain in domains.items()},
        {name: arrays(domain.test) for name, domain in domains.items()},
    )


if __name__ == "__main__":
    main()
