"""The episodic memory M: from every past stage a few images with pseudo-labels. The images themselves are kept,
so that a learner can go on when the old domain is gone."""

from typing import Literal, NamedTuple

import torch
from pydantic import PositiveInt
from torch import Tensor

from grcl.data.images import ImageArray
from grcl.data.stream import Labelled, Stage
from grcl.memory.pseudo_labels import View, far_apart, matched_labels
from grcl.memory.sight import Sight
from grcl.runtime.seeding import generator
from grcl.runtime.settings import Settings
from grcl.shapes import Int, UInt8


class Memory(Settings):
    """What is remembered of every finished stage."""

    size: PositiveInt = 1024
    """Images kept of every stage; clamped to what the stage has."""
    selection: Literal["confident", "agreeing", "balanced", "diverse"] = "confident"
    """Which images: the most confident (the paper), at random among those whose two labels agree and no others (one,
    where none agree), equally many of each class, or far apart in feature space."""
    labels: Literal["clusters", "matched", "classifier"] = "clusters"
    """Their labels: k-means started at the source's class means, k-means matched to the classifier, or the
    classifier's own."""


class Episode(NamedTuple):
    """M_t: what one stage left behind."""

    pixels: UInt8[Tensor, "n 3 height width"]
    labels: Int[Tensor, " n"]

    def labelled(self) -> Labelled:
        """As a set of images to train on."""
        return Labelled(ImageArray(self.pixels), self.labels)


class Recollection(NamedTuple):
    """A new episode, and what a report tells about how it was made."""

    episode: Episode
    chosen: Int[Tensor, " n"]
    """The places of its images in the domain."""
    labels: Int[Tensor, " domain"]
    """Those of the whole domain."""
    agreement: float


def remember(stage: Stage, sight: Sight, settings: Memory, seed: int) -> Recollection:
    """UpdateMemory of Algorithm 1: label all of D_t, keep the chosen part of it."""
    view = sight.target
    labels = {
        "clusters": lambda: sight.clusters,
        "matched": lambda: matched_labels(view),
        "classifier": lambda: view.classes,
    }[settings.labels]()
    size = min(settings.size, len(labels))
    chosen = _choose(settings.selection, view, labels, size, generator(seed, stage.index, "memory")).cpu()
    episode = Episode(stage.target.read(chosen), labels.cpu()[chosen])
    return Recollection(episode, chosen, labels.cpu(), float((labels == view.classes).double().mean()))


def _choose(
    selection: str, view: View, labels: Int[Tensor, " n"], size: int, source: torch.Generator
) -> Int[Tensor, " size"]:
    """The places of the images to keep."""
    if selection == "diverse":
        return far_apart(view, size)
    if selection == "confident":
        return view.certainty.argsort(descending=True, stable=True)[:size]
    if selection == "agreeing":
        agrees = labels == view.classes
        chance = torch.rand(len(labels), generator=source).to(view.scores)
        return (chance + agrees).topk(min(size, max(1, int(agrees.sum())))).indices
    # Balanced: the most confident of every class, one after another.
    return torch.argsort(_rank_within_class(view, labels), stable=True)[:size]


def _rank_within_class(view: View, labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    ranks = torch.empty_like(labels)
    for members in (torch.nonzero(labels == k)[:, 0] for k in labels.unique()):
        order = view.certainty[members].argsort(descending=True, stable=True)
        ranks[members[order]] = torch.arange(len(members), device=labels.device)
    return ranks
