"""`python -m bench.uneven`: a learner on targets whose classes are uneven, by how GRCL+ shares its labels out.

A learner is fitted on one domain of `mini` and adapted to images of another, of which some classes are rare or missing.
Accuracies are those on test images with the classes in the same proportions.
"""

import tempfile
from pathlib import Path

import torch
from torch import Tensor

from bench.verdicts import SETTINGS, arrays, domain, fitted, tell
from grcl.data.stream import Labelled
from grcl.learner.learner import Learner
from grcl.runtime.seeding import generator

PAIRS = (("mnist", "digits8"), ("house_numbers", "synnum"), ("mnist", "mnist_m"))
PROPORTIONS = {
    "all alike": [0.1] * 10,
    "seven tenths of one": [0.03, 0.7, *[0.03] * 8],
    "five of ten": [0.2] * 5 + [0.0] * 5,
    "one alone": [0.0, 0.0, 0.0, 1.0] + [0.0] * 6,
}
QUOTAS = ("equal", "predicted")
TRAIN, TEST = 600, 200  # images, where there are so many
EPOCHS = 6


def main() -> None:
    """Print a line for each target, in Markdown: accuracy before, and after with either way."""
    tell("source", "target", "classes", "before", *QUOTAS)
    tell("---", "---", "---", *["---:"] * (1 + len(QUOTAS)))
    for source, target in PAIRS:
        for name, shares in PROPORTIONS.items():
            images, _ = drawn(domain(target).train, shares, TRAIN)
            test = drawn(domain(target).test, shares, TEST)
            before = fitted(source, range(10)).score(*test)
            after = [adapted(source, images, test, quotas) for quotas in QUOTAS]
            tell(source, target, name, *(f"{100 * score:.0f}" for score in (before, *after)))


def drawn(labelled: Labelled, shares: list[float], count: int) -> tuple[Tensor, Tensor]:
    """Images of every class in these proportions, as far as there are so many."""
    images, labels = arrays(labelled)
    order = torch.rand(len(labels), generator=generator(0, "uneven")).argsort()
    places = [order[labels[order] == k][: round(count * share)] for k, share in enumerate(shares)]
    return images[torch.cat(places)], labels[torch.cat(places)]


def adapted(source: str, images: Tensor, test: tuple[Tensor, Tensor], quotas: str) -> float:
    """How much a copy of the learner has right after it was adapted, whatever the verdict."""
    settings = {**SETTINGS, "training.epochs": EPOCHS, "grcl_plus.self_training.quotas": quotas}
    with tempfile.TemporaryDirectory() as folder:
        fitted(source, range(10)).save(Path(folder) / "state")
        learner = Learner.load(Path(folder) / "state")
        learner.adapt(images, source=arrays(domain(source).train), if_worse="keep", settings=settings)
        return learner.score(*test)


if __name__ == "__main__":
    main()
