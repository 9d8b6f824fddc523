"""What a batch holds. Order and augmentation are pure functions of (seed, stage, step), made for the global batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from grcl.data.ahead import in_advance
from grcl.data.augment import Augmentation, apply, draw
from grcl.data.images import Images
from grcl.runtime import distributed
from grcl.runtime.errors import Refusal
from grcl.runtime.seeding import generator
from grcl.shapes import Float, Int


@dataclass(frozen=True)
class Samples:
    """One feed's part of a batch; with two views, the second views follow the first ones in `images`."""

    images: Float[Tensor, "rows 3 height width"]
    index: Int[Tensor, " batch"]
    labels: Int[Tensor, " batch"] | None = None
    micro_batch: int | None = None
    """The most images that a pass may take at once, all views counted; None where all fit."""

    def parts(self) -> Iterator["Samples"]:
        """Pieces that a pass can take, each with all views of its samples."""
        views = self.images.unflatten(0, (-1, len(self.index)))
        size = max(1, (self.micro_batch or len(self.images)) // len(views))
        for piece in (slice(start, start + size) for start in range(0, len(self.index), size)):
            labels = None if self.labels is None else self.labels[piece]
            yield Samples(views[:, piece].flatten(0, 1), self.index[piece], labels)


def in_parts(loss: Callable[[Samples], Tensor], samples: Samples) -> Tensor | Iterator[Tensor]:
    """The loss of a batch, if it is a mean over the batch: whole, or as parts that add up to it."""
    if samples.micro_batch is None or len(samples.images) <= samples.micro_batch:
        return loss(samples)
    return (len(part.index) / len(samples.index) * loss(part) for part in samples.parts())


Batch = Mapping[str, Samples]


@dataclass(frozen=True)
class Feed:
    """A set of images that batches are drawn from. The one feed with a `clock` tells how many images an epoch has."""

    name: str
    images: Images
    labels: Int[Tensor, " n"] | None = None
    augmentation: Augmentation | None = None
    views: int = 1
    clock: int | None = None


class Feeder:
    """Batches by step number. Each feed goes through its images in a new order every pass; a short rest is left out."""

    def __init__(
        self,
        feeds: Sequence[Feed],
        batch_size: int,
        path: tuple[int, int],
        device: torch.device,
        micro_batch: int | None = None,
    ) -> None:
        self.feeds = feeds
        self.batch_size = batch_size
        self.path = path
        self.device = device
        self.micro_batch = micro_batch
        self._orders: dict[str, tuple[int, Tensor]] = {}

    @cached_property
    def steps_per_epoch(self) -> int:
        """How many steps one pass of the clock takes; none where there is nothing to train on."""
        clocks = [feed.clock for feed in self.feeds if feed.clock is not None]
        return max(1, clocks[0] // self.batch_size) if clocks else 0

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The global batch size of each feed: clamped to the feed, and a multiple of the number of processes."""
        processes = distributed.world_size()
        for feed in self.feeds:
            if len(feed.images) < processes:
                few = f"{feed.name} has fewer images ({len(feed.images)}) than there are processes ({processes})"
                raise Refusal(f"{few}; start fewer processes")
        if self.batch_size < processes:
            few = f"training.batch_size = {self.batch_size} is less than the number of processes ({processes})"
            raise Refusal(f"{few}; start fewer processes, or take larger batches")
        sizes = {feed.name: min(self.batch_size, len(feed.images)) for feed in self.feeds}
        return {name: size - size % processes for name, size in sizes.items()}

    def batch(self, step: int) -> Batch:
        """The samples of one step: this process's share of the global batch."""
        return self._start(step)()

    def batches(self, first: int, end: int) -> Iterator[Batch]:
        """The batches of these steps in turn; images on disk are read by worker processes some steps ahead."""
        return in_advance(self._start(step) for step in range(first, end))

    def _start(self, step: int) -> Callable[[], Batch]:
        """Begin to read the images of a step; calling the result waits for them and makes them a batch."""
        indices = {feed.name: self._order(feed, step)[self._share(feed)] for feed in self.feeds}
        started = {feed.name: feed.images.start(indices[feed.name]) for feed in self.feeds}
        return lambda: {
            feed.name: self._samples(feed, step, indices[feed.name], started[feed.name]()) for feed in self.feeds
        }

    def _share(self, feed: Feed) -> slice:
        return distributed.share_slice(self.sizes[feed.name])

    def _samples(self, feed: Feed, step: int, index: Int[Tensor, " batch"], read: Tensor) -> Samples:
        pixels = read.to(self.device).float().div_(255)
        if feed.augmentation:
            views = [self._view(feed, step, view, pixels) for view in range(feed.views)]
            pixels = views[0] if feed.views == 1 else torch.cat(views)
        labels = None if feed.labels is None else feed.labels[index].to(self.device)
        return Samples(pixels, index.to(self.device), labels, self.micro_batch)

    def _order(self, feed: Feed, step: int) -> Int[Tensor, " batch"]:
        size = self.sizes[feed.name]
        turn, place = divmod(step, len(feed.images) // size)
        if self._orders.get(feed.name, (None,))[0] != turn:
            source = generator(*self.path, feed.name, "order", turn)
            self._orders[feed.name] = turn, torch.randperm(len(feed.images), generator=source)
        return self._orders[feed.name][1][place * size : (place + 1) * size]

    def _view(self, feed: Feed, step: int, view: int, pixels: Tensor) -> Tensor:
        assert feed.augmentation is not None
        draws = draw(feed.augmentation, self.sizes[feed.name], generator(*self.path, feed.name, "view", step, view))
        return apply(pixels, draws.rows(self._share(feed)).to(self.device))
