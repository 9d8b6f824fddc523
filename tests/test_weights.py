"""Weights from a file: any usual wrapping is taken off, no code is run, and what does not fit is named."""

import copy
import logging
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from grcl.networks import ENCODERS, Classifier, Network, build, fingerprint
from grcl.run import run
from grcl.runtime.errors import Refusal
from tiny import tiny_settings

State = dict[str, Tensor]


def network(classes: int = 4, seed: int = 0, weights: Path | None = None) -> Classifier:
    torch.manual_seed(seed)
    return build(Network(weights=weights), classes)


@pytest.fixture
def trained() -> Classifier:
    """A network that no seed of these tests draws."""
    return network(seed=99)


def prefixed(state: State, prefix: str) -> State:
    return {f"{prefix}{key}": value for key, value in state.items()}


WRAPPINGS: dict[str, Callable[[Classifier], Any]] = {
    "the backbone alone": lambda it: it.encoder.state_dict(),
    "the whole classifier": lambda it: it.state_dict(),
    "wrapped for several devices": lambda it: prefixed(it.state_dict(), "module."),
    "under a key": lambda it: {"state_dict": it.state_dict(), "epoch": 3, "best": 0.5},
    "under two keys": lambda it: {"model": {"state_dict": it.encoder.state_dict()}},
    "in a larger model": lambda it: {
        "model": {**prefixed(it.encoder.state_dict(), "module.encoder."), "module.projector.weight": torch.ones(2, 2)}
    },
    "a saved method": lambda it: prefixed(it.state_dict(), "network."),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_any_usual_wrapping_is_taken_off(wrapping: str, trained: Classifier, tmp_path: Path) -> None:
    torch.save(WRAPPINGS[wrapping](trained), tmp_path / "weights")
    found = network(weights=tmp_path / "weights")
    assert fingerprint(found.encoder) == fingerprint(trained.encoder)


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors", "weights"])
@pytest.mark.parametrize("form", ["torch", "old torch", "safetensors"])
def test_the_form_is_known_by_its_content(form: str, name: str, trained: Classifier, tmp_path: Path) -> None:
    path, state = tmp_path / name, trained.state_dict()
    if form == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=form == "torch")
    assert fingerprint(network(weights=path).encoder) == fingerprint(trained.encoder)


