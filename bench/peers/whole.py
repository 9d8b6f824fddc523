"""Avalanche's GEM in its third experience: two passes over memories of one batch each, and one over the new images."""

import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

from bench.peer import serve
from grcl.networks import Network, build
from grcl.networks.torchvision_schemas import import_torchvision


def main(name: str, batch_size: int, steps: int) -> None:
    import_torchvision()
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.utils import as_classification_dataset
    from avalanche.training.plugins import EvaluationPlugin
    from avalanche.training.supervised import GEM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = build(Network(name=name, pretrained=None if name == "lenet5" else False), 10)

    def images(number: int) -> object:
        data = TensorDataset(torch.rand(number, 3, 32, 32), torch.arange(number) % 10)
        data.targets = torch.arange(number) % 10
        return as_classification_dataset(data)

    sets = [images(batch_size), images(batch_size), images(batch_size * steps)]
    experiences = list(benchmark_from_datasets(train=sets).train_stream)
    strategy = GEM(
        model=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9),
        criterion=nn.CrossEntropyLoss(),
        patterns_per_exp=batch_size,
        train_mb_size=batch_size,
        train_epochs=1,
        evaluator=EvaluationPlugin(loggers=[]),
    )
    for experience in experiences[:2]:
        strategy.train(experience, num_workers=0)

    def epoch() -> None:
        strategy.clock.train_exp_counter = 2  # so that every round has two memories
        strategy.train(experiences[2], num_workers=0)

    serve(epoch=epoch)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
