"""What is remembered of a stage: how many images, which, with which labels, and that they are the stage's own."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from grcl.data.augment import Augmentation
from grcl.data.images import ImageArray, Joined
from grcl.data.stream import Domain, DomainStream, Labelled, Stage
from grcl.memory.episodic import Memory, Recollection, remember
from grcl.memory.pseudo_labels import cluster, look_at, matched_labels, source_means
from grcl.memory.sight import look_over
from grcl.networks import Classifier, Network, build

CLASSES, COUNT = 4, 60
SELECTIONS = ("confident", "agreeing", "balanced", "diverse")
WHOLE = tuple(name for name in SELECTIONS if name != "agreeing")  # which leaves out those whose labels disagree


def colourful(seed: int, count: int) -> Tensor:
    """Random images, each with a tint of its own, so that an untrained network tells them apart."""
    source = torch.Generator().manual_seed(seed)
    tint = torch.rand(count, 3, 1, 1, generator=source)
    noise = torch.rand(count, 3, 32, 32, generator=source)
    return (255 * tint * noise).to(torch.uint8)


def a_domain(name: str, seed: int, count: int) -> Domain:
    labelled = Labelled(ImageArray(colourful(seed, count)), torch.arange(count) % CLASSES)
    return Domain(name, labelled, labelled, name)


def a_stage(*counts: int) -> Stage:
    targets = tuple(a_domain(f"target {place}", place, count) for place, count in enumerate(counts, start=1))
    stream = DomainStream(("a", "b", "c", "d"), (a_domain("source", 0, 40),), (targets,))
    return stream.stage(1, [], Augmentation())


def a_network() -> Classifier:
    torch.manual_seed(0)
    network = build(Network(), CLASSES)
    with torch.no_grad():  # fresh weights prefer one class, whatever the image
        network.head.weight *= 30
        network.head.bias.copy_(-network(colourful(99, 100) / 255).mean(dim=0))
    return network


def remembered(stage: Stage, seed: int = 0, **settings: Any) -> Recollection:
    return remember(stage, look_over(a_network(), stage), Memory(**settings), seed)


def all_pixels(stage: Stage) -> Tensor:
    return stage.target.read(torch.arange(len(stage.target)))


def places(stage: Stage, kept: Recollection) -> list[int]:
    """Where in the stage the remembered images come from, found by their pixels."""
    matches = (kept.episode.pixels[:, None] == all_pixels(stage)[None]).flatten(2).all(dim=2)
    assert (matches.sum(dim=1) == 1).all()
    return matches.int().argmax(dim=1).tolist()


def probabilities(stage: Stage) -> Tensor:
    with torch.no_grad():
        scores: Tensor = a_network()(all_pixels(stage) / 255)
    return scores.double().softmax(dim=1)


def test_the_network_of_these_tests_has_an_opinion_of_its_own_on_every_image() -> None:
    guesses = probabilities(a_stage(COUNT)).argmax(dim=1)
    assert guesses.bincount(minlength=CLASSES).min() > 2


@pytest.mark.parametrize(("selection", "size"), [*product(SELECTIONS, (1, 7)), *product(WHOLE, (COUNT,))])
def test_an_episode_holds_as_many_images_of_the_stage_as_asked_for(selection: str, size: int) -> None:
    stage = a_stage(COUNT)
    kept = remembered(stage, selection=selection, size=size)
    where = places(stage, kept)
    assert len(set(where)) == len(where) == size
    assert kept.chosen.tolist() == where
    assert kept.episode.pixels.dtype == torch.uint8
    assert torch.equal(kept.episode.labels, kept.labels[where])
    assert len(kept.labels) == COUNT


@pytest.mark.parametrize("selection", WHOLE)
def test_a_small_stage_is_remembered_whole(selection: str) -> None:
    stage = a_stage(9)
    assert sorted(places(stage, remembered(stage, selection=selection, size=1024))) == list(range(9))


def test_confident_images_are_those_with_the_likeliest_class() -> None:
    stage = a_stage(COUNT)
    confidence = probabilities(stage).amax(dim=1).tolist()
    expected = sorted(range(COUNT), key=lambda place: confidence[place], reverse=True)[:20]
    assert places(stage, remembered(stage, selection="confident", size=20)) == expected


def test_images_whose_confidence_is_rounded_to_one_keep_their_order() -> None:
    stage, network = a_stage(COUNT), a_network()
    with torch.no_grad():
        network.head.weight.mul_(1000)
        network.head.bias.mul_(1000)
        scores = network(all_pixels(stage) / 255)
    assert (scores.softmax(dim=1).amax(dim=1) == 1).sum() > COUNT / 2
    best, second = scores.double().topk(2).values.unbind(dim=1)
    expected = (best - second).argsort(descending=True)[:20].tolist()
    kept = remember(stage, look_over(network, stage), Memory(selection="confident", size=20), 0)
    assert places(stage, kept) == expected


def test_agreeing_images_are_those_whose_two_labels_agree() -> None:
    stage = a_stage(COUNT)
    whole = remembered(stage, size=COUNT)
    guesses = probabilities(stage).argmax(dim=1)
    agrees = whole.labels == guesses
    count = int(agrees.sum())
    assert 5 < count < COUNT
    assert whole.agreement == count / COUNT
    few = places(stage, remembered(stage, selection="agreeing", size=count - 3))
    assert agrees[few].all()
    more = places(stage, remembered(stage, selection="agreeing", size=count + 3))
    assert sorted(more) == torch.nonzero(agrees)[:, 0].tolist(), "no others, however many are asked for"


def test_agreeing_images_are_drawn_by_the_seed() -> None:
    stage = a_stage(COUNT)
    draws = [places(stage, remembered(stage, seed, selection="agreeing", size=5)) for seed in (0, 0, 1, 2)]
    assert draws[0] == draws[1]
    assert len({tuple(sorted(draw)) for draw in draws}) == 3


@pytest.mark.parametrize("labels", ["clusters", "classifier"])
def test_balanced_classes_differ_by_one_at_most(labels: str) -> None:
    stage = a_stage(COUNT)
    present = remembered(stage, labels=labels).labels.bincount(minlength=CLASSES)
    for size in range(1, 4 * int(present.min()) + 1):
        kept = remembered(stage, selection="balanced", labels=labels, size=size)
        counts = kept.episode.labels.bincount(minlength=CLASSES)
        assert counts.max() - counts.min() <= 1


def test_balanced_takes_the_most_confident_of_each_class_and_all_of_a_rare_one() -> None:
    stage = a_stage(COUNT)
    kept = remembered(stage, selection="balanced", labels="classifier", size=40)
    chosen, confidence = set(places(stage, kept)), probabilities(stage).amax(dim=1)
    present, counts = (labels.bincount(minlength=CLASSES) for labels in (kept.labels, kept.episode.labels))
    for k in range(CLASSES):
        members = [place for place in range(COUNT) if kept.labels[place] == k]
        ranked = sorted(members, key=lambda place: float(confidence[place]), reverse=True)
        assert chosen & set(members) == set(ranked[: int(counts[k])])
    # Who has fewer than the others has given all.
    assert all(counts[k] == present[k] for k in range(CLASSES) if counts[k] < counts.max() - 1)


def test_diverse_images_lie_farther_apart_than_confident_ones() -> None:
    stage = a_stage(COUNT)
    features = look_at(a_network(), stage.target).features

    def nearest_pair(selection: str) -> float:
        rows = features[places(stage, remembered(stage, selection=selection, size=12))]
        return float(torch.pdist(rows).min())

    assert nearest_pair("diverse") > nearest_pair("confident")


def test_diverse_images_are_found_farthest_first() -> None:
    stage = a_stage(COUNT)
    features = look_at(a_network(), stage.target).features.double()
    chosen = places(stage, remembered(stage, selection="diverse", size=12))
    assert chosen[0] == int(probabilities(stage).amax(dim=1).argmax())
    for turn in range(1, 12):
        gaps = torch.cdist(features, features[chosen[:turn]]).amin(dim=1)
        # Features of 24 bits leave their squared distance uncertain by about 1e-6.
        assert gaps[chosen[turn]] ** 2 >= gaps.max() ** 2 - 1e-6


def test_labels_come_from_the_rule() -> None:
    stage, network = a_stage(COUNT), a_network()
    view = look_at(network, stage.target)
    assert torch.equal(remembered(stage, labels="classifier").labels, probabilities(stage).argmax(dim=1))
    start = source_means(look_at(network, stage.source.images), stage.source.labels)
    assert torch.equal(remembered(stage, labels="clusters").labels, cluster(view.features, start))
    assert torch.equal(remembered(stage, labels="matched").labels, matched_labels(view))
    assert remembered(stage, labels="classifier").agreement == 1


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_compound_stage_is_one_set_of_images(selection: str) -> None:
    parts = a_stage(20, 30)
    assert isinstance(parts.target, Joined)
    whole = Stage(1, parts.source, (), ImageArray(all_pixels(parts)), parts.augmentation)
    from_parts, from_whole = (remembered(stage, selection=selection, size=25) for stage in (parts, whole))
    assert torch.equal(from_parts.episode.pixels, from_whole.episode.pixels)
    assert torch.equal(from_parts.episode.labels, from_whole.episode.labels)
    assert max(places(parts, from_parts)) >= 20 > min(places(parts, from_parts))


def test_an_episode_can_be_trained_on() -> None:
    kept = remembered(a_stage(COUNT), size=6)
    labelled = kept.episode.labelled()
    assert len(labelled) == 6
    assert torch.equal(labelled.images.read(torch.tensor([5, 0])), kept.episode.pixels[[5, 0]])
    assert torch.equal(labelled.labels, kept.episode.labels)
