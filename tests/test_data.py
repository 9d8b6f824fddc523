"""Images by index, batches as pure functions of (seed, stage, step), and targets without a trace of their labels."""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch, Feed, Feeder, Samples, in_parts
from grcl.data.images import ImageArray, Joined
from grcl.data.stream import Domain, DomainStream, Labelled, Stage, join
from grcl.methods import METHODS
from grcl.networks.classifier import Classifier
from grcl.runtime.errors import Refusal
from grcl.runtime.seeding import derive, generator, seed_everything

CPU = torch.device("cpu")


def numbered(count: int, first: int = 0) -> Tensor:
    """Images that are filled with their own number."""
    return torch.arange(first, first + count, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 4, 4).contiguous()


def noise(seed: int, count: int) -> Tensor:
    return torch.randint(256, (count, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def feeder(*feeds: Feed, batch_size: int = 4, seed: int = 0, stage: int = 1) -> Feeder:
    return Feeder(feeds, batch_size, (seed, stage), CPU)


def are_equal(one: Batch, other: Batch) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[name].images, other[name].images) and torch.equal(one[name].index, other[name].index)
        for name in one
    )


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any), st.data())
def test_joined_images_are_the_concatenated_ones(sizes: list[int], data: st.DataObject) -> None:
    whole = numbered(sum(sizes))
    joined = Joined([ImageArray(part) for part in whole.split(sizes)])
    assert len(joined) == len(whole)
    places = data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=12))
    assert torch.equal(joined.read(torch.tensor(places)), whole[places])


def test_joined_sets_can_be_joined_and_keep_their_labels() -> None:
    parts = [Labelled(ImageArray(numbered(n, first)), torch.arange(first, first + n)) for n, first in ((2, 0), (3, 2))]
    nested = join([join(parts), Labelled(ImageArray(numbered(1, 5)), torch.tensor([5]))])
    places = torch.tensor([5, 0, 3, 3, 1])
    assert torch.equal(nested.images.read(places)[:, 0, 0, 0].long(), nested.labels[places])


def test_the_union_is_source_memory_target_in_this_order() -> None:
    source, *memory = (
        Labelled(ImageArray(numbered(n, first)), torch.zeros(n, dtype=torch.long))
        for n, first in ((3, 0), (2, 3), (1, 5))
    )
    stage = Stage(3, source, tuple(memory), ImageArray(numbered(4, 6)), Augmentation())
    assert torch.equal(stage.union().read(torch.arange(10)), numbered(10))
    without = torch.cat([numbered(3), numbered(4, 6)])
    assert torch.equal(stage.union(with_memory=False).read(torch.arange(7)), without)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 99), st.integers(1, 9))
def test_a_batch_is_a_function_of_seed_stage_and_step(steps: list[int], seed: int, stage: int) -> None:
    feeds = (
        Feed("union", ImageArray(noise(0, 11)), augmentation=Augmentation(), views=2, clock=11),
        Feed("source", ImageArray(noise(1, 6)), torch.arange(6)),
    )
    used = feeder(*feeds, seed=seed, stage=stage)
    for step in steps:
        assert are_equal(used.batch(step), feeder(*feeds, seed=seed, stage=stage).batch(step))


def test_another_seed_stage_step_or_name_is_another_draw() -> None:
    images = ImageArray(noise(0, 100))

    def first(name: str = "union", step: int = 0, **path: int) -> tuple[list[int], Tensor]:
        feed = Feed(name, images, augmentation=Augmentation(), clock=100)
        samples = feeder(feed, batch_size=50, **path).batch(step)[name]
        return samples.index.tolist(), samples.images

    plain = first()
    for index, pixels in (first(seed=1), first(stage=2), first(step=1), first(name="source")):
        assert index != plain[0]
        assert not torch.equal(pixels, plain[1])


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 12))
def test_a_pass_visits_every_image_once_but_for_a_short_rest(count: int, batch_size: int) -> None:
    size = min(count, batch_size)
    steps = count // size
    feed = feeder(Feed("source", ImageArray(numbered(count))), batch_size=batch_size)
    orders = []
    for turn in range(2):
        batches = [feed.batch(step)["source"] for step in range(turn * steps, (turn + 1) * steps)]
        assert all(len(batch.images) == size for batch in batches)
        visited = [place for batch in batches for place in batch.index.tolist()]
        assert len(set(visited)) == len(visited) == steps * size
        orders.append(visited)
    assert count < 10 or orders[0] != orders[1]


