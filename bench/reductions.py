"""Under torchrun: three gradients through one all-reduce of one buffer, and through one for every tensor of each."""

import json
import sys

import torch
import torch.distributed as dist
from torch import Tensor

from bench.timing import Times, timed
from grcl.gradients.flat import pieces_of
from grcl.networks import Network, build
from grcl.runtime import distributed

ROUNDS = 5


def main() -> None:
    distributed.start("cpu")
    for name in ("lenet5", "resnet18"):
        parameters = list(build(Network(name=name, pretrained=False if name == "resnet18" else None), 10).parameters())
        rows = torch.randn(3, sum(parameter.numel() for parameter in parameters))
        apart = [piece.contiguous() for row in rows for piece in pieces_of(row, parameters)]
        works = {
            "together": timed(lambda rows=rows: _reduce([rows])),
            "apart": timed(lambda apart=apart: _reduce(apart)),
        }
        times = Times(works, ROUNDS)
        if dist.get_rank() == 0:
            measured = {"together": times.of("together"), "apart": times.of("apart")}
            entry = {"network": name, **measured, "ratio": times.ratio("apart", "together")}
            sys.stdout.write(json.dumps(entry) + "\n")
    distributed.stop()


def _reduce(tensors: list[Tensor]) -> None:
    for tensor in tensors:
        dist.all_reduce(tensor)


if __name__ == "__main__":
    main()
