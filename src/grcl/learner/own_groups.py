"""The groups that a target has by itself: if its classes are those of the source, they are the groups too."""

import torch
from torch import Tensor

from grcl.memory.pseudo_labels import View, class_means, cluster, named_by_votes
from grcl.runtime.seeding import generator
from grcl.shapes import Float, Int

_STARTS = 20  # of k-means; the tightest groups are taken
_MOST = 2000  # images that are grouped


def own_groups(view: View) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Of some images, k-means groups that know nothing of the source, named by the classifier's votes; and its classes.

    There are as many groups as classes that the classifier sees here, not all that it knows: a target may lack some.
    """
    drawn = generator(0, "groups")
    some = torch.randperm(len(view.features), generator=drawn)[:_MOST].to(view.features.device)
    part = View(view.features[some], view.scores[some])
    count = round(_perplexity(part.classes))
    found = [cluster(part.features, _far_apart(part.features, count, drawn)) for _ in range(_STARTS)]
    return named_by_votes(min(found, key=lambda groups: _spread(part.features, groups)), part), part.classes


def _perplexity(labels: Int[Tensor, " n"]) -> float:
    """How many classes there are, counted by how often each is named."""
    shares = torch.bincount(labels).double() / len(labels)
    return float(torch.special.entr(shares).sum().exp())


def _far_apart(
    features: Float[Tensor, "n features"], count: int, drawn: torch.Generator
) -> Float[Tensor, "count features"]:
    """Where k-means starts: features drawn by their squared distance to those drawn before (k-means++)."""
    places = [int(torch.randint(len(features), (), generator=drawn))]
    distances = torch.full_like(features[:, 0], torch.inf)
    for _ in range(count - 1):
        distances = distances.minimum((features - features[places[-1]]).square().sum(dim=1))
        # Where no feature differs any more, one is as good as another.
        places.append(int(torch.multinomial(distances.cpu().clamp(min=1e-12), 1, generator=drawn)))
    return features[places]


def _spread(features: Float[Tensor, "n features"], groups: Int[Tensor, " n"]) -> float:
    """The squared distances to the means of the groups, summed."""
    means = class_means(features, groups, features.new_zeros(int(groups.max()) + 1, features.shape[1]))
    return float((features - means[groups]).square().sum())
