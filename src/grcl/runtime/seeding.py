"""Every draw is a pure function of the seed and a path such as (stage, step): nothing about randomness needs saving."""

import hashlib

import torch


def derive(seed: int, *path: int | str) -> int:
    """A number of 63 bits that depends on the seed and the whole path."""
    digest = hashlib.blake2b(repr((seed, *path)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int, *path: int | str) -> torch.Generator:
    """A generator of its own for one purpose; on the CPU, so that all devices see the same draws."""
    return torch.Generator().manual_seed(derive(seed, *path))


def seed_everything(seed: int, *path: int | str) -> None:
    """Seed torch's global generators, from which new weights, negatives and dropout are drawn."""
    torch.manual_seed(derive(seed, *path))
