"""Continual unsupervised domain adaptation: one labelled source domain, then unlabelled target domains, one by one."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grcl.benchmarks import BENCHMARKS
    from grcl.config import resolve
    from grcl.gradients import project_onto_cone
    from grcl.learner.learner import Learner
    from grcl.methods import METHODS
    from grcl.results.accuracy_matrix import AccuracyMatrix

__version__ = "0.1.0"

# Names are imported when they are first used, so that `grcl --help` does not wait for torch.
_HOMES = {
    "BENCHMARKS": "grcl.benchmarks",
    "METHODS": "grcl.methods",
    "AccuracyMatrix": "grcl.results.accuracy_matrix",
    "Learner": "grcl.learner.learner",
    "project_onto_cone": "grcl.gradients",
    "resolve": "grcl.config",
}

__all__ = ["BENCHMARKS", "METHODS", "AccuracyMatrix", "Learner", "project_onto_cone", "resolve"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'grcl' has no attribute {name!r}")
