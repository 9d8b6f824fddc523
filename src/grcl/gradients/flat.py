"""A gradient is one flat vector over the parameters of some optimisers."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from grcl.shapes import Float


def parameters_of(*optimizers: Optimizer) -> list[Tensor]:
    """The parameters of the optimisers, in their order."""
    return [parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]]


def pieces_of(vector: Float[Tensor, " p"], parameters: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a vector, each in the shape of its parameter and in the parameter's order in memory."""
    parts = vector.split([parameter.numel() for parameter in parameters])
    return [_arranged(part, parameter) for part, parameter in zip(parts, parameters, strict=True)]


def _arranged(part: Float[Tensor, " n"], parameter: Tensor) -> Tensor:
    """Whatever is copied between two tensors of one order is copied at the speed of memory."""
    if parameter.is_contiguous() or not parameter.is_contiguous(memory_format=torch.channels_last):
        return part.view_as(parameter)
    count, channels, height, width = parameter.shape
    return part.view(count, height, width, channels).permute(0, 3, 1, 2)


def flatten(
    tensors: Sequence[Tensor], parameters: Sequence[Tensor], out: Float[Tensor, " p"] | None = None
) -> Float[Tensor, " p"]:
    """The entries of all tensors, one for each parameter, in one vector, `out` or a new one.

    They come in the order that the parameters have in memory, which need not be that of their gradients.
    """
    vector = tensors[0].new_empty(sum(tensor.numel() for tensor in tensors)) if out is None else out
    for piece, tensor in zip(pieces_of(vector, parameters), tensors, strict=True):
        piece.copy_(tensor.detach())
    return vector


def gradient_of(
    loss: Tensor, parameters: Sequence[Tensor], out: Float[Tensor, " p"], is_added: bool = False
) -> list[bool]:
    """Write the gradient of `loss` into `out`, or add it to what is there; tells which parameters the loss reaches.

    The graph is freed.
    """
    gradients: Sequence[Tensor | None] = torch.autograd.grad(loss, parameters, allow_unused=True)
    for piece, gradient in zip(pieces_of(out, parameters), gradients, strict=True):
        if gradient is not None:
            piece.add_(gradient) if is_added else piece.copy_(gradient)
        elif not is_added:
            piece.zero_()
    return [gradient is not None for gradient in gradients]


def assign(parameters: Sequence[Tensor], gradient: Float[Tensor, " p"], reached: Sequence[bool] | None = None) -> None:
    """Set `.grad` to the parts of `gradient`; a parameter that no loss reached gets none, so it does not decay."""
    pieces = pieces_of(gradient, parameters)
    for parameter, piece, is_reached in zip(parameters, pieces, reached or [True] * len(pieces), strict=True):
        parameter.grad = piece if is_reached else None
