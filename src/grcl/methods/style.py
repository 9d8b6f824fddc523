"""Images that meet the target: in the style of one of its images, or under a veil of another."""

from types import EllipsisType

import torch
from torch import Tensor

from grcl.runtime import distributed
from grcl.shapes import Float


def in_style_of(
    others: Float[Tensor, "batch 3 height width"], images: Float[Tensor, "batch 3 height width"], band: float
) -> Float[Tensor, "batch 3 height width"]:
    """The images with the amplitudes of `others` at all frequencies up to `band` of the size, and their own phases
    (Fourier domain adaptation, Yang and Soatto 2020): what an image shows is in its phases."""
    low = _low_frequencies(images, band)
    spectrum = torch.fft.rfft2(images)
    borrowed = torch.fft.rfft2(others)[low].abs()
    spectrum[low] = torch.polar(borrowed, spectrum[low].angle())
    styled: Tensor = torch.fft.irfft2(spectrum, s=images.shape[-2:])
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


def _low_frequencies(images: Tensor, band: float) -> tuple[EllipsisType, Tensor, slice]:
    """The places of the half spectrum that lie in the band, the mean colour always."""
    height, width = images.shape[-2:]
    rows = torch.nonzero(torch.fft.fftfreq(height).abs() <= band)[:, 0]
    columns = slice(int((torch.fft.rfftfreq(width) <= band).sum()))
    return ..., rows.to(images.device), columns
