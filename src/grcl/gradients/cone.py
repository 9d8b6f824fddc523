"""The projection that keeps an update from harming old losses (Eq. 8 and 9)."""

from typing import NamedTuple

import torch
from torch import Tensor

from grcl.gradients.nonnegative import nonnegative_least_squares
from grcl.shapes import Float

# Columns that are made 64 bits wide at a time: three rows of them stay in the cache of a CPU.
CHUNK = 1 << 16
# From so many columns on, blocks of 256 are summed in the precision of the rows and only their sums in 64 bits. The
# roundings of thousands of blocks cancel: what is left is 1e-9 of the lengths, and it takes a third of the time.
_MANY = 1 << 20
_BLOCK = 256


class Projection(NamedTuple):
    """The projected gradient z and the multipliers u of the constraints, z = g + Gᵀu."""

    gradient: Float[Tensor, " p"]
    multipliers: Float[Tensor, " m"]


def project_onto_cone(
    gradient: Float[Tensor, " p"], constraints: Float[Tensor, "m p"], out: Float[Tensor, " p"] | None = None
) -> Projection:
    """The nearest vector to `gradient` that opposes no constraint (Eq. 8); `out` takes it, and may be `gradient`.

    min ½‖z − g‖² s.t. Gz ≥ 0 is solved through its dual, which has m variables instead of p:
    min ½uᵀGGᵀu + (Gg)ᵀu s.t. u ≥ 0, then z = g + Gᵀu. Rows of G are the gradients themselves;
    the paper's minus sign (Eq. 9) would turn the constraints round.
    """
    gram, slopes = dual_problem(constraints, gradient)
    multipliers = solve_dual(gram, slopes, gradient.dtype).to(gradient)
    return Projection(torch.addmv(gradient, constraints.T, multipliers, out=out), multipliers)


def dual_problem(
    constraints: Float[Tensor, "m p"], gradient: Float[Tensor, " p"]
) -> tuple[Float[Tensor, "m m"], Float[Tensor, " m"]]:
    """GGᵀ and Gg, the numbers that the dual needs, from one pass over all vectors; none is copied whole."""
    m, p = constraints.shape
    whole = p - p % _BLOCK if p >= _MANY else 0
    products = _in_64_bits(constraints[:, whole:], gradient[whole:])
    if whole:
        limits = constraints[:, :whole]
        products += torch.cat([_by_blocks(limits, rows) for rows in (limits, gradient[None, :whole])], dim=1)
    return products[:, :m], products[:, m]


def _in_64_bits(constraints: Float[Tensor, "m p"], gradient: Float[Tensor, " p"]) -> Float[Tensor, "m m+1"]:
    m, p = constraints.shape
    rows = gradient.new_empty((m + 1, min(CHUNK, p)), dtype=_wide(gradient))
    products = rows.new_zeros(m, m + 1)
    for limits, piece in zip(constraints.split(CHUNK, dim=1), gradient.split(CHUNK), strict=True):
        wide = rows[:, : len(piece)]
        wide[:m], wide[m] = limits, piece
        products.addmm_(wide[:m], wide.T)
    return products


def _by_blocks(first: Float[Tensor, "m p"], second: Float[Tensor, "k p"]) -> Float[Tensor, "m k"]:
    a, b = (rows.unflatten(1, (-1, _BLOCK)).transpose(0, 1) for rows in (first, second))
    return torch.bmm(a, b.mT).sum(dim=0, dtype=_wide(first))


def _wide(rows: Tensor) -> torch.dtype:
    return torch.float32 if rows.device.type == "mps" else torch.float64  # mps has no doubles


def solve_dual(gram: Float[Tensor, "m m"], slopes: Float[Tensor, " m"], dtype: torch.dtype) -> Float[Tensor, " m"]:
    """argmin ½uᵀQu + sᵀu over u ≥ 0 (Eq. 9). A constraint whose gradient is zero asks for nothing: u = 0."""
    # The smallest 1 − cos² at which the rounding of the gradients, and of their products, still tells two apart.
    resolution = max(torch.finfo(dtype).eps, 1e-12)
    lengths = gram.diagonal().sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    # On rows of unit length the answer does not depend on the scale of the losses.
    unit_gram, unit_slopes = gram * scale.outer(scale), slopes * scale
    if len(slopes) < 2:
        return (-unit_slopes).clamp(min=0) * scale
    if len(slopes) == 2:
        return _two_constraints(unit_gram[0, 1], unit_slopes, resolution) * scale
    return _many_constraints(unit_gram, unit_slopes, resolution) * scale


def _two_constraints(cosine: Float[Tensor, ""], slopes: Float[Tensor, " 2"], resolution: float) -> Float[Tensor, " 2"]:
    """Both active where that takes two positive multipliers, else the steeper one alone. No value leaves the device."""
    determinant = 1 - cosine**2
    both = (cosine * slopes.flip(0) - slopes) / determinant.clamp(min=resolution)
    steepest = slopes.argmin(dim=0, keepdim=True)
    single = torch.zeros_like(slopes).scatter(0, steepest, (-slopes[steepest]).clamp(min=0))
    return torch.where((determinant > resolution) & (both > 0).all(), both, single)


def _many_constraints(gram: Float[Tensor, "m m"], slopes: Float[Tensor, " m"], resolution: float) -> Tensor:
    """min ½‖Ru − b‖², u ≥ 0, with RᵀR = Q and Rᵀb = −s. Only m × m leaves the device."""
    if not gram.isfinite().all() or not slopes.isfinite().all():
        return torch.full_like(slopes, torch.nan)
    values, vectors = torch.linalg.eigh(gram.cpu().double())
    is_kept = values > resolution * values[-1]
    if not is_kept.any():
        return torch.zeros_like(slopes)
    roots, basis = values[is_kept].sqrt(), vectors[:, is_kept]
    return nonnegative_least_squares((basis * roots).T, -(basis.T @ slopes.cpu().double()) / roots).to(slopes)