def test_a_batch_smaller_than_the_processes_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grcl.runtime.distributed.world_size", lambda: 4)
    with pytest.raises(Refusal, match=r"batch_size = 3 is less than the number of processes \(4\); start fewer"):
        _ = feeder(Feed("source", ImageArray(numbered(50))), batch_size=3).sizes


@pytest.mark.parametrize(("clock", "batch_size", "steps"), [(100, 10, 10), (109, 10, 10), (9, 10, 1), (1, 1, 1)])
def test_an_epoch_is_one_pass_of_the_clock(clock: int, batch_size: int, steps: int) -> None:
    feeds = Feed("source", ImageArray(numbered(5))), Feed("union", ImageArray(numbered(9)), clock=clock)
    assert feeder(*feeds, batch_size=batch_size).steps_per_epoch == steps


def test_without_a_clock_there_is_nothing_to_train() -> None:
    assert feeder().steps_per_epoch == 0
    assert feeder().batch(0) == {}


def test_a_batch_is_clamped_to_each_feed_alone() -> None:
    feeds = Feed("memory", ImageArray(numbered(3))), Feed("source", ImageArray(numbered(40)))
    batch = feeder(*feeds, batch_size=16).batch(7)
    assert sorted(batch["memory"].index.tolist()) == [0, 1, 2]
    assert len(batch["source"].images) == 16


@settings(deadline=None)
@given(st.permutations(range(20)), st.integers(0, 30))
def test_labels_stay_with_their_images(labels: list[int], step: int) -> None:
    feed = Feed("source", ImageArray(numbered(20)), torch.tensor(labels))
    samples = feeder(feed).batch(step)["source"]
    assert samples.labels is not None
    numbers = (255 * samples.images[:, 0, 0, 0]).round().long()
    assert torch.equal(samples.index, numbers)
    assert samples.labels.tolist() == [labels[number] for number in numbers]


def test_without_augmentation_images_are_their_pixels_in_0_to_1() -> None:
    pixels = noise(0, 12)
    samples = feeder(Feed("source", ImageArray(pixels))).batch(2)["source"]
    assert torch.equal(samples.images, pixels[samples.index].float() / 255)
    assert samples.labels is None


def test_second_views_follow_the_first_and_differ() -> None:
    images = ImageArray(noise(0, 12))
    once = Feed("union", images, augmentation=Augmentation())
    twice = dataclasses.replace(once, views=2)
    one, two = feeder(once).batch(1)["union"], feeder(twice).batch(1)["union"]
    assert torch.equal(one.index, two.index)
    assert torch.equal(one.images, two.images[:4])
    assert len(two.images) == 8
    assert all(not torch.equal(two.images[i], two.images[4 + i]) for i in range(4))


