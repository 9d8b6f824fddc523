"""Pseudo-labels by k-means on the features of a whole domain (Sec. 3.2), and the word of an image's neighbours."""

from math import log
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.data.images import Images
from grcl.evaluate import batches_of, of_all
from grcl.shapes import Bool, Float, Int

UNLABELLED = -1  # of an image whose class is not known, or not surely enough
_ROUNDS = 100
_ROWS = 500  # images whose distances to all others are there at once


class View(NamedTuple):
    """What a network sees in a set of images: unit-norm features and class scores."""

    features: Float[Tensor, "n features"]
    scores: Float[Tensor, "n classes"]

    @property
    def classes(self) -> Int[Tensor, " n"]:
        """The classifier's own labels."""
        return self.scores.argmax(dim=1)

    @property
    def confidence(self) -> Float[Tensor, " n"]:
        """The probability of the most likely class."""
        return self.scores.softmax(dim=1).amax(dim=1)

    @property
    def certainty(self) -> Float[Tensor, " n"]:
        """Its log-odds: the order of the confidences, also of those that are rounded to 1, often most of a domain."""
        best, place = self.scores.max(dim=1, keepdim=True)
        return best[:, 0] - self.scores.scatter(1, place, -torch.inf).logsumexp(dim=1)


@runtime_checkable
class Model(Protocol):
    """What can be asked for features and scores: a network, or a method that classifies in its own way."""

    @property
    def device(self) -> torch.device: ...

    def see(self, images: Tensor) -> tuple[Tensor, Tensor]: ...


@torch.no_grad()
def look_at(model: Model, images: Images) -> View:
    """Features and scores of all images, from one pass."""
    features, scores = zip(*(model.see(batch) for batch in batches_of(images, model.device)), strict=True)
    return View(F.normalize(of_all(images, features), dim=1), of_all(images, scores))


def smoothed(view: View, neighbours: int) -> View:
    """Every image with the mean probabilities of the images nearest to it in feature space, itself among them.

    At most half as many as there are images a class, so that in a small set most neighbours are of one class. The mean
    is taken in logarithms, exact also where a probability is rounded to 1.
    """
    images, classes = view.scores.shape
    count = max(1, min(neighbours, images // (2 * classes)))
    log_p = view.scores.log_softmax(dim=1)
    nearest = [(part @ view.features.T).topk(count, dim=1).indices for part in view.features.split(_ROWS)]
    return View(view.features, torch.cat([log_p[places].logsumexp(dim=1) for places in nearest]) - log(count))


def class_means(features: Float[Tensor, "n features"], labels: Int[Tensor, " n"], start: Tensor) -> Tensor:
    """The mean feature of every class; a class without members keeps its row of `start`."""
    sums = torch.zeros_like(start).index_add_(0, labels, features)
    counts = torch.bincount(labels, minlength=len(start))[:, None]
    return torch.where(counts > 0, sums / counts.clamp(min=1), start)


def cluster(features: Float[Tensor, "n features"], start: Float[Tensor, "k features"]) -> Int[Tensor, " n"]:
    """Lloyd's k-means from the given centroids; cluster k stays cluster k, and an empty one keeps its centroid.

    scikit-learn moves an empty cluster to far-off points, which would cut its tie to a class.
    """
    centroids, labels = start, None
    for _ in range(_ROUNDS):
        # On a CPU a row for each of few clusters is faster than a row for each image, but for argmax: hence max.
        closeness = (centroids @ features.T).sub_(0.5 * centroids.square().sum(dim=1, keepdim=True))
        nearest = closeness.max(dim=0).indices
        if labels is not None and torch.equal(nearest, labels):
            break
        labels, centroids = nearest, class_means(features, nearest, centroids)
    assert labels is not None
    return labels


def cluster_by_class(
    target: View, start: Float[Tensor, "classes features"], known: Bool[Tensor, " classes"]
) -> Int[Tensor, " n"]:
    """k-means from the source's class means. A class that is not known there starts where the classifier sees it in the
    target; one that it sees nowhere names no image."""
    seen = target.classes.bincount(minlength=len(start)) > 0
    start = torch.where(known[:, None], start, class_means(target.features, target.classes, start))
    classes = torch.nonzero(known | seen)[:, 0]
    return classes[cluster(target.features, start[classes])]


def source_means(view: View, labels: Int[Tensor, " n"]) -> Float[Tensor, "classes features"]:
    """Where k-means starts: the source's class means, so that cluster k is class k; zeros for a class it lacks."""
    start = torch.zeros(view.scores.shape[1], view.features.shape[1], device=view.features.device)
    return class_means(view.features, labels.to(start.device), start)


def matched_labels(view: View) -> Int[Tensor, " n"]:
    """k-means from images far apart, a cluster for every class, named by the classifier's votes.

    Not from the first images or from evenly spaced ones: folders are in the order of their classes.
    """
    start = view.features[far_apart(view, view.scores.shape[1])]
    return named_by_votes(cluster(view.features, start), view)


def far_apart(view: View, size: int) -> Int[Tensor, " size"]:
    """Farthest-first: begin with the most confident image, then always the one least like those chosen."""
    chosen = [int(view.certainty.argmax())]
    likeness = view.features @ view.features[chosen[0]]
    for _ in range(size - 1):
        likeness[chosen[-1]] = torch.inf
        chosen.append(int(likeness.argmin()))
        likeness = torch.maximum(likeness, view.features @ view.features[chosen[-1]])
    return torch.tensor(chosen, device=view.features.device)


def named_by_votes(clusters: Int[Tensor, " n"], view: View) -> Int[Tensor, " n"]:
    """The clusters under names of classes, no two under the same, so that most of the classifier's votes are met."""
    from scipy.optimize import linear_sum_assignment  # half a second and 40 MB, which most runs do not need

    votes = torch.zeros(int(clusters.max()) + 1, view.scores.shape[1]).index_put_(
        (clusters.cpu(), view.classes.cpu()), torch.tensor(1.0), accumulate=True
    )
    _, class_of = linear_sum_assignment(votes.numpy(), maximize=True)
    return torch.from_numpy(class_of).to(clusters)[clusters]
