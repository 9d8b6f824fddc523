"""The feature bank: keys stay on the sphere, an update is local, and draws come from the seed."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from grcl.memory.bank import FeatureBank

INSTANCES, SIZE = 7, 4


def rows(seed: int, count: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(count, SIZE, generator=torch.Generator().manual_seed(seed))


def filled(momentum: float, seed: int = 0) -> FeatureBank:
    bank = FeatureBank(INSTANCES, SIZE, momentum)
    bank.fill(rows(seed, INSTANCES))
    return bank


Step = tuple[int, list[int], float]
steps = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), st.lists(st.integers(0, INSTANCES - 1), unique=True), st.floats(1e-3, 1e3)),
    max_size=6,
)


@settings(deadline=None)
@given(steps, st.floats(0, 1, exclude_max=True))
def test_keys_stay_on_the_sphere(history: list[Step], momentum: float) -> None:
    bank = filled(momentum)
    for seed, index, scale in history:
        if len(index) == INSTANCES:
            bank.fill(rows(seed, INSTANCES, scale))
        else:
            bank.update(torch.tensor(index, dtype=torch.long), rows(seed, len(index), scale))
        assert_close(bank.keys.norm(dim=1), torch.ones(INSTANCES), atol=1e-6, rtol=0)


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1), st.lists(st.integers(0, INSTANCES - 1), unique=True), st.floats(0, 0.999))
def test_an_update_blends_the_given_keys_and_touches_no_other(seed: int, index: list[int], momentum: float) -> None:
    bank, fresh = filled(momentum), F.normalize(rows(seed, len(index)), dim=1)
    before = bank.keys.tolist()
    bank.update(torch.tensor(index, dtype=torch.long), fresh)
    for place in range(INSTANCES):
        if place not in index:
            assert bank.keys[place].tolist() == before[place]
            continue
        new = fresh[index.index(place)].tolist()
        blend = [momentum * k + (1 - momentum) * n for k, n in zip(before[place], new, strict=True)]
        length = math.hypot(*blend)
        # Rounding to 24 bits before the division weighs more where the blend is short.
        assert bank.keys[place].tolist() == pytest.approx([b / length for b in blend], abs=1e-6 / length)


def test_without_momentum_the_fresh_key_is_taken_and_with_much_the_old_one_stays() -> None:
    index, fresh = torch.tensor([3, 1]), F.normalize(rows(1, 2), dim=1)
    forgetful, stubborn = filled(0.0), filled(1 - 1e-7)
    forgetful.update(index, fresh)
    assert_close(forgetful.keys[index], fresh, atol=1e-6, rtol=0)
    stubborn.update(index, fresh)
    assert_close(stubborn.keys, filled(0.0).keys, atol=1e-6, rtol=0)


def test_keys_do_not_depend_on_the_length_of_what_they_are_filled_with() -> None:
    one, other = filled(0.5), FeatureBank(INSTANCES, SIZE, 0.5)
    other.fill(1000 * rows(0, INSTANCES))
    assert_close(other.keys, one.keys, atol=1e-6, rtol=0)


def test_a_key_that_meets_its_opposite_stays_finite() -> None:
    bank = filled(0.5)
    bank.update(torch.tensor([2]), -bank.keys[2:3])
    assert bank.keys.isfinite().all()


def test_keys_carry_no_gradient() -> None:
    bank, fresh = filled(0.5), rows(1, 2).requires_grad_()
    bank.update(torch.tensor([0, 1]), fresh)
    assert not bank.keys.requires_grad


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(0, 2**31 - 1))
def test_draws_are_places_of_keys_and_follow_the_seed(count: int, seed: int) -> None:
    bank = filled(0.5)
    torch.manual_seed(seed)
    places = bank.draw(count)
    assert len(places) == min(count, INSTANCES)
    assert all(0 <= place < INSTANCES for place in places.tolist())
    torch.manual_seed(seed)
    assert torch.equal(bank.draw(count), places)


@pytest.mark.parametrize("count", [INSTANCES, INSTANCES + 1, 1024])
def test_all_keys_are_drawn_once_if_there_are_no_more(count: int) -> None:
    assert filled(0.5).draw(count).tolist() == list(range(INSTANCES))


def test_every_key_is_drawn_equally_often() -> None:
    torch.manual_seed(0)
    bank, draws = filled(0.5), 7000
    counts = torch.stack([bank.draw(1) for _ in range(draws)]).flatten().bincount(minlength=INSTANCES)
    # Six standard deviations of a binomial.
    chance = 1 / INSTANCES
    assert ((counts - draws * chance).abs() < 6 * math.sqrt(draws * chance * (1 - chance))).all()


def test_the_keys_are_saved_with_the_module() -> None:
    bank, other = filled(0.5, seed=0), FeatureBank(INSTANCES, SIZE, 0.5)
    other.load_state_dict(bank.state_dict())
    assert torch.equal(other.keys, bank.keys)
