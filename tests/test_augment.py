"""Laws of the batched augmentation; kornia is the oracle of every operation."""

import math
from typing import Any

import kornia
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from grcl.data import augment
from grcl.data.augment import Augmentation, Draws, apply, draw

PAPER = Augmentation()
STRONG = Augmentation(
    jitter_probability=0.7, grey_probability=0.3, invert_probability=0.3, rotation=30, translation=0.2, scale=0.3
)
OFF = Augmentation(
    brightness=0, contrast=0, saturation=0, hue=0, jitter_probability=0, blur_probability=0, flip_probability=0
)
ONE_BY_ONE: list[dict[str, float]] = [
    {"jitter_probability": 1, "brightness": 0.4},
    {"jitter_probability": 1, "contrast": 0.4},
    {"jitter_probability": 1, "saturation": 0.4},
    {"jitter_probability": 1, "hue": 0.1},
    {"blur_probability": 0.5},
    {"flip_probability": 0.5},
    {"grey_probability": 0.5},
    {"invert_probability": 0.5},
    {"rotation": 20},
    {"translation": 0.2},
    {"scale": 0.2},
]
SEEDS = st.integers(0, 2**31 - 1)
few_examples = settings(max_examples=12, deadline=None)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_images(count: int = 6, height: int = 20, width: int = 24, seed: int = 0) -> Tensor:
    """Noise in 0..1 with the pixels that a hue is hard to tell of: greys, pure and mixed colours, near-greys."""
    images = torch.rand(count, 3, height, width, generator=generator(seed))
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 0.5, 1.0])] * 3).T
    images[:, :, 0, :24] = corners[:, :24]
    images[:, :, 1, :3] = corners[:, 24:]
    images[:, 1:, 2] = images[:, :1, 2]
    images[:, 2, 3] = (images[:, 1, 3] - 1e-7).clamp(0, 1)
    return images


def some_values(low: float, high: float, count: int = 6) -> Tensor:
    return torch.linspace(low, high, count)


def altered(chosen: Augmentation, **changes: float) -> Augmentation:
    return Augmentation.model_validate(chosen.model_dump() | changes)


def equal(one: Draws, other: Draws) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def neutral(count: int, **changes: Tensor) -> Draws:
    """Draws that change nothing but what is given."""
    return draw(OFF, count, generator())._replace(**changes)


def assert_near(actual: Tensor, expected: Tensor, within: float) -> None:
    assert_close(actual, expected, rtol=0, atol=within)


def test_brightness_contrast_and_saturation_are_those_of_kornia() -> None:
    images, factor, oracle = some_images(), some_values(0, 2.5), kornia.enhance
    assert_near(augment.adjust_brightness(images, factor), oracle.adjust_brightness_accumulative(images, factor), 0)
    contrast = oracle.adjust_contrast_with_mean_subtraction(images, factor)
    assert_near(augment.adjust_contrast(images, factor), contrast, 5e-7)
    saturation = oracle.adjust_saturation_with_gray_subtraction(images, factor)
    assert_near(augment.adjust_saturation(images, factor), saturation, 5e-7)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-7)])
def test_hue_is_that_of_kornia(dtype: torch.dtype, tolerance: float) -> None:
    images, shift = some_images(11).to(dtype), some_values(-0.5, 0.5, 11).to(dtype)
    expected = kornia.enhance.adjust_hue(images, shift * 2 * math.pi)
    assert_near(augment.adjust_hue(images, shift), expected, tolerance)


def test_hue_shifted_there_and_back_is_the_image() -> None:
    images, shift = some_images(), some_values(-0.5, 0.5)
    assert_near(augment.adjust_hue(augment.adjust_hue(images, shift), -shift), images, 2e-6)


def test_a_third_of_a_turn_permutes_the_channels() -> None:
    images = some_images()
    assert_near(augment.adjust_hue(images, torch.full((6,), 1 / 3)), images.roll(1, dims=1), 1e-6)


