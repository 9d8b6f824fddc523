"""A model as the state keeps it: a method with what lives longer than a stage, and what looks familiar to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from grcl import networks
from grcl.adaptation import choose_device
from grcl.config import LearnerSettings
from grcl.learner.familiarity import Familiarity
from grcl.methods import METHODS, Method
from grcl.networks.classifier import Classifier
from grcl.runtime.checkpoint import encode
from grcl.runtime.errors import Refusal
from grcl.runtime.seeding import seed_everything

UNADAPTED = "source_only"

Tensors = dict[str, Tensor]
Saved = dict[str, Any]
"""A model as a file of the state holds it."""


@dataclass(frozen=True)
class Model:
    """A method by name, ready to predict."""

    name: str
    method: Method
    lasting: frozenset[str]
    """The tensors that live longer than a stage; keys and pseudo-labels of a target's images do not."""
    familiarity: Familiarity | None = None

    def knowing(self, familiarity: Familiarity) -> "Model":
        """The same model, with what looks familiar to it."""
        return replace(self, familiarity=familiarity)

    def encoded(self) -> bytes:
        """As a file of the state."""
        assert self.familiarity is not None
        modules = {name: value.cpu() for name, value in self.method.state_dict().items() if name in self.lasting}
        known = {name: value.cpu() for name, value in self.familiarity._asdict().items()}
        return encode({"method": self.name, "modules": modules, "familiarity": known})


def unadapted(network: Classifier) -> Model:
    """The model of a fit: the plain network."""
    method = METHODS[UNADAPTED](network, METHODS[UNADAPTED].Config())
    return Model(UNADAPTED, method, frozenset(method.state_dict()))


def require_model(saved: Saved) -> None:
    """Raise what Python raises where something else is offered for a model."""
    METHODS[saved["method"]]
    if not all(isinstance(value, Tensor) for part in ("modules", "familiarity") for value in saved[part].values()):
        raise TypeError


def restored(saved: Saved, settings: LearnerSettings, classes: int) -> Model:
    """The model in a file of the state."""
    model = _fresh(saved["method"], settings, classes)
    _require_same(saved["modules"], model, saved["method"])
    model.method.load_state_dict(saved["modules"])
    model.method.to(device_for(settings)).eval()
    known = {name: value.to(model.method.device) for name, value in saved["familiarity"].items()}
    return model.knowing(Familiarity(**known))


def continued(saved: Saved, fit: Callable[[], Saved], settings: LearnerSettings, classes: int, stage: int) -> Model:
    """The model in a file of the state as the beginning of an adapt by the method of the settings; `fit` is asked for
    the model of the fit where a method begins that was not at work before."""
    old, new = saved["method"], settings.method
    if old == new:
        model = _fresh(new, settings, classes)
        _require_same(saved["modules"], model, new)
        model.method.load_state_dict(saved["modules"])
        return model
    # A method with parts of its own to classify by trains them in the first stage, beside the source's network.
    if not _is_plain(old) or (not _is_plain(new) and stage > 1):
        alike = ", ".join(name for name in METHODS if _is_plain(name))
        own = old if not _is_plain(old) else new
        raise Refusal(
            f"the model in force was made by {old} and cannot go on with {new}, because {own} classifies by parts of "
            f"its own that the other lacks; go on with {old if own == old else alike}, or roll back to the fit"
        )
    # Made on θ_0, of which a method may keep a copy.
    model = _fresh(new, settings, classes, _network_of(fit()))
    model.method.network.load_state_dict(_network_of(saved))
    return model


def _network_of(saved: Saved) -> Tensors:
    """The weights of the network in a model."""
    prefix = "network."
    return {name.removeprefix(prefix): value for name, value in saved["modules"].items() if name.startswith(prefix)}


def device_for(settings: LearnerSettings) -> torch.device:
    """Where the settings say, or the CPU if that is not on this machine."""
    try:
        return choose_device(settings.training.device)
    except Refusal:
        return torch.device("cpu")


def _fresh(name: str, settings: LearnerSettings, classes: int, start: Tensors | None = None) -> Model:
    """A method on a network with the weights of `start`, or whose weights are still to be loaded; none are fetched."""
    empty = settings.network.model_copy(update={"pretrained": False, "weights": None})
    seed_everything(settings.seed, "method")
    network = networks.build(empty, classes)
    if start is not None:  # before the method is made, which may keep a copy of the network
        network.load_state_dict(start)
    seed_everything(settings.seed, "method")
    config = settings.own if name == settings.method else METHODS[name].Config()
    method = METHODS[name](network, config)
    return Model(name, method, frozenset(method.state_dict()))


def _is_plain(name: str) -> bool:
    """Whether a method classifies by the network alone."""
    return METHODS[name].see is Method.see


def _require_same(saved: Tensors, model: Model, name: str) -> None:
    own = model.method.state_dict()
    differing = [key for key in saved.keys() | own.keys() if key not in saved or key not in own]
    differing += [key for key in saved.keys() & own.keys() if saved[key].shape != own[key].shape]
    if differing:
        raise Refusal(
            f"the settings of {name} do not fit the model in force ({min(differing)} differs): those that change the "
            "size of its parts must be given as they were when it was made (grcl history --json tells them); or roll "
            "back to the fit"
        )
