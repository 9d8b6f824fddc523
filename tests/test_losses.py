"""InfoNCE (Eq. 1): the formula in slow steps, its limits, what the mask is for, and which gradient negatives have."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from grcl.data.augment import Augmentation
from grcl.data.feeds import Samples
from grcl.data.images import ImageArray
from grcl.data.stream import Labelled, Stage
from grcl.losses import class_nce, info_nce
from grcl.methods.contrast import Contrast, ContrastSettings
from grcl.networks.classifier import Classifier

INSTANCES, SIZE = 6, 5

seeds = st.integers(0, 2**31 - 1)


def on_sphere(seed: int, rows: int) -> Tensor:
    return F.normalize(torch.randn(rows, SIZE, generator=torch.Generator().manual_seed(seed)).double(), dim=1)


def no_own(batch: int, keys: int) -> Tensor:
    return torch.zeros(batch, keys, dtype=torch.bool)


def dot(a: Tensor, b: Tensor) -> float:
    return math.fsum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def slow_info_nce(query: Tensor, positive: Tensor, negatives: Tensor, own: Tensor, temperature: float) -> float:
    """−log( e^{q·k⁺/τ} / (e^{q·k⁺/τ} + Σ e^{q·k⁻/τ}) ), averaged over the batch."""
    total = 0.0
    for i in range(len(query)):
        match = math.exp(dot(query[i], positive[i]) / temperature)
        others = 0.0
        for j in range(len(negatives)):
            if not own[i, j]:
                others += math.exp(dot(query[i], negatives[j]) / temperature)
        total -= math.log(match / (match + others))
    return total / len(query)


@settings(deadline=None)
@given(seeds, st.integers(1, 5), st.integers(0, 7), st.floats(0.05, 10))
def test_it_is_the_formula(seed: int, batch: int, keys: int, temperature: float) -> None:
    query, positive, negatives = on_sphere(seed, batch), on_sphere(seed + 1, batch), on_sphere(seed + 2, keys)
    own = torch.rand(batch, keys, generator=torch.Generator().manual_seed(seed)) < 0.3
    expected = slow_info_nce(query, positive, negatives, own, temperature)
    assert float(info_nce(query, positive, negatives, own, temperature)) == pytest.approx(
        expected, rel=1e-12, abs=1e-14
    )


def slow_class_nce(query: Tensor, positive: Tensor, keys: Tensor, own: Tensor, alike: Tensor, tau: float) -> float:
    """The mean over all positives of −log of what each has of all keys, averaged over the batch."""
    total = 0.0
    for i in range(len(query)):
        weights = [math.exp(dot(query[i], positive[i]) / tau)]
        wanted = [weights[0]]
        for j in range(len(keys)):
            if own[i, j]:
                continue
            weights.append(math.exp(dot(query[i], keys[j]) / tau))
            wanted += [weights[-1]] if alike[i, j] else []
        total -= sum(math.log(weight / sum(weights)) for weight in wanted) / len(wanted)
    return total / len(query)


@settings(deadline=None)
@given(seeds, st.integers(1, 5), st.integers(0, 7), st.floats(0.05, 10))
def test_with_classes_it_is_the_formula(seed: int, batch: int, keys: int, temperature: float) -> None:
    query, positive, others = on_sphere(seed, batch), on_sphere(seed + 1, batch), on_sphere(seed + 2, keys)
    own, alike = (torch.rand(2, batch, keys, generator=torch.Generator().manual_seed(seed)) < 0.4).unbind()
    query.requires_grad_()
    loss = class_nce(query, positive, others, own, alike, temperature)
    expected = slow_class_nce(query, positive, others, own, alike, temperature)
    assert loss.item() == pytest.approx(expected, rel=1e-12, abs=1e-14)
    assert torch.autograd.grad(loss, query)[0].isfinite().all()
    plain = class_nce(query, positive, others, own, torch.zeros_like(alike), temperature)
    assert plain.item() == pytest.approx(info_nce(query, positive, others, own, temperature).item(), rel=1e-12)


@pytest.mark.parametrize("keys", [0, 1, 4, 1024])
@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_it_is_chance_where_all_embeddings_coincide(keys: int, temperature: float) -> None:
    one = on_sphere(0, 1)
    loss = info_nce(one.expand(3, -1), one.expand(3, -1), one.expand(keys, -1), no_own(3, keys), temperature)
    assert float(loss) == pytest.approx(math.log(keys + 1), abs=1e-14)


@settings(deadline=None)
@given(seeds)
def test_a_key_of_its_own_is_no_negative(seed: int) -> None:
    query, positive, negatives = on_sphere(seed, 3), on_sphere(seed + 1, 3), on_sphere(seed + 2, 4)
    plain = info_nce(query, positive, negatives, no_own(3, 4), 0.07)
    for stranger in (query, -query, on_sphere(seed + 3, 3)):
        own = torch.cat([no_own(3, 4), torch.ones(3, 3, dtype=torch.bool)], dim=1)
        assert_close(
            info_nce(query, positive, torch.cat([negatives, stranger]), own, 0.07), plain, rtol=1e-14, atol=1e-15
        )


def test_a_sample_whose_every_negative_is_its_own_has_nothing_to_learn() -> None:
    query = on_sphere(0, 2).requires_grad_()
    loss = info_nce(query, on_sphere(1, 2), on_sphere(2, 3), ~no_own(2, 3), 0.07)
    (gradient,) = torch.autograd.grad(loss, query)
    assert loss.item() == 0
    assert torch.equal(gradient, torch.zeros_like(gradient))


@settings(deadline=None)
@given(seeds, st.permutations(range(5)))
def test_the_order_of_the_negatives_does_not_matter(seed: int, order: list[int]) -> None:
    query, positive, negatives = on_sphere(seed, 3), on_sphere(seed + 1, 3), on_sphere(seed + 2, 5)
    own = torch.rand(3, 5, generator=torch.Generator().manual_seed(seed)) < 0.3
    shuffled = info_nce(query, positive, negatives[order], own[:, order], 0.07)
    assert_close(shuffled, info_nce(query, positive, negatives, own, 0.07), rtol=1e-13, atol=1e-15)


@settings(deadline=None)
@given(seeds, st.floats(0.05, 10))
def test_another_negative_never_lowers_the_loss(seed: int, temperature: float) -> None:
    query, positive, negatives = on_sphere(seed, 3), on_sphere(seed + 1, 3), on_sphere(seed + 2, 6)
    losses = [float(info_nce(query, positive, negatives[:n], no_own(3, n), temperature)) for n in range(7)]
    assert losses[0] == 0
    assert all(fewer <= more + 1e-14 for fewer, more in pairwise(losses))


def test_hot_it_is_chance_and_cold_it_is_the_margin() -> None:
    query, positive, negatives = on_sphere(0, 4), on_sphere(1, 4), on_sphere(2, 7)
    hot = info_nce(query, positive, negatives, no_own(4, 7), 1e9)
    assert float(hot) == pytest.approx(math.log(8), abs=1e-8)
    best = torch.cat([(query * positive).sum(dim=1, keepdim=True), query @ negatives.T], dim=1).amax(dim=1)
    margin = (best - (query * positive).sum(dim=1)).mean()
    cold = info_nce(query, positive, negatives, no_own(4, 7), 1e-6)
    assert float(cold) * 1e-6 == pytest.approx(float(margin), abs=1e-6 * math.log(8))


class Scene:
    """A contrastive part with a bank of six random keys, all of which are drawn, and a batch of some of them."""

    def __init__(self, query: str, index: list[int], seed: int = 0, same_class: str = "negative") -> None:
        torch.manual_seed(0)
        self.network = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(48, 7)), 7, 2).double()
        pixels = torch.randint(256, (INSTANCES, 3, 4, 4), dtype=torch.uint8)
        source = Labelled(ImageArray(pixels[:2]), torch.tensor([0, 1]))
        stage = Stage(1, source, (), ImageArray(pixels[2:]), Augmentation())
        settings = ContrastSettings.model_validate(
            {"negatives": INSTANCES, "hidden": 8, "size": SIZE, "query": query, "same_class": same_class}
        )
        self.contrast = Contrast(settings, self.network.feature_size)
        self.contrast.begin(stage)
        self.contrast.double()
        self.keys = on_sphere(seed, INSTANCES)
        self.views = torch.rand(2, len(index), 3, 4, 4).double()
        images = self.views.flatten(0, 1) if query == "two_views" else self.views[0]
        self.samples = Samples(images, torch.tensor(index))

    def loss(self) -> Tensor:
        self.contrast.bank.fill(self.keys)
        loss = self.contrast.on(self.samples, self.network).loss()
        assert isinstance(loss, Tensor)
        return loss

    def gradient(self) -> Tensor:
        parameters = [*self.network.encoder.parameters(), *self.contrast.projector.parameters()]
        return torch.cat([part.flatten() for part in torch.autograd.grad(self.loss(), parameters)])

    def embedded(self, view: int) -> Tensor:
        return self.contrast.embed(self.network, self.views[view]).detach()


def own_keys(index: list[int]) -> Tensor:
    return torch.tensor([[place == i for place in range(INSTANCES)] for i in index])


@pytest.mark.parametrize("form", ["view", "literal", "two_views"])
def test_each_form_compares_what_it_says(form: str) -> None:
    index = [4, 0, 3]
    scene = Scene(form, index)
    fresh, stored, second = scene.embedded(0), scene.keys[index], scene.embedded(1)
    query, positive = {"view": (fresh, stored), "literal": (stored, fresh), "two_views": (fresh, second)}[form]
    expected = slow_info_nce(query, positive, scene.keys, own_keys(index), 0.07)
    assert scene.loss().item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("same_class", ["negative", "neither", "positive"])
def test_keys_of_the_same_class_are_what_the_settings_say_and_the_unlabelled_stay_negatives(same_class: str) -> None:
    index = [4, 0, 3, 5]
    scene = Scene("view", index, same_class=same_class)
    scene.contrast.label_target(torch.tensor([0, -1, 1, -1]))  # the source, before it, has 0 and 1
    classes = [0, 1, 0, None, 1, None]
    alike = torch.tensor([[classes[i] == classes[j] is not None for j in range(INSTANCES)] for i in index])
    own, fresh = own_keys(index), scene.embedded(0)
    expected = {
        "negative": slow_info_nce(fresh, scene.keys[index], scene.keys, own, 0.07),
        "neither": slow_info_nce(fresh, scene.keys[index], scene.keys, own | alike, 0.07),
        "positive": slow_class_nce(fresh, scene.keys[index], scene.keys, own, alike, 0.07),
    }
    assert scene.loss().item() == pytest.approx(expected[same_class], rel=1e-10)
    assert len(set(expected.values())) == 3


def cosine_under_other_negatives(form: str) -> float:
    """Between the gradients of one sample's loss before and after all other keys have changed."""
    one, other = Scene(form, [2]), Scene(form, [2])
    other.keys = -one.keys
    other.keys[2] = one.keys[2]
    return float(F.cosine_similarity(one.gradient(), other.gradient(), dim=0))


