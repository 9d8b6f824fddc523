"""Settings say no early: with one sentence that names the setting, and never with anything but a Refusal."""

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from grcl.benchmarks import BENCHMARKS
from grcl.config import RunSettings, flags, read_preset, resolve, resolve_learner, settings_class, variant
from grcl.methods import METHODS
from grcl.runtime.errors import Refusal
from grcl.runtime.run_directory import variant_name

PRESETS = sorted(path.name.removesuffix(".toml") for path in (resources.files("grcl") / "presets").iterdir())
WHAT_TO_RUN = ("benchmark", "method")  # arguments of their own
KEYS = [flag.key for flag in flags(settings_class("grcl")) if flag.key not in WHAT_TO_RUN]


def mini(**changes: Any) -> RunSettings:
    """GRCL on mini; keyword `memory__size=8` means memory.size = 8."""
    return resolve("mini", "grcl", {key.replace("__", "."): value for key, value in changes.items()})


def refusal(overrides: dict[str, Any], preset: str | None = None) -> str:
    with pytest.raises(Refusal) as caught:
        resolve("mini", "grcl", overrides, preset)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def leaves(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_valid_for_every_method(preset: str, method: str) -> None:
    benchmark = next((name for name in BENCHMARKS if preset.startswith(name)), "mini")  # `tuned` suits all
    settings = resolve(benchmark, method, {}, preset)
    assert (settings.benchmark, settings.method) == (benchmark, method)
    assert isinstance(settings.own, METHODS[method].Config)
    assert variant(settings, preset) == {}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_learner_takes_every_preset_but_for_its_stream(preset: str) -> None:
    values = read_preset(preset)
    settings = resolve_learner("grcl_plus", {}, values)
    wanted = {key: value for key, value in leaves(values) if key.partition(".")[0] in ("training", "memory", "network")}
    found = dict(leaves(settings.as_json()))
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize("method", METHODS)
def test_config_json_gives_the_same_settings_back(method: str) -> None:
    settings = resolve("mini", method, {"seed": 3, "memory.size": 5, "data": "some/where"})
    again = type(settings).model_validate(json.loads(json.dumps(settings.as_json())))
    assert again == settings


def test_the_stream_is_the_benchmark_s_own_order_unless_given() -> None:
    order = BENCHMARKS["mini"].order()
    assert (mini().source, *mini().targets) == order
    assert mini(source=order[2]).targets == (*order[:2], *order[3:])
    settings = mini(source=order[1], targets=[f"{order[4]}+{order[0]}", order[2]])
    assert settings.targets == (f"{order[4]}+{order[0]}", order[2])


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        ({"targets": ["mnist", "mnist"]}, "domain 'mnist' comes twice"),
        ({"targets": ["mnist+digits8", "mnist"]}, "domain 'mnist' comes twice"),
        ({"targets": ["mnist+mnist"]}, "domain 'mnist' comes twice"),
        ({"source": "mnist", "targets": ["digits8", "mnist"]}, "domain 'mnist' comes twice"),
        ({"targets": ["minst"]}, "unknown domain 'minst'; did you mean mnist?"),
        ({"targets": ["mnist+"]}, "unknown domain ''"),
        ({"targets": ["mnist digits8"]}, "unknown domain 'mnist digits8'"),
        ({"source": "svhn"}, "unknown domain 'svhn'; there are: synnum, mnist"),
    ],
)
def test_a_stream_that_cannot_be_is_refused(stream: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(stream)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("sede", "seed"),
        ("epochs", "training.epochs"),
        ("batch-size", "training.batch_size"),
        ("trainning.epochs", "training."),
        ("memory.sise", "memory.size"),
        ("training.epoch", "training.epochs"),
        ("training.epochs.first", "training.epochs"),
        ("grcl.contrast.temprature", "grcl.contrast.temperature"),
        ("grcl.optimiser.rate", "grcl.optimizer."),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest(key: str, nearest: str) -> None:
    sentence = refusal({key: 1})
    assert sentence.startswith("unknown setting")
    assert f"did you mean {nearest}" in sentence


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refusal, match=r"unknown method 'gcrl'; did you mean grcl\?"):
        resolve("mini", "gcrl", {})
    with pytest.raises(Refusal, match=r"unknown benchmark 'mimi'; did you mean mini\?"):
        resolve("mimi", "grcl", {})
    assert "unknown network 'lenet'; did you mean lenet5?" in refusal({"network.name": "lenet"})


