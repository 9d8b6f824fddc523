"""A rehearsal: a stream made of the labelled source alone, on which settings can be judged by accuracies while no label
of any target is used."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.data.images import ImageArray, select
from grcl.data.stream import Domain, DomainStream, Labelled, join
from grcl.runtime.errors import Refusal
from grcl.runtime.recipe import recipe
from grcl.runtime.seeding import generator
from grcl.shapes import Float, Int

Pixels = Float[Tensor, "n 3 height width"]
Shift = Callable[[Pixels, torch.Generator], Pixels]

_MADE_BY = recipe(Path(__file__))
_FIFTHS = 5
_MOST_PIXELS = 1 << 26  # of a shifted set, all of which is in memory: 65,536 images of 32 pixels, 1,337 of 224


def rehearsal(stream: DomainStream) -> DomainStream:
    """Two fifths of the source's training images are the source, two fifths the targets, once under every shift, and
    the last fifth, under the same shifts, tests them. The source's test images, which tables report, are not read."""
    parts = [_parts(domain.train) for domain in stream.sources]
    sources = tuple(
        replace(domain, train=source, test=tested, fingerprint=f"{domain.fingerprint}-{_MADE_BY}")
        for domain, (source, _, tested) in zip(stream.sources, parts, strict=True)
    )
    train, test = (_few_enough(join([part[which] for part in parts])) for which in (1, 2))
    made_of = "-".join(domain.fingerprint for domain in sources)
    note = "made of " + "; ".join(filter(None, ("the source", *(domain.note for domain in sources))))

    def target(name: str) -> Domain:
        seen, tested = (
            _shifted(labelled, SHIFTS[name], generator(0, "rehearsal", name, side))
            for side, labelled in (("train", train), ("test", test))
        )
        return Domain(name, seen, tested, f"{made_of}-{name}", note)

    return DomainStream(stream.classes, sources, tuple((target(name),) for name in SHIFTS))


def _parts(labelled: Labelled) -> tuple[Labelled, Labelled, Labelled]:
    """Two fifths, two fifths and a fifth, disjoint, with the classes in the same shares."""
    rarest = int(labelled.labels.unique(return_counts=True)[1].min())
    if rarest < _FIFTHS:
        raise Refusal(
            f"a rehearsal cuts every class of the source in five, and the rarest has only {rarest}; "
            "choose on more labelled images, or without --rehearse"
        )
    order = torch.randperm(len(labelled), generator=generator(0, "rehearsal"))
    by_class = order[labelled.labels[order].argsort(stable=True)]
    fifth = torch.arange(len(labelled)) % _FIFTHS
    source, target, tested = (torch.isin(fifth, torch.tensor(which)) for which in ((0, 2), (1, 3), (4,)))
    return _at(labelled, by_class[source]), _at(labelled, by_class[target]), _at(labelled, by_class[tested])


def _few_enough(labelled: Labelled) -> Labelled:
    """Every n-th image of each class, for the smallest n with which they fit into memory."""
    pixels = labelled.images.read(torch.tensor([0]))[0, 0].numel() * len(labelled)
    by_class = labelled.labels.argsort(stable=True)
    return _at(labelled, by_class[:: -(-pixels // _MOST_PIXELS)])


def _at(labelled: Labelled, places: Int[Tensor, " n"]) -> Labelled:
    places = places.sort().values
    return Labelled(select(labelled.images, places), labelled.labels[places])


def _shifted(labelled: Labelled, shift: Shift, draws: torch.Generator) -> Labelled:
    pixels = shift(labelled.images.read(torch.arange(len(labelled))).float() / 255, draws)
    return Labelled(ImageArray((pixels.clamp(0, 1) * 255).round().byte()), labelled.labels)


def slanted(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """Sheared sideways, by a third to two thirds of the height, to either side."""
    count = len(pixels)
    side = torch.randint(2, (count,), generator=draws) * 2 - 1
    maps = torch.eye(2, 3).repeat(count, 1, 1)
    maps[:, 0, 1] = side * (1 + torch.rand(count, generator=draws)) / 3
    grid = F.affine_grid(maps, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, padding_mode="border", align_corners=False)


def noisy(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """With noise in every pixel, a fifth of the range in the standard deviation."""
    return pixels + 0.2 * torch.randn(pixels.shape, generator=draws)


def foggy(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """With a fifth to a half of the contrast left, before a fog of any colour."""
    left = 0.2 + 0.3 * torch.rand(len(pixels), 1, 1, 1, generator=draws)
    return left * pixels + (1 - left) * torch.rand(len(pixels), 3, 1, 1, generator=draws)


def shaded(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """With a shadow on one side, any, in whose depth a tenth to a third of the light is left."""
    height, width = pixels.shape[-2:]
    turn = 2 * torch.pi * torch.rand(len(pixels), 1, 1, 1, generator=draws)
    left = 0.1 + 0.7 / 3 * torch.rand(len(pixels), 1, 1, 1, generator=draws)
    down, across = torch.linspace(-1, 1, height)[:, None], torch.linspace(-1, 1, width)
    depth = torch.sigmoid(6 * (turn.sin() * down + turn.cos() * across))
    return (1 - (1 - left) * depth) * pixels


SHIFTS: dict[str, Shift] = {"slanted": slanted, "noisy": noisy, "foggy": foggy, "shaded": shaded}
