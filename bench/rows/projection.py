"""The projection against its limit, and against two ways in use."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from bench.line import Goal, Line, at_least, at_most, seconds
from bench.peer import Peer
from bench.timing import Times, timed
from grcl.gradients import project_onto_cone

Work = Callable[[Tensor, Tensor], object]
SIZES = {"62k (LeNet-5)": 62_006, "11M (ResNet-18)": 11_181_642, "25.6M (ResNet-50)": 25_557_032}


def conflicting(p: int) -> tuple[Tensor, Tensor]:
    """A gradient and two constraints that it opposes."""
    source = torch.Generator().manual_seed(0)
    constraints = torch.randn(2, p, generator=source)
    return torch.randn(p, generator=source) - constraints.sum(dim=0), constraints


def limit(gradient: Tensor, constraints: Tensor) -> None:
    """Three dot products and two additions: less cannot tell what to do, and do it."""
    torch.dot(constraints[0], constraints[1])
    for row in constraints:
        torch.dot(row, gradient)
        gradient.add_(row, alpha=1e-6)


def seconds_of(work: Work, gradient: Tensor, constraints: Tensor, calls: int) -> float:
    """Every call has the gradient as it was, and changes it in its place, as a training step does."""
    gradients = [gradient.clone() for _ in range(calls)]
    return timed(lambda: [work(one, constraints) for one in gradients])()


def measure(rounds: int) -> Iterator[Line]:
    for name, p in SIZES.items():
        gradient, constraints = conflicting(p)
        calls = 100 if p < 1_000_000 else 1  # a short work is done often enough to be timed
        works = {
            "ours": partial(seconds_of, lambda g, G: project_onto_cone(g, G, out=g), gradient, constraints, calls),
            "limit": partial(seconds_of, limit, gradient, constraints, calls),
        }
        is_large = p > 1_000_000
        # Without the peers, whose gigabytes would sweep the caches before ours alone.
        what = f"{name}: ours / 3 dot products + 2 additions"
        yield _line(what, Times(works, 3 * rounds), ("ours", "limit"), calls, at_most(1.2) if is_large else None)

        peer = Peer("projection", p, calls)
        peers = {"gem": lambda peer=peer: peer.ask("gem"), "torchjd": lambda peer=peer: peer.ask("torchjd")}
        times = Times({"ours": works["ours"]} | peers, rounds)
        peer.close()
        for other, title in (("gem", "GEM's way (Avalanche)"), ("torchjd", "TorchJD DualProj")):
            yield _line(f"{name}: {title} / ours", times, (other, "ours"), calls, at_least(5) if is_large else None)


def _line(what: str, times: Times, ratio: tuple[str, str], calls: int, goal: Goal | None) -> Line:
    (other,) = set(ratio) - {"ours"}
    measured = (seconds(times.of(name) / calls) for name in ("ours", other))
    return Line("projection", what, *measured, times.ratio(*ratio), goal)