def test_grey_and_negative_are_those_of_kornia() -> None:
    images = some_images()
    grey = kornia.color.rgb_to_grayscale(images).expand_as(images)
    assert_near(augment.remove_colour(images), grey, 2e-7)
    assert_near(augment.invert(images), kornia.enhance.invert(images), 0)


@pytest.mark.parametrize(("height", "width", "kernel"), [(16, 16, 3), (32, 40, 3), (64, 64, 7), (224, 230, 23)])
def test_blur_is_that_of_kornia(height: int, width: int, kernel: int) -> None:
    images, sigma = some_images(3, height, width=max(width, 24))[..., :width], some_values(0.1, 2, 3)
    expected = kornia.filters.gaussian_blur2d(images, (kernel, kernel), sigma[:, None].repeat(1, 2))
    assert_near(augment.blur(images, sigma), expected, 1e-6)


def test_moves_are_those_of_kornia() -> None:
    images = some_images()
    count, _, height, width = images.shape
    angle, zoom = some_values(-170, 90), some_values(0.7, 1.3).flip(0)
    right, down = some_values(-0.2, 0.3), some_values(0.25, -0.25)
    centre = torch.tensor([(width - 1) / 2, (height - 1) / 2]).expand(count, 2)
    shift = torch.stack([right * width, down * height], dim=1)
    # This function of kornia alone counts angles clockwise.
    matrix = kornia.geometry.get_affine_matrix2d(shift, centre, zoom[:, None].repeat(1, 2), -angle)
    expected = kornia.geometry.warp_affine(
        images, matrix[:, :2], (height, width), padding_mode="border", align_corners=False
    )
    assert_near(augment.move(images, angle, right, down, zoom), expected, 2e-5)


def test_a_flip_is_that_of_kornia_and_undoes_itself() -> None:
    images = some_images()
    mirrored = neutral(6, flip=torch.tensor([True, False] * 3))
    assert torch.equal(augment.flip(images), kornia.geometry.hflip(images))
    assert not torch.equal(apply(images, mirrored), images)
    assert torch.equal(apply(apply(images, mirrored), mirrored), images)


def test_the_operations_come_in_their_order() -> None:
    images, draws = some_images(), draw(altered(STRONG, jitter_probability=1.0), 6, generator(3))
    draws = draws._replace(sigma=some_values(0.5, 2))
    expected = augment.adjust_brightness(images, draws.brightness)
    expected = augment.adjust_contrast(expected, draws.contrast)
    expected = augment.adjust_saturation(expected, draws.saturation)
    expected = augment.adjust_hue(expected, draws.hue)
    expected = torch.where(draws.grey[:, None, None, None], augment.remove_colour(expected), expected)
    expected = torch.where(draws.invert[:, None, None, None], augment.invert(expected), expected)
    expected = augment.move(expected, draws.rotation, draws.right, draws.down, draws.scale)
    expected = augment.blur(expected, draws.sigma)
    expected = torch.where(draws.flip[:, None, None, None], augment.flip(expected), expected)
    assert_near(apply(images, draws), expected, 1e-6)


@pytest.mark.parametrize("only", ONE_BY_ONE, ids=lambda only: list(only)[-1])
def test_equal_images_get_different_draws(only: dict[str, float]) -> None:
    images = some_images(1).repeat(16, 1, 1, 1)
    changed = apply(images, draw(altered(OFF, **only), 16, generator()))
    assert (changed != changed[:1]).any()


@given(seed=SEEDS)
@few_examples
def test_a_batch_equals_its_images_one_by_one(seed: int) -> None:
    images, draws = some_images(seed=seed), draw(STRONG, 6, generator(seed))
    alone = [apply(images[i : i + 1], draws.rows(slice(i, i + 1))) for i in range(6)]
    assert_near(apply(images, draws), torch.cat(alone), 1e-6)


