"""Augmentation of a whole batch, every image with draws of its own (jitter, blur and flip as in SimCLR, 2020).

The random numbers are drawn first, for the global batch, and applied later, so that a process can take its rows.
"""

from collections.abc import Callable
from typing import Annotated, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import affine_grid, conv2d, grid_sample, pad

from grcl.runtime.settings import Settings
from grcl.shapes import Bool, Float

Strength = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Sigma = Annotated[float, Field(gt=0, allow_inf_nan=False)]

# Numbers that a CPU takes at a time: more leave its cache, and each of the dozens of operations fetches them again, or
# new pages for its result from the system. A blur works on 16 channels at once, so fewer than 6 images waste it.
_PIECE = 3 << 17
_FEWEST = 6


class Augmentation(Settings):
    """How strongly, and how many of, the images are changed; the strong views below the flip are off by default."""

    brightness: Strength = 0.4
    """Brightness factors are drawn from 1 - x to 1 + x."""

    contrast: Strength = 0.4
    """Contrast factors are drawn from 1 - x to 1 + x."""

    saturation: Strength = 0.4
    """Saturation factors are drawn from 1 - x to 1 + x."""

    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Hue shifts are drawn from -x to x, in turns of the colour circle."""

    jitter_probability: Probability = 1.0
    """Share of the images whose brightness, contrast, saturation and hue are changed."""

    blur_probability: Probability = 0.5
    """Share of the images that are blurred."""

    blur_sigma_min: Sigma = 0.1
    """Smallest standard deviation of the blur, in pixels."""

    blur_sigma_max: Sigma = 2.0
    """Largest standard deviation of the blur, in pixels."""

    flip_probability: Probability = 0.5
    """Share of the images that are mirrored left to right."""

    grey_probability: Probability = 0.0
    """Share of the images that lose their colours."""

    invert_probability: Probability = 0.0
    """Share of the images that become their negative."""

    rotation: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Rotations are drawn from -x to x degrees."""

    translation: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Shifts along each axis are drawn from -x to x, as a share of the side."""

    scale: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Zoom factors are drawn from 1 - x to 1 + x."""

    @model_validator(mode="after")
    def _sigmas_are_ordered(self) -> "Augmentation":
        if self.blur_sigma_min > self.blur_sigma_max:
            raise ValueError(
                f"blur_sigma_min ({self.blur_sigma_min}) is above blur_sigma_max ({self.blur_sigma_max}); "
                "lower the first or raise the second"
            )
        return self


class Draws(NamedTuple):
    """What happens to each image; a factor of 1, a shift of 0 or False leaves an image as it is."""

    brightness: Float[Tensor, " batch"]
    contrast: Float[Tensor, " batch"]
    saturation: Float[Tensor, " batch"]
    hue: Float[Tensor, " batch"]
    grey: Bool[Tensor, " batch"]
    invert: Bool[Tensor, " batch"]
    rotation: Float[Tensor, " batch"]
    right: Float[Tensor, " batch"]
    down: Float[Tensor, " batch"]
    scale: Float[Tensor, " batch"]
    sigma: Float[Tensor, " batch"]
    flip: Bool[Tensor, " batch"]

    def rows(self, part: slice) -> "Draws":
        """The draws of some of the images, such as those of one process."""
        return Draws(*(values[part] for values in self))

    def to(self, device: torch.device | str) -> "Draws":
        """The same draws on another device."""
        return Draws(*(values.to(device) for values in self))


def draw(settings: Augmentation, count: int, generator: torch.Generator) -> Draws:
    """Draws for `count` images; an image takes one row of random numbers, whatever is switched on."""
    numbers = torch.rand(count, 14, generator=generator).unbind(dim=1)
    brightness, contrast, saturation, hue, jitter = numbers[:5]
    blur, sigma, flip, grey, invert, rotation, right, down, scale = numbers[5:]
    is_jittered = jitter < settings.jitter_probability
    is_blurred = blur < settings.blur_probability
    return Draws(
        brightness=torch.where(is_jittered, around_one(settings.brightness, brightness), 1.0),
        contrast=torch.where(is_jittered, around_one(settings.contrast, contrast), 1.0),
        saturation=torch.where(is_jittered, around_one(settings.saturation, saturation), 1.0),
        hue=torch.where(is_jittered, between(-settings.hue, settings.hue, hue), 0.0),
        grey=grey < settings.grey_probability,
        invert=invert < settings.invert_probability,
        rotation=between(-settings.rotation, settings.rotation, rotation),
        right=between(-settings.translation, settings.translation, right),
        down=between(-settings.translation, settings.translation, down),
        scale=around_one(settings.scale, scale),
        sigma=torch.where(is_blurred, between(settings.blur_sigma_min, settings.blur_sigma_max, sigma), 0.0),
        flip=flip < settings.flip_probability,
    )


