"""One verb for an update: `descend`; and the same within constraints (Eq. 8). Processes average their gradients."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer

from grcl.gradients.cone import dual_problem, solve_dual
from grcl.gradients.flat import assign, flatten, gradient_of, parameters_of, pieces_of
from grcl.runtime import distributed
from grcl.shapes import Bool, Float

# A loss may come in parts that add up to it, so that a batch larger than the memory of a GPU is taken piece by piece.
Loss = Callable[[], Tensor | Iterable[Tensor]]

# The room of an optimiser's last step: new pages every time would cost more than what is written into them.
_ROOM: WeakKeyDictionary[Optimizer, Tensor] = WeakKeyDictionary()


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
    *rows, gradient = room = _room(optimizer, len(names) + 1, parameters)
    values, reached = [], [False] * len(parameters)
    for name, row in zip(names, rows, strict=True):
        value, reached_by_it = _differentiate(losses[name](), parameters, row)
        reached = [a or b for a, b in zip(reached, reached_by_it, strict=True)]
        values.append(value)
    distributed.average(room[:-1])

    weights = gradient.new_tensor([objective.get(name, 0.0) for name in names])
    torch.mv(room[:-1].T, weights, out=gradient)
    log = {f"loss/{name}": value for name, value in zip(names, values, strict=True)}
    if not constraints:
        assign(parameters, gradient, reached)
        optimizer.step()
        return log

    limits = room[len(names) - len(constraints) : -1]
    length, (gram, slopes) = gradient.norm(), dual_problem(limits, gradient)
    multipliers = solve_dual(gram, slopes, gradient.dtype)
    assign(parameters, gradient.addmv_(limits.T, multipliers.to(gradient)), reached)
    # The row of a loss that is no constraint has done its work.
    before = flatten(parameters, out=rows[0] if len(names) > len(constraints) else None)
    optimizer.step()
    opposed = _opposed(limits, gram.diagonal().sqrt(), before, parameters)
    return log | _diagnosis(constraints, length, opposed, (gram, slopes, multipliers))


def _differentiate(
    loss: Tensor | Iterable[Tensor], parameters: Sequence[Tensor], row: Float[Tensor, " p"]
) -> tuple[Float[Tensor, ""], list[bool]]:
    """The value of a loss, its gradient in `row`, and which parameters it reaches; of its parts one graph is alive."""
    parts = iter([loss] if isinstance(loss, Tensor) else loss)
    part = next(parts)
    value, reached = part.detach(), gradient_of(part, parameters, out=row)
    for part in parts:
        reached_by_it = gradient_of(part, parameters, out=row, is_added=True)
        value, reached = value + part.detach(), [a or b for a, b in zip(reached, reached_by_it, strict=True)]
    return value, reached


def _room(optimizer: Optimizer, count: int, parameters: Sequence[Tensor]) -> Float[Tensor, "count p"]:
    """Room for so many gradients, kept as long as the optimiser."""
    size = sum(parameter.numel() for parameter in parameters)
    room = _ROOM.get(optimizer)
    first = parameters[0]
    if room is None or (room.shape, room.dtype, room.device) != ((count, size), first.dtype, first.device):
        room = _ROOM[optimizer] = first.new_empty(count, size)
    return room


def _opposed(
    limits: Float[Tensor, "m p"], lengths: Float[Tensor, " m"], before: Float[Tensor, " p"], after: Sequence[Tensor]
) -> Bool[Tensor, " m"]:
    """Whether the step as applied raises a constraint's loss, by more than the rounding of the parameters explains.

    It differs from the projected gradient by momentum and weight decay, which can break a constraint.
    """
    size, applied = before.norm(), before  # which becomes before − after, in its place
    for piece, parameter in zip(pieces_of(applied, after), after, strict=True):
        piece.sub_(parameter.detach())
    rounding: Tensor = torch.finfo(applied.dtype).eps * (applied.norm() + size) * lengths
    return torch.mv(limits, applied) < -rounding


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
