"""Is it better now? A plain rule, from numbers that need no label of the target.

An adaptation is worse if the model forgot what it knew, if it could not read the target to begin with (its classes are
not the groups that k-means finds there), or if it kept little of what it could read. To be sure proves nothing, for a
model that calls everything a mug is sure; better is what fits the target's own clusters better than before.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.learner.own_groups import own_groups
from grcl.memory.sight import Sight
from grcl.shapes import Int

_FEWEST = 10  # images; where there are fewer, each is worth more than the steps below
_FORGOTTEN = 1 / 3  # of the way from the loss before to a guesser's; beyond it, targets gained less than was lost
_FADED = 1 / 4  # the same for what is to be called better; up to a third, gain and loss were about even
_READ = 0.66  # mean footing before; 42 of 50 targets of unknown digits had less, of 37 honest ones three
_HELD = 0.3  # footing after; targets that gained had 0.5 and more, models broken by their rate 0.1
_RISE = 0.03  # of agreement; what moves less may be an image or two
_FALL = 0.1  # of agreement; k-means alone wavers by less

_OWNERS = {"source": "source", "M": "memory"}


class Verdict(NamedTuple):
    """What an adaptation did, and the numbers that say so."""

    word: Literal["better", "no change", "worse"]
    reason: str


class Footing(NamedTuple):
    """On how much of the images several labels agree, and on how much they would by chance.

    Chance follows from how often each names each class: where all call everything a mug, agreement is no feat.
    """

    agreement: float
    chance: float

    @classmethod
    def of(cls, *labels: Int[Tensor, " n"]) -> "Footing":
        """The footing of these labels of the same images."""
        given = torch.stack(labels)
        agreement = (given == given[0]).all(dim=0).double().mean()
        chance = F.one_hot(given).double().mean(dim=1).prod(dim=0).sum()
        return cls(float(agreement), float(chance))

    @property
    def share(self) -> float:
        """How far the agreement is on the way from chance (0) to certainty (1); Cohen's kappa for two labels."""
        return (self.agreement - self.chance) / (1 - self.chance) if self.chance < 1 else 0.0

    def __str__(self) -> str:
        return f"agree on {self.agreement:.0%} of the images, and would on {self.chance:.0%} by chance"


def judge(before: Sight, after: Sight, violated: float | None = None) -> Verdict:
    """Compare what the model saw before an adaptation with what it sees after it."""
    images, classes = after.target.scores.shape
    lost, rise_of_loss = _most_forgotten(before, after, classes)
    if math.isnan(lost) or not after.target.scores.isfinite().all():
        return Verdict("worse", "the model's scores are not numbers any more")
    if lost > _FORGOTTEN:
        opposed = f", and {violated:.0%} of the steps opposed what was known" if violated and violated >= 0.005 else ""
        return Verdict("worse", f"{rise_of_loss}{opposed}")
    if images < _FEWEST:
        return Verdict("no change", f"the target has {images} of the {_FEWEST} images that it takes to tell")
    read, own = Footing.of(before.clusters, before.target.classes), Footing.of(*own_groups(before.target))
    if (read.share + own.share) / 2 < _READ:
        found = f"k-means and the model before {read}; the target's own groups and the model {own}"
        return Verdict("worse", f"it could not read this target: {found}")
    held = Footing.of(before.clusters, before.target.classes, after.target.classes)
    if held.share < _HELD:
        return Verdict("worse", f"it lost what it could read: k-means, the model before and the model after {held}")
    moved = f"agreement of k-means and classifier went from {before.agreement:.2f} to {after.agreement:.2f}"
    if after.agreement < before.agreement - _FALL:
        return Verdict("worse", moved)
    if after.agreement < before.agreement + _RISE:
        return Verdict("no change", moved)
    return Verdict("no change", f"{moved}, but {rise_of_loss}") if lost > _FADED else Verdict("better", moved)


def _most_forgotten(before: Sight, after: Sight, classes: int) -> tuple[float, str]:
    """How much of what it knew of the source or of the memory the model has lost, and the losses that say so."""
    guess = math.log(classes)
    found = []
    for name in _OWNERS.keys() & before.losses.keys():
        old, new = before.losses[name], after.losses[name]
        lost = (new - old) / max(guess - old, 0.1 * guess, 1e-6)  # a model that guessed has little to lose
        found.append((lost, f"the {_OWNERS[name]}'s loss rose from {old:.2f} to {new:.2f}"))
    return max(found, key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0])
