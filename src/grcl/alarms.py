"""Numbers that go wrong, noticed while they do: what is not finite ends a training, and a collapse is told.

A method may return, beside its losses, values under the names of `SIGNS`; they are watched and not logged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from grcl.methods.base import Method
from grcl.networks.statistics import batch_norms

FEWEST_STEPS = 10
_SHOWN = 8


class Sign(NamedTuple):
    """When a value that a method returns means harm, whether that must last for an epoch, and what is said then."""

    is_harmful: Callable[[float], bool]
    lasts: bool
    sentence: str


SIGNS = {
    "alarm/likeness": Sign(
        lambda length: length > 0.999,
        True,
        "the representation has collapsed: for a whole epoch all keys of a batch are alike; "
        "try a smaller learning rate or contrastive weight",
    ),
    "alarm/chance": Sign(
        lambda share: abs(share - 1) < 0.01,
        True,
        "the contrastive loss stays at ln(negatives + 1), where no image is told from another; "
        "try a lower temperature or another learning rate",
    ),
    "alarm/classes": Sign(
        lambda classes: classes < 2,
        False,
        "the pseudo-labels are dead: they name fewer than two classes; "
        "look at the accuracy of the source model on this domain",
    ),
}


@dataclass
class Watch:
    """What was seen of the signs in a stage so far."""

    lasting: dict[str, int] = field(default_factory=dict)
    """For how many steps in a row each has meant harm."""
    told: list[str] = field(default_factory=list)
    """Those that were told."""


class Alarms:
    """What is watched in one stage of a method; each sign is told once."""

    def __init__(self, method: Method, steps_per_epoch: int, watch: Watch) -> None:
        self._weights = {name: weight for name, weight in method.named_parameters() if weight.requires_grad}
        self._statistics = _statistics(method)
        self._patience = max(FEWEST_STEPS, steps_per_epoch)
        self._watch = watch

    def raised_by(self, signs: Mapping[str, Tensor]) -> list[str]:
        """The sentences about what has gone wrong for long enough, and was not told before."""
        sentences, lasting, told = [], self._watch.lasting, self._watch.told
        for name, value in signs.items():
            sign = SIGNS[name]
            lasting[name] = lasting.get(name, 0) + 1 if sign.is_harmful(float(value)) else 0
            if name not in told and lasting[name] >= (self._patience if sign.lasts else 1):
                told.append(name)
                sentences.append(sign.sentence)
        return sentences

    def not_finite(self, values: Mapping[str, Tensor]) -> str | None:
        """What is not finite after a step that returned these values, in words, or nothing.

        A gradient that is not finite leaves weights that are not: one pass over the weights, which are what a
        checkpoint would hold, sees both.
        """
        length = torch.nn.utils.get_total_norm([*self._weights.values(), *self._statistics.values()])
        if torch.stack([*values.values(), length]).isfinite().all():
            return None
        bad = [f"{name} is {float(value)}" for name, value in values.items() if not value.isfinite()]
        losses = [f"{name} is {float(value):.3g}" for name, value in values.items() if name.startswith("loss/")]
        gradients = {name: weight.grad for name, weight in self._weights.items() if weight.grad is not None}
        bad += [f"the gradient of {name} is not finite, though {', '.join(losses)}" for name in _bad(gradients)]
        bad += [f"the {name} is not finite, though {', '.join(losses)}" for name in _bad(self._statistics)]
        return (bad or [f"the length of the weights is {float(length)}, though {', '.join(losses)}"])[0]


def without_signs(values: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What a step returned, as the values to log and the signs to watch."""
    signs = {name: value for name, value in values.items() if name in SIGNS}
    return {name: value for name, value in values.items() if name not in SIGNS}, signs


def in_words(places: Mapping[str, list[int]]) -> str:
    """Which images a batch holds, by their places in its feeds."""
    return "; ".join(f"{name} {_listed(index)}" for name, index in places.items())


def _listed(places: list[int]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(map(str, places[:_SHOWN])) + more


def _statistics(method: Method) -> dict[str, Tensor]:
    kinds = {"running_mean": "running mean", "running_var": "running variance"}
    found = {
        f"{word} of batch normalisation {place}": getattr(layer, kind)
        for place, layer in enumerate(batch_norms(method), start=1)
        for kind, word in kinds.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def _bad(tensors: Mapping[str, Tensor]) -> list[str]:
    return [name for name, value in tensors.items() if not value.isfinite().all()]
