"""Does an image look like those that the model knows? By how near it is to their features."""

from typing import NamedTuple

import torch
from torch import Tensor

from grcl.memory.pseudo_labels import View
from grcl.runtime.seeding import generator
from grcl.shapes import Bool, Float

_MOST = 2000  # features that are kept, of all known domains together: 10 MB where they have 1,280 numbers
_NEIGHBOURS = 5  # so that one odd image makes nothing familiar
_SHARE = 0.05  # of the known images that pass for strange
_BLOCK = 1000  # rows of similarities at a time


class Familiarity(NamedTuple):
    """Unit-norm features of known images, and how near to them is near enough."""

    features: Float[Tensor, "rows features"]
    threshold: Float[Tensor, ""]

    @torch.no_grad()
    def is_strange(self, view: View) -> Bool[Tensor, " n"]:
        """Which images are less near to the known ones than nearly all of those are to each other."""
        nearness = [_nearness(rows @ self.features.T) for rows in view.features.split(_BLOCK)]
        return ~(torch.cat(nearness) >= self.threshold)  # what is not a number is not near


@torch.no_grad()
def learn_familiarity(known: list[View]) -> Familiarity:
    """From views of the source and of every remembered domain, of each an equal part where there are too many.

    The threshold lets 95 % of every domain pass, each image compared with all but itself: a domain that is
    remembered by its surest images, which lie close together, makes no other one strange.
    """
    parts = [_some(view.features, _MOST // len(known)) for view in known]
    features = torch.cat(parts)
    if len(features) < 2:  # one image says nothing about distances
        return Familiarity(features, torch.full_like(features.sum(), -torch.inf))
    similar = (features @ features.T).fill_diagonal_(-torch.inf)
    nearness = _nearness(similar).split([len(part) for part in parts])
    return Familiarity(features, torch.stack([part.quantile(_SHARE) for part in nearness if len(part)]).min())


def _nearness(similar: Float[Tensor, "n rows"]) -> Float[Tensor, " n"]:
    """The mean cosine with the nearest few; a row's own place is marked by -inf and does not count."""
    nearest = similar.topk(min(_NEIGHBOURS, similar.shape[1]), dim=1).values
    counts = nearest.isfinite()
    return nearest.where(counts, 0.0).sum(dim=1) / counts.sum(dim=1).clamp(min=1)


def _some(features: Float[Tensor, "n features"], most: int) -> Float[Tensor, "rows features"]:
    """At most so many rows, drawn by a seed of their own."""
    drawn = torch.randperm(len(features), generator=generator(0, "familiarity"))[:most].sort().values
    return features[drawn.to(features.device)]
