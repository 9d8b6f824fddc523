"""Backbones of timm: found by name, imported late, and fit for every method."""

import copy
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from grcl.benchmarks.office_caltech import CLASSES as OBJECTS
from grcl.benchmarks.office_caltech import pool
from grcl.config import resolve
from grcl.data.augment import Augmentation
from grcl.data.feeds import Feeder
from grcl.data.images import ImageArray
from grcl.data.reading import Reading
from grcl.data.stream import Labelled, Stage
from grcl.methods import METHODS, Method
from grcl.networks import Classifier, Network, build, fingerprint, input_size
from grcl.networks.backbones import create
from grcl.networks.imagenet import load_by_position, packaged_weights
from grcl.networks.statistics import kept_statistics
from grcl.networks.torchvision_schemas import import_torchvision
from grcl.networks.weights import read_weights
from grcl.runtime.checkpoint import decode, encode
from grcl.runtime.errors import Refusal
from grcl.runtime.seeding import seed_everything
from tiny import CLASSES, domain, tiny_settings

UNTRAINED = Network(name="resnet18", pretrained=False)
PHOTOGRAPHS = Path(__file__).parents[2] / "shared" / "data" / "office_caltech"


def python(program: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh process, which has imported nothing yet."""
    command = [sys.executable, "-W", "error", "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": "", **environment})


def test_who_trains_lenet_does_not_wait_for_timm() -> None:
    """Nor does who only names a common backbone."""
    done = python(
        "import sys, grcl.cli, grcl.run\n"
        "from grcl.config import resolve\n"
        "from grcl.networks import build\n"
        "build(resolve('mini', 'grcl', {}).network, 10)\n"
        "resolve('mini', 'grcl', {'network.name': 'resnet50'})\n"
        "print({'timm', 'torchvision', 'safetensors', 'huggingface_hub'} & set(sys.modules))"
    )
    assert done.stdout == "set()\n", done.stderr


def test_torchvision_imports_whatever_its_build() -> None:
    """A PyPI build beside a CPU torch lacks two operators, which are declared once."""
    assert import_torchvision() is import_torchvision() is import_module("torchvision")


def test_another_error_of_torchvision_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('no luck today')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    with pytest.raises(RuntimeError, match="no luck today"):
        import_torchvision()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resnet81", "did you mean resnet18?"),
        ("ResNet50", "did you mean resnet50?"),
        ("lenet", "did you mean lenet5?"),
        ("resnet18.nonesuch", "did you mean resnet18"),
        ("", "there are: lenet5, resnet18, resnet50, tf_efficientnet_lite0, and all others of timm.list_models()"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(Refusal) as caught:
        resolve("mini", "grcl", {"network.name": name})
    assert str(caught.value).startswith(f"unknown network {name!r}; {hint}")


@pytest.mark.parametrize("name", ["resnet18", "resnet18.tv_in1k", "mobilenetv3_small_100", "vit_tiny_patch16_224"])
def test_any_name_of_timm_is_known(name: str) -> None:
    assert resolve("mini", "grcl", {"network.name": name}).network.name == name


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"network.pretrained": "true"}, "there are no ImageNet weights of lenet5"),
        (
            {"network.name": "resnet18", "network.pretrained": "true", "network.weights": "x.pt"},
            "two beginnings; choose one",
        ),
    ],
)
def test_beginnings_that_cannot_be_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence):
        resolve("mini", "grcl", changes)


def test_the_size_is_the_network_s_own_unless_another_is_asked_for_that_it_can_take() -> None:
    assert input_size(Network()) == 32
    assert input_size(UNTRAINED) == 224
    assert [input_size(UNTRAINED, size) for size in (32, 96, 128)] == [32, 96, 128]
    for network, size, sentence in (
        (Network(), 64, "lenet5 takes images of 32 pixels; images.size = 64"),
        (UNTRAINED, 16, "resnet18 takes images of 32 pixels or more; images.size = 16"),
        (Network(name="vit_tiny_patch16_224"), 96, "vit_tiny_patch16_224 takes images of 224 pixels and no others"),
    ):
        with pytest.raises(Refusal, match=sentence):
            input_size(network, size)


@pytest.mark.parametrize(
    ("name", "mean", "deviation"),
    [
        ("lenet5", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ("resnet18", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ("tf_efficientnet_lite0", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ],
)
def test_mean_and_deviation_belong_to_the_backbone(name: str, mean: Any, deviation: Any) -> None:
    network = build(Network(name=name, pretrained=False), 3)
    torch.testing.assert_close(network.mean.flatten(), torch.tensor(mean), rtol=0, atol=0)
    torch.testing.assert_close(network.deviation.flatten(), torch.tensor(deviation), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_100", "tf_efficientnet_lite0"])
def test_an_untrained_network_depends_on_the_seed_alone(name: str) -> None:
    prints = []
    for seed in (0, 0, 1):
        torch.rand(7)
        seed_everything(seed, "network")
        network = build(Network(name=name, pretrained=False), 5)
        prints.append(fingerprint(network))
    assert prints[0] == prints[1] != prints[2]
    z, scores = network.train().see(images := torch.rand(4, 3, 64, 64))
    assert (z.shape, scores.shape) == ((4, network.feature_size), (4, 5))
    with kept_statistics(network):
        assert torch.equal(network.see(images)[0], network.see(images)[0])  # no dropout unless it is asked for


@pytest.fixture(scope="module")
def stage() -> Stage:
    """A second stage, with a memory; sixteen images of each domain."""
    few = torch.arange(16)
    white, dark, noisy = (
        Labelled(ImageArray(part.images.read(few)), part.labels[few])
        for part in (domain(name).train for name in ("white", "dark", "noisy"))
    )
    return Stage(2, white, (dark,), noisy.images, Augmentation())


@pytest.fixture(scope="module")
def untrained() -> Classifier:
    seed_everything(0, "network")
    return build(UNTRAINED, len(CLASSES))


def begun(name: str, network: Classifier, stage: Stage) -> Method:
    method = METHODS[name](copy.deepcopy(network), tiny_settings(name).own)
    seed_everything(0, "begin")
    method.begin(stage)
    method.eval()
    return method


def take_a_step(method: Method, stage: Stage, step: int) -> dict[str, Tensor]:
    seed_everything(0, step)
    feeder = Feeder(method.feeds(stage), 8, (0, stage.index), torch.device("cpu"))
    return method.train().step(feeder.batch(step), 0.0)


# Resuming is tested for every method on a small network; these two have the most that batch normalisation could upset.
SHORT = ("grcl_plus", "mcd")
LONG = [name for name in METHODS if name not in ("source_only", *SHORT)]


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_every_method_trains_a_resnet_and_resumes_it_to_the_bit(name: str, stage: Stage, untrained: Classifier) -> None:
    straight = begun(name, untrained, stage)
    straight.warm_up(stage)
    log = take_a_step(straight, stage, 0)
    assert all(value.isfinite() for value in log.values())
    saved = decode(encode(straight.state()))
    take_a_step(straight, stage, 1)
    resumed = begun(name, untrained, stage)
    resumed.restore(saved)
    take_a_step(resumed, stage, 1)
    assert fingerprint(resumed) == fingerprint(straight)
    assert fingerprint(straight.network) != fingerprint(untrained)


# What ImageNet calls the objects of office_caltech that are among its thousand classes.
IMAGENET = {
    "back_pack": {414},
    "keyboard": {508},
    "laptop_computer": {620, 681},
    "monitor": {527, 664, 782},
    "mouse": {673},
    "mug": {504, 968},
    "projector": {745},
}


@pytest.fixture(scope="module")
def features() -> tuple[Tensor, Tensor]:
    """z of ten photographs of each class by the backbone that comes with its weights, and their labels."""
    if not PHOTOGRAPHS.exists():
        pytest.skip("no photographs of office_caltech beside the checkout")
    amazon = pool("amazon", PHOTOGRAPHS, Reading(size=128, workers=0))
    places = torch.cat([torch.nonzero(amazon.labels == label)[:10, 0] for label in range(len(OBJECTS))])
    network = build(Network(name="tf_efficientnet_lite0"), len(OBJECTS)).eval()
    with torch.no_grad():
        return network.features(amazon.images.read(places).float() / 255), amazon.labels[places]


def packaged() -> dict[str, Tensor]:
    file = packaged_weights()
    assert file is not None
    return read_weights(file)


def test_imagenet_weights_are_mapped_right(features: tuple[Tensor, Tensor]) -> None:
    """Under the head that the file carries, most photographs are what ImageNet calls them: one of a thousand."""
    z, labels = features
    weights = packaged()
    best = torch.addmm(weights["_fc.bias"], z, weights["_fc.weight"].T).argmax(dim=1)
    named = [(int(guess), OBJECTS[label]) for guess, label in zip(best, labels, strict=True)]
    right = [guess in IMAGENET[name] for guess, name in named if name in IMAGENET]
    assert len(right) == 10 * len(IMAGENET)
    assert sum(right) / len(right) > 0.5


def test_frozen_imagenet_features_tell_classes_apart(features: tuple[Tensor, Tensor]) -> None:
    """By the nearest class mean; every second photograph makes the means, the others are classified."""
    z, labels = torch.nn.functional.normalize(features[0], dim=1), features[1]
    known = torch.arange(len(labels)) % 2 == 0
    means = torch.stack([z[known & (labels == label)].mean(dim=0) for label in labels.unique()])
    accuracy = (torch.cdist(z[~known], means).argmin(dim=1) == labels[~known]).double().mean()
    assert accuracy > 0.85


def test_weights_by_position_must_fit_at_every_place(tmp_path: Path) -> None:
    weights, encoder = packaged(), create("tf_efficientnet_lite0")
    names = list(weights)
    shortened = {name: weights[name] for name in names[:100]}
    swapped = {name: weights[name] for name in [*names[:1], names[2], names[1], *names[3:]]}  # of equal shape
    for changed in (shortened, swapped):
        torch.save(changed, tmp_path / "weights.pt")
        with pytest.raises(Refusal, match=r"weights\.pt is not the release"):
            load_by_position(encoder, tmp_path / "weights.pt")


def test_the_head_of_a_pretrained_network_depends_on_the_seed_alone() -> None:
    heads = []
    for seed in (0, 0, 1):
        seed_everything(seed, "network")
        network = build(Network(name="tf_efficientnet_lite0"), 5)
        heads.append(fingerprint(network.head))
    assert heads[0] == heads[1] != heads[2]


class Hub(SimpleHTTPRequestHandler):
    """A hub with one file, which tells its commit and digest as the real one does; it closes when asked to."""

    def send_head(self) -> Any:
        if self.path == "/stop":
            Thread(target=self.server.shutdown).start()
        return super().send_head()

    def end_headers(self) -> None:
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", '"1"')
        super().end_headers()

    def log_message(self, *words: Any) -> None:
        pass


FETCH = """
import sys
from urllib.request import urlopen
from grcl.networks import Network, build, fingerprint
from grcl.runtime.errors import Refusal
print(fingerprint(build(Network(name="test_resnet"), 3).encoder))
urlopen(sys.argv[1] + "/stop").close()
print(fingerprint(build(Network(name="test_resnet"), 3).encoder))
try:
    build(Network(name="test_vit"), 3)
except Refusal as refusal:
    print(refusal)
"""


def test_imagenet_weights_come_from_the_hub_once_and_then_from_this_machine(tmp_path: Path) -> None:
    """Where neither has them, one sentence says what to do."""
    published = tmp_path / "timm" / "test_resnet.r160_in1k" / "resolve" / "main" / "model.safetensors"
    published.parent.mkdir(parents=True)
    (tmp_path / "stop").touch()
    trained = create("test_resnet")
    save_file(trained.state_dict() | {"fc.weight": torch.zeros(1000, 96), "fc.bias": torch.zeros(1000)}, published)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_port}"
        done = python(FETCH, address, HF_ENDPOINT=address, HF_HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    fetched, kept, refused = done.stdout.splitlines()
    assert fetched == kept == fingerprint(trained)
    assert refused.startswith("the ImageNet weights of test_vit cannot be fetched (")
    for remedy in ("--weights FILE", "--network.pretrained false", "--network.name tf_efficientnet_lite0", "[offline]"):
        assert remedy in refused


def test_a_backbone_without_published_weights_says_so() -> None:
    with pytest.raises(Refusal, match="timm has no ImageNet weights of resnet200"):
        build(Network(name="resnet200"), 3)
