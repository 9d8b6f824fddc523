"""The projection that keeps an update from harming old losses (Eq. 8 and 9)."""

from typing import NamedTuple

import torch
from torch import Tensor

from grcl.shapes import Float

# Columns per partial sum: three rows of so many doubles stay in a core's cache.
_CHUNK = 1 << 15
# Below this, 1 - cos² says that two constraints are one line: floats of 64 bits cannot tell them apart.
_PARALLEL = 1e-12


class Projection(NamedTuple):
    """The projected gradient z and the multipliers u of the constraints, z = g + Gᵀu."""

    gradient: Float[Tensor, " p"]
    multipliers: Float[Tensor, " m"]


def project_onto_cone(gradient: Float[Tensor, " p"], constraints: Float[Tensor, "m p"]) -> Projection:
    """The nearest vector to `gradient` that opposes no constraint (Eq. 8).

    min ½‖z − g‖² s.t. Gz ≥ 0 is solved through its dual, which has m variables instead of p:
    min ½uᵀGGᵀu + (Gg)ᵀu s.t. u ≥ 0, then z = g + Gᵀu. Rows of G are the gradients themselves;
    the paper's minus sign (Eq. 9) would turn the constraints round.
    """
    gram, slopes = inner_products(gradient, constraints)
    multipliers = solve_dual(gram, slopes).to(gradient)
    return Projection(torch.addmv(gradient, constraints.T, multipliers), multipliers)


def inner_products(
    gradient: Float[Tensor, " p"], constraints: Float[Tensor, "m p"]
) -> tuple[Float[Tensor, "m m"], Float[Tensor, " m"]]:
    """GGᵀ and Gg, each summed in 64 bits without a copy of G in 64 bits."""
    wide = torch.float32 if gradient.device.type == "mps" else torch.float64  # mps has no doubles
    gram = gradient.new_zeros((len(constraints), len(constraints)), dtype=wide)
    slopes = gradient.new_zeros(len(constraints), dtype=wide)
    for g, G in zip(gradient.split(_CHUNK), constraints.split(_CHUNK, dim=1), strict=True):
        G = G.to(wide)
        gram += G @ G.T
        slopes += G @ g.to(wide)
    return gram, slopes


def solve_dual(gram: Float[Tensor, "m m"], slopes: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """argmin ½uᵀQu + sᵀu over u ≥ 0 (Eq. 9). A constraint whose gradient is zero asks for nothing: u = 0."""
    lengths = gram.diagonal().sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    # On rows of unit length the answer does not depend on the scale of the losses.
    unit_gram, unit_slopes = gram * scale.outer(scale), slopes * scale
    solve = _two_constraints if len(slopes) == 2 else _one_constraint if len(slopes) < 2 else _many_constraints
    return solve(unit_gram, unit_slopes) * scale


def _one_constraint(_gram: Float[Tensor, "m m"], slopes: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    return (-slopes).clamp(min=0)


def _two_constraints(gram: Float[Tensor, "2 2"], slopes: Float[Tensor, " 2"]) -> Float[Tensor, " 2"]:
    """The best of four candidates: no constraint active, the first, the second, both. No value leaves the device."""
    cosine, (first, second) = gram[0, 1], slopes
    determinant = 1 - cosine**2
    both = torch.stack([cosine * second - first, cosine * first - second]) / determinant.clamp(min=_PARALLEL)
    is_usable = (determinant > _PARALLEL) & (both > 0).all()
    zero = torch.zeros_like(first)
    candidates = torch.stack(
        [
            torch.stack([zero, zero]),
            torch.stack([(-first).clamp(min=0), zero]),
            torch.stack([zero, (-second).clamp(min=0)]),
            torch.where(is_usable, both, 0.0),
        ]
    )
    values = 0.5 * (candidates @ gram * candidates).sum(dim=1) + candidates @ slopes
    return candidates[values.argmin()]


def _many_constraints(gram: Float[Tensor, "m m"], slopes: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """min ½‖Ru − b‖², u ≥ 0, with RᵀR = Q and Rᵀb = −s: non-negative least squares. Only m × m leaves the device."""
    from scipy.optimize import nnls

    values, vectors = torch.linalg.eigh(gram.cpu().double())
    is_kept = values > _PARALLEL * values[-1]
    roots = values[is_kept].sqrt()
    basis = vectors[:, is_kept]
    solution, _ = nnls((basis * roots).T.numpy(), (-(basis.T @ slopes.cpu().double()) / roots).numpy())
    return torch.from_numpy(solution).to(slopes)
