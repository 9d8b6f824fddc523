"""The few words of torch.distributed that the package needs; all of them work without a process group."""

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn


def start(device: str) -> None:
    """Join the process group when torchrun started this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")


def stop() -> None:
    """Leave the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def rank() -> int:
    """This process's place among all."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process is the one that writes."""
    return rank() == 0


def local_rank() -> int:
    """This process's place on its machine, which is also the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def wait_for_all() -> None:
    """Return when every process has come here."""
    if world_size() > 1:
        dist.barrier()


def average(tensor: Tensor) -> None:
    """Replace `tensor` by its mean over the processes."""
    if world_size() > 1:
        dist.all_reduce(tensor)
        tensor /= world_size()


def average_statistics(module: nn.Module) -> None:
    """Give all processes the same running statistics of batch normalisation; each has taken those of its share."""
    if world_size() > 1:
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training:  # frozen ones are the same already
                for statistic in (part.running_mean, part.running_var):
                    if statistic is not None:
                        average(statistic)


def agree(decision: bool) -> bool:
    """The first process's decision, on every process."""
    if world_size() == 1:
        return decision
    box = [decision]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def gather_rows(tensor: Tensor) -> Tensor:
    """The rows of every process, in the order of ranks; each process gives equally many."""
    if world_size() == 1:
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)


def share_slice(count: int) -> slice:
    """This process's part of the first `count` rows of a global batch."""
    share = count // world_size()
    return slice(rank() * share, (rank() + 1) * share)
