"""A gradient is one flat vector over the parameters of some optimisers."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from grcl.shapes import Float


def parameters_of(*optimizers: Optimizer) -> list[Tensor]:
    """The parameters of the optimisers, in their order."""
    return [parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]]


def flatten(tensors: Sequence[Tensor]) -> Float[Tensor, " p"]:
    """The entries of all tensors in one new vector."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def gradient_of(loss: Tensor, parameters: Sequence[Tensor], out: Float[Tensor, " p"]) -> list[bool]:
    """Write the gradient of `loss` into `out`; tells which parameters the loss reaches. The graph is freed."""
    pieces = torch.autograd.grad(loss, parameters, allow_unused=True)
    filled = [torch.zeros_like(p) if g is None else g for g, p in zip(pieces, parameters, strict=True)]
    torch.cat([piece.reshape(-1) for piece in filled], out=out)
    return [piece is not None for piece in pieces]


def assign(parameters: Sequence[Tensor], gradient: Float[Tensor, " p"], reached: Sequence[bool] | None = None) -> None:
    """Set `.grad` to the parts of `gradient`; a parameter that no loss reached gets none, so it does not decay."""
    pieces = gradient.split([parameter.numel() for parameter in parameters])
    for parameter, piece, is_reached in zip(parameters, pieces, reached or [True] * len(pieces), strict=True):
        parameter.grad = piece.view_as(parameter) if is_reached else None
