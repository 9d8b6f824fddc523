"""Gradient reversal (Ganin & Lempitsky 2015): the identity on the way forward, −strength on the way back."""

from typing import Any

import torch
from torch import Tensor


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradients[0], None


def reverse(values: Tensor, strength: float) -> Tensor:
    """`values`, whose gradient will be multiplied by −strength."""
    reversed_: Tensor = _Reversal.apply(values, strength)  # type: ignore[no-untyped-call]
    return reversed_
