"""What is replayed: every image of every episode with its label, not only those of the newest."""

from typing import Any

import pytest
import torch

from grcl.data.augment import Augmentation
from grcl.data.feeds import Feed
from grcl.data.images import ImageArray
from grcl.data.stream import Labelled, Stage
from grcl.methods import METHODS
from grcl.methods.feeds import memory_feeds
from grcl.networks import Network, build
from tiny import CLASSES, tiny_settings


def some_images(seed: int, count: int) -> Labelled:
    """Random pixels and labels; the sizes differ, so that no order of the parts goes for another."""
    source = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (count, 3, 32, 32), generator=source).to(torch.uint8)
    return Labelled(ImageArray(pixels), torch.randint(len(CLASSES), (count,), generator=source))


EPISODES = (some_images(1, 5), some_images(2, 7))
STAGE = Stage(3, some_images(0, 8), EPISODES, some_images(3, 6).images, Augmentation())


def content(images: Any, labels: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    assert labels is not None
    return images.read(torch.arange(len(images))), labels


def assert_holds(feed: Feed, *episodes: Labelled) -> None:
    """These images in this order, and the label of each."""
    pixels, labels = zip(*(content(episode.images, episode.labels) for episode in episodes), strict=True)
    held, named = content(feed.images, feed.labels)
    assert torch.equal(held, torch.cat(pixels))
    assert torch.equal(named, torch.cat(labels))


def test_a_joint_memory_is_all_episodes_in_their_order() -> None:
    (feed,) = memory_feeds(STAGE, "joint", is_augmented=False)
    assert feed.name == "memory"
    assert_holds(feed, *EPISODES)


def test_a_memory_per_domain_is_one_feed_for_each_episode() -> None:
    feeds = memory_feeds(STAGE, "per_domain", is_augmented=False)
    assert [feed.name for feed in feeds] == ["memory_1", "memory_2"]
    for feed, episode in zip(feeds, EPISODES, strict=True):
        assert_holds(feed, episode)


@pytest.mark.parametrize("form", ["joint", "per_domain"])
def test_remembered_images_come_as_views_where_asked_and_are_no_clock(form: str) -> None:
    for is_augmented, augmentation in ((True, STAGE.augmentation), (False, None)):
        for feed in memory_feeds(STAGE, form, is_augmented):
            assert feed.augmentation == augmentation
            assert feed.clock is None


def test_without_a_memory_or_a_use_of_it_there_is_no_feed() -> None:
    assert memory_feeds(STAGE, "off", is_augmented=False) == ()
    first = Stage(1, STAGE.source, (), STAGE.target, STAGE.augmentation)
    for form in ("joint", "per_domain", "off"):
        assert memory_feeds(first, form, is_augmented=False) == ()


@pytest.mark.parametrize("name", ["cua", "gra", "grcl", "grcl_plus"])
def test_whoever_replays_replays_all_episodes(name: str) -> None:
    method = METHODS[name](build(Network(), len(CLASSES)), tiny_settings(name).own)
    (feed,) = (feed for feed in method.feeds(STAGE) if feed.name.startswith("memory"))
    assert_holds(feed, *EPISODES)