def reachable(thing: Any, seen: dict[int, Any]) -> Iterator[Tensor]:
    """All tensors that can be got at from `thing`: through fields, attributes, containers, closures and arguments."""
    if id(thing) in seen or isinstance(thing, type):
        return
    seen[id(thing)] = thing  # kept, so that no other object gets the same id
    if isinstance(thing, Tensor):
        yield thing
    parts: list[Any] = []
    if isinstance(thing, Mapping):
        parts += [*thing.keys(), *thing.values()]
    elif isinstance(thing, (list, tuple, set, frozenset)):
        parts += list(thing)
    elif isinstance(thing, partial):
        parts += [thing.func, thing.args, thing.keywords]
    parts += [getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())]
    parts += [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
    parts += [getattr(thing, "__self__", None), getattr(thing, "__dict__", None)]
    for part in parts:
        yield from reachable(part, seen)


def is_among(wanted: Tensor, found: list[Tensor]) -> bool:
    return any(tensor.shape == wanted.shape and torch.equal(tensor, wanted) for tensor in found)


@pytest.mark.parametrize("method", METHODS)
def test_no_target_label_can_be_reached_by_a_method(method: str) -> None:
    """Every domain has another number of images, so that no two label vectors can be mistaken for one another."""

    def domain(name: str, count: int) -> Domain:
        labels = torch.randint(2, (count,), generator=torch.Generator().manual_seed(count))
        train, test = Labelled(ImageArray(noise(count, count)), labels), Labelled(ImageArray(noise(1, 2)), labels[:2])
        return Domain(name, train, test, name)

    source, *targets = (domain(name, count) for name, count in (("s", 17), ("a", 19), ("b", 23), ("c", 29)))
    stream = DomainStream(("0", "1"), (source,), ((targets[0],), (targets[1], targets[2])))
    memory = Labelled(ImageArray(noise(7, 5)), torch.tensor([0, 1, 0, 0, 1]))
    stage = stream.stage(2, [memory], Augmentation())
    network = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)), 4, 2)
    learner = METHODS[method](network, METHODS[method].Config())
    learner.begin(stage)
    learner.warm_up(stage)
    feeds = learner.feeds(stage)
    batch = feeder(*feeds, batch_size=8).batch(0)
    found = list(reachable((stage, learner, feeds, batch), {}))

    assert is_among(source.train.labels, found)
    assert is_among(memory.labels, found)
    for target in targets[1:]:
        assert isinstance(target.train.images, ImageArray)
        assert is_among(target.train.images.pixels, found)
        assert not is_among(target.train.labels, found)
    assert not is_among(torch.cat([target.train.labels for target in targets[1:]]), found)
    assert not is_among(targets[0].train.labels, found)


def test_a_derived_seed_is_the_hash_of_its_path() -> None:
    digest = hashlib.blake2b(b"(7, 2, 'union', 'order', 3)", digest_size=8).hexdigest()
    little_endian = "".join(reversed([digest[i : i + 2] for i in range(0, 16, 2)]))
    assert derive(7, 2, "union", "order", 3) == int(little_endian, 16) // 2


SeedPath = tuple[int | str, ...]
paths = st.lists(st.integers(0, 999) | st.text(max_size=4), max_size=4).map(tuple)


@settings(deadline=None)
@given(st.integers(0, 999), paths, st.integers(0, 999), paths)
def test_every_path_has_a_seed_of_its_own(seed: int, path: SeedPath, other_seed: int, other: SeedPath) -> None:
    assert (derive(seed, *path) == derive(other_seed, *other)) == ((seed, path) == (other_seed, other))
    assert 0 <= derive(seed, *path) < 2**63


def test_paths_that_read_alike_are_kept_apart() -> None:
    alike = [derive(1, 23), derive(12, 3), derive(1, "23"), derive(1, 2, 3), derive(1, "2, 3"), derive(1, "2", "3")]
    assert len(set(alike)) == len(alike)


def test_generators_and_global_draws_follow_the_path_alone() -> None:
    numbers = torch.rand(5, generator=generator(3, "a"))
    torch.rand(7)
    assert torch.equal(torch.rand(5, generator=generator(3, "a")), numbers)
    seed_everything(3, "a")
    assert torch.equal(torch.rand(5), numbers)


@pytest.mark.parametrize("views", [1, 2])
def test_micro_batches_hold_all_views_of_their_samples_and_add_up_to_the_loss(views: int) -> None:
    images, index, labels = torch.rand(views * 5, 3, 4, 4), torch.arange(5), torch.arange(5)
    samples = Samples(images, index, labels, micro_batch=2 * views)
    parts = list(samples.parts())
    assert [len(part.index) for part in parts] == [2, 2, 1]
    for part in parts:
        assert part.labels is not None
        assert torch.equal(part.labels, part.index)
        assert torch.equal(part.images, torch.cat([images[view * 5 :][part.index] for view in range(views)]))

    def loss(some: Samples) -> Tensor:
        return some.images.square().mean()

    whole, pieces = in_parts(loss, dataclasses.replace(samples, micro_batch=None)), in_parts(loss, samples)
    assert isinstance(whole, Tensor)
    torch.testing.assert_close(torch.stack(list(pieces)).sum(), whole)
