"""k-means that keeps its clusters' names: other implementations agree, and classes survive a shift."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor

from grcl.memory.pseudo_labels import View, class_means, cluster, cluster_by_class, matched_labels, smoothed

Array = NDArray[np.float64]
seeds = st.integers(0, 2**31 - 1)


def points(seed: int, count: int, size: int = 3) -> Tensor:
    return torch.randn(count, size, generator=torch.Generator().manual_seed(seed)).double()


def blobs(labels: Tensor, seed: int, spread: float = 0.1) -> Tensor:
    """One tight cloud for each class, around corners that are far apart."""
    corners = 4 * torch.eye(int(labels.max()) + 1).double()
    return corners[labels] + spread * points(seed, len(labels), len(corners))


def distances(features: Array, centroids: Array) -> Array:
    squares: Array = ((features[:, None] - centroids[None]) ** 2).sum(axis=2)
    return squares


def slow_lloyd(features: Array, centroids: Array) -> tuple[NDArray[np.int64], list[float], bool]:
    """Labels, the sum of squared distances round by round, and whether a cluster was ever empty."""
    labels, inertia, has_emptied, centroids = None, [], False, centroids.copy()
    for _ in range(100):
        nearest = distances(features, centroids).argmin(axis=1)
        inertia.append(float(distances(features, centroids)[range(len(features)), nearest].sum()))
        if labels is not None and (nearest == labels).all():
            break
        labels = nearest
        for k in range(len(centroids)):
            members = features[labels == k]
            has_emptied |= len(members) == 0
            if len(members):
                centroids[k] = members.mean(axis=0)
    assert labels is not None
    return labels, inertia, has_emptied


def inertia_of(features: Tensor, labels: Tensor) -> float:
    clouds = [features[labels == k] for k in labels.unique()]
    return sum(float((cloud - cloud.mean(dim=0)).square().sum()) for cloud in clouds)


@settings(deadline=None)
@given(seeds, st.integers(1, 40), st.integers(1, 6))
def test_it_is_lloyd_s_algorithm_and_never_gets_worse(seed: int, count: int, k: int) -> None:
    features, start = points(seed, count), points(seed + 1, k)
    labels, inertia, _ = slow_lloyd(features.numpy(), start.numpy())
    found = cluster(features, start)
    assert found.tolist() == labels.tolist()
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(inertia))
    assert inertia_of(features, found) <= inertia[0] + 1e-9


def test_scikit_learn_agrees_where_no_cluster_empties() -> None:
    compared = 0
    for seed in range(40):
        features, start = points(seed, 60), points(seed + 1000, 5)
        if slow_lloyd(features.numpy(), start.numpy())[2]:
            continue
        theirs = KMeans(5, init=start.numpy(), n_init=1, algorithm="lloyd", tol=0).fit(features.numpy())
        assert cluster(features, start).tolist() == theirs.labels_.tolist()
        compared += 1
    assert compared > 20


def test_scikit_learn_agrees_on_separate_clouds() -> None:
    labels = torch.arange(40) % 4
    features = blobs(labels, seed=0)
    start = features[:4] + 0.5
    theirs = KMeans(4, init=start.numpy(), n_init=1, algorithm="lloyd", tol=0).fit(features.numpy())
    assert cluster(features, start).tolist() == theirs.labels_.tolist() == labels.tolist()


@settings(deadline=None)
@given(seeds)
def test_its_labels_are_a_fixed_point(seed: int) -> None:
    features, start = points(seed, 30), points(seed + 1, 4)
    labels = cluster(features, start)
    assert torch.equal(cluster(features, class_means(features, labels, start)), labels)


@settings(deadline=None)
@given(seeds, st.integers(0, 4))
def test_an_empty_cluster_keeps_its_name_and_disturbs_no_other(seed: int, place: int) -> None:
    features, start = points(seed, 30), points(seed + 1, 4)
    far = torch.full((1, 3), 1e3).double()
    labels = cluster(features, torch.cat([start[:place], far, start[place:]]))
    names = torch.tensor([k for k in range(5) if k != place])
    assert torch.equal(labels, names[cluster(features, start)])


def test_a_cluster_that_was_empty_can_win_members_later() -> None:
    """Its centroid waits where it was, until another one has moved away."""
    features = torch.tensor([[0.0], [1.0], [10.0], [10.2]]).double()
    start = torch.tensor([[3.0], [-4.0]]).double()
    assert slow_lloyd(features.numpy(), start.numpy())[2]
    assert cluster(features, start).tolist() == [1, 1, 0, 0]


@settings(deadline=None)
@given(seeds, st.permutations(range(24)))
def test_the_order_of_the_images_does_not_matter(seed: int, order: list[int]) -> None:
    features, start = points(seed, 24), points(seed + 1, 4)
    assert torch.equal(cluster(features[order], start), cluster(features, start)[order])


@settings(deadline=None)
@given(seeds)
def test_cluster_k_is_class_k_on_a_shifted_domain(seed: int) -> None:
    source_labels, target_labels = torch.arange(30) % 5, torch.arange(40).flip(0) % 5
    start = torch.zeros(5, 5).double()
    anchors = class_means(blobs(source_labels, seed), source_labels, start)
    shift = 0.5 * torch.nn.functional.normalize(points(seed, 1, 5), dim=1)
    assert torch.equal(cluster(blobs(target_labels, seed + 1) + shift, anchors), target_labels)


@settings(deadline=None)
@given(seeds, st.permutations(range(4)), st.floats(0, 0.4))
def test_matching_names_the_clusters_by_votes(seed: int, order: list[int], wrong: float) -> None:
    """The clouds come in any order of classes, and the classifier errs on some images of each."""
    truth = torch.tensor(order).repeat_interleave(10)
    votes = truth.clone()
    for block in range(4):
        errors = slice(10 * block, 10 * block + int(10 * wrong))
        votes[errors] = (truth[errors] + 1) % 4
    scores = torch.nn.functional.one_hot(votes, 4).double()
    assert torch.equal(matched_labels(View(blobs(truth, seed), scores)), truth)


def test_matching_does_not_depend_on_the_order_of_the_images() -> None:
    """Folders are read class by class: an order from which the classes could be told."""
    source = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(60, 5, generator=source).double(), dim=1)
    scores = torch.randn(60, 4, generator=source).double()
    for seed in range(5):
        order = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(
            matched_labels(View(features[order], scores[order])), matched_labels(View(features, scores))[order]
        )


def test_class_means_are_means_and_an_absent_class_keeps_its_start() -> None:
    features, start = points(0, 6), points(1, 4)
    labels = torch.tensor([2, 0, 2, 2, 0, 3])
    means = class_means(features, labels, start)
    assert torch.equal(means[1], start[1])
    for k, members in ((0, [1, 4]), (2, [0, 2, 3]), (3, [5])):
        expected = [sum(features[i, d].item() for i in members) / len(members) for d in range(3)]
        assert means[k].tolist() == pytest.approx(expected, abs=1e-15)


# the neighbours' word


def a_view(seed: int, count: int, classes: int = 3, size: float = 1) -> View:
    return View(torch.nn.functional.normalize(points(seed, count), dim=1), size * points(seed + 1, count, classes))


@given(seeds, st.integers(1, 12))
@settings(deadline=None, max_examples=30)
def test_neighbours_decide_together(seed: int, neighbours: int) -> None:
    """Image by image: the mean of the probabilities of those at the smallest angles, the image itself among them."""
    view = a_view(seed, 80)
    found = smoothed(view, neighbours)
    p = view.scores.softmax(1)
    for i, feature in enumerate(view.features):
        nearest = sorted(range(80), key=lambda j: float((feature - view.features[j]).norm()))[:neighbours]
        assert i in nearest
        torch.testing.assert_close(found.scores[i].exp(), p[nearest].mean(dim=0))


def test_many_images_are_asked_like_few() -> None:
    """Distances come in blocks of rows; every block sees all images."""
    view = a_view(0, 1203)
    nearest = torch.cdist(view.features, view.features).topk(10, dim=1, largest=False).indices
    expected = view.scores.softmax(1)[nearest].mean(dim=1)
    torch.testing.assert_close(smoothed(view, 10).scores.exp(), expected)


def test_few_images_ask_few_neighbours() -> None:
    """12 images of 3 classes: at most 2 of the 4 that a class may have; 5 images: the image alone."""
    small, smallest = a_view(0, 12), a_view(0, 5)
    torch.testing.assert_close(smoothed(small, 10).scores, smoothed(small, 2).scores)
    assert not torch.allclose(smoothed(small, 2).scores, smoothed(small, 1).scores)
    torch.testing.assert_close(smoothed(smallest, 10).scores.softmax(1), smallest.scores.softmax(1))


def test_means_keep_the_order_of_what_is_rounded_to_one() -> None:
    """Log-odds of 40 and of 41, which are both 1 as probabilities even in 64 bits."""
    directions, odds = torch.eye(2).double().repeat_interleave(4, dim=0), torch.tensor([40.0, 41.0]).double()
    view = View(directions, torch.stack([odds.repeat_interleave(4), torch.zeros(8).double()], dim=1))
    assert (view.confidence == 1).all()
    torch.testing.assert_close(smoothed(view, 2).certainty, odds.repeat_interleave(4))


@pytest.mark.parametrize("missing", range(4))
def test_a_class_that_the_source_lacks_is_found_where_the_classifier_sees_it_and_nowhere_else(missing: int) -> None:
    """From zero, which may be nearer to a cloud than a mean that has shifted, it took over other classes."""
    labels = torch.arange(200) % 4
    features = blobs(labels, 0, spread=0.5) + 3  # a strong shift: all clouds lie off the source's
    start = 4 * torch.eye(4).double()
    start[missing] = 0
    sees = View(features, 9.0 * torch.eye(4)[labels])
    known = torch.arange(4) != missing
    assert torch.equal(cluster_by_class(sees, start, known), labels)
    blind = View(features, 9.0 * torch.eye(4)[(missing + 1) % 4].expand(200, -1))
    found = cluster_by_class(blind, start, known)
    assert missing not in found
    assert torch.equal(found[labels != missing], labels[labels != missing])


@given(seeds)
def test_from_means_of_all_classes_it_is_plain_k_means(seed: int) -> None:
    view, start = View(points(seed, 30), points(seed + 1, 30, 5)), points(seed + 2, 5)
    assert torch.equal(cluster_by_class(view, start, torch.ones(5, dtype=torch.bool)), cluster(view.features, start))


@pytest.mark.parametrize("known", [[True, True, True], [False, True, False], [False, False, False]])
def test_dead_features_are_of_one_cluster_whose_class_is_known_or_seen(known: list[bool]) -> None:
    """k-means has nothing to start from or to go by, and must not fail for that."""
    view = View(torch.zeros(6, 5), torch.eye(3)[[2, 2, 2, 0, 2, 2]])
    (name,) = cluster_by_class(view, torch.zeros(3, 5), torch.tensor(known)).unique().tolist()
    assert known[name] or name in view.classes
