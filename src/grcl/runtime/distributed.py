"""The few words of torch.distributed that the package needs; all of them work without a process group."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from grcl.runtime.errors import Failure


@contextmanager
def _together() -> Iterator[None]:
    """Within this, a process that is gone ends the work of the others with a sentence."""
    try:
        yield
    except RuntimeError as error:  # gloo's; nccl's is a kind of it
        raise Failure(
            f"process {rank()} cannot reach another process of this run, which has ended or lost its network; "
            "the same command goes on from the last checkpoint, and torchrun --max-restarts gives it by itself"
        ) from error


def start(device: str) -> None:
    """Join the process group when torchrun started this process."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        # Imported later, as by timm, its default arguments would hold the group beyond `stop`: gloo's threads would be
        # at work while Python ends, and abort one process in three.
        import_module("torch.distributed.nn.functional")
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo", **_meeting_point())


def _meeting_point() -> dict[str, Any]:
    """Where the processes find each other.

    torchrun's store outlives a restart, and with it the addresses of processes that are gone (PyTorch issue 135712). On
    one machine every start gets keys of its own; machines do not count their restarts alike, so there it is left to
    TORCH_DISABLE_SHARE_RDZV_TCP_STORE.
    """
    known = os.environ
    if known.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or known.get("GROUP_WORLD_SIZE") != "1":
        return {}
    size = int(known["WORLD_SIZE"])
    store = TCPStore(known["MASTER_ADDR"], int(known["MASTER_PORT"]), size, is_master=False)
    own = PrefixStore(f"start {known['TORCHELASTIC_RESTART_COUNT']}", store)
    return {"store": own, "rank": int(known["RANK"]), "world_size": size}


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
        with _together():
            dist.barrier()


def average(tensor: Tensor) -> None:
    """Replace `tensor` by its mean over the processes."""
    if world_size() > 1:
        with _together():
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
    with _together():
        dist.broadcast_object_list(box, src=0)
    return box[0]


def any_of(decision: bool, device: torch.device) -> bool:
    """Whether any process has decided so, on every process."""
    if world_size() == 1:
        return decision
    votes = torch.tensor(float(decision), device=device)
    with _together():
        dist.all_reduce(votes)
    return bool(votes)


def gather_rows(tensor: Tensor) -> Tensor:
    """The rows of every process, in the order of ranks; each process gives equally many."""
    if world_size() == 1:
        return tensor
    tensor = tensor.contiguous()
    parts = [torch.empty_like(tensor) for _ in range(world_size())]
    with _together():
        dist.all_gather(parts, tensor)
    return torch.cat(parts)


def own_places(count: int, piece: int) -> range:
    """This process's run of `count` places; runs begin at whole pieces, and one who gets none takes the first place."""
    share = _share(count, piece)
    places = range(min(rank() * share, count), min((rank() + 1) * share, count))
    return places or range(min(1, count))


def gather_places(rows: Tensor, count: int, piece: int) -> Tensor:
    """The rows of all places, on every process, out of those that each has made for its `own_places`."""
    if world_size() == 1:
        return rows
    padded = rows.new_zeros((_share(count, piece), *rows.shape[1:]))
    padded[: len(rows)] = rows
    return gather_rows(padded)[:count]


def _share(count: int, piece: int) -> int:
    """Places per process, in whole pieces, so that all processes together cut as one alone."""
    pieces = -(-count // piece)
    return piece * -(-pieces // world_size())


def share_slice(count: int) -> slice:
    """This process's part of the first `count` rows of a global batch."""
    share = count // world_size()
    return slice(rank() * share, (rank() + 1) * share)
