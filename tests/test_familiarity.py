"""What is near to known images is familiar, about one known image in twenty is not, and noise is strange."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grcl.data.images import ImageArray
from grcl.learner.familiarity import Familiarity, learn_familiarity
from grcl.memory.pseudo_labels import View, look_at
from grcl.networks import Classifier, Network, build
from grcl.runtime.checkpoint import decode, encode
from grcl.runtime.seeding import generator

SIZE = 40


def view_of(features: Tensor) -> View:
    return View(F.normalize(features, dim=1), torch.zeros(len(features), 3))


def clouds(count: int, seed: int, place: float = 0.0) -> View:
    """Three classes in one domain; another `place` is another domain."""
    drawn = generator(seed, "clouds")
    centres = 4 * F.one_hot(torch.arange(count) % 3, SIZE).float()
    moved = centres + place * F.one_hot(torch.tensor(3), SIZE)
    return view_of(moved + 0.4 * torch.randn(count, SIZE, generator=drawn))


def share(known: Familiarity, view: View) -> float:
    return float(known.is_strange(view).double().mean())


def test_one_in_twenty_of_unseen_images_of_a_known_domain_is_strange() -> None:
    known = learn_familiarity([clouds(1500, seed=0)])
    assert 0.03 < share(known, clouds(2000, seed=1)) < 0.07


def test_a_new_domain_is_stranger_than_the_source_and_noise_is_strange() -> None:
    known = learn_familiarity([clouds(1500, seed=0)])
    noise = view_of(torch.randn(300, SIZE, generator=generator(0, "noise")))
    assert share(known, clouds(1000, seed=1, place=2.0)) > 0.3
    assert share(known, noise) > 0.99


def test_a_remembered_domain_is_familiar_and_makes_the_source_no_stranger() -> None:
    source, remembered = clouds(1500, seed=0), clouds(60, seed=1, place=2.0)
    tight = view_of(remembered.features + 0.05 * remembered.features.mean(dim=0))
    known = learn_familiarity([source, tight])
    assert share(known, clouds(1000, seed=2, place=2.0)) < 0.15
    assert share(known, clouds(1000, seed=3)) < 0.07


def test_it_is_small_however_much_is_known_and_survives_a_checkpoint() -> None:
    known = learn_familiarity([clouds(3000, seed=seed, place=float(seed)) for seed in range(3)])
    assert len(known.features) == 3 * (2000 // 3)
    restored = Familiarity(**decode(encode(known._asdict())))
    view = clouds(2500, seed=9)  # more than is compared at a time
    assert torch.equal(restored.is_strange(view), known.is_strange(view))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_known_images_are_familiar_themselves(count: int) -> None:
    view = clouds(count, seed=0)
    known = learn_familiarity([view])
    assert len(known.is_strange(view)) == count
    assert not known.is_strange(view).any()


def test_what_is_not_a_number_or_has_no_direction_is_strange() -> None:
    known = learn_familiarity([clouds(100, seed=0)])
    broken = View(torch.stack([torch.zeros(SIZE), torch.full((SIZE,), torch.nan)]), torch.zeros(2, 3))
    assert known.is_strange(broken).all()


def test_nearness_is_that_of_a_slow_recount() -> None:
    view = clouds(30, seed=0)
    nearness = []
    for place, feature in enumerate(view.features):
        others = torch.cat([view.features[:place], view.features[place + 1 :]])
        nearness.append((others @ feature).sort(descending=True).values[:5].mean())
    expected = torch.stack(nearness).quantile(0.05)
    torch.testing.assert_close(learn_familiarity([view]).threshold, expected)


@pytest.fixture(scope="module")
def backbone() -> Classifier:
    return build(Network(name="tf_efficientnet_lite0"), 2).eval()


def pictures(count: int, seed: int, hue: int = 0) -> ImageArray:
    """Smooth pictures of two kinds; `hue` shifts their colours."""
    drawn = generator(seed, "pictures")
    coarse = torch.rand(count, 3, 4, 4, generator=drawn)
    coarse[::2, 0] = 1.0
    smooth = F.interpolate(coarse, size=64, mode="bicubic", antialias=True).clamp(0, 1)
    return ImageArray((255 * smooth).to(torch.uint8).roll(hue, dims=1))


def test_noise_is_strange_to_a_real_backbone(backbone: Classifier) -> None:
    known = learn_familiarity([look_at(backbone, pictures(100, seed=0))])
    noise = torch.randint(256, (40, 3, 64, 64), generator=generator(0, "noise"), dtype=torch.uint8)
    assert share(known, look_at(backbone, ImageArray(noise))) == 1.0
    assert share(known, look_at(backbone, pictures(60, seed=1))) < 0.2
