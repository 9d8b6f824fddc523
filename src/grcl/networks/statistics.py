"""The running statistics of batch normalisation follow the objective's batches alone; the batch of a mere constraint
is normalised by itself and leaves them as they are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from grcl.gradients import Loss


def batch_norms(module: nn.Module) -> list[_BatchNorm]:
    """The layers that hold running statistics."""
    return [part for part in module.modules() if isinstance(part, _BatchNorm)]


@contextmanager
def kept_statistics(module: nn.Module) -> Iterator[None]:
    """Within this, a pass in training mode leaves the running statistics and the count of batches as they are."""
    layers = [layer for layer in batch_norms(module) if layer.track_running_stats]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True


def statistics_from(objective: Mapping[str, float], losses: Mapping[str, Loss], module: nn.Module) -> dict[str, Loss]:
    """The losses; building one that has no weight in the objective leaves the running statistics as they are."""

    def kept(loss: Loss) -> Iterator[Tensor]:
        with kept_statistics(module):
            built = loss()
            yield from [built] if isinstance(built, Tensor) else built

    return {name: loss if objective.get(name) else partial(kept, loss) for name, loss in losses.items()}