def test_the_parts_of_the_ranks_are_the_whole() -> None:
    images, draws = some_images(8), draw(STRONG, 8, generator())
    parts = [apply(images[rank::2], draws.rows(slice(rank, None, 2))) for rank in range(2)]
    whole = apply(images, draws)
    for rank, part in enumerate(parts):
        assert_near(part, whole[rank::2], 1e-6)


def test_an_image_is_drawn_for_without_regard_to_those_after_it() -> None:
    assert equal(draw(STRONG, 9, generator()).rows(slice(4)), draw(STRONG, 4, generator()))


def test_the_same_seed_gives_the_same_bits() -> None:
    images = some_images()
    first, second = (apply(images, draw(STRONG, 6, generator(7))) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, apply(images, draw(STRONG, 6, generator(8))))


OWN_DRAWS: list[tuple[dict[str, Any], set[str]]] = [
    ({"brightness": 0}, {"brightness"}),
    ({"contrast": 0}, {"contrast"}),
    ({"saturation": 0}, {"saturation"}),
    ({"hue": 0}, {"hue"}),
    ({"jitter_probability": 0}, {"brightness", "contrast", "saturation", "hue"}),
    ({"blur_probability": 0}, {"sigma"}),
    ({"blur_sigma_max": 1}, {"sigma"}),
    ({"flip_probability": 0}, {"flip"}),
    ({"grey_probability": 0}, {"grey"}),
    ({"invert_probability": 0}, {"invert"}),
    ({"rotation": 0}, {"rotation"}),
    ({"translation": 0}, {"right", "down"}),
    ({"scale": 0}, {"scale"}),
]


@pytest.mark.parametrize(("switch", "own"), OWN_DRAWS, ids=lambda item: "-".join(sorted(item)))
def test_switching_one_operation_off_leaves_the_other_draws(switch: dict[str, float], own: set[str]) -> None:
    used, used_then = generator(), generator()
    before = draw(STRONG, 32, used)
    after = draw(altered(STRONG, **switch), 32, used_then)
    different = {name for name in Draws._fields if not torch.equal(getattr(before, name), getattr(after, name))}
    assert different == own
    assert torch.equal(used.get_state(), used_then.get_state())


@given(seed=SEEDS, height=st.integers(2, 40), width=st.integers(2, 40))
@few_examples
def test_the_result_stays_in_range_and_the_input_as_it_was(seed: int, height: int, width: int) -> None:
    images = torch.rand(5, 3, height, width, generator=generator(seed)).round(decimals=1)
    given_images = images.clone()
    changed = apply(images, draw(altered(STRONG, contrast=3, brightness=3), 5, generator(seed)))
    assert changed.shape == images.shape
    assert changed.isfinite().all()
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert torch.equal(images, given_images)


@given(
    seed=SEEDS,
    strength=st.floats(0, 3),
    hue=st.floats(0, 0.5),
    share=st.floats(0, 1),
    sigmas=st.tuples(*[st.floats(0.01, 9)] * 2),
)
@few_examples
def test_draws_keep_to_their_bounds(
    seed: int, strength: float, hue: float, share: float, sigmas: tuple[float, float]
) -> None:
    low, high = sorted(sigmas)
    chosen = Augmentation(
        brightness=strength,
        contrast=strength,
        saturation=strength,
        hue=hue,
        blur_probability=1,
        blur_sigma_min=low,
        blur_sigma_max=high,
        rotation=share * 180,
        translation=share,
        scale=share * 0.9,
    )
    draws = draw(chosen, 64, generator(seed))
    for factors in (draws.brightness, draws.contrast, draws.saturation):
        assert_between(factors, max(0, 1 - strength), 1 + strength)
    assert_between(draws.hue, -hue, hue)
    assert_between(draws.sigma, low, high)
    assert_between(draws.rotation, -share * 180, share * 180)
    assert_between(draws.right, -share, share)
    assert_between(draws.down, -share, share)
    assert_between(draws.scale, 1 - share * 0.9, 1 + share * 0.9)


