"""Images that meet the target: in the style of one of its images, or under a veil of another."""

import torch
from torch import Tensor

from grcl.runtime import distributed
from grcl.shapes import Float


def in_style_of(
    others: Float[Tensor, "batch 3 height width"], images: Float[Tensor, "batch 3 height width"], band: float
) -> Float[Tensor, "batch 3 height width"]:
    """The images with the amplitudes of `others` at all frequencies up to `band` of the size, and their own phases
    (Fourier domain adaptation, Yang and Soatto 2020): what an image shows is in its phases."""
    spectrum = torch.fft.rfft2(images)
    borrowed = torch.fft.rfft2(others).abs()
    amplitude = torch.where(_is_low(images, band), borrowed, spectrum.abs())
    styled: Tensor = torch.fft.irfft2(torch.polar(amplitude, spectrum.angle()), s=images.shape[-2:])
    return styled.clamp(0, 1)


def veiled(
    target: Float[Tensor, "target 3 height width"], images: Float[Tensor, "batch 3 height width"], most: float
) -> Float[Tensor, "batch 3 height width"]:
    """Every image under another one of the target, which shows through by a share drawn from 0 to `most`."""
    # Shifted by one, so that no target image is veiled by itself.
    others = target[(torch.arange(len(images), device=images.device) + 1) % len(target)]
    count = len(images) * distributed.world_size()
    share = most * torch.rand(count, 1, 1, 1)[distributed.share_slice(count)].to(images.device)
    return torch.lerp(images, others, share)


def _is_low(images: Tensor, band: float) -> Tensor:
    """Which frequencies of the half spectrum lie in the band, the mean colour always."""
    height, width = images.shape[-2:]
    rows = torch.fft.fftfreq(height, device=images.device).abs()
    columns = torch.fft.rfftfreq(width, device=images.device)
    is_low: Tensor = (rows[:, None] <= band) & (columns[None] <= band)
    return is_low
