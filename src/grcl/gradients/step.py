"""One verb for an update: `descend`; and the same within constraints (Eq. 8). Processes average their gradients."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import ceil
from typing import Literal, NamedTuple, get_args
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer

from grcl.gradients.cone import CHUNK, dual_problem, solve_dual
from grcl.gradients.flat import assign, flatten, gradient_of, parameters_of, pieces_of
from grcl.runtime import distributed
from grcl.shapes import Bool, Float

# A loss may come in parts that add up to it, so that a batch larger than the memory of a GPU is taken piece by piece.
Loss = Callable[[], Tensor | Iterable[Tensor]]
# What is kept from harming a constraint: the gradient (the paper), or what the optimiser makes of it.
Projected = Literal["gradient", "step"]

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
    losses: Mapping[str, Loss],
    objective: Mapping[str, float],
    constraints: Sequence[str],
    optimizer: Optimizer,
    projected: Projected = "gradient",
) -> dict[str, Tensor]:
    """Step down Σ wᵢ·lossᵢ over `objective`, projected so that no loss in `constraints` rises to first order (Eq. 8).

    Every loss is built, differentiated into its row and freed before the next: each costs one pass, also
    when it is both part of the objective and a constraint. What is projected is the gradient, as in the paper, or the
    step that the optimiser makes of it, whose promise holds with momentum too (`.grad` is then what was added to it).
    Returns what there is to log.
    """
    if projected not in get_args(Projected):
        raise ValueError(f"projected = {projected!r}; it takes {' or '.join(get_args(Projected))}")
    if unknown := (set(objective) | set(constraints)) - set(losses):
        raise ValueError(f"no loss is named {', '.join(sorted(unknown))}; there are: {', '.join(losses)}")
    names = [name for name in losses if name not in constraints] + list(constraints)
    parameters = parameters_of(optimizer)
    room = _room(optimizer, len(names) + 1, parameters)
    log, reached_by = _differentiate_all({name: losses[name] for name in names}, parameters, room[:-1])
    reached = _any_of(reached_by)
    distributed.average(room[:-1])
    gradient = room[-1]
    weights = gradient.new_tensor([objective.get(name, 0.0) for name in names])
    torch.mv(room[:-1].T, weights, out=gradient)
    if not constraints:
        assign(parameters, gradient, reached)
        optimizer.step()
        return log

    columns = _columns_up_to_last(_any_of(reached_by[-len(constraints) :]), parameters)
    limits = room[len(names) - len(constraints) : -1, :columns]
    # The row of a loss that is no constraint has done its work.
    before = flatten(parameters, parameters, out=room[0] if len(names) > len(constraints) else None)
    dual = wanted = Dual.of(gradient, limits)
    if projected == "gradient":
        gradient[:columns].addmv_(limits.T, dual.multipliers.to(gradient))
        assign(parameters, gradient, reached)
        optimizer.step()
        detour = torch.zeros_like(dual.length)
    else:
        assign(parameters, gradient, reached)
        optimizer.step()
        dual = Dual.of(_movement(before, parameters, out=gradient), limits)
        _add_constraints(parameters, limits, dual, out=gradient)
        detour = dual.length + dual.multipliers @ dual.lengths
    opposed = _opposed(limits, dual.lengths, before, parameters, detour)
    return log | _diagnosis(constraints, wanted, dual, opposed)


class Dual(NamedTuple):
    """The dual of a projection (Eq. 9) and its solution, with the length of what is projected."""

    length: Float[Tensor, ""]
    gram: Float[Tensor, "m m"]
    slopes: Float[Tensor, " m"]
    multipliers: Float[Tensor, " m"]

    @property
    def lengths(self) -> Float[Tensor, " m"]:
        """Those of the constraints."""
        return self.gram.diagonal().sqrt()

    @classmethod
    def of(cls, vector: Float[Tensor, " p"], limits: Float[Tensor, "m columns"]) -> "Dual":
        """That of the projection of `vector` on the cone of `limits`, which are zero beyond their columns."""
        length, (gram, slopes) = vector.norm(), dual_problem(limits, vector[: limits.shape[1]])
        return cls(length, gram, slopes, solve_dual(gram, slopes, vector.dtype))


def _differentiate_all(
    losses: Mapping[str, Loss], parameters: Sequence[Tensor], rows: Float[Tensor, "losses p"]
) -> tuple[dict[str, Tensor], list[list[bool]]]:
    """The value of every loss, to be logged, its gradient in its row, and which parameters each of them reaches."""
    log, reached = {}, []
    for (name, loss), row in zip(losses.items(), rows, strict=True):
        log[f"loss/{name}"], reached_by_it = _differentiate(loss(), parameters, row)
        reached.append(reached_by_it)
    return log, reached


def _differentiate(
    loss: Tensor | Iterable[Tensor], parameters: Sequence[Tensor], row: Float[Tensor, " p"]
) -> tuple[Float[Tensor, ""], list[bool]]:
    """The value of a loss, its gradient in `row`, and which parameters it reaches; of its parts one graph is alive."""
    parts = iter([loss] if isinstance(loss, Tensor) else loss)
    part = next(parts)
    value, reached = part.detach(), gradient_of(part, parameters, out=row)
    for part in parts:
        reached_by_it = gradient_of(part, parameters, out=row, is_added=True)
        value, reached = value + part.detach(), _any_of([reached, reached_by_it])
    return value, reached


def _any_of(reached: Sequence[Sequence[bool]]) -> list[bool]:
    """Which parameters any of some losses reaches."""
    return [any(each) for each in zip(*reached, strict=True)]


def _columns_up_to_last(reached: Sequence[bool], parameters: Sequence[Tensor]) -> int:
    """The columns behind which all constraints are zero, such as those of a projector; in whole chunks, so that the
    products of fewer than 2^20 columns are summed as if the zeros were there, to the last bit."""
    ends = accumulate(parameter.numel() for parameter in parameters)
    last = max((end for end, is_reached in zip(ends, reached, strict=True) if is_reached), default=0)
    return ceil(last / CHUNK) * CHUNK


def _room(optimizer: Optimizer, count: int, parameters: Sequence[Tensor]) -> Float[Tensor, "count p"]:
    """Room for so many gradients, kept as long as the optimiser."""
    size = sum(parameter.numel() for parameter in parameters)
    room = _ROOM.get(optimizer)
    first = parameters[0]
    if room is None or (room.shape, room.dtype, room.device) != ((count, size), first.dtype, first.device):
        room = _ROOM[optimizer] = first.new_empty(count, size)
    return room


def _movement(before: Float[Tensor, " p"], after: Sequence[Tensor], out: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """before − after, in `out`, which may be `before`: the direction that was descended."""
    pieces, old = pieces_of(out, after), pieces_of(before, after)
    for piece, start, parameter in zip(pieces, old, after, strict=True):
        torch.sub(start, parameter.detach(), out=piece)
    return out


@torch.no_grad()
def _add_constraints(
    parameters: Sequence[Tensor], limits: Float[Tensor, "m columns"], dual: Dual, out: Float[Tensor, " p"]
) -> None:
    """Descend by Gᵀu as well, which is left in `out`: what makes of a step the projected one."""
    columns = limits.shape[1]
    torch.mv(limits.T, dual.multipliers.to(out), out=out[:columns])
    out[columns:] = 0
    for parameter, piece in zip(parameters, pieces_of(out, parameters), strict=True):
        parameter.sub_(piece)


def _opposed(
    limits: Float[Tensor, "m columns"],
    lengths: Float[Tensor, " m"],
    before: Float[Tensor, " p"],
    after: Sequence[Tensor],
    detour: Float[Tensor, ""],
) -> Bool[Tensor, " m"]:
    """Whether the step as applied raises a constraint's loss, by more than the rounding of the parameters explains.

    It differs from a projected gradient by momentum and weight decay, which can break a constraint. On the way to a
    projected step the parameters were rounded twice, once as far off as the `detour` is long, and the multipliers too.
    """
    size, applied = before.norm(), _movement(before, after, out=before)
    rounding: Tensor = torch.finfo(applied.dtype).eps * (applied.norm() + size + 2 * detour) * lengths
    return torch.mv(limits, applied[: limits.shape[1]]) < -rounding


def _diagnosis(names: Sequence[str], wanted: Dual, dual: Dual, opposed: Bool[Tensor, " m"]) -> dict[str, Tensor]:
    """Per constraint: cosine of the gradient that was `wanted`, conflict and multiplier of what was projected, conflict
    of what was applied; and the relative correction."""
    smallest = torch.finfo(torch.float32).tiny
    cosines = wanted.slopes / (wanted.lengths * wanted.length).clamp(min=smallest)
    quantities = {
        "violated": dual.slopes < 0,
        "multiplier": dual.multipliers,
        "cosine": cosines,
        "applied": opposed,
    }
    # |z − g| = |Gᵀu|, relative to |g|: how much of the wanted step the constraints took or added
    correction = (dual.multipliers @ dual.gram @ dual.multipliers).clamp(min=0).sqrt() / dual.length.clamp(min=smallest)
    return {"correction": correction.float()} | {
        f"{what}/{name}": value.float()
        for what, values in quantities.items()
        for name, value in zip(names, values, strict=True)
    }
