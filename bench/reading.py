"""`python -m bench.reading [DIR]`: which targets a learner takes for unreadable, by how much it had right there.

A learner is fitted on half of the classes of a domain. It looks at the same classes in every other domain, and at the
other half, which it does not know, in all of them. Of `mini`, and of Office-Caltech where DIR is its folder.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from bench.verdicts import SETTINGS, domain, tell
from grcl.benchmarks import BENCHMARKS
from grcl.data.augment import Augmentation
from grcl.data.images import ImageArray
from grcl.data.reading import Reading
from grcl.data.stream import Labelled, Stage
from grcl.learner.inputs import read_labelled
from grcl.learner.learner import Learner
from grcl.learner.steadiness import steadiness
from grcl.learner.verdict import unreadable
from grcl.memory.sight import look_over
from grcl.runtime.seeding import generator

HALVES = (slice(0, 5), slice(5, 10), slice(0, 10, 2), slice(1, 10, 2))  # each beside its other half
BANDS = {"< 50 %": 0.5, "50 to 65": 0.65, "65 to 80": 0.8, "> 80": 1.01}


class Pictures(NamedTuple):
    """Pixels and the places of their classes among all ten."""

    pixels: Tensor
    labels: Tensor

    def of(self, classes: range, most: int) -> "Pictures":
        """Some images of these classes, labelled by places among them."""
        order = torch.rand(len(self.labels), generator=generator(0, "reading")).argsort()
        some = order[torch.isin(self.labels[order], torch.tensor(list(classes)))][:most]
        return Pictures(self.pixels[some], torch.tensor([classes.index(k) for k in self.labels[some].tolist()]))


class Finding(NamedTuple):
    """What is thought of one target."""

    is_known: bool
    right: float
    is_refused: bool


def main() -> None:
    """Print a line for each way to halve the classes, in Markdown."""
    tell("images", "unknown classes: refused", *(f"known, {band} right: refused" for band in BANDS))
    tell("---", *["---:"] * (1 + len(BANDS)))
    worlds = {"digits": (mini(), 2000, 600)}
    if len(sys.argv) > 1:
        worlds["photographs"] = (office_caltech(Path(sys.argv[1])), 100, 80)
    for name, (world, of_source, of_target) in worlds.items():
        for title, halves in (("halves", HALVES[:2]), ("even and odd", HALVES[2:])):
            found = [finding for half in halves for finding in study(world, half, halves, of_source, of_target)]
            tell(f"{name}, {title}", *_counts(found))


def mini() -> dict[str, Pictures]:
    """The training images of the embedded benchmark."""
    return {name: _all(domain(name).train) for name in BENCHMARKS["mini"].order()}


def office_caltech(folder: Path) -> dict[str, Pictures]:
    """All photographs, at the size that a learner gives them by default."""
    places = [place for place in sorted(folder.iterdir()) if place.is_dir()]
    return {place.name: _all(read_labelled(place, Reading(size=96)).labelled()) for place in places}


def _all(labelled: Labelled) -> Pictures:
    return Pictures(labelled.images.read(torch.arange(len(labelled))), labelled.labels)


def study(
    world: Mapping[str, Pictures], half: slice, halves: tuple[slice, ...], of_source: int, of_target: int
) -> Iterator[Finding]:
    """Every domain as the source, and all targets of known and of unknown classes."""
    (other,) = (each for each in halves if each != half)
    for source in world:
        known = world[source].of(range(10)[half], of_source)
        learner = Learner()
        learner.fit(known.pixels, known.labels, settings=SETTINGS)
        for target in world:
            if target != source:
                yield _finding(learner, known, world[target].of(range(10)[half], of_target), is_known=True)
            yield _finding(learner, known, world[target].of(range(10)[other], of_target), is_known=False)


def _finding(learner: Learner, known: Pictures, target: Pictures, is_known: bool) -> Finding:
    method, images = learner._present().model.method, ImageArray(target.pixels)
    stage = Stage(1, Labelled(ImageArray(known.pixels), known.labels), (), images, Augmentation())
    before = look_over(method, stage)
    right = float((before.target.classes.cpu() == target.labels).double().mean()) if is_known else 0.0
    return Finding(is_known, right, unreadable(before, steadiness(method, images)) is not None)


def _counts(found: list[Finding]) -> Iterator[str]:
    unknown = [finding for finding in found if not finding.is_known]
    yield f"{sum(finding.is_refused for finding in unknown)} of {len(unknown)}"
    low = 0.0
    for high in BANDS.values():
        band = [finding for finding in found if finding.is_known and low <= finding.right < high]
        yield f"{sum(finding.is_refused for finding in band)} of {len(band)}"
        low = high


if __name__ == "__main__":
    main()
