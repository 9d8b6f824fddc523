"""A whole run: it resumes exactly, whatever the method; it sees no target label; a compound stage is one stage."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from grcl.config import RunSettings
from grcl.loop import Interrupted
from grcl.methods import METHODS
from grcl.results.accuracy_matrix import AccuracyMatrix
from grcl.run import open_stream, run
from grcl.runtime.checkpoint import Checkpoints
from grcl.schedule import set_learning_rates
from tiny import domain, logged, tiny_settings


@contextmanager
def signal_at(step: int, place: str = "") -> Iterator[None]:
    """Within this, the process gets a SIGINT in its n-th step, as by Ctrl-C, and a run is stopped by it."""
    steps = count(1)

    def set_rates(*arguments: Any) -> None:
        if next(steps) == step:
            signal.raise_signal(signal.SIGINT)
        set_learning_rates(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grcl.loop.set_learning_rates", set_rates)
        with pytest.raises(Interrupted, match=f"{place}.*the same command goes on"):
            yield


@pytest.fixture(scope="module")
def source_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source models shared by the runs of this file, as they are by the methods of a comparison."""
    return tmp_path_factory.mktemp("stage0")


@pytest.fixture(scope="module")
def undisturbed(source_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a plain run of a method, which is made when it is first asked for."""
    folder = tmp_path_factory.mktemp("undisturbed")

    def made(name: str) -> Path:
        run(sparsely_logged(name), folder / name, source_models)
        return folder / name

    return made


def sparsely_logged(name: str) -> RunSettings:
    """Settings with lines of the log that tell of four steps each, so that a signal may come between two of them."""
    return tiny_settings(name, training__log_every=4)


def final_state(path: Path) -> dict[str, Any]:
    """All that a run ends with, but for the times."""
    state = Checkpoints(path / "checkpoints").newest()
    assert state is not None
    return {key: value for key, value in state.items() if key not in ("seconds", "log_offset")}


def assert_identical(a: Any, b: Any) -> None:
    """Equal to the last bit, tensors and plain values alike."""
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_identical(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for first, second in zip(a, b, strict=True):
            assert_identical(first, second)
    else:
        assert a == b


def run_interrupted(settings: RunSettings, path: Path, source_models: Path, steps: list[int]) -> AccuracyMatrix:
    """A run that gets a signal after so many steps, again and again, and is then left to finish."""
    for number in steps:
        with signal_at(number):
            run(settings, path, source_models)
        assert not (path / "done").exists()
    return run(settings, path, source_models)


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize("name", [name for name in METHODS if name != "source_only"])
def test_resume_is_exact(name: str, tmp_path: Path, source_models: Path, undisturbed: Callable[[str], Path]) -> None:
    straight = undisturbed(name)
    interrupted = run_interrupted(sparsely_logged(name), tmp_path, source_models, [1, 6, 3])
    assert interrupted == run(sparsely_logged(name), straight, source_models)
    assert_identical(final_state(tmp_path), final_state(straight))
    assert logged(tmp_path) == logged(straight)


@pytest.mark.usefixtures("without_report")
def test_a_signal_at_the_last_step_of_a_stage_loses_nothing_of_it(
    tmp_path: Path, source_models: Path, undisturbed: Callable[[str], Path]
) -> None:
    straight = undisturbed("grcl")
    steps = [line["steps"] for line in logged(straight) if line["kind"] == "stage"]
    run_interrupted(sparsely_logged("grcl"), tmp_path, source_models, steps)
    assert_identical(final_state(tmp_path), final_state(straight))
    assert logged(tmp_path) == logged(straight)


@pytest.mark.usefixtures("without_report")
def test_stage_0_resumes_exactly(tmp_path: Path) -> None:
    straight = run(tiny_settings("source_only"), tmp_path / "a")
    interrupted = run_interrupted(tiny_settings("source_only"), tmp_path / "b", tmp_path / "b0", [3, 4])
    assert interrupted == straight
    (a,), (b,) = [list(folder.glob("*/checkpoints")) for folder in (tmp_path / "a" / "stage0", tmp_path / "b0")]
    assert_identical(final_state(a.parent), final_state(b.parent))


@pytest.mark.usefixtures("without_report")
def test_resume_after_a_crash_cuts_the_log_back(
    tmp_path: Path, source_models: Path, undisturbed: Callable[[str], Path]
) -> None:
    """What was logged after the last checkpoint is logged again, once."""
    settings = sparsely_logged("grcl")
    with signal_at(5):
        run(settings, tmp_path, source_models)
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"kind": "step", "stage": 1, "step": 5}\n{"kind": "st')
    run(settings, tmp_path, source_models)
    assert logged(tmp_path) == logged(undisturbed("grcl"))


@pytest.mark.usefixtures("without_report")
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(tmp_path: Path) -> None:
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(tiny_settings("grcl", seed=seed), tmp_path / folder)
    assert_identical(final_state(tmp_path / "a"), final_state(tmp_path / "b"))
    weights = [final_state(tmp_path / name)["method"]["modules"]["network.head.weight"] for name in "ac"]
    assert not torch.equal(*weights)


@pytest.mark.usefixtures("without_report")
def test_a_finished_run_is_read_not_run(tmp_path: Path, source_models: Path) -> None:
    settings = tiny_settings("source_continued")
    first = run(settings, tmp_path / "a", source_models)
    shutil.rmtree(tmp_path / "a" / "checkpoints")
    assert run(settings, tmp_path / "a", tmp_path / "nowhere") == first
    assert not (tmp_path / "a" / "checkpoints").exists()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize("name", METHODS)
def test_target_labels_change_nothing(
    name: str,
    tmp_path: Path,
    source_models: Path,
    undisturbed: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the training labels of every target shuffled, the run ends with the same bits."""
    expected = final_state(undisturbed(name))

    def shuffled(settings: RunSettings) -> Any:
        stream = open_stream(settings)
        hidden = tuple(
            tuple(replace(d, train=replace(d.train, labels=d.train.labels.flip(0))) for d in stage)
            for stage in stream.targets
        )
        return replace(stream, targets=hidden)

    monkeypatch.setattr("grcl.run.open_stream", shuffled)
    run(tiny_settings(name), tmp_path, source_models)
    assert_identical(final_state(tmp_path), expected)


@pytest.mark.usefixtures("without_report")
def test_a_compound_stage_is_one_stage_with_accuracies_of_its_own(tmp_path: Path, source_models: Path) -> None:
    matrix = run(tiny_settings("grcl", targets=["dark+noisy"]), tmp_path / "a", source_models)
    assert matrix.stages == (("white",), ("dark", "noisy"))
    assert matrix.values.shape == (2, 3)
    assert matrix.backward_transfer is None
    episodes = final_state(tmp_path / "a")["episodes"]
    assert len(episodes) == 1
    assert "stage 1, dark+noisy" in (tmp_path / "a" / "log.jsonl").read_text()


@pytest.mark.usefixtures("without_report")
def test_the_log_tells_how_many_labels_are_right_of_all_images_and_of_the_remembered(
    tmp_path: Path, source_models: Path
) -> None:
    run(tiny_settings("grcl", targets=["dark", "noisy"], memory__size=24), tmp_path / "a", source_models)
    told = [line for line in logged(tmp_path / "a") if line["kind"] == "episode"]
    for line, episode, name in zip(told, final_state(tmp_path / "a")["episodes"], ("dark", "noisy"), strict=True):
        train = domain(name).train
        pixels = train.images.read(torch.arange(len(train)))
        found = [(pixels == image).flatten(1).all(dim=1).nonzero()[0, 0] for image in episode["pixels"]]
        right = (train.labels[torch.stack(found)] == episode["labels"]).double().mean()
        assert line["remembered_label_accuracy"] == float(right)
        assert 0 <= line["pseudo_label_accuracy"] <= 1


@pytest.mark.usefixtures("without_report")
def test_source_and_order_can_be_chosen(tmp_path: Path) -> None:
    settings = tiny_settings("source_only", source="noisy", targets=["white"])
    matrix = run(settings, tmp_path / "a")
    assert matrix.domains == ("noisy", "white")


@pytest.mark.usefixtures("without_report")
def test_all_methods_of_a_seed_start_from_one_source_model(
    source_models: Path, undisturbed: Callable[[str], Path]
) -> None:
    matrices = [run(tiny_settings(name), undisturbed(name), source_models) for name in METHODS]
    assert len(list(source_models.glob("*/done"))) == 1
    assert all(matrix.values[0].tolist() == matrices[0].values[0].tolist() for matrix in matrices)


def test_the_run_directory_holds_what_the_docs_say(tmp_path: Path) -> None:
    run(tiny_settings("grcl"), tmp_path / "a")
    names = {path.name for path in (tmp_path / "a").iterdir()}
    files = {"config.json", "environment.json", "splits.json", "log.jsonl", "accuracy.json", "report.html", "done"}
    assert names == files | {"tensorboard", "checkpoints", "stage0"}
    assert list((tmp_path / "a" / "tensorboard").glob("events.out.tfevents.*"))
    kinds = {json.loads(line)["kind"] for line in (tmp_path / "a" / "log.jsonl").read_text().splitlines()}
    assert kinds - {"warning"} == {"step", "stage", "monitor", "constraint", "episode", "end"}
    environment = json.loads((tmp_path / "a" / "environment.json").read_text())
    assert environment["threads"] == 1
    assert environment["data"]["dark"]["train"] == 96


@pytest.mark.usefixtures("without_report")
def test_with_all_domains_labelled_a_run_is_the_ceiling(tmp_path: Path) -> None:
    settings = tiny_settings("source_only", source="white+dark+noisy")
    assert settings.targets == ()
    matrix = run(settings, tmp_path / "ceiling")
    assert matrix.domains == ("white", "dark", "noisy")
    assert matrix.finished == 1
    assert matrix.backward_transfer is None
    plain = run(tiny_settings("source_only"), tmp_path / "plain")
    assert matrix.average_accuracy is not None
    assert plain.average_accuracy is not None
    assert matrix.average_accuracy > plain.average_accuracy


@pytest.mark.usefixtures("without_report")
def test_two_labelled_domains_are_one_source(tmp_path: Path) -> None:
    matrix = run(tiny_settings("grcl", source="white+dark"), tmp_path)
    assert matrix.stage_labels == ("0 white+dark", "1 noisy")
    assert matrix.is_complete
