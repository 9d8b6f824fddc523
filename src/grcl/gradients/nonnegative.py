"""Nonnegative least squares in a handful of variables (Lawson and Hanson 1974)."""

import torch
from torch import Tensor

from grcl.shapes import Float

_TOLERANCE = 1e-13  # of the length of the values: what a gain must be above the rounding
_ROUNDS = 100  # per variable; a few are enough, and rounding must not make it go round for ever


def nonnegative_least_squares(matrix: Float[Tensor, "rows m"], values: Float[Tensor, " rows"]) -> Float[Tensor, " m"]:
    """argmin ½‖Ru − b‖² over u ≥ 0; one of them where columns depend on each other.

    Variables are let in one by one, that with the most to gain first. A column that depends on those that are in gains
    nothing, so it stays out, and no multiplier grows without bound. scipy's nnls is wrong on the border of the cone
    since 1.15 (scipy issue 25389), and its bounded least squares where three rows add up to zero.
    """
    solution = matrix.new_zeros(matrix.shape[1])
    is_in, is_barred = torch.zeros_like(solution, dtype=torch.bool), torch.zeros_like(solution, dtype=torch.bool)
    for _ in range(_ROUNDS * len(solution)):
        gains = (matrix.T @ (values - matrix @ solution)).masked_fill(is_in | is_barred, -torch.inf)
        best = int(gains.argmax())
        if gains[best] <= _TOLERANCE * values.norm():
            break
        is_in[best] = True
        trial = _least_squares(matrix, values, is_in)
        if trial[best] <= 0:  # by rounding it gains nothing after all
            is_in[best], is_barred[best] = False, True
            continue
        is_barred[:] = False
        while (trial[is_in] <= 0).any():
            # As far as the first variable that would become negative, which goes out again.
            way = (solution - trial).clamp(min=torch.finfo(trial.dtype).tiny)
            steps = torch.where(is_in & (trial <= 0), solution / way, torch.inf)
            solution = solution + steps.min() * (trial - solution)
            is_in &= steps > steps.min()
            solution = solution.where(is_in, 0.0)
            trial = _least_squares(matrix, values, is_in)
        solution = trial
    return solution


def _least_squares(matrix: Tensor, values: Tensor, is_in: Tensor) -> Float[Tensor, " m"]:
    """Without bounds, in the variables that are in; zero for the others."""
    solution = matrix.new_zeros(matrix.shape[1])
    solution[is_in] = torch.linalg.lstsq(matrix[:, is_in], values[:, None], driver="gelsd").solution[:, 0]
    return solution
