"""A learner's model for other programs: ONNX, torch.export or safetensors.

Before a file is handed over it is read back, and its scores are compared with the learner's.
"""

import io
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from grcl import networks
from grcl.methods import Method
from grcl.networks import ENCODERS, Classifier, Network
from grcl.runtime.errors import Failure, Refusal
from grcl.shapes import Float, UInt8

Kind = Literal["onnx", "export", "safetensors"]
FACTS = "grcl.json"
"""Under this name every file tells what it holds: class names, size, mean and deviation, as JSON."""

_TOLERANCE = 1e-4
_NEEDED = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "export": (), "safetensors": ()}


class FromPixels(nn.Module):
    """Pixels as files have them, 0..255 in planes of red, green and blue, to class scores."""

    def __init__(self, model: Classifier | Method) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: UInt8[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch classes"]:
        scores: Tensor = self.model.see(pixels.float() / 255)[1]
        return scores


@torch.no_grad()
def export_model(
    network: Classifier | Method,
    classes: tuple[str, ...],
    size: int,
    kind: Kind,
    path: Path,
    examples: UInt8[Tensor, "n 3 size size"],
) -> None:
    """Write the model to `path`; nothing appears there unless the file's scores on the examples are the model's."""
    if kind not in _NEEDED:
        raise Refusal(f"format = {kind!r}; it takes {', '.join(_NEEDED)}")
    if missing := [name for name in _NEEDED[kind] if find_spec(name) is None]:
        raise Refusal(f"exporting to ONNX needs the package {missing[0]}; pip install 'grcl[export]'")
    if not path.parent.is_dir():
        raise Refusal(f"no folder at {path.parent}; make it first")
    classifying = _classifying(network)
    model = FromPixels(classifying).eval()
    write, run = {
        "onnx": (_write_onnx, _run_onnx),
        "export": (_write_program, _run_program),
        "safetensors": (_write_weights, _run_weights),
    }[kind]
    aside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with _in_full_precision(classifying):
            with _without_their_warnings():
                write(model, _facts(model, classes, size), aside)
                scores = run(aside, examples)
            _require_alike(scores, model(examples.to(network.device)).cpu(), path)
        aside.replace(path)
    except OSError as error:
        raise Refusal(f"cannot write {path}: {error.strerror or error}; choose another place") from None
    finally:
        aside.unlink(missing_ok=True)


def _classifying(network: Classifier | Method) -> Classifier | Method:
    """What the scores come from: the network, unless the method has a way of its own to classify by it."""
    if isinstance(network, Method) and type(network).see is Method.see:
        return network.network
    return network


@contextmanager
def _in_full_precision(model: Classifier | Method) -> Iterator[None]:
    """Within this, passes are of 32 bits: shorter ones are for training, and another program chooses for itself."""
    network = model.network if isinstance(model, Method) else model
    has_short_passes, network.has_short_passes = network.has_short_passes, False
    try:
        yield
    finally:
        network.has_short_passes = has_short_passes


def _facts(model: FromPixels, classes: tuple[str, ...], size: int) -> dict[str, Any]:
    """What a program must know that uses the file without us."""
    network = model.model.network if isinstance(model.model, Method) else model.model
    encoder: Any = network.encoder
    ours = [name for name, kind in ENCODERS.items() if isinstance(encoder, kind)]
    return {
        "architecture": ours[0] if ours else encoder.pretrained_cfg["architecture"],
        "classes": list(classes),
        "size": size,
        "mean": network.mean.flatten().tolist(),
        "std": network.deviation.flatten().tolist(),
        "resize": "short side to size, bicubic with antialiasing, then the central square; upright by EXIF, RGB",
        "output": "class scores; their softmax is the probabilities",
    }


def _require_alike(scores: Tensor, own: Tensor, path: Path) -> None:
    """1e-4 of the largest score, or of 1 where all are smaller."""
    difference = float((scores - own).abs().max())
    if not difference <= _TOLERANCE * max(1.0, float(own.abs().max())):
        raise Failure(
            f"the exported model's scores differ from the learner's by {difference:.1e}; {path} is not written"
        )


@contextmanager
def _without_their_warnings() -> Iterator[None]:
    """The exporters warn of their own insides, which nobody here can change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _example(model: FromPixels, facts: dict[str, Any]) -> tuple[Tensor]:
    """Two images to trace the model with; with one, the batch would be taken for a constant."""
    return (torch.zeros(2, 3, facts["size"], facts["size"], dtype=torch.uint8, device=model.model.device),)


def _write_onnx(model: FromPixels, facts: dict[str, Any], path: Path) -> None:
    program = torch.onnx.export(
        model,
        _example(model, facts),
        dynamo=True,
        dynamic_shapes={"pixels": {0: "batch"}},
        input_names=["pixels"],
        output_names=["scores"],
        verbose=False,
    )
    assert program is not None
    program.model.metadata_props[FACTS] = json.dumps(facts | {"input": "pixels: uint8, batch x 3 x size x size"})
    program.save(path, external_data=False)


def _run_onnx(path: Path, examples: Tensor) -> Tensor:
    from onnxruntime import InferenceSession

    session = InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"pixels": examples.numpy()})[0])


def _write_program(model: FromPixels, facts: dict[str, Any], path: Path) -> None:
    from torch.export.passes import move_to_device_pass

    shapes = {"pixels": {0: torch.export.Dim("batch")}}
    program = torch.export.export(model, _example(model, facts), dynamic_shapes=shapes)
    told = json.dumps(facts | {"input": "pixels: uint8, batch x 3 x size x size"})
    buffer = io.BytesIO()
    torch.export.save(move_to_device_pass(program, "cpu"), buffer, extra_files={FACTS: told})
    path.write_bytes(buffer.getvalue())


def _run_program(path: Path, examples: Tensor) -> Tensor:
    scores: Tensor = torch.export.load(io.BytesIO(path.read_bytes())).module()(examples)
    return scores


def _write_weights(model: FromPixels, facts: dict[str, Any], path: Path) -> None:
    from safetensors.torch import save_file

    if isinstance(model.model, Method):
        raise Refusal(
            f"safetensors holds a backbone and its linear head, and {type(model.model).__name__} classifies in another "
            "way; choose the format onnx or export"
        )
    told = json.dumps(facts | {"input": "float, batch x 3 x size x size: (pixels / 255 - mean) / std to the encoder"})
    weights = {name: value.contiguous().cpu() for name, value in model.model.state_dict().items()}
    save_file(weights, path, metadata={FACTS: told})


def _run_weights(path: Path, examples: Tensor) -> Tensor:
    """The scores of a network that is built from nothing but the file."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()[FACTS])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it has no other way
    rebuilt = networks.build(Network(name=facts["architecture"], pretrained=False), len(facts["classes"]))
    rebuilt.load_state_dict(weights)
    scores: Tensor = FromPixels(rebuilt).eval()(examples)
    return scores
