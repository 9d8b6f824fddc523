"""Self-training: the target's own labels, by what the classifier says of an image's neighbours, from the surest on
(GRCL+)."""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from grcl.data.feeds import Samples
from grcl.data.stream import Stage
from grcl.memory.pseudo_labels import UNLABELLED, View, look_at, smoothed
from grcl.methods.optimizers import Share
from grcl.networks.classifier import Classifier
from grcl.runtime.settings import Settings
from grcl.shapes import Float, Int


class SelfTrainingSettings(Settings):
    """Which of the target's images are learned from, and with which labels."""

    first_share: Share = 0.3
    """Share of the target that may be labelled at the beginning of a stage, the surest of every class."""
    last_share: Share = 0.9
    """The same at its end."""
    refreshes: PositiveInt = 10
    """How often in a stage the labels are made anew."""
    quotas: Literal["equal", "predicted"] = "equal"
    """What each class gets of the labels: equally much, which keeps a weak classifier from naming everything alike, or
    as much as is predicted of it, for a target in which classes are rare or missing."""
    neighbours: PositiveInt = 10
    """How many of the images nearest to an image, itself included, decide on its label; 1 for itself alone. Fewer where
    a target has fewer than twice as many images a class."""


class SelfTraining(nn.Module):
    """The labels of D_t, made anew as the network learns; an image that gets none is not learned from."""

    labels: Tensor
    made: Tensor

    def __init__(self, settings: SelfTrainingSettings) -> None:
        super().__init__()
        self.settings = settings
        self.stage: Stage | None = None

    def begin(self, stage: Stage, device: torch.device) -> None:
        """Make room for the labels of this stage."""
        self.stage = stage
        self.register_buffer("labels", torch.full((len(stage.target),), UNLABELLED, device=device))
        self.register_buffer("made", torch.tensor(0))

    def refresh(self, network: Classifier, progress: float) -> None:
        """Label the target anew if it is time to."""
        due = int(progress * self.settings.refreshes) + 1
        if due <= int(self.made):
            return
        assert self.stage is not None
        network.eval()
        target = smoothed(look_at(network, self.stage.target), self.settings.neighbours)
        network.train()
        grown = (due - 1) / max(1, self.settings.refreshes - 1)
        share = self.settings.first_share + grown * (self.settings.last_share - self.settings.first_share)
        self.labels.copy_(surest(target, share, self.settings.quotas))
        self.made.fill_(due)

    def share(self) -> Float[Tensor, ""]:
        """How much of the target has a label."""
        return (self.labels != UNLABELLED).float().mean()

    def classes(self) -> Int[Tensor, ""]:
        """How many classes the labels name."""
        return torch.bincount(self.labels - UNLABELLED)[1:].count_nonzero()

    def loss(self, network: Classifier, samples: Samples) -> Float[Tensor, ""]:
        """Cross-entropy on those of the batch that have a label.

        Divided by how many are to be expected in a batch, not by how many there are: so it separates over processes.
        """
        labels = self.labels[samples.index]
        summed = F.cross_entropy(network(samples.images), labels, ignore_index=UNLABELLED, reduction="sum")
        return summed / (len(labels) * self.share().clamp(min=1 / len(self.labels)))


def surest(view: View, share: float, quotas: str = "equal") -> Int[Tensor, " n"]:
    """The classifier's labels, of each class the surest and no more than its part of `share` of all images."""
    images, classes = view.scores.shape
    labels = torch.full_like(view.classes, UNLABELLED)
    for k in range(classes):
        members = torch.nonzero(view.classes == k)[:, 0]
        part = images / classes if quotas == "equal" else len(members)
        # at least one: a target may have fewer images than a quota's denominator
        quota = max(1, round(share * part)) if share else 0
        best = view.certainty[members].argsort(descending=True, stable=True)[:quota]
        labels[members[best]] = k
    return labels
