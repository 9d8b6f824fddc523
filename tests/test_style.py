"""The laws of the target's style: phases stay, low amplitudes are the other's, nothing else changes."""

import pytest
import torch

from grcl.data.feeds import Samples
from grcl.methods.grcl_plus import GrclPlus
from grcl.methods.style import in_style_of, veiled
from grcl.networks import Network, build


def soft_images(count: int, seed: int) -> torch.Tensor:
    """Random images far enough from black and white that nothing is cut off."""
    return 0.45 + 0.1 * torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def test_low_amplitudes_are_the_others_and_the_rest_is_ones_own() -> None:
    images, others = soft_images(4, 0), soft_images(4, 1)
    styled = torch.fft.fft2(in_style_of(others, images, 0.2))
    own, borrowed = torch.fft.fft2(images), torch.fft.fft2(others)
    frequencies = torch.fft.fftfreq(16).abs()
    is_low = (frequencies[:, None] <= 0.2) & (frequencies[None] <= 0.2)
    assert torch.allclose(styled.abs()[..., is_low], borrowed.abs()[..., is_low], atol=1e-4)
    assert torch.allclose(styled[..., ~is_low], own[..., ~is_low], atol=1e-4)
    turned = styled / own
    assert torch.allclose(turned.imag / turned.abs(), torch.zeros(()), atol=1e-3), "phases stay"


@pytest.mark.parametrize(("height", "width"), [(1, 1), (7, 5), (8, 9), (16, 6)])
@pytest.mark.parametrize("band", [0.0, 0.1, 0.34, 0.5, 0.9])
def test_every_size_and_band_is_that_of_the_whole_spectrum(height: int, width: int, band: float) -> None:
    images, others = (soft_images(2, seed)[..., :height, :width] for seed in (0, 1))
    own, borrowed = torch.fft.fft2(images), torch.fft.fft2(others)
    is_low = (torch.fft.fftfreq(height).abs()[:, None] <= band) & (torch.fft.fftfreq(width).abs()[None] <= band)
    expected = torch.fft.ifft2(torch.polar(torch.where(is_low, borrowed.abs(), own.abs()), own.angle())).real.clamp(
        0, 1
    )
    assert torch.allclose(in_style_of(others, images, band), expected, atol=1e-5)


def test_mean_colours_are_exchanged_even_by_the_narrowest_band() -> None:
    images, others = soft_images(4, 0), soft_images(4, 1)
    styled = in_style_of(others, images, 0.0)
    assert torch.allclose(styled.mean(dim=(2, 3)), others.mean(dim=(2, 3)), atol=1e-6)
    assert torch.allclose(styled - others.mean(dim=(2, 3), keepdim=True), images - images.mean((2, 3), True), atol=1e-6)


def test_an_image_in_its_own_style_is_itself() -> None:
    images = soft_images(3, 0)
    assert torch.allclose(in_style_of(images, images, 0.3), images, atol=1e-6)


def test_a_veil_is_another_image_of_the_target_and_never_more_than_its_share() -> None:
    target = soft_images(5, 1)
    torch.manual_seed(0)
    shown, way = veiled(target, target, 0.4) - target, target.roll(-1, 0) - target
    shares = (shown * way).sum(dim=(1, 2, 3), keepdim=True) / way.square().sum(dim=(1, 2, 3), keepdim=True)
    assert torch.allclose(shown, shares * way, atol=1e-6)
    assert ((shares >= 0) & (shares <= 0.4)).all()
    assert len(shares.unique()) == 5


def test_without_a_share_nothing_shows_through() -> None:
    images = soft_images(3, 0)
    assert torch.equal(veiled(soft_images(2, 1), images, 0.0), images)


@pytest.mark.parametrize("style", [True, False])
def test_half_of_the_labelled_images_meet_the_target_and_the_others_stay(style: bool) -> None:
    method = GrclPlus(build(Network(), 4), GrclPlus.Config(style=style))
    target = Samples(soft_images(3, 1), torch.arange(3))
    labelled = Samples(soft_images(7, 0), torch.arange(7), torch.arange(7) % 4)
    halves = method.halves("source", labelled, target)
    assert list(halves) == ["source", "source in style"]
    for (name, half), first in zip(halves.items(), (0, 1), strict=True):
        own = labelled.images[first::2]
        assert torch.equal(half.index, labelled.index[first::2])
        assert half.labels is not None
        assert torch.equal(half.labels, half.index % 4)
        stays = [torch.equal(a, b) for a, b in zip(half.images, own, strict=True)]
        assert stays == [name == "source"] * len(own)


def test_a_single_labelled_image_stays_as_it_is() -> None:
    method = GrclPlus(build(Network(), 4), GrclPlus.Config())
    one = Samples(soft_images(1, 0), torch.arange(1), torch.zeros(1, dtype=torch.long))
    (half,) = method.halves("memory", one, Samples(soft_images(3, 1), torch.arange(3))).values()
    assert torch.equal(half.images, one.images)
