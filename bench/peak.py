"""`python -m bench.peak NETWORK SIZE IMAGES BATCH`: peak memory of a stage of GRCL, and what it must hold, as JSON."""

import json
import sys

import torch
from torch import Tensor

from grcl.runtime.environment import peak_memory

STEPS = 4


def main(network: str, size: int, images: int, batch_size: int) -> None:
    torch.set_num_threads(1)
    _load_torch()
    start = peak_memory()

    from bench.scene import feeder, grcl, stage
    from grcl.memory.sight import look_over

    on = stage(images, size)
    method = grcl(network, on)
    batches = feeder(method, on, batch_size)
    for step in range(STEPS):
        method.step(batches.batch(step), 0.0)
    method.eval()
    look_over(method, on)
    peak = peak_memory() - start

    parameters = 4 * sum(parameter.numel() for parameter in method.parameters())
    method.train()
    contrast = method.contrast.on(batches.batch(0)["union"], method.network)
    needed = {
        "data": 3 * images * 3 * size * size,
        "bank": 4 * method.contrast.bank.keys.numel(),
        "network": parameters,
        "gradients": 3 * parameters,
        "activations": activations(contrast.loss),
    }
    sys.stdout.write(json.dumps({"peak": peak, "needed": needed}) + "\n")


def _load_torch() -> None:
    """What torch itself loads with its first convolution and its first optimiser is not ours."""
    weights = torch.randn(4, 3, 3, 3)
    torch.conv2d(torch.randn(8, 3, 8, 8), weights).flatten(1) @ torch.randn(144, 4)
    torch.optim.SGD([weights], lr=0.1)


def activations(loss: object) -> int:
    """Bytes that a pass keeps for its way back, each storage once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        value = loss()  # type: ignore[operator]
    del value
    return sum(kept.values())


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
