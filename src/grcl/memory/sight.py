"""What a model sees in a stage, from one pass over each of its sets: all that is remembered and all that is told."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from grcl.data.stream import Labelled, Stage
from grcl.evaluate import mean_entropy
from grcl.memory.pseudo_labels import Model, View, cluster_by_class, look_at, source_means
from grcl.shapes import Int


class Sight(NamedTuple):
    """The target as the model sees it, and its loss on everything that has labels."""

    target: View
    clusters: Int[Tensor, " n"]
    """k-means labels of the target, started at the source's class means (Sec. 3.2)."""
    losses: dict[str, float]
    """L_ce on the source, on M and on each M_k: one side of Eq. 5 to 7."""

    @property
    def agreement(self) -> float:
        """How often k-means and the classifier give the same label."""
        return float((self.clusters == self.target.classes).double().mean())

    def monitors(self) -> dict[str, dict[str, float]]:
        """What is written down before and after every stage: how sure the model is, and both sides of the promises."""
        target = {"entropy": mean_entropy(self.target.scores), "agreement": self.agreement}
        return {"target": target, "constraints": self.losses}


def look_over(model: Model, stage: Stage) -> Sight:
    """Look at the source, at every episode and at the target, once each."""
    source = look_at(model, stage.source.images)
    losses = {"source": _loss(source, stage.source)}
    start = source_means(source, stage.source.labels)
    known = stage.source.labels.bincount(minlength=len(start)).to(start.device) > 0
    del source  # the features of a large set are not kept while the next one is looked at
    episodes = [_loss(look_at(model, episode.images), episode) for episode in stage.memory]
    if episodes:
        sizes = [len(episode) for episode in stage.memory]
        losses["M"] = sum(loss * size for loss, size in zip(episodes, sizes, strict=True)) / sum(sizes)
    losses |= {f"M_{k}": loss for k, loss in enumerate(episodes, start=1)}
    target = look_at(model, stage.target)
    return Sight(target, cluster_by_class(target, start, known), losses)


def _loss(view: View, labelled: Labelled) -> float:
    return float(F.cross_entropy(view.scores, labelled.labels.to(view.scores.device)))
