"""lightly's NTXentLoss of two views, with a queue of negatives."""

import sys

import torch

from bench.peer import serve
from grcl.networks.torchvision_schemas import import_torchvision


def main(batch_size: int, dim: int, negatives: int, calls: int) -> None:
    import_torchvision()
    from lightly.loss import NTXentLoss

    torch.set_num_threads(1)
    torch.manual_seed(0)
    loss = NTXentLoss(temperature=0.07, memory_bank_size=(negatives, dim))
    features, keys = torch.randn(batch_size, dim, requires_grad=True), torch.randn(batch_size, dim)

    def work() -> None:
        for _ in range(calls):
            loss(features, keys).backward()

    serve(loss=work)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
