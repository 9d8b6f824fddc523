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
_MOST_PIXELS = 1 << 26  # of a shifted set, all of which is in memory: 65,536 images of 32 pixels, 1,337 of 224


def rehearsal(stream: DomainStream) -> DomainStream:
    """Half of the source's training images, drawn by class, are the source; the other half are the targets, once under
    every shift. The source's test images, under the same shifts, test them."""
    halves = [_halves(domain.train) for domain in stream.sources]
    sources = tuple(
        replace(domain, train=first, fingerprint=f"{domain.fingerprint}-{_MADE_BY}")
        for domain, (first, _) in zip(stream.sources, halves, strict=True)
    )
    train = _few_enough(join([second for _, second in halves]))
    test = _few_enough(join([domain.test for domain in stream.sources]))
    made_of = "-".join(domain.fingerprint for domain in sources)
    note = "made of " + "; ".join(filter(None, ("the source", *(domain.note for domain in sources))))

    def target(name: str) -> Domain:
        seen, tested = (
            _shifted(labelled, SHIFTS[name], generator(0, "rehearsal", name, side))
            for side, labelled in (("train", train), ("test", test))
        )
        return Domain(name, seen, tested, f"{made_of}-{name}", note)

    return DomainStream(stream.classes, sources, tuple((target(name),) for name in SHIFTS))


def _halves(labelled: Labelled) -> tuple[Labelled, Labelled]:
    """Two disjoint halves with the classes in the same shares."""
    rarest = int(labelled.labels.unique(return_counts=True)[1].min())
    if rarest < 2:
        raise Refusal(
            "a rehearsal cuts every class of the source in two, and a class has one image only; "
            "choose on more labelled images, or without --rehearse"
        )
    order = torch.randperm(len(labelled), generator=generator(0, "rehearsal"))
    by_class = order[labelled.labels[order].argsort(stable=True)]
    return _at(labelled, by_class[::2].sort().values), _at(labelled, by_class[1::2].sort().values)


def _few_enough(labelled: Labelled) -> Labelled:
    """Every n-th image of each class, for the smallest n with which they fit into memory."""
    pixels = labelled.images.read(torch.tensor([0]))[0, 0].numel() * len(labelled)
    by_class = labelled.labels.argsort(stable=True)
    return _at(labelled, by_class[:: -(-pixels // _MOST_PIXELS)].sort().values)


def _at(labelled: Labelled, places: Int[Tensor, " n"]) -> Labelled:
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
    return _warped(pixels, maps)


def noisy(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """With noise in every pixel, a fifth of the range in the standard deviation."""
    return pixels + 0.2 * torch.randn(pixels.shape, generator=draws)


def foggy(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """With a fifth to a half of the contrast left, before a fog of any colour."""
    left = 0.2 + 0.3 * torch.rand(len(pixels), 1, 1, 1, generator=draws)
    return left * pixels + (1 - left) * torch.rand(len(pixels), 3, 1, 1, generator=draws)


def cluttered(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """The difference to a patch of another image, enlarged three times: clutter, and inverted where that is bright."""
    count = len(pixels)
    order = torch.randperm(count, generator=draws)
    others = torch.empty_like(pixels)
    others[order] = pixels[order.roll(1)]  # the next in a circle through all: never the image itself
    maps = torch.eye(2, 3).repeat(count, 1, 1) / 3
    maps[:, :, 2] = torch.rand(count, 2, generator=draws) * 4 / 3 - 2 / 3  # the patch lies within the image
    return (pixels - _warped(others, maps)).abs()


def _warped(pixels: Pixels, maps: Float[Tensor, "n 2 3"]) -> Pixels:
    """Every image under its affine map, from a place in the result to one in the image, both in -1..1."""
    grid = F.affine_grid(maps, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, padding_mode="border", align_corners=False)


SHIFTS: dict[str, Shift] = {"slanted": slanted, "noisy": noisy, "foggy": foggy, "cluttered": cluttered}
