"""Stage 0 is its recipe and nothing else: a plain loop of torch, from the same weights and in the same order, ends at
the same network."""

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from grcl import networks
from grcl.config import RunSettings
from grcl.networks.classifier import Classifier
from grcl.run import run
from grcl.runtime.checkpoint import Checkpoints
from grcl.runtime.seeding import generator, seed_everything
from tiny import domain, tiny_settings


def plain_loop(settings: RunSettings) -> Classifier:
    """Adam 2e-3 with weight decay 1e-4 as L2 penalty, cosine to zero; a short rest of an epoch is left out."""
    seed_everything(settings.seed, "network")
    network = networks.build(settings.network, 4)
    source = domain("white").train
    images = source.images.read(torch.arange(len(source))).float() / 255
    steps = settings.stage0.epochs * (len(source) // settings.stage0.batch_size)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + math.cos(math.pi * step / steps)) / 2)
    for epoch in range(settings.stage0.epochs):
        order = torch.randperm(len(source), generator=generator(settings.seed, 0, "source", "order", epoch))
        for batch in _whole(order.split(settings.stage0.batch_size), settings.stage0.batch_size):
            loss = F.cross_entropy(network.head(network.encoder((images[batch] - 0.5) / 0.5)), source.labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network


def _whole(batches: tuple[Tensor, ...], size: int) -> list[Tensor]:
    return [batch for batch in batches if len(batch) == size]


def test_it_ends_where_a_plain_loop_ends(tmp_path: Path) -> None:
    settings = tiny_settings("source_only", stage0__batch_size=20, stage0__epochs=6)
    run(settings, tmp_path / "run", tmp_path / "stage0")
    (folder,) = (path for path in (tmp_path / "stage0").iterdir() if path.is_dir())
    ours = Checkpoints(folder / "checkpoints").final()["method"]["modules"]
    for name, weights in plain_loop(settings).state_dict().items():
        torch.testing.assert_close(ours[f"network.{name}"], weights, rtol=1e-4, atol=1e-5)