def test_negatives_push_the_query_of_a_view() -> None:
    assert cosine_under_other_negatives("view") < 0.99
    assert cosine_under_other_negatives("two_views") < 0.99


def test_to_the_letter_negatives_only_scale_the_pull() -> None:
    assert cosine_under_other_negatives("literal") == pytest.approx(1, abs=1e-12)


def test_the_own_key_is_no_negative_even_if_it_is_the_nearest_of_all() -> None:
    scene = Scene("two_views", [1])
    losses = []
    for own in (scene.embedded(0), -scene.embedded(0)):
        scene.keys[1] = own[0]
        losses.append(scene.loss().item())
    assert losses[0] == losses[1]
    without = torch.cat([scene.keys[:1], scene.keys[2:]])
    expected = slow_info_nce(scene.embedded(0), scene.embedded(1), without, no_own(1, INSTANCES - 1), 0.07)
    assert losses[0] == pytest.approx(expected, rel=1e-10)


def test_the_bank_learns_the_first_view_and_a_loss_changes_no_key() -> None:
    index = [4, 0, 3]
    scene = Scene("two_views", index)
    scene.contrast.bank.fill(scene.keys)
    batch = scene.contrast.on(scene.samples, scene.network)
    batch.loss()
    assert_close(scene.contrast.bank.keys, scene.keys, rtol=0, atol=1e-15)
    batch.update_keys()
    expected = scene.keys.clone()
    expected[index] = F.normalize(0.5 * scene.keys[index] + 0.5 * scene.embedded(0), dim=1)
    assert_close(scene.contrast.bank.keys, expected, rtol=0, atol=1e-14)
