"""A learner: whatever form the images have, it learns the same; every adapt is remembered, judged and can be undone."""

import gc
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import tiny
from grcl.learner.defaults import defaults, gentle
from grcl.learner.fitting import settings_for_source
from grcl.learner.learner import Learner
from grcl.learner.source import remembered_source
from grcl.learner.verdict import Verdict
from grcl.methods import METHODS
from grcl.runtime.errors import Refusal
from learners import QUICK, fitted, labels, pixels, write_flat, write_labelled

SHORT = {"mcd": {"mcd.warm_up_steps": 2}, "dada": {"dada.warm_up_steps": 2}}


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a fit that keeps all of its source; copied, never changed."""
    state = tmp_path_factory.mktemp("fit") / "state"
    fitted(state, keep_source=48)
    return state


@pytest.fixture
def learner(fit: Path, tmp_path: Path) -> Learner:
    shutil.copytree(fit, tmp_path / "state")
    return Learner.load(tmp_path / "state")


def weights(learner: Learner) -> dict[str, Tensor]:
    return learner._present().model.method.state_dict()


def assert_equal_weights(a: Learner, b: Learner) -> None:
    ours, theirs = weights(a), weights(b)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_answers_without_names_are_as_many_as_the_images_in_their_order(learner: Learner, tmp_path: Path) -> None:
    """One left out would give its answer to the next; look, which names files, may leave it out."""
    folder = write_flat(tmp_path / "images", "white", 3)
    first, second, third = sorted(folder.iterdir())
    label_of = {
        file: prediction.label for file, prediction in zip(sorted(folder.iterdir()), learner.look(folder), strict=True)
    }
    files = [third, first, third, second, first]
    assert learner.predict(files) == [label_of[file] for file in files]
    assert learner.predict_proba(files).argmax(dim=1).tolist() == [tiny.CLASSES.index(label_of[file]) for file in files]
    second.write_bytes(b"no image")
    for ask in (learner.predict, learner.predict_proba):
        for images in (files, folder):
            with pytest.raises(Refusal, match=r"1 unreadable image .*Learner\.look"):
                ask(images)
    assert [prediction.file for prediction in learner.look(folder)] == [first.name, third.name]


def test_torch_is_left_as_it_was(learner: Learner) -> None:
    """Whoever calls a learner between two draws of their own goes on drawing as if they had not."""

    def draws_and_threads(is_called: bool) -> tuple[list[float], int]:
        torch.manual_seed(1)
        drawn = [torch.rand(()).item()]
        if is_called:
            learner.adapt(pixels("dark"), if_worse="keep", settings={"training.threads": 3})
            Learner.load(learner._state.path).predict(pixels("white"))
            fitted(None)
        return [*drawn, torch.rand(()).item()], torch.get_num_threads()

    assert draws_and_threads(is_called=True) == draws_and_threads(is_called=False)


def test_it_learns_its_source_and_says_so_by_name(learner: Learner) -> None:
    assert learner.classes == tiny.CLASSES
    assert learner.score(pixels("white", 48), labels("white", 48)) > 0.6  # of four classes, after 12 passes
    answers = learner.predict(pixels("white", 48))
    evaluation = learner.evaluate(pixels("white", 48), labels("white", 48))
    right = [tiny.CLASSES[label] == answer for label, answer in zip(labels("white", 48), answers, strict=True)]
    assert evaluation.accuracy == sum(right) / 48
    assert evaluation.images == int(evaluation.confusion.sum()) == 48
    assert set(evaluation.per_class) == set(tiny.CLASSES)
    probabilities = learner.predict_proba(pixels("white", 48))
    assert torch.allclose(probabilities.sum(dim=1), torch.ones(48))
    assert [tiny.CLASSES[place] for place in probabilities.argmax(dim=1)] == answers


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """The same labelled images in every form."""
    images, truth = pixels("white"), labels("white")
    names = [tiny.CLASSES[label] for label in truth]
    return {
        "tensor": (images, truth),
        "floats": (images.float() / 255, truth.tolist()),
        "channels last": (images.permute(0, 2, 3, 1).numpy(), names),
        "doubles": (images.permute(0, 2, 3, 1).double().numpy() / 255, truth.numpy()),
        "dataset": (TensorDataset(images, truth), None),
        "pair": ((images, truth), None),
        "folder": (write_labelled(tmp_path_factory.mktemp("forms") / "white", "white"), None),
    }


@pytest.mark.parametrize("form", ["floats", "channels last", "doubles", "dataset", "pair"])
def test_the_form_of_the_images_changes_nothing(form: str, forms: dict[str, tuple[Any, Any]]) -> None:
    quick = QUICK | {"stage0.epochs": 1}
    plain, other = Learner(), Learner()
    plain.fit(*forms["tensor"], classes=tiny.CLASSES, settings=quick)
    other.fit(*forms[form], classes=tiny.CLASSES, settings=quick)
    assert_equal_weights(plain, other)
    assert other.score(*forms[form]) == plain.score(*forms["tensor"]) == plain.score(*forms["folder"])


def test_the_source_is_found_again_with_the_classes_in_the_order_of_the_fit(tmp_path: Path) -> None:
    """Read in the order of its folders, every image would have another's class in all later stages."""
    learner, order = Learner(tmp_path / "state"), tiny.CLASSES[::-1]
    learner.fit(write_labelled(tmp_path / "white", "white"), classes=order, settings=QUICK)
    present = learner._present()
    found = remembered_source(present.state, present.facts, present.reading)
    assert found.classes == order
    assert found.labels is not None
    assert [found.classes[label] for label in found.labels.tolist()] == [Path(file).parent.name for file in found.files]


