"""Passes in parts, short passes and compiled ones: settings that change what a pass holds, not what is learned."""

import json
from pathlib import Path

import pytest
import torch

from grcl.networks import Network, build
from grcl.run import run
from tiny import tiny_settings


@pytest.mark.parametrize(
    ("name", "changes"),
    [("grcl", {}), ("grcl_plus", {}), ("multi_task", {}), ("grcl_plus", {"grcl_plus.contrast_weight": 0.3})],
)
def test_micro_batches_learn_what_whole_batches_learn(name: str, changes: dict[str, float], tmp_path: Path) -> None:
    losses = []
    for size in (None, 7):
        settings = tiny_settings(name, **{"training.micro_batch": size, **changes})
        run(settings, tmp_path / str(size), tmp_path / "stage0")
        lines = [json.loads(line) for line in (tmp_path / str(size) / "log.jsonl").read_text().splitlines()]
        losses.append([line["values"]["loss/source"] for line in lines if line["kind"] == "step"])
    whole, parts = (torch.tensor(values) for values in losses)
    assert torch.allclose(whole, parts, rtol=1e-3, atol=1e-4)


def test_short_passes_keep_weights_and_features_in_32_bits() -> None:
    torch.manual_seed(0)
    network, images = build(Network(precision="bf16"), 10), torch.rand(4, 3, 32, 32)
    features = network.features(images)
    assert features.dtype == torch.float32
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}
    network.has_short_passes = False
    exact = network.features(images)
    assert not torch.equal(features, exact)
    assert torch.allclose(features, exact, atol=0.02)
