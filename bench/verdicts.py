"""`python -m bench.verdicts`: what the learner says of adaptations, honest and sabotaged, beside what they really did.

A learner is fitted on one domain of `mini` and adapted with its defaults to the others, each time from the fit anew;
accuracies are those on test images, which the learner never sees.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from grcl.benchmarks import BENCHMARKS
from grcl.data.images import select
from grcl.data.reading import Reading
from grcl.data.split import Split
from grcl.data.stream import Domain, Labelled
from grcl.learner.history import Entry
from grcl.learner.learner import Learner
from grcl.runtime.errors import Failure
from grcl.runtime.seeding import generator

SOURCES = ("mnist", "house_numbers")
IMAGES = 600  # of each target
EVEN, ODD = (0, 2, 4, 6, 8), (1, 3, 5, 7, 9)
SETTINGS = {"training.threads": 1, "augmentation.flip_probability": 0.0}  # a mirrored digit is none


class Case(NamedTuple):
    """One adaptation: its target, labelled images to tell the truth with, if there are any, and changed settings."""

    name: str
    target: Tensor
    truth: Labelled | None = None
    settings: Mapping[str, Any] = MappingProxyType({})


class Outcome(NamedTuple):
    """What was said, and what was so."""

    verdict: str
    reason: str
    accuracies: dict[str, tuple[float, float]]


def main() -> None:
    """Print both tables in Markdown."""
    tell_strangeness()
    tell_verdicts()


def tell_strangeness() -> None:
    """How many images of its own domain, of others and of noise a fitted learner takes for nothing that it knows."""
    tell("flagged (%)", "its own test images", "another domain", "noise")
    tell("---", "---:", "---:", "---:")
    for source in SOURCES:
        others = [_flagged(source, _pixels(domain(name).test)) for name in _others(source)]
        shape = _pixels(domain(source).test).shape
        noise = torch.randint(256, shape, generator=generator(0, "noise"), dtype=torch.uint8)
        own = _flagged(source, _pixels(domain(source).test))
        spread = f"{min(others):.0f} to {max(others):.0f}"
        tell(source, f"{own:.0f}", spread, f"{_flagged(source, noise):.0f}")


def _flagged(source: str, pixels: Tensor) -> float:
    found = fitted(source, range(10)).look(pixels)
    return 100 * sum(prediction.is_strange for prediction in found) / len(found)


def _others(source: str) -> list[str]:
    return [name for name in BENCHMARKS["mini"].order() if name != source]


def tell_verdicts() -> None:
    """A row for every adaptation."""
    tell("source", "adaptation", "target", "source", "verdict", "reason")
    tell("---", "---", "---:", "---:", "---", "---")
    for source in SOURCES:
        for classes, found in ((range(10), cases(source)), (EVEN, cases_of_few(source))):
            for case in found:
                outcome = adapted(source, classes, case)
                both = [_both(outcome.accuracies.get(name)) for name in ("target", "source")]
                tell(f"{source}, even digits" if classes is EVEN else source, case.name, *both, *outcome[:2])


def cases_of_few(source: str) -> Iterator[Case]:
    """For a learner of the even digits: those of the other domains, and the odd ones, which it does not know."""
    for name in _others(source):
        yield Case(f"{name}, even digits", _pixels(_of(domain(name).train, EVEN)), _of(domain(name).test, EVEN))
        yield Case(f"{name}, odd digits", _pixels(_of(domain(name).train, ODD)))


def cases(source: str) -> Iterator[Case]:
    """The other domains as they are, and targets that no learner can learn from."""
    others = _others(source)
    for name in others:
        yield Case(name, _pixels(domain(name).train), domain(name).test)
    pixels = _pixels(domain(others[0]).train)
    places = torch.rand(pixels[0, 0].numel(), generator=generator(0, "shuffle")).argsort()
    yield Case(f"{others[0]}, its pixels shuffled", pixels.flatten(2)[..., places].view_as(pixels))
    yield Case("noise", torch.randint(256, pixels.shape, generator=generator(0, "noise"), dtype=torch.uint8))
    for rate in (0.1, 0.5):
        settings = {"grcl_plus.optimizer.rate": rate}
        yield Case(f"{others[0]} at the rate {rate}", pixels, domain(others[0]).test, settings)


def adapted(source: str, classes: Sequence[int], case: Case) -> Outcome:
    """Adapt a copy of the learner, and measure the model before and the new one, whatever the verdict."""
    tests = {"source": _of(domain(source).test, classes)}
    tests |= {"target": case.truth} if case.truth else {}
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner.load(_copy(fitted(source, classes), Path(folder) / "state"))
        before = {name: learner.score(*arrays(test)) for name, test in tests.items()}
        try:
            entry: Entry = learner.adapt(
                case.target,
                source=arrays(_of(domain(source).train, classes)),
                if_worse="keep",
                settings={**SETTINGS, **case.settings},
            )
        except Failure as failure:
            return Outcome("stopped", str(failure), {})
        after = {name: learner.score(*arrays(test)) for name, test in tests.items()}
        return Outcome(str(entry.verdict), entry.reason, {name: (before[name], after[name]) for name in tests})


@cache
def fitted(source: str, classes: Sequence[int]) -> Learner:
    """A learner of these classes of the source."""
    learner = Learner()
    learner.fit(*arrays(_of(domain(source).train, classes)), settings=SETTINGS)
    return learner


@cache
def domain(name: str) -> Domain:
    """A domain of the embedded benchmark."""
    return BENCHMARKS["mini"].domain(name, data=None, reading=Reading(size=32), split=Split())


def _of(labelled: Labelled, classes: Sequence[int]) -> Labelled:
    """The images of these classes."""
    places = torch.nonzero(torch.isin(labelled.labels, torch.tensor(list(classes))))[:, 0]
    return Labelled(select(labelled.images, places), labelled.labels[places])


def _pixels(labelled: Labelled) -> Tensor:
    """Some of the images, without their labels."""
    places = torch.rand(len(labelled), generator=generator(0, "target")).argsort()[:IMAGES]
    return labelled.images.read(places)


def arrays(labelled: Labelled) -> tuple[Tensor, Tensor]:
    """All images and their labels."""
    return labelled.images.read(torch.arange(len(labelled))), labelled.labels


def _copy(learner: Learner, place: Path) -> Path:
    learner.save(place)
    return place


def _both(accuracies: tuple[float, float] | None) -> str:
    return f"{100 * accuracies[0]:.0f} → {100 * accuracies[1]:.0f}" if accuracies else "–"


def tell(*cells: str) -> None:
    """A row of a table in Markdown."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
