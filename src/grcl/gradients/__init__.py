"""Gradients as values: compute them, project them, step with them. Needs torch alone.

>>> import torch
>>> from grcl.gradients import project_onto_cone
>>> new, old = torch.tensor([1.0, -1.0]), torch.tensor([[0.0, 1.0]])
>>> project_onto_cone(new, old).gradient
tensor([1., 0.])
"""

from grcl.gradients.cone import Projection, project_onto_cone
from grcl.gradients.flat import assign, flatten, gradient_of, parameters_of
from grcl.gradients.reversal import reverse
from grcl.gradients.step import Loss, Projected, descend, descend_within

__all__ = [
    "Loss",
    "Projected",
    "Projection",
    "assign",
    "descend",
    "descend_within",
    "flatten",
    "gradient_of",
    "parameters_of",
    "project_onto_cone",
    "reverse",
]
