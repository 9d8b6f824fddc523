"""A rehearsal: a stream made of the labelled source alone, on which settings can be judged by accuracies while no label
of any target is used."""

import json
from collections.abc import Callable
from hashlib import sha256

import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.data.images import ImageArray
from grcl.data.stream import Domain, DomainStream, Labelled, join
from grcl.runtime.errors import Refusal
from grcl.runtime.seeding import generator
from grcl.shapes import Float, Int

Pixels = Float[Tensor, "n 3 height width"]
Shift = Callable[[Pixels, torch.Generator], Pixels]

_MOST = 5000  # images of a half: all of them are in memory


def rehearsal(stream: DomainStream) -> DomainStream:
    """Half of the source's training images, drawn by class, are the source; the other half are the targets, once under
    every shift. The source's test images, under the same shifts, test them."""
    train, test = stream.source, join([domain.test for domain in stream.sources])
    source, target = _halves(train)
    drawn = sha256(json.dumps([source.tolist(), target.tolist()]).encode()).hexdigest()[:8]
    fingerprint = "-".join([*(domain.fingerprint for domain in stream.sources), drawn])

    def domain(name: str, places: Int[Tensor, " n"], shift: Shift) -> Domain:
        seen, tested = (
            _shifted(whole, chosen, shift, generator(0, "rehearsal", name, side))
            for side, whole, chosen in (("train", train, places), ("test", test, torch.arange(len(test))))
        )
        return Domain(name, seen, tested, f"{fingerprint}-{name}", "a rehearsal", {"train": places.tolist()})

    targets = tuple((domain(name, target, shift),) for name, shift in SHIFTS.items())
    return DomainStream(stream.classes, (domain("source", source, _unchanged),), targets)


def _halves(labelled: Labelled) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Places of the images in two disjoint halves with the classes in the same shares."""
    rarest = int(torch.bincount(labelled.labels).min())
    if rarest < 2:
        raise Refusal(
            f"a rehearsal cuts every class of the source in two, and the rarest has {rarest} of its images; "
            "choose on more labelled images, or without --rehearse"
        )
    order = torch.randperm(len(labelled), generator=generator(0, "rehearsal"))
    by_class = order[labelled.labels[order].argsort(stable=True)]
    every = 2 * max(1, -(-len(labelled) // (2 * _MOST)))
    return by_class[::every].sort().values, by_class[1::every].sort().values


def _shifted(labelled: Labelled, places: Int[Tensor, " n"], shift: Shift, draws: torch.Generator) -> Labelled:
    pixels = shift(labelled.images.read(places).float() / 255, draws)
    images = ImageArray((pixels.clamp(0, 1) * 255).round().byte())
    return Labelled(images, labelled.labels[places])


def _unchanged(pixels: Pixels, _: torch.Generator) -> Pixels:
    return pixels


def slanted(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """Sheared sideways, by a third to two thirds of the height, to either side."""
    count = len(pixels)
    slope = (1 / 3 + torch.rand(count, generator=draws) / 3) * torch.randint(2, (count,), generator=draws).mul(2).sub(1)
    maps = torch.eye(2, 3).repeat(count, 1, 1)
    maps[:, 0, 1] = slope
    grid = F.affine_grid(maps, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, padding_mode="border", align_corners=False)


def noisy(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """With noise in every pixel, a fifth of the range in the standard deviation."""
    return pixels + 0.2 * torch.randn(pixels.shape, generator=draws)


def foggy(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """With a fifth to a half of the contrast left, before a fog of any colour."""
    left = 0.2 + 0.3 * torch.rand(len(pixels), 1, 1, 1, generator=draws)
    return left * pixels + (1 - left) * torch.rand(len(pixels), 3, 1, 1, generator=draws)


def cluttered(pixels: Pixels, draws: torch.Generator) -> Pixels:
    """The difference to a patch of another image, enlarged three times: clutter, and inverted where that is bright."""
    count, _, height, width = pixels.shape
    others = pixels[torch.randperm(count, generator=draws)]
    places = torch.rand(count, 2, generator=draws) * 4 / 3 - 2 / 3  # centres of windows a third as wide
    maps = torch.eye(2, 3).repeat(count, 1, 1) / 3
    maps[:, :, 2] = places
    grid = F.affine_grid(maps, [count, 3, height, width], align_corners=False)
    return (pixels - F.grid_sample(others, grid, padding_mode="border", align_corners=False)).abs()


SHIFTS: dict[str, Shift] = {"slanted": slanted, "noisy": noisy, "foggy": foggy, "cluttered": cluttered}
