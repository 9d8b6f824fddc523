"""The feeds that several methods share."""

from grcl.data.feeds import Feed
from grcl.data.stream import Stage, join


def source_feed(stage: Stage, is_augmented: bool, clock: int | None = None) -> Feed:
    """The labelled source."""
    augmentation = stage.augmentation if is_augmented else None
    return Feed("source", stage.source.images, stage.source.labels, augmentation, clock=clock)


def target_feed(stage: Stage, is_augmented: bool) -> Feed:
    """The unlabelled target; an epoch is one pass over the larger of source and target."""
    augmentation = stage.augmentation if is_augmented else None
    clock = max(len(stage.source), len(stage.target))
    return Feed("target", stage.target, augmentation=augmentation, clock=clock)


def memory_feeds(stage: Stage, form: str, is_augmented: bool) -> tuple[Feed, ...]:
    """The remembered images with their pseudo-labels: all together (Eq. 6), one feed per episode (Eq. 5), or none."""
    if form == "off" or not stage.memory:
        return ()
    if form == "per_domain":
        sets = {f"memory_{k}": episode for k, episode in enumerate(stage.memory, start=1)}
    else:
        sets = {"memory": join(stage.memory)}
    augmentation = stage.augmentation if is_augmented else None
    return tuple(Feed(name, part.images, part.labels, augmentation) for name, part in sets.items())