def between(low: float, high: float, uniform: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Numbers of 0..1 stretched to low..high."""
    return low + (high - low) * uniform


def around_one(strength: float, uniform: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Numbers of 0..1 stretched to factors around 1 that are never negative."""
    return between(max(0.0, 1 - strength), 1 + strength, uniform)


@torch.no_grad()
def apply(images: Float[Tensor, "batch 3 height width"], draws: Draws) -> Float[Tensor, "batch 3 height width"]:
    """The augmented images, in 0..1 like those given, which are not changed; what is off in `draws` costs nothing."""
    if len(images) != len(draws.flip):
        raise ValueError(f"{len(images)} images but draws for {len(draws.flip)}; take the rows of these images first")
    draws = draws.to(images.device)
    rows = max(_FEWEST, _PIECE // images[0].numel()) if images.device.type == "cpu" and len(images) else len(images)
    if len(images) <= rows:
        return _apply(images, draws)
    augmented = torch.empty_like(images)
    for part in (slice(start, start + rows) for start in range(0, len(images), rows)):
        augmented[part] = _apply(images[part], draws.rows(part))
    return augmented


def _apply(images: Float[Tensor, "batch 3 height width"], draws: Draws) -> Float[Tensor, "batch 3 height width"]:
    is_moved = (draws.rotation != 0) | (draws.right != 0) | (draws.down != 0) | (draws.scale != 1)
    images = change(images, draws.brightness != 1, adjust_brightness, draws.brightness)
    images = change(images, draws.contrast != 1, adjust_contrast, draws.contrast)
    images = change(images, draws.saturation != 1, adjust_saturation, draws.saturation)
    images = change(images, draws.hue != 0, adjust_hue, draws.hue)
    images = change(images, draws.grey, remove_colour)
    images = change(images, draws.invert, invert)
    images = change(images, is_moved, move, draws.rotation, draws.right, draws.down, draws.scale)
    images = change(images, draws.sigma > 0, blur, draws.sigma)
    return change(images, draws.flip, flip)


def change(
    images: Float[Tensor, "batch 3 height width"],
    affected: Bool[Tensor, " batch"],
    operation: Callable[..., Tensor],
    *values: Float[Tensor, " batch"],
) -> Float[Tensor, "batch 3 height width"]:
    """The images with `operation` done to the affected ones only."""
    rows = affected.nonzero().squeeze(1)
    if len(rows) == 0:
        return images
    if len(rows) == len(images):
        return operation(images, *values)
    changed = operation(images.index_select(0, rows), *(value[rows] for value in values))
    return images.index_copy(0, rows, changed)


def adjust_brightness(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Images times their factor."""
    return (images * per_image(factor, images)).clamp_(0, 1)


def adjust_contrast(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Images blended with the mean of their grey version."""
    mean = luminance(images.mean(dim=(2, 3), keepdim=True))
    return blend(images, mean, factor)


def adjust_saturation(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Images blended with their grey version."""
    return blend(images, luminance(images), factor)


def blend(
    images: Float[Tensor, "batch 3 height width"], other: Float[Tensor, "batch 1 _ _"], factor: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """f · images + (1 − f) · other; a factor above 1 leads away from the other."""
    share = per_image(factor, images)
    return (images * share).add_(other * (1 - share)).clamp_(0, 1)


def adjust_hue(
    images: Float[Tensor, "batch 3 height width"], shift: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Images with their HSV hue shifted by a part of a turn.

    A shift keeps the largest channel M and the smallest m, and so the chroma C = M − m. The hue, in sextants from red,
    is ±((M − R) + (G − m) + (B − m)) / C with the sign of G − B; each channel is a clipped triangle wave of it.
    """
    red, green, blue = images.unbind(dim=1)
    largest = torch.maximum(torch.maximum(red, green), blue)
    smallest = torch.minimum(torch.minimum(red, green), blue)
    chroma = largest - smallest
    # Arithmetic only: on a CPU, masks, `where` and `remainder` are five to ten times slower than a sum.
    distance = (largest - red).add_(green).add_(blue).sub_(smallest, alpha=2).copysign_(green - blue)
    sixfold = (6 * chroma).clamp_min_(torch.finfo(images.dtype).tiny)
    turns = distance.div_(sixfold).add_(per_image(shift, images).squeeze(1))
    sextants = turns.sub_(turns.floor()).mul_(6)
    shifted = torch.empty_like(images)
    for channel, centre, start, sign in ((0, 3, smallest, 1), (1, 2, largest, -1), (2, 4, largest, -1)):
        wave = (sextants - centre).abs_().sub_(1).clamp_(0, 1)
        torch.addcmul(start, chroma, wave, value=sign, out=shifted[:, channel])
    return shifted


def remove_colour(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 3 height width"]:
    """Images with their luminance in all three channels."""
    return luminance(images).repeat(1, 3, 1, 1)


def invert(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 3 height width"]:
    """The negatives of the images."""
    return 1 - images


def move(
    images: Float[Tensor, "batch 3 height width"],
    rotation: Float[Tensor, " batch"],
    right: Float[Tensor, " batch"],
    down: Float[Tensor, " batch"],
    scale: Float[Tensor, " batch"],
) -> Float[Tensor, "batch 3 height width"]:
    """Images turned counter-clockwise and zoomed about their centre, then shifted; the border is continued outwards."""
    height, width = images.shape[2:]
    cosine, sine = rotation.deg2rad().cos() / scale, rotation.deg2rad().sin() / scale
    # From a place in the result back to a place in the image, both in -1..1 along each side.
    along_x = torch.stack([cosine, -sine * height / width], dim=1)
    along_y = torch.stack([sine * width / height, cosine], dim=1)
    backwards = torch.stack([along_x, along_y], dim=1)
    offset = -2 * backwards @ torch.stack([right, down], dim=1)[:, :, None]
    grid = affine_grid(torch.cat([backwards, offset], dim=2).to(images), list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="border", align_corners=False).clamp_(0, 1)


def blur(
    images: Float[Tensor, "batch 3 height width"], sigma: Float[Tensor, " batch"]
) -> Float[Tensor, "batch 3 height width"]:
    """Images smoothed with a Gaussian of their own, cut off as in SimCLR at a tenth of the shorter side."""
    batch, channels, height, width = images.shape
    radius = max(1, min(height, width) // 20)
    offsets = torch.arange(-radius, radius + 1, device=images.device)
    weights = torch.exp(-((offsets / sigma[:, None]) ** 2) / 2)
    kernels = (weights / weights.sum(dim=1, keepdim=True)).to(images).repeat_interleave(channels, dim=0)
    # One group for each channel of each image lets a single convolution use all the kernels.
    planes = pad(images, (radius,) * 4, mode="reflect").flatten(0, 1)[None]
    planes = conv2d(planes, kernels[:, None, None, :], groups=batch * channels)
    planes = conv2d(planes, kernels[:, None, :, None], groups=batch * channels)
    return planes.view_as(images).clamp_(0, 1)


def flip(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 3 height width"]:
    """Images mirrored left to right."""
    return images.flip(3)


def luminance(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 1 height width"]:
    """The grey version of the images (ITU-R BT.601)."""
    red, green, blue = images.unbind(dim=1)
    return (0.299 * red).add_(green, alpha=0.587).add_(blue, alpha=0.114).unsqueeze(1)


def per_image(values: Float[Tensor, " batch"], images: Float[Tensor, "batch 3 height width"]) -> Tensor:
    """One value for each image, ready to be combined with its pixels."""
    return values.to(images)[:, None, None, None]