def test_grey_arrays_and_other_sizes_are_understood(learner: Learner) -> None:
    grey = pixels("white")[:, 0]
    assert learner.predict(grey) == learner.predict(grey[:, None].expand(-1, 3, -1, -1))
    assert len(learner.predict(np.zeros((2, 50, 70, 3), np.uint8))) == 2


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (torch.zeros(2, 5, 8, 8), "shape"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.long), "int64"),
        (torch.full((2, 3, 8, 8), 255.0), "divide"),
        (torch.full((2, 3, 8, 8), torch.nan), "0 to 1"),
        (torch.zeros(0, 3, 8, 8), "no images"),
        (5, "int is not understood"),
    ],
)
def test_what_is_no_image_is_refused(images: Any, sentence: str, learner: Learner) -> None:
    with pytest.raises(Refusal, match=sentence):
        learner.predict(images)


def test_numbers_may_be_names_of_classes() -> None:
    learner = Learner()
    truth = torch.tensor([7, 30, 7, 30] * 4)
    learner.fit(pixels("white", 16), truth, settings=QUICK)
    assert learner.classes == ("7", "30")
    assert learner.evaluate(pixels("white", 16), truth).images == 16
    with pytest.raises(Refusal, match="no class of array is known"):
        learner.score(pixels("white", 16), truth + 1)
    found = learner.evaluate(pixels("white", 16), torch.tensor([7, 30, 0, 1] * 4))  # 0 and 1 are no places here
    assert (found.images, found.unknown) == (8, {"0": 4, "1": 4})
    with pytest.raises(Refusal, match="16 images and 15 labels"):
        learner.score(pixels("white", 16), truth[:15])


