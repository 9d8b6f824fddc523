"""The projection by Avalanche's GEM plugin and by TorchJD."""

import sys

import torch

from bench.peer import serve
from grcl.networks.torchvision_schemas import import_torchvision


def main(p: int, calls: int) -> None:
    import_torchvision()
    from avalanche.training.plugins import GEMPlugin
    from torchjd.aggregation import DualProj

    torch.set_num_threads(1)
    source = torch.Generator().manual_seed(0)
    constraints = torch.randn(2, p, generator=source)
    gradient = torch.randn(p, generator=source) - constraints.sum(dim=0)
    gem = GEMPlugin(patterns_per_experience=1, memory_strength=0.0)
    dual = DualProj(pref_vector=torch.tensor([1.0, 0.0, 0.0]))

    def by_gem() -> None:
        for _ in range(calls):
            gem.G = torch.stack(list(constraints))
            gem.solve_quadprog(gradient)

    def by_torchjd() -> None:
        for _ in range(calls):
            dual(torch.stack([gradient, *constraints]))

    serve(gem=by_gem, torchjd=by_torchjd)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
