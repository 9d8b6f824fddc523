"""Torch's global state belongs to the program that calls: what is set for a while is given back."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def borrowed_torch() -> Iterator[None]:
    """Within this, or in a function decorated with it, seeds, threads and determinism may be set."""
    threads, is_deterministic = torch.get_num_threads(), torch.backends.cudnn.deterministic
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.cudnn.deterministic = is_deterministic
