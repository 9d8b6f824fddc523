"""The losses of the methods GRCL is compared with, against slow or closed forms."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from grcl.gradients import reverse
from grcl.losses import (
    classifier_discrepancy,
    confusion_loss,
    domain_loss,
    mutual_information,
    ring_loss,
    uniform_loss,
)
from grcl.methods.dann import reversal_strength
from grcl.methods.disentangler import InformationEstimator
from grcl.schedule import SCHEDULES


def test_the_domain_loss_is_binary_cross_entropy_with_each_side_counting_half() -> None:
    torch.manual_seed(0)
    source, target = torch.randn(5, 1), torch.randn(8, 1)
    sides = [
        F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, label))
        for scores, label in ((source, 0.0), (target, 1.0))
    ]
    assert_close(domain_loss(source, target), (sides[0] + sides[1]) / 2)


def test_a_discriminator_that_knows_nothing_costs_one_bit() -> None:
    assert_close(domain_loss(torch.zeros(4, 1), torch.zeros(4, 1)), torch.tensor(math.log(2)))


def test_confusion_is_the_domain_loss_with_the_label_turned_round() -> None:
    scores = torch.linspace(-3, 3, 7)[:, None]
    assert_close(confusion_loss(scores), F.binary_cross_entropy_with_logits(scores, torch.zeros_like(scores)))


def test_the_discrepancy_is_the_originals_for_ten_classes_and_does_not_vanish_for_more() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(6, 10), torch.randn(6, 10)
    original = (first.softmax(dim=1) - second.softmax(dim=1)).abs().mean()
    assert_close(classifier_discrepancy(first, second), original)
    # two heads that are sure of different classes are as far apart among 345 classes as among 10
    for classes in (10, 345):
        sure = 100 * torch.eye(classes)[:2]
        assert_close(classifier_discrepancy(sure, sure.flip(0)), torch.tensor(0.2))
    assert classifier_discrepancy(first, first) == 0


def test_the_uniform_loss_is_least_where_no_class_can_be_told() -> None:
    assert_close(uniform_loss(torch.zeros(3, 7)), torch.tensor(math.log(7)))
    torch.manual_seed(0)
    scores = torch.randn(5, 7)
    slow = sum(-math.log(math.exp(s) / sum(map(math.exp, row))) / 7 for row in scores.tolist() for s in row) / 5
    assert_close(uniform_loss(scores), torch.tensor(slow))
    assert uniform_loss(scores) > math.log(7)


def test_the_ring_loss_is_zero_on_a_ring_and_twice_the_relative_variance_of_the_lengths_elsewhere() -> None:
    torch.manual_seed(0)
    features = torch.randn(9, 4)
    lengths = features.norm(dim=1)
    assert_close(ring_loss(3 * F.normalize(features, dim=1)), torch.tensor(0.0), atol=1e-10, rtol=0)
    assert_close(ring_loss(features), 2 * lengths.var(unbiased=False) / lengths.mean() ** 2)
    assert_close(ring_loss(100 * features), ring_loss(features))
    assert ring_loss(torch.zeros(3, 4)) == 0


def test_the_bound_on_the_mutual_information_against_a_slow_form() -> None:
    torch.manual_seed(0)
    joint, marginal = torch.randn(6, 1), torch.randn(6, 1)
    slow = sum(joint[:, 0].tolist()) / 6 - math.log(sum(math.exp(t) for t in marginal[:, 0].tolist()) / 6)
    assert_close(mutual_information(joint, marginal), torch.tensor(slow))
    assert_close(mutual_information(torch.full((6, 1), 2.5), torch.full((6, 1), 2.5)), torch.tensor(0.0))


def test_the_estimator_tells_dependent_features_from_independent_ones() -> None:
    """After the same ascent the estimate is near zero for independent features and far above it for equal ones."""
    estimates = {}
    for name in ("independent", "dependent"):
        torch.manual_seed(0)
        estimator = InformationEstimator(4)
        optimizer = torch.optim.Adam(estimator.parameters(), lr=1e-3)
        estimate = torch.tensor(0.0)
        for _ in range(150):
            x = torch.randn(256, 4)
            y = x if name == "dependent" else torch.randn(256, 4)
            estimate = estimator.estimate({"specific": x, "invariant": x, "irrelevant": y})
            optimizer.zero_grad()
            (-estimate).backward()
            optimizer.step()
        estimates[name] = estimate.item()
    assert estimates["dependent"] > estimates["independent"] + 0.5
    assert abs(estimates["independent"]) < 0.2


def test_reversal_is_the_identity_forward_and_negates_backward() -> None:
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = reverse(x, 0.3)
    assert torch.equal(y, x)
    (gradient,) = torch.autograd.grad((y * torch.tensor([5.0, 7.0])).sum(), x)
    assert_close(gradient, torch.tensor([-1.5, -2.1]))


@pytest.mark.parametrize(("progress", "strength"), [(0.0, 0.0), (0.5, 2 / (1 + math.exp(-5)) - 1), (1.0, 0.9999092)])
def test_danns_reversal_grows_from_nothing_to_one(progress: float, strength: float) -> None:
    assert reversal_strength(progress) == pytest.approx(strength)


@pytest.mark.parametrize("name", ["constant", "cosine", "inverse"])
def test_schedules_start_at_one_and_never_rise(name: str) -> None:
    values = [SCHEDULES[name](step / 50) for step in range(51)]
    assert values[0] == pytest.approx(1)
    assert values == sorted(values, reverse=True)
    assert values[-1] >= 0


def test_a_warm_schedule_rises_from_nothing_and_is_the_cold_one_after_a_fifth() -> None:
    warm, cold = ([SCHEDULES[name](step / 50) for step in range(51)] for name in ("warm_cosine", "cosine"))
    assert warm[0] == 0
    assert warm[:10] == sorted(warm[:10])
    assert warm[10:] == cold[10:]