def assert_between(values: Tensor, low: float, high: float) -> None:
    slack = 1e-6 * max(1, abs(low), abs(high))
    assert low - slack <= values.min()
    assert values.max() <= high + slack


def test_draws_fill_their_range_and_shares_are_kept() -> None:
    draws = draw(altered(PAPER, jitter_probability=0.8), 20_000, generator())
    is_jittered = draws.brightness != 1
    assert is_jittered.float().mean() == pytest.approx(0.8, abs=0.02)
    assert torch.equal(is_jittered, draws.hue != 0)
    assert draws.brightness[is_jittered].std() == pytest.approx(0.8 / math.sqrt(12), rel=0.02)
    assert (draws.sigma > 0).float().mean() == pytest.approx(0.5, abs=0.02)
    assert draws.sigma[draws.sigma > 0].mean() == pytest.approx(1.05, abs=0.02)
    assert draws.flip.float().mean() == pytest.approx(0.5, abs=0.02)


def test_draws_are_independent_of_each_other() -> None:
    draws = draw(STRONG, 20_000, generator())
    is_jittered, is_blurred = draws.hue != 0, draws.sigma > 0
    choices = torch.stack([is_jittered, is_blurred, draws.grey, draws.invert, draws.flip]).float()
    assert_near(torch.corrcoef(choices), torch.eye(5), 0.03)
    both = is_jittered & is_blurred
    strengths = torch.stack([values[both] for values in draws if values.is_floating_point()])
    assert_near(torch.corrcoef(strengths), torch.eye(9), 0.05)


def test_zero_settings_are_the_identity_and_cost_nothing() -> None:
    images = some_images()
    before = images.clone()
    assert apply(images, draw(OFF, 6, generator())) is images
    assert torch.equal(images, before)


@pytest.mark.parametrize(
    "share", ["jitter_probability", "blur_probability", "flip_probability", "grey_probability", "invert_probability"]
)
def test_images_that_were_not_chosen_keep_their_bits(share: str) -> None:
    images, silent = some_images(32), altered(PAPER, jitter_probability=0, blur_probability=0, flip_probability=0)
    draws = draw(altered(silent, **{share: 0.5}), 32, generator())
    is_changed = (apply(images, draws) != images).flatten(1).any(dim=1)
    is_chosen = (draws.hue != 0) | (draws.sigma > 0) | draws.flip | draws.grey | draws.invert
    assert torch.equal(is_changed, is_chosen)
    assert 0 < is_chosen.sum() < 32


def test_an_empty_batch_stays_empty() -> None:
    assert apply(some_images(0), draw(STRONG, 0, generator())).shape == (0, 3, 20, 24)


def test_draws_for_other_images_are_refused() -> None:
    with pytest.raises(ValueError, match="6 images but draws for 1"):
        apply(some_images(6), draw(PAPER, 1, generator()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"brightness": -0.1},
        {"contrast": float("inf")},
        {"saturation": float("nan")},
        {"hue": 0.6},
        {"flip_probability": 1.1},
        {"blur_sigma_min": 0},
        {"rotation": 181},
        {"scale": 1},
        {"colour": 0.4},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Augmentation.model_validate(wrong)


def test_sigmas_in_the_wrong_order_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="lower the first or raise the second"):
        Augmentation(blur_sigma_min=3)


def test_every_setting_has_a_sentence() -> None:
    assert all(field.description for field in Augmentation.model_fields.values())


@pytest.mark.parametrize(("count", "size"), [(20, 160), (200, 32)])
def test_many_pixels_are_taken_piece_by_piece_with_the_same_result(count: int, size: int) -> None:
    images = torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))  # more than one piece
    draws = draw(Augmentation(grey_probability=0.2, rotation=10.0), len(images), torch.Generator().manual_seed(1))
    one_by_one = [apply(images[k : k + 1], draws.rows(slice(k, k + 1))) for k in range(len(images))]
    assert torch.equal(apply(images, draws), torch.cat(one_by_one))