def test_the_settings_of_another_method_are_unknown() -> None:
    assert "unknown setting 'multi_task.contrast_weight'" in refusal({"multi_task.contrast_weight": 1.0})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", -1),
        ("seed", 0.5),
        ("training.epochs", 0),
        ("training.epochs", -3),
        ("training.epochs", 1.5),
        ("training.epochs", "many"),
        ("training.epochs", "many\nmore"),
        ("training.epochs", [1]),
        ("training.epochs", None),
        ("training.epochs", "none"),
        ("training.device", "gpu"),
        ("training.checkpoint_seconds", -1.0),
        ("memory.size", 0),
        ("memory.selection", "best"),
        ("augmentation.flip_probability", 1.5),
        ("augmentation.hue", -0.1),
        ("augmentation.hue", "nan"),
        ("grcl.optimizer.rate", 0),
        ("grcl.optimizer.rate", "nan"),
        ("grcl.optimizer.momentum", 1),
        ("grcl.optimizer.schedule", "linear"),
        ("grcl.contrast.temperature", -0.07),
        ("grcl.contrast.key_momentum", 1.0),
        ("grcl.source_constraint", "perhaps"),
        ("network.name", 5),
        ("data", 5),
    ],
)
def test_a_value_that_cannot_be_is_refused_under_its_key(key: str, value: Any) -> None:
    assert refusal({key: value}).startswith(f"{key} = {value!r}: ")


@pytest.mark.parametrize("word", ["none", "None"])
def test_an_optional_setting_is_given_back_by_the_word_none(word: str) -> None:
    optional = [flag.key for flag in flags(settings_class("grcl")) if flag.default is None]
    assert optional
    values = dict(leaves(resolve("mini", "grcl", dict.fromkeys(optional, word)).as_json()))
    assert {values[key] for key in optional} == {None}


def test_settings_that_contradict_each_other_are_refused() -> None:
    assert "blur_sigma_min (5.0) is above blur_sigma_max (2.0)" in refusal({"augmentation.blur_sigma_min": 5})


def test_overrides_reach_their_place_and_no_other() -> None:
    changes = {"seed": "7", "memory.size": "256", "grcl.contrast.temperature": "0.1", "grcl.source_constraint": "false"}
    settings, plain = resolve("mini", "grcl", changes), mini()
    changed = {key: value for key, value in leaves(settings.as_json()) if value != dict(leaves(plain.as_json()))[key]}
    assert changed == {
        "seed": 7,
        "memory.size": 256,
        "grcl.contrast.temperature": 0.1,
        "grcl.source_constraint": False,
    }


def test_a_variant_is_what_differs_from_the_preset_and_has_a_name() -> None:
    assert variant(mini(memory__size=256, grcl__source_weight=0)) == {"memory.size": 256, "grcl.source_weight": 0.0}
    assert variant(mini(targets=["mnist"])) == {"targets": ["mnist"]}
    # A seed has a directory of its own, and these change no result.
    assert variant(mini(seed=5, data="x", training__device="cpu", training__threads=1, training__log_every=3)) == {}


def test_settings_cannot_be_changed_later() -> None:
    with pytest.raises(ValueError, match="frozen"):
        mini().seed = 5


@pytest.mark.parametrize("method", METHODS)
def test_there_is_a_flag_for_every_leaf_with_its_value_and_a_sentence(method: str) -> None:
    settings = resolve("mini", method, {})
    found = {flag.key: flag for flag in flags(type(settings), settings)}
    assert set(found) == set(dict(leaves(settings.as_json())))
    for key, flag in found.items():
        assert not isinstance(flag.default, BaseModel)
        assert flag.field.description, f"{key} has no sentence"
        if key not in WHAT_TO_RUN:
            again = resolve("mini", method, {key: flag.default})
            assert dict(leaves(again.model_dump()))[key] == flag.default


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(KEYS), st.text(max_size=8) | st.integers().map(str) | st.floats().map(str))
@example("source", "")
@example("targets", "")
@example("seed", "9" * 5000)
@example("data", "\0")
def test_any_word_for_any_flag_is_taken_or_refused(key: str, word: str) -> None:
    try:
        answer = variant_name(variant(resolve("mini", "grcl", {key: word})))
    except Refusal as refused:
        answer = str(refused)
    assert "\n" not in answer


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=12))
@example("training.")
@example(".")
def test_any_key_is_known_or_refused(key: str) -> None:
    if key not in (*KEYS, *WHAT_TO_RUN):
        assert refusal({key: "1"})


