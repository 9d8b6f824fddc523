"""The stream: one labelled source domain, then stages of unlabelled target domains (Sec. 2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from grcl.data.augment import Augmentation
from grcl.data.images import Images, Joined
from grcl.shapes import Int


@dataclass(frozen=True)
class Labelled:
    """Images with a class each."""

    images: Images
    labels: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.images)


def join(parts: Sequence[Labelled]) -> Labelled:
    """Several labelled sets as one."""
    return Labelled(Joined([part.images for part in parts]), torch.cat([part.labels for part in parts]))


@dataclass(frozen=True)
class Domain:
    """One domain. The training labels of a target are read by nothing but `grcl.evaluate`."""

    name: str
    train: Labelled
    test: Labelled
    fingerprint: str
    """Of its images and of the split."""
    note: str = ""
    split: Mapping[str, Any] = field(default_factory=dict)
    """Which images of the domain's pool these are, as splits.json tells it."""


@dataclass(frozen=True)
class Stage:
    """What a method may see at stage t: the source with labels, M_1..M_{t-1} with pseudo-labels, D_t without any."""

    index: int
    source: Labelled
    memory: tuple[Labelled, ...]
    target: Images
    augmentation: Augmentation

    def union(self, with_memory: bool = True) -> Images:
        """D_s ∪ M ∪ D_t, in this order."""
        memory = [episode.images for episode in self.memory] if with_memory else []
        return Joined([self.source.images, *memory, self.target])


@dataclass(frozen=True)
class DomainStream:
    """The labelled source and the target stages in their order; either may compound several domains."""

    classes: tuple[str, ...]
    sources: tuple[Domain, ...]
    targets: tuple[tuple[Domain, ...], ...]

    @cached_property
    def source(self) -> Labelled:
        """The labelled images."""
        trains = [domain.train for domain in self.sources]
        return trains[0] if len(trains) == 1 else join(trains)

    @property
    def domains(self) -> tuple[Domain, ...]:
        """All domains in the order in which they are seen: the columns of the accuracy matrix."""
        return (*self.sources, *(domain for stage in self.targets for domain in stage))

    @property
    def stage_names(self) -> tuple[tuple[str, ...], ...]:
        """The names of the domains that each stage 0..N learns from."""
        return tuple(tuple(domain.name for domain in stage) for stage in (self.sources, *self.targets))

    def stage(self, index: int, memory: Sequence[Labelled], augmentation: Augmentation) -> Stage:
        """Stage t >= 1: its target images come without labels and without a trace of their domain."""
        target = Joined([domain.train.images for domain in self.targets[index - 1]])
        return Stage(index, self.source, tuple(memory[: index - 1]), target, augmentation)
