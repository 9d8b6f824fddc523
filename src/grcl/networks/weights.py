"""Weights from a file, torch or safetensors: told apart by content, and loaded without running code."""

import hashlib
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from grcl.networks.classifier import Classifier
from grcl.runtime.errors import Refusal
from grcl.runtime.torch_files import load_torch

logger = logging.getLogger(__name__)

Tensors = dict[str, Tensor]

_WRAPPERS = ("state_dict", "model_state_dict", "model", "network")
_PREFIXES = ("module.", "model.", "network.", "encoder.", "backbone.")
_HEADS = ("head", "head.fc", "fc", "classifier", "last_linear")


def load_weights(network: Classifier, path: Path, name: str) -> None:
    """Start the network from a file; its head is taken over if it has as many classes, and else drawn as ever."""
    own = network.encoder.state_dict()
    given = _without_prefix(read_weights(path), own.keys())
    head = {key: given.pop(key) for key in list(given) if key not in own and _layer(key) in _HEADS}
    # Files from before 2018 do not count batches, and nothing depends on the count.
    given = {key: value for key, value in own.items() if key.endswith("num_batches_tracked")} | given
    _require_fit(given, own, f"{path} does not fit {name}")
    network.encoder.load_state_dict(given)
    is_taken = _take_head(network.head, head)
    logger.info("starting from %s, with %s", path, "its head" if is_taken else "a head of our own")


def read_weights(path: Path) -> Tensors:
    """The tensors of a file by name."""
    try:
        content = _content(path)
        stored = path.stat().st_size
    except OSError as error:
        raise Refusal(f"the weights {path} cannot be read: {error.strerror or error}") from None
    except Exception:  # neither library names a common base of what it raises on a file that it will not load
        raise Refusal(
            f"the weights {path} cannot be loaded: the file is damaged, or holds other Python objects than tensors, "
            "which could run code; save a state dict alone, with torch.save or safetensors"
        ) from None
    tensors = _unwrapped(content)
    # A view may repeat what is stored without end.
    if bad := [key for key, value in tensors.items() if value.nbytes > stored]:
        raise Refusal(f"the weights {path} claim more numbers than the file holds ({_listed(bad)})")
    if bad := [key for key, value in tensors.items() if not value.isfinite().all()]:
        raise Refusal(f"the weights {path} hold numbers that are not finite ({_listed(bad)})")
    if not tensors:
        raise Refusal(f"the weights {path} hold no tensors by name; save a state dict")
    return tensors


def fingerprint(module: nn.Module) -> str:
    """16 hex digits that change with any name, type, shape or number of a module's state."""
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _content(path: Path) -> Any:
    """What the file holds; it is the file that tells its form, since torch would go by the name of a path."""
    from safetensors.torch import load_file

    with path.open("rb") as file:
        is_safetensors = file.read(9)[8:] == b"{"  # after the length of its header in eight bytes
        return load_file(path) if is_safetensors else load_torch(file)


def _unwrapped(content: Any) -> Tensors:
    """The state dict within a checkpoint that may hold more."""
    while isinstance(content, Mapping):
        inner = next((key for key in _WRAPPERS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            return {key: value for key, value in content.items() if isinstance(value, Tensor)}
        content = content[inner]
    return {}


def _without_prefix(tensors: Tensors, own: Collection[str]) -> Tensors:
    """The tensors under the names of the backbone's own: what wrapped it when it was saved is taken off."""
    while not any(key in own for key in tensors):
        prefix = next((prefix for prefix in _PREFIXES if any(key.startswith(prefix) for key in tensors)), None)
        if prefix is None:
            break
        kept = [key for key in tensors if key.startswith(prefix) or _layer(key) in _HEADS]
        tensors = {key.removeprefix(prefix): tensors[key] for key in kept}
    return tensors


def _require_fit(given: Tensors, own: Tensors, what: str) -> None:
    shapes = {key: (_shape(given[key]), _shape(own[key])) for key in own if key in given}
    misfits = {
        "missing": [key for key in own if key not in given],
        "unexpected": [key for key in given if key not in own],
        "of another shape": [f"{key} {there}, not {here}" for key, (there, here) in shapes.items() if there != here],
    }
    listed = [f"{len(keys)} {kind} ({_listed(keys)})" for kind, keys in misfits.items() if keys]
    if listed:
        raise Refusal(
            f"{what}: of its tensors {'; '.join(listed)}; give the weights of that network or its --network.name"
        )


def _take_head(head: nn.Linear, given: Tensors) -> bool:
    state = {key.rpartition(".")[2]: value for key, value in given.items()}
    own = head.state_dict()
    if {key: value.shape for key, value in state.items()} != {key: value.shape for key, value in own.items()}:
        return False
    head.load_state_dict(state)
    return True


def _layer(key: str) -> str:
    return key.rpartition(".")[0]


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a single number"


def _listed(keys: Collection[str]) -> str:
    return ", ".join(list(keys)[:3]) + (", ..." if len(keys) > 3 else "")