def test_a_preset_can_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("seed = 4\n[memory]\nsize = 8\n[grcl]\nsource_weight = 0\n[multi_task]\n", encoding="utf-8")
    settings = resolve("mini", "grcl", {"memory.size": 9}, str(path))
    assert (settings.seed, settings.memory.size) == (4, 9)
    assert settings.as_json()["grcl"]["source_weight"] == 0
    assert variant(settings, str(path)) == {"memory.size": 9}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"seed = ", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        (b"sede = 1", "unknown setting 'sede'; did you mean seed?"),
        (b"[memory]\nsise = 1", "unknown setting 'memory.sise'; did you mean memory.size?"),
        (b"memory = 3", "unknown setting 'memory'; did you mean memory."),
        (b"[training]\nepochs = 'x'", "training.epochs = 'x': "),
        (b"made_of = 'digits'", "made_of takes a list of names"),
        (b"made_of = [1]", "made_of takes a list of names"),
        (b"made_of = ['digit']", "no preset 'digit'"),
        (b'made_of = ["\\u0000.toml"]', "no preset "),
    ],
)
def test_a_preset_that_cannot_be_is_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    assert sentence in refusal({}, str(path))


def test_a_preset_made_of_others_says_what_they_say_unless_a_later_one_or_its_own_words_do(tmp_path: Path) -> None:
    first, second, whole = (tmp_path / f"{name}.toml" for name in ("first", "second", "whole"))
    first.write_text("seed = 1\n[memory]\nsize = 1\nselection = 'diverse'\n[stage0.optimizer]\nrate = 1e-3\n")
    second.write_text("seed = 2\n[memory]\nsize = 2\n[stage0]\nepochs = 2\n")
    whole.write_text(f"made_of = ['{first}', '{second}', 'mini_tuned']\nseed = 3\n[training]\nepochs = 3\n")
    found = resolve("mini", "grcl", {}, str(whole))
    tuned = resolve("mini", "grcl", {}, "mini_tuned")
    assert (found.seed, found.training.epochs) == (3, 3)
    assert (found.memory, found.stage0.epochs) == (tuned.memory, tuned.stage0.epochs)
    assert found.stage0.optimizer.rate == 1e-3
    assert found.stage0.augment_source
    whole.write_text(f"made_of = ['{first}', '{second}']\n")
    assert read_preset(str(whole)) == {
        "seed": 2,
        "memory": {"size": 2, "selection": "diverse"},
        "stage0": {"optimizer": {"rate": 1e-3}, "epochs": 2},
    }


def test_a_file_in_made_of_is_named_from_where_the_preset_stands(tmp_path: Path) -> None:
    (tmp_path / "whole.toml").write_text("made_of = ['mini', 'part.toml']")
    (tmp_path / "part.toml").write_text("seed = 5")
    assert resolve("mini", "grcl", {}, str(tmp_path / "whole.toml")).seed == 5


def test_what_helps_is_the_same_for_every_benchmark() -> None:
    """A tuned preset changes of its benchmark's own preset what `tuned` says, and nothing else."""
    tuned = dict(leaves(read_preset("tuned")))
    for benchmark in ("digits", "mini", "office_caltech"):
        own = resolve(benchmark, "grcl_plus", {}).as_json()
        found = resolve(benchmark, "grcl_plus", {}, f"{benchmark}_tuned").as_json()
        assert dict(leaves(found)) == dict(leaves(own)) | tuned


def test_a_preset_within_itself_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text("made_of = ['b.toml']")
    Path("b.toml").write_text("made_of = ['digits', 'a.toml']")
    assert refusal({}, "a.toml") == "preset a.toml is made of itself; take it out of the made_of of b.toml"


@pytest.mark.parametrize("name", ["nonesuch", "nonesuch.toml", "."])
def test_a_preset_that_does_not_exist_is_refused_with_those_that_do(name: str) -> None:
    sentence = refusal({}, name)
    assert sentence.startswith(f"no preset {name!r}")
    assert all(preset in sentence for preset in PRESETS)
