"""One verb for an update: `descend`; and the same within constraints (Eq. 8). Processes average their gradients."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from grcl.gradients.cone import inner_products, solve_dual
from grcl.gradients.flat import assign, flatten, gradient_of, parameters_of
from grcl.runtime import distributed
from grcl.shapes import Bool, Float

Loss = Callable[[], Tensor]


def descend(loss: Tensor, *optimizers: Optimizer) -> None:
    """Move the parameters of `optimizers`, and no others, down `loss`."""
    parameters = parameters_of(*optimizers)
    gradient = loss.new_empty(sum(parameter.numel() for parameter in parameters))
    reached = gradient_of(loss, parameters, out=gradient)
    distributed.average(gradient)
    assign(parameters, gradient, reached)
    for optimizer in optimizers:
        optimizer.step()


def descend_within(
    losses: Mapping[str, Loss], objective: Mapping[str, float], constraints: Sequence[str], optimizer: Optimizer
) -> dict[str, Tensor]:
    """Step down Σ wᵢ·lossᵢ over `objective`, projected so that no loss in `constraints` rises to first order (Eq. 8).

    Every loss is built, differentiated into its row and freed before the next: each costs one pass, also
    when it is both part of the objective and a constraint. Returns what there is to log.
    """
    if unknown := (set(objective) | set(constraints)) - set(losses):
        raise ValueError(f"no loss is named {', '.join(sorted(unknown))}; there are: {', '.join(losses)}")
    names = [name for name in losses if name not in constraints] + list(constraints)
    parameters = parameters_of(optimizer)
    rows = parameters[0].new_empty(len(names), sum(parameter.numel() for parameter in parameters))
    values, reached = [], [False] * len(parameters)
    for name, row in zip(names, rows, strict=True):
        loss = losses[name]()
        reached = [a or b for a, b in zip(reached, gradient_of(loss, parameters, out=row), strict=True)]
        values.append(loss.detach())
    distributed.average(rows)

    weights = rows.new_tensor([objective.get(name, 0.0) for name in names])
    gradient, limits = weights @ rows, rows[len(names) - len(constraints) :]
    gram, slopes = inner_products(limits, limits), inner_products(limits, gradient[None])[:, 0]
    multipliers = solve_dual(gram, slopes, gradient.dtype)
    before = flatten(parameters)
    assign(parameters, torch.addmv(gradient, limits.T, multipliers.to(gradient)), reached)
    optimizer.step()

    log = {f"loss/{name}": value for name, value in zip(names, values, strict=True)}
    if not constraints:
        return log
    opposed = _opposed(limits, before, flatten(parameters))
    return log | _diagnosis(constraints, gradient.norm(), opposed, (gram, slopes, multipliers))


def _opposed(limits: Float[Tensor, "m p"], before: Tensor, after: Tensor) -> Bool[Tensor, " m"]:
    """Whether the step as applied raises a constraint's loss, by more than the rounding of the parameters explains.

    It differs from the projected gradient by momentum and weight decay, which can break a constraint.
    """
    applied = before - after
    rounding: Tensor = torch.finfo(applied.dtype).eps * (applied.norm() + before.norm()) * limits.norm(dim=1)
    return inner_products(limits, applied[None])[:, 0] < -rounding


def _diagnosis(
    names: Sequence[str], length: Float[Tensor, ""], opposed: Bool[Tensor, " m"], dual: tuple[Tensor, Tensor, Tensor]
) -> dict[str, Tensor]:
    """Per constraint: conflict of the objective, multiplier, cosine, applied conflict; and the relative correction."""
    gram, slopes, multipliers = dual
    smallest = torch.finfo(torch.float32).tiny
    cosines = slopes / (gram.diagonal().sqrt() * length).clamp(min=smallest)
    quantities = {"violated": slopes < 0, "multiplier": multipliers, "cosine": cosines, "applied": opposed}
    # |z − g| = |Gᵀu|, relative to |g|: how much of the wanted step the constraints took or added
    correction = (multipliers @ gram @ multipliers).clamp(min=0).sqrt() / length.clamp(min=smallest)
    return {"correction": correction.float()} | {
        f"{what}/{name}": value.float()
        for what, values in quantities.items()
        for name, value in zip(names, values, strict=True)
    }
