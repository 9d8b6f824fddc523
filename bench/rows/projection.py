"""The projection against its limit, and against two ways in use."""

from collections.abc import Iterator

import torch
from torch import Tensor

from bench.line import Line, at_least, at_most, seconds
from bench.peer import CannotRun, Peer
from bench.timing import Times, timed
from grcl.gradients import project_onto_cone

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


def measure(rounds: int) -> Iterator[Line]:
    for name, p in SIZES.items():
        gradient, constraints = conflicting(p)
        calls = 100 if p < 1_000_000 else 1  # a short work is done often enough to be timed
        out = torch.empty_like(gradient)
        spent = gradient.clone()
        works = {
            "ours": timed(
                lambda c=calls, g=gradient, G=constraints, o=out: [project_onto_cone(g, G, out=o) for _ in range(c)]
            ),
            "limit": timed(lambda c=calls, g=spent, G=constraints: [limit(g, G) for _ in range(c)]),
        }
        peer, reason = None, None
        try:
            peer = Peer("projection", p, calls)
            works |= {"gem": lambda peer=peer: peer.ask("gem"), "torchjd": lambda peer=peer: peer.ask("torchjd")}
        except CannotRun as error:
            reason = error
        times = Times(works, rounds)
        ours = seconds(times.of("ours") / calls)
        is_large = p > 1_000_000
        yield Line(
            *("projection", f"{name}: ours / 3 dot products + 2 additions", ours, seconds(times.of("limit") / calls)),
            times.ratio("ours", "limit"),
            at_most(1.2) if is_large else None,
        )
        if peer is None:
            raise CannotRun(str(reason))
        peer.close()
        for other, title in (("gem", "GEM's way (Avalanche)"), ("torchjd", "TorchJD DualProj")):
            yield Line(
                *("projection", f"{name}: {title} / ours", ours, seconds(times.of(other) / calls)),
                times.ratio(other, "ours"),
                at_least(5) if is_large else None,
            )