def test_numbers_are_places_among_classes_with_names() -> None:
    learner, truth = Learner(), torch.tensor([0, 2] * 8)
    with pytest.raises(Refusal, match="no image is labelled 'mug'"):
        learner.fit(pixels("white", 16), truth, classes=["bike", "mug", "pen"], settings=QUICK)
    learner.fit(pixels("white", 16), truth // 2, classes=["bike", "pen"], settings=QUICK)
    by_name = [learner.classes[place] for place in (truth // 2).tolist()]
    confusions = [learner.evaluate(pixels("white", 16), given).confusion for given in (truth // 2, by_name)]
    assert torch.equal(*confusions)
    with pytest.raises(Refusal, match="label 2 is neither"):
        learner.score(pixels("white", 16), truth)


@pytest.mark.parametrize("name", METHODS)
def test_every_adapt_remembers_whatever_the_method(name: str, learner: Learner) -> None:
    entry = learner.adapt(pixels("dark"), method=name, if_worse="keep", settings=SHORT.get(name, {}))
    assert (entry.kind, entry.method, entry.model, entry.episodes) == ("adapt", name, 1, (1,))
    (episode,) = learner._present().episodes()
    images = {image.numpy().tobytes() for image in pixels("dark")}
    assert len(episode.labels) == 12
    assert {image.numpy().tobytes() for image in episode.pixels} <= images
    second = learner.adapt(pixels("noisy"), if_worse="keep", settings=SHORT.get(name, {}))
    assert second.method == (name if name != "source_only" else "grcl_plus")
    assert second.episodes == (1, 2)


@pytest.mark.parametrize("earlier", [None, "source_continued"])
@pytest.mark.parametrize("name", ["cua", "gra"])
def test_what_a_method_holds_the_target_against_is_the_network_of_the_fit(
    name: str, earlier: str | None, learner: Learner
) -> None:
    before = weights(learner)
    if earlier is not None:
        learner.adapt(pixels("noisy"), method=earlier, if_worse="keep")
    learner.adapt(pixels("dark"), method=name, if_worse="keep")
    after = weights(learner)
    for key, value in before.items():
        assert torch.equal(after[key.replace("network.", "adversary.reference.")], value)
    assert any(not torch.equal(after[key], value) for key, value in before.items())


def test_a_method_may_follow_another_if_both_classify_by_the_network(learner: Learner) -> None:
    learner.adapt(pixels("dark"), method="grcl_plus", if_worse="keep")
    learner.adapt(pixels("noisy"), method="grcl", if_worse="keep")
    with pytest.raises(Refusal, match="dada classifies by parts of its own"):
        learner.adapt(pixels("noisy"), method="dada")
    assert len(learner.history()) == 3


def test_what_has_parts_of_its_own_is_not_followed_by_another(learner: Learner) -> None:
    learner.adapt(pixels("dark"), method="mcd", if_worse="keep", settings=SHORT["mcd"])
    with pytest.raises(Refusal, match="go on with mcd, or roll back to the fit"):
        learner.adapt(pixels("noisy"), method="grcl")
    learner.rollback(0)
    assert learner.adapt(pixels("noisy"), method="grcl", if_worse="keep").method == "grcl"


def test_parts_of_another_size_are_refused_with_a_sentence(learner: Learner) -> None:
    learner.adapt(pixels("dark"), method="grcl", if_worse="keep")
    with pytest.raises(Refusal, match="do not fit the model in force"):
        learner.adapt(pixels("noisy"), settings={"grcl.contrast.size": 64})


def test_labels_of_a_target_change_nothing(learner: Learner, fit: Path, tmp_path: Path) -> None:
    shutil.copytree(fit, tmp_path / "other")
    other = Learner.load(tmp_path / "other")
    learner.adapt(pixels("dark"), if_worse="keep")
    other.adapt(TensorDataset(pixels("dark"), labels("dark").flip(0)), if_worse="keep")
    assert_equal_weights(learner, other)


def test_what_is_worse_is_refused_unless_it_is_to_be_kept(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grcl.learner.adapting.judge", lambda *_: Verdict("worse", "it is made up"))
    before = learner.predict_proba(pixels("dark"))
    refused = learner.adapt(pixels("dark"))
    assert refused.is_refused
    assert (refused.verdict, refused.reason, refused.model, refused.episodes) == ("worse", "it is made up", 0, ())
    assert torch.equal(learner.predict_proba(pixels("dark")), before)
    kept = learner.adapt(pixels("dark"), if_worse="keep")
    assert (kept.is_refused, kept.model, kept.episodes) == (False, 2, (2,))
    assert not torch.equal(learner.predict_proba(pixels("dark")), before)
    assert kept.note.startswith("the same images as in entry 1")


def test_a_rollback_brings_every_bit_back_and_is_an_entry(learner: Learner) -> None:
    answers = [learner.predict_proba(pixels("dark"))]
    for name in ("dark", "noisy"):
        learner.adapt(pixels(name), if_worse="keep")
        answers.append(learner.predict_proba(pixels("dark")))
    assert not torch.equal(answers[1], answers[2])
    entry = learner.rollback(1)
    assert (entry.number, entry.kind, entry.to, entry.model, entry.episodes) == (3, "rollback", 1, 1, (1,))
    assert torch.equal(learner.predict_proba(pixels("dark")), answers[1])
    learner.rollback(2)
    assert torch.equal(learner.predict_proba(pixels("dark")), answers[2])
    with pytest.raises(Refusal, match="there is no entry 9; the history has 0 to 4"):
        learner.rollback(9)


@pytest.mark.parametrize("name", ["mcd", "dada"])
def test_parts_that_are_trained_stay_so_when_all_domains_are_forgotten(
    name: str, learner: Learner, tmp_path: Path
) -> None:
    """They are warmed up on the source before the first adapt, and never again, however long that would take."""
    learner.adapt(pixels("dark"), method=name, if_worse="keep", settings=SHORT[name])
    learner.forget(1)
    shutil.copytree(learner._state.path, tmp_path / "other")
    others = learner, Learner.load(tmp_path / "other")
    for steps, each in zip((1, 30), others, strict=True):
        each.adapt(pixels("noisy"), if_worse="keep", settings={f"{name}.warm_up_steps": steps})
    assert_equal_weights(*others)


def test_an_adapt_after_a_rollback_is_the_same_as_the_first(learner: Learner, fit: Path, tmp_path: Path) -> None:
    shutil.copytree(fit, tmp_path / "other")
    other = Learner.load(tmp_path / "other")
    other.adapt(pixels("noisy"), if_worse="keep")
    other.rollback(0)
    for each in (learner, other):
        each.adapt(pixels("dark"), if_worse="keep")
    assert_equal_weights(learner, other)


def test_the_accuracy_on_a_sample_is_the_score(learner: Learner) -> None:
    sample = pixels("dark"), labels("dark")
    before = learner.score(*sample)
    entry = learner.adapt(pixels("dark"), sample=sample, if_worse="keep")
    assert entry.accuracy is not None
    assert (entry.accuracy.images, entry.accuracy.before, entry.accuracy.after) == (24, before, learner.score(*sample))


def test_vitals_before_are_those_of_the_model_before(learner: Learner) -> None:
    first = learner.adapt(pixels("dark"), if_worse="keep")
    again = learner.adapt(pixels("dark"), if_worse="keep")
    assert first.after is not None
    assert again.before is not None
    assert again.before["entropy"] == first.after["entropy"]
    assert first.before is not None
    assert first.before["memory_loss"] is None
    assert again.before["memory_loss"] is not None


def test_a_target_of_one_image_is_adapted_to(learner: Learner) -> None:
    entry = learner.adapt(pixels("dark")[:1], if_worse="keep")
    assert entry.data is not None
    assert entry.data.images == 1
    assert len(learner._present().episodes()[0].labels) == 1


def test_one_image_per_class_is_enough_and_one_class_is_not(tmp_path: Path) -> None:
    learner = Learner()
    learner.fit(write_labelled(tmp_path / "four", "white", 4), settings=QUICK)
    learner.adapt(pixels("dark"), if_worse="keep")
    assert learner.classes == tuple(sorted(tiny.CLASSES))
    (tmp_path / "one").mkdir()
    shutil.copytree(tmp_path / "four" / "cross", tmp_path / "one" / "cross")
    with pytest.raises(Refusal, match="one class alone, cross"):
        Learner().fit(tmp_path / "one", settings=QUICK)


def test_classes_that_are_not_known_are_counted_apart(learner: Learner, tmp_path: Path) -> None:
    folder = write_labelled(tmp_path / "white", "white")
    plain = learner.evaluate(folder)
    (folder / "star").mkdir()
    shutil.copy(folder / "cross" / "002.png", folder / "star" / "a.png")
    evaluation = learner.evaluate(folder)
    assert evaluation.unknown == {"star": 1}
    assert torch.equal(evaluation.confusion, plain.confusion)
    shutil.move(folder / "star", tmp_path / "only" / "star")
    with pytest.raises(Refusal, match="no class of only is known"):
        learner.evaluate(tmp_path / "only")


def test_the_source_is_looked_for_where_it_was(tmp_path: Path) -> None:
    source, target = write_labelled(tmp_path / "source", "white"), pixels("dark")
    Learner(tmp_path / "state").fit(source, settings=QUICK)
    learner = Learner.load(tmp_path / "state")
    assert learner.adapt(target, if_worse="keep").note == ""
    moved = source.rename(tmp_path / "moved")
    with pytest.raises(Refusal, match="name it with --source"):
        learner.adapt(target)
    for given in (moved, None):  # once it is found, its new place is remembered
        assert learner.adapt(target, source=given, if_worse="keep").note == "the same images as in entry 1"
    (moved / "cross" / "002.png").unlink()
    with pytest.raises(Refusal, match="has changed since the fit"):
        learner.adapt(target)
    assert "with 23 images of the source" in learner.adapt(target, source=moved, if_worse="keep").note
    shutil.copytree(moved / "cross", moved / "star")
    with pytest.raises(Refusal, match="does not know: star"):
        learner.adapt(target, source=moved)


def test_a_kept_part_of_the_source_is_balanced_and_enough(tmp_path: Path) -> None:
    source = write_labelled(tmp_path / "source", "white")
    Learner(tmp_path / "state").fit(source, settings=QUICK, keep_source=8)
    shutil.rmtree(source)
    learner = Learner.load(tmp_path / "state")
    entry = learner.adapt(pixels("dark"), if_worse="keep")
    assert "with 8 images of the source (the kept part)" in entry.note
    present = learner._present()
    kept = present.state.load(present.facts, "source/kept.ckpt")
    assert torch.bincount(kept["labels"]).tolist() == [2, 2, 2, 2]


def test_a_fit_has_a_place_of_its_own(learner: Learner, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="holds a learner already"):
        fitted(tmp_path / "state")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(Refusal, match=r"not empty \(thesis.txt\)"):
        fitted(tmp_path / "full")
    (tmp_path / "full" / ".draft.tmp").write_text("mine too")
    (tmp_path / "full" / "lock").write_text("and that")
    with pytest.raises(Refusal, match=r"not empty"):
        learner.save(tmp_path / "full")
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == [".draft.tmp", "lock", "thesis.txt"]
    with pytest.raises(Refusal, match="make one with grcl fit"):
        Learner(tmp_path / "nowhere").adapt(pixels("dark"))
    with pytest.raises(Refusal, match="there is no folder"):
        Learner(tmp_path / "nowhere").fit(tmp_path / "missing")
    assert not (tmp_path / "nowhere").exists()


def test_without_a_directory_it_is_the_same_and_leaves_nothing(learner: Learner) -> None:
    homeless = fitted(None)
    assert torch.equal(homeless.predict_proba(pixels("dark")), learner.predict_proba(pixels("dark")))
    homeless.fit(pixels("white", 48), labels("white", 48), settings=QUICK)
    place = homeless._state.path
    assert place.exists()
    del homeless
    gc.collect()
    assert not place.exists()


def test_settings_of_a_fit_hold_and_what_it_has_chosen_stays(learner: Learner) -> None:
    entry = learner.adapt(pixels("dark"), if_worse="keep", settings={"training.epochs": 3})
    assert entry.settings is not None
    assert entry.settings["training"]["epochs"] == 3
    assert entry.settings["memory"]["size"] == 12
    with pytest.raises(Refusal, match="chosen by grcl fit"):
        learner.adapt(pixels("dark"), settings={"network.name": "resnet18"})
    with pytest.raises(Refusal, match=r"did you mean training\.epochs"):
        learner.adapt(pixels("dark"), settings={"training.epoch": 1})
    with pytest.raises(Refusal, match="unknown method"):
        learner.adapt(pixels("dark"), method="grlc")


def test_defaults_go_by_the_size_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = defaults(100, 28, {}), defaults(100, 300, {})
    assert small["network.name"] == "lenet5"
    assert (large["network.name"], large["images.size"]) == ("tf_efficientnet_lite0", 96)
    assert defaults(100, 300, {"images.size": 64})["images.size"] == 64
    assert "images.size" not in defaults(100, 300, {"network.name": "resnet18"})
    assert defaults(100_000, 300, {})["training.epochs"] < large["training.epochs"]
    monkeypatch.setattr("grcl.learner.defaults.packaged_weights", lambda: None)
    assert defaults(100, 28, {}) == small
    with pytest.raises(Refusal, match=r"grcl\[offline\]"):
        defaults(100, 300, {})


def test_small_batches_are_adapted_gently() -> None:
    assert gentle("grcl") == {"grcl.optimizer.rate": 1e-3}
    assert gentle("grcl_plus") == {
        "grcl_plus.optimizer.rate": 5e-4,
        "grcl_plus.self_training.quotas": "predicted",
    }
    assert gentle("mcd") == gentle("source_only") == {}
    given = {"network.name": "resnet18", "grcl.optimizer.rate": 0.5}
    rates = [
        settings_for_source((pixels("white"), labels("white")), changes, "grcl").as_json()["grcl"]["optimizer"]["rate"]
        for changes in ({"network.name": "resnet18"}, given, {})
    ]
    assert rates == [1e-3, 0.5, 1e-3]


def test_an_adapt_from_a_folder_names_its_examples(learner: Learner, tmp_path: Path) -> None:
    entry = learner.adapt(write_flat(tmp_path / "new camera", "dark"), if_worse="keep")
    assert entry.data is not None
    assert entry.data.name == "new camera"
    present = learner._present()
    shown = present.state.load(present.facts, "examples/0001.ckpt")
    assert len(shown["files"]) == len(shown["pixels"]) == len(shown["after"]["classes"]) == 12
    for file, image in zip(shown["files"], shown["pixels"], strict=True):
        assert torch.equal(image, pixels("dark")[int(Path(file).stem)])
