"""Is it better now? A plain rule, from numbers that need no label of the target.

An adaptation is worse if the model forgot what it knew, if it could not read the target to begin with (its classes are
not the groups that k-means finds there, or change when an image is moved a little), or if it kept little of what it
could read. To be sure proves nothing, for a model that calls everything a mug is sure; better is what fits the target's
own clusters better than before.
"""

import math
from typing import Literal, NamedTuple

from grcl.learner.footing import Footing
from grcl.learner.own_groups import own_groups
from grcl.memory.sight import Sight

_FEWEST = 10  # images; where there are fewer, each is worth more than the steps below
_FORGOTTEN = 1 / 3  # of the way from the loss before to a guesser's; beyond it, targets gained less than was lost
_FADED = 1 / 4  # the same for what is to be called better; up to a third, gain and loss were about even
# Both by docs/learner.md: no target of unknown digits reaches both; all honest ones do of which the model has four
# fifths right, most of which it has two thirds right, and few of the others.
_READ = 0.72  # mean footing of two groupings before
_STEADY = 0.68  # footing of the images and the same images moved a little
_HELD = 0.3  # footing after; targets that gained had 0.5 and more, models broken by their rate 0.1
_RISE = 0.03  # of agreement; what moves less may be an image or two
_FALL = 0.1  # of agreement; k-means alone wavers by less

_OWNERS = {"source": "source", "M": "memory"}


class Verdict(NamedTuple):
    """What an adaptation did, and the numbers that say so."""

    word: Literal["better", "no change", "worse"]
    reason: str


def judge(before: Sight, after: Sight, steady: Footing, violated: float | None = None) -> Verdict:
    """Compare what the model saw before an adaptation, and how steadily, with what it sees after it."""
    images, classes = after.target.scores.shape
    lost, rise_of_loss = _most_forgotten(before, after, classes)
    if math.isnan(lost) or not after.target.scores.isfinite().all():
        return Verdict("worse", "the model's scores are not numbers any more")
    if lost > _FORGOTTEN:
        opposed = f", and {violated:.0%} of the steps opposed what was known" if violated and violated >= 0.005 else ""
        return Verdict("worse", f"{rise_of_loss}{opposed}")
    if images < _FEWEST:
        return Verdict("no change", f"the target has {images} of the {_FEWEST} images that it takes to tell")
    if found := unreadable(before, steady):
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


def unreadable(before: Sight, steady: Footing) -> str | None:
    """What says that the model had other classes in mind than those of the target, if anything does."""
    read, own = Footing.of(before.clusters, before.target.classes), Footing.of(*own_groups(before.target))
    if (read.share + own.share) / 2 < _READ:
        return f"k-means and the model before {read}; the target's own groups and the model {own}"
    return f"its classes of the images and of the same moved a little {steady}" if steady.share < _STEADY else None


def _most_forgotten(before: Sight, after: Sight, classes: int) -> tuple[float, str]:
    """How much of what it knew of the source or of the memory the model has lost, and the losses that say so."""
    guess = math.log(classes)
    found = []
    for name in _OWNERS.keys() & before.losses.keys():
        old, new = before.losses[name], after.losses[name]
        lost = (new - old) / max(guess - old, 0.1 * guess, 1e-6)  # a model that guessed has little to lose
        found.append((lost, f"the {_OWNERS[name]}'s loss rose from {old:.2f} to {new:.2f}"))
    return max(found, key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0])
