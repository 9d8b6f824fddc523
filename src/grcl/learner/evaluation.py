"""What a learner says about images, and how often it is right."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from grcl.learner.inputs import Data
from grcl.memory.pseudo_labels import View
from grcl.shapes import Int

_EXAMPLES = 12


class Prediction(NamedTuple):
    """What the learner says about one image."""

    file: str
    label: str
    """The name of the class."""
    confidence: float
    """The probability that the learner gives to it; sure is not right."""
    is_strange: bool
    """Whether the image looks like nothing that the learner was taught or adapted to."""


@dataclass(frozen=True)
class Evaluation:
    """The answers on a labelled set."""

    classes: tuple[str, ...]
    confusion: Int[Tensor, "classes classes"]
    """How many images of the class of a row were taken for the class of a column."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Classes that the learner does not know, with their numbers of images; they are not counted above."""

    @property
    def images(self) -> int:
        """How many images were asked about."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return int(self.confusion.diagonal().sum()) / self.images

    @property
    def per_class(self) -> dict[str, float]:
        """The share of right answers for every class that the set has."""
        rows = zip(self.classes, self.confusion.diagonal().tolist(), self.confusion.sum(dim=1).tolist(), strict=True)
        return {name: right / count for name, right, count in rows if count}


def confusion_of(labels: Int[Tensor, " n"], answers: Int[Tensor, " n"], classes: int) -> Int[Tensor, "classes classes"]:
    """Rows are true classes, columns are answers."""
    return torch.bincount(labels * classes + answers.cpu(), minlength=classes**2).view(classes, classes)


def examples(data: Data, before: View, after: View, classes: tuple[str, ...]) -> dict[str, Any]:
    """A few images for a report, with what was said about them before and after; first those where it has changed."""
    is_same = (before.classes == after.classes).cpu().long()
    places = is_same.argsort(stable=True)[:_EXAMPLES]
    said = {
        when: {
            "classes": [classes[place] for place in view.classes.cpu()[places].tolist()],
            "confidence": view.confidence.cpu()[places].tolist(),
        }
        for when, view in (("before", before), ("after", after))
    }
    return {"files": [data.files[place] for place in places.tolist()], "pixels": data.images.read(places), **said}
