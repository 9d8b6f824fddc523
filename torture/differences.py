"""How far two finished runs are apart: `python -m torture.differences RUN OTHER`."""

import json
import sys
from pathlib import Path

import torch

from grcl.runtime.checkpoint import Checkpoints


def differences(first: Path, second: Path) -> str:
    """In one sentence: of R in points, and of all weights relative to their length."""
    weights = [_weights(folder) for folder in (first, second)]
    if torch.equal(*weights):
        return "every bit of the weights is the same"
    apart = float((weights[0] - weights[1]).norm() / weights[0].norm())
    rows = [torch.tensor(json.loads((folder / "accuracy.json").read_text())["accuracy"]) for folder in (first, second)]
    points = 100 * (rows[0] - rows[1]).abs()
    return (
        f"weights {apart:.1e} of their length apart; R at most {float(points.max()):.1f} points, "
        f"on average {float(points.mean()):.2f}"
    )


def _weights(folder: Path) -> torch.Tensor:
    modules = Checkpoints(folder / "checkpoints").final()["method"]["modules"]
    names = sorted(name for name in modules if name.startswith("network."))
    return torch.cat([modules[name].double().reshape(-1) for name in names])


if __name__ == "__main__":
    sys.stdout.write(differences(Path(sys.argv[1]), Path(sys.argv[2])) + "\n")