def test_a_head_of_as_many_classes_is_taken_over_and_another_is_drawn(
    trained: Classifier, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "weights.pt"
    caplog.set_level(logging.INFO)
    torch.save(trained.state_dict(), path)
    assert torch.equal(network(classes=4, weights=path).head.weight, trained.head.weight)
    assert "with its head" in caplog.messages[-1]
    assert torch.equal(network(classes=7, seed=5, weights=path).head.weight, network(classes=7, seed=5).head.weight)
    assert "with a head of our own" in caplog.messages[-1]
    # As timm and torchvision call it, beside a backbone without a prefix.
    torch.save({**trained.encoder.state_dict(), **prefixed(trained.head.state_dict(), "fc.")}, path)
    assert torch.equal(network(weights=path).head.bias, trained.head.bias)


def refusal(path: Path) -> str:
    before = torch.random.get_rng_state()
    with pytest.raises(Refusal) as caught:
        build(Network(weights=path), 4)
    torch.random.set_rng_state(before)
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


def test_what_does_not_fit_is_named_and_counted(trained: Classifier, tmp_path: Path) -> None:
    path, state = tmp_path / "weights.pt", trained.encoder.state_dict()
    state["layers.0.weight"] = torch.zeros(6, 1, 5, 5)
    for key in ("layers.7.weight", "layers.7.bias", "layers.9.weight", "layers.9.bias"):
        state[f"{key}.old"] = state.pop(key)
    torch.save(state, path)
    sentence = refusal(path)
    assert "does not fit lenet5" in sentence
    assert "4 missing (layers.7.weight, layers.7.bias, layers.9.weight, ...)" in sentence
    assert "4 unexpected (layers.7.weight.old, " in sentence
    assert "1 of another shape (layers.0.weight 6x1x5x5, not 6x3x5x5)" in sentence


class Malicious:
    """Code that would run if the file were unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("writer", ["torch", "pickle"])
def test_code_in_a_file_is_not_run(writer: str, trained: Classifier, tmp_path: Path) -> None:
    content = {"state_dict": trained.state_dict(), "args": Malicious(tmp_path / "broken-in")}
    path = tmp_path / "weights.pt"
    torch.save(content, path) if writer == "torch" else path.write_bytes(pickle.dumps(content))
    assert "could run code" in refusal(path)
    assert not (tmp_path / "broken-in").exists()


@pytest.mark.parametrize("form", ["torch", "old torch", "safetensors"])
def test_a_file_cut_anywhere_is_refused(form: str, trained: Classifier, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    if form == "safetensors":
        save_file(trained.state_dict(), path)
    else:
        torch.save(trained.state_dict(), path, _use_new_zipfile_serialization=form == "torch")
    whole = path.read_bytes()
    for length in (0, 1, 8, 9, 20, 100, 1000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "cannot be loaded" in refusal(path)


@pytest.mark.parametrize("content", [[], {}, {"epoch": 3}, torch.zeros(2), {"state_dict": {"epoch": 3}}])
def test_a_file_without_tensors_by_name_is_refused(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "weights.pt")
    assert "hold no tensors by name" in refusal(tmp_path / "weights.pt")


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "nowhere.pt")
    assert "Is a directory" in refusal(tmp_path)
    (tmp_path / "note").write_text("{not weights}")
    assert "cannot be loaded" in refusal(tmp_path / "note")


def test_numbers_that_are_not_finite_are_refused(trained: Classifier, tmp_path: Path) -> None:
    state = copy.deepcopy(trained.state_dict())
    state["encoder.layers.3.weight"][0, 0, 0, 0] = torch.nan
    torch.save(state, tmp_path / "weights.pt")
    assert "not finite (encoder.layers.3.weight)" in refusal(tmp_path / "weights.pt")


def test_old_files_that_count_no_batches_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from test_batchnorm import SmallEncoder

    monkeypatch.setitem(ENCODERS, "small", SmallEncoder)
    trained: nn.Module = SmallEncoder()
    state = {key: value for key, value in trained.state_dict().items() if "num_batches" not in key}
    torch.save(state, tmp_path / "weights.pt")
    found = build(Network(name="small", weights=tmp_path / "weights.pt"), 4)
    assert fingerprint(found.encoder) == fingerprint(trained)


def test_a_fingerprint_changes_with_any_bit(trained: Classifier) -> None:
    first = fingerprint(trained)
    assert fingerprint(copy.deepcopy(trained)) == first
    with torch.no_grad():
        trained.head.bias[0] = torch.nextafter(trained.head.bias[0], torch.tensor(torch.inf))
    assert fingerprint(trained) != first


@pytest.mark.usefixtures("without_report")
def test_the_source_model_goes_by_what_its_weights_are_not_by_where(trained: Classifier, tmp_path: Path) -> None:
    torch.save(trained.state_dict(), tmp_path / "a.pt")
    save_file(trained.encoder.state_dict() | prefixed(trained.head.state_dict(), "head."), tmp_path / "b.safetensors")
    torch.save(network(seed=98).state_dict(), tmp_path / "c.pt")
    counts = []
    for name in ("a.pt", "b.safetensors", "c.pt"):
        settings = tiny_settings("source_only", network__weights=tmp_path / name, targets=["dark"])
        run(settings, tmp_path / f"run {name}", tmp_path / "stage0")
        counts.append(len(list((tmp_path / "stage0").glob("*/done"))))
    assert counts == [1, 1, 2]


def test_refused_weights_leave_no_trace(tmp_path: Path) -> None:
    settings = tiny_settings("source_only", network__weights=tmp_path / "nowhere.pt")
    with pytest.raises(Refusal, match=r"nowhere\.pt"):
        run(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()
