"""What is exported gives the learner's scores in the program that it is meant for, and says what its numbers mean."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grcl.learner import export
from grcl.learner.export import FACTS, Kind, export_model
from grcl.methods import METHODS, Method
from grcl.networks import Classifier, Network, build
from grcl.runtime.errors import Failure, Refusal
from tiny import CLASSES, make

NAMES = (*CLASSES[:3], 'a "square"; <b>ü</b>')
KINDS: tuple[Kind, ...] = ("onnx", "export", "safetensors")


@pytest.fixture(scope="module")
def pixels() -> Tensor:
    return make("noisy", 8, "test").images.read(torch.arange(8))


@pytest.fixture(scope="module")
def network() -> Classifier:
    torch.manual_seed(0)
    return build(Network(), len(CLASSES)).eval()


@pytest.fixture(scope="module")
def files(network: Classifier, pixels: Tensor, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same network in every form."""
    folder = tmp_path_factory.mktemp("exported")
    paths: dict[str, Path] = {kind: folder / f"model.{kind}" for kind in KINDS}
    for kind in KINDS:
        export_model(network, NAMES, 32, kind, paths[kind], pixels[:1])
    assert sorted(folder.iterdir()) == sorted(paths.values())  # and nothing is left beside them
    return paths


def scores_of(model: Classifier | Method, pixels: Tensor) -> Tensor:
    with torch.no_grad():
        return model.see(pixels.float() / 255)[1]


def require_facts(text: str) -> None:
    facts: dict[str, Any] = json.loads(text)
    assert facts["classes"] == list(NAMES)
    assert (facts["architecture"], facts["size"], facts["mean"], facts["std"]) == ("lenet5", 32, [0.5] * 3, [0.5] * 3)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_onnx_runs_without_us_on_any_number_of_images(
    files: dict[str, Path], network: Classifier, pixels: Tensor, count: int
) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(files["onnx"], providers=["CPUExecutionProvider"])
    assert [(value.name, value.type, value.shape) for value in session.get_inputs()] == [
        ("pixels", "tensor(uint8)", ["batch", 3, 32, 32])
    ]
    (scores,) = session.run(["scores"], {"pixels": pixels[:count].numpy()})
    torch.testing.assert_close(torch.from_numpy(scores), scores_of(network, pixels[:count]), atol=1e-4, rtol=0)
    require_facts(session.get_modelmeta().custom_metadata_map[FACTS])


@pytest.mark.parametrize("count", [1, 3, 8])
def test_an_exported_program_runs_without_us_on_any_number_of_images(
    files: dict[str, Path], network: Classifier, pixels: Tensor, count: int
) -> None:
    told = {FACTS: ""}
    program = torch.export.load(io.BytesIO(files["export"].read_bytes()), extra_files=told)
    scores = program.module()(pixels[:count])
    torch.testing.assert_close(scores, scores_of(network, pixels[:count]), atol=1e-4, rtol=0)
    require_facts(told[FACTS])


def test_safetensors_hold_the_weights_and_start_another_network(
    files: dict[str, Path], network: Classifier, pixels: Tensor
) -> None:
    from safetensors import safe_open

    with safe_open(files["safetensors"], framework="pt") as file:
        require_facts(file.metadata()[FACTS])
        for name, value in network.state_dict().items():
            assert torch.equal(file.get_tensor(name), value)
    torch.manual_seed(1)
    started = build(Network(weights=files["safetensors"]), len(NAMES)).eval()
    assert torch.equal(scores_of(started, pixels), scores_of(network, pixels))


def test_short_passes_are_exported_in_full_precision(pixels: Tensor, tmp_path: Path) -> None:
    """A learner trained in bf16; its own passes stay as they were."""
    torch.manual_seed(0)
    short = build(Network(precision="bf16"), len(CLASSES)).eval()
    for kind in KINDS:
        export_model(short, NAMES, 32, kind, tmp_path / kind, pixels)
    assert short.has_short_passes


@pytest.mark.parametrize("name", ["grcl_plus", "mcd", "dada"])  # one head, two heads, a head behind other features
def test_a_method_is_exported_as_it_predicts(name: str, pixels: Tensor, tmp_path: Path) -> None:
    torch.manual_seed(2)
    method = METHODS[name](build(Network(), len(NAMES)), METHODS[name].Config()).eval()
    export_model(method, NAMES, 32, "export", tmp_path / "model.pt2", pixels)
    scores = torch.export.load(io.BytesIO((tmp_path / "model.pt2").read_bytes())).module()(pixels)
    torch.testing.assert_close(scores, scores_of(method, pixels), atol=1e-4, rtol=0)


def test_what_only_training_needs_is_not_exported(pixels: Tensor, tmp_path: Path) -> None:
    method = METHODS["grcl"](build(Network(), len(NAMES)), METHODS["grcl"].Config()).eval()
    export_model(method, NAMES, 32, "export", tmp_path / "model.pt2", pixels)
    exported = torch.export.load(io.BytesIO((tmp_path / "model.pt2").read_bytes()))
    assert {name.removeprefix("model.") for name in exported.state_dict} == set(method.network.state_dict())


def test_two_heads_do_not_fit_safetensors(pixels: Tensor, tmp_path: Path) -> None:
    method = METHODS["mcd"](build(Network(), len(NAMES)), METHODS["mcd"].Config())
    with pytest.raises(Refusal, match="Mcd classifies in another way; choose the format onnx or export"):
        export_model(method, NAMES, 32, "safetensors", tmp_path / "model.safetensors", pixels)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bias", [1e-2, float("nan")])
def test_a_file_that_does_not_agree_is_not_handed_over(
    network: Classifier, pixels: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bias: float
) -> None:
    """A real file whose weights are changed between writing and reading back."""
    from safetensors.torch import load_file, save_file

    write = export._write_weights

    def write_with_an_error(model: Any, facts: dict[str, Any], path: Path) -> None:
        write(model, facts, path)
        weights = load_file(path)
        weights["head.bias"] += bias
        save_file(weights, path, metadata={FACTS: json.dumps(facts)})

    (tmp_path / "model.safetensors").write_bytes(b"the one before")
    monkeypatch.setattr(export, "_write_weights", write_with_an_error)
    with pytest.raises(Failure, match=r"differ from the learner's by .*model\.safetensors is not written"):
        export_model(network, NAMES, 32, "safetensors", tmp_path / "model.safetensors", pixels)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"the one before"]


def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    network: Classifier, pixels: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(Refusal, match=r"needs the package onnxscript; pip install 'grcl\[export\]'"):
        export_model(network, NAMES, 32, "onnx", tmp_path / "model.onnx", pixels)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """In a process of its own, where nobody checks the types of arguments."""
    script = """
import torch
from pathlib import Path
from grcl.learner.export import export_model
from grcl.networks import Network, build
images = torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
export_model(build(Network(name="lenet5"), 2), ("a", "b"), 32, "zip", Path("model.zip"), images)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "Refusal: format = 'zip'; it takes onnx, export, safetensors" in done.stderr
    assert not any(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_refused(network: Classifier, pixels: Tensor, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no folder at"):
        export_model(network, NAMES, 32, "export", tmp_path / "nowhere" / "model.pt2", pixels)
    (tmp_path / "model.pt2").mkdir()
    with pytest.raises(Refusal, match=r"cannot write .*model\.pt2"):
        export_model(network, NAMES, 32, "export", tmp_path / "model.pt2", pixels)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]
