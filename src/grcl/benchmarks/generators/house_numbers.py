"""House numbers: digits on weathered plates, photographed in bad light (in the spirit of SVHN)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageFilter

from grcl.benchmarks.generators.glyphs import Writing, random_font, random_neighbour

Field = NDArray[np.float64]


def render_house_number(
    rng: np.random.Generator, digit: int, fonts: Sequence[Path], size: int = 32
) -> NDArray[np.uint8]:
    """An RGB image of `digit` between its neighbours on a plate."""
    mask = random_writing(rng, digit, fonts).mask(size, stroke=rng.uniform(0.0, 0.03))
    plate, ink = random_paints(rng)
    shaded = plate * (1 - shadow(rng, mask))
    painted = shaded + coverage(mask) * (ink - shaded)
    return photograph(rng, (painted + stains(rng, size)) * light(rng, size))


def random_writing(rng: np.random.Generator, digit: int, fonts: Sequence[Path]) -> Writing:
    return Writing(
        digit=str(digit),
        left=random_neighbour(rng, 0.7),
        right=random_neighbour(rng, 0.7),
        font=random_font(rng, fonts),
        height=rng.uniform(0.8, 1.2),
        gap=rng.uniform(0.0, 0.06),
        angle=rng.uniform(-0.15, 0.15),
        slant=rng.uniform(-0.3, 0.3),
        shift=(rng.uniform(-0.05, 0.05), rng.uniform(-0.05, 0.05)),
    )


def random_paints(rng: np.random.Generator) -> tuple[Field, Field]:
    """Colours of plate and ink: greyish, slightly tinted, and never far from each other."""
    contrast = rng.uniform(35.0, 90.0) * rng.choice([-1.0, 1.0])
    brightness = rng.uniform(70.0, 185.0)
    plate, ink = brightness + contrast / 2, brightness - contrast / 2
    return plate + rng.normal(0.0, 14.0, size=3), ink + rng.normal(0.0, 14.0, size=3)


def stains(rng: np.random.Generator, size: int) -> Field:
    """Coarse noise, stretched to streaks when it is coarser along one side than along the other."""
    cells = (int(rng.integers(2, 7)), int(rng.integers(2, 7)))
    coarse = Image.fromarray(rng.normal(0.0, 22.0, size=cells).astype(np.float32))
    stretched = np.asarray(coarse.resize((size, size), Image.Resampling.BILINEAR), dtype=np.float64)
    return stretched[..., None]


def coverage(mask: Image.Image) -> Field:
    """The share of each pixel that is under ink."""
    return np.asarray(mask, dtype=np.float64)[..., None] / 255


def shadow(rng: np.random.Generator, mask: Image.Image) -> Field:
    """The share of light that the digits take from the plate, a pixel or two beside them."""
    moved = ImageChops.offset(mask, int(rng.integers(-2, 3)), int(rng.integers(1, 3)))
    return rng.uniform(0.0, 0.5) * coverage(moved.filter(ImageFilter.GaussianBlur(1.0)))


def light(rng: np.random.Generator, size: int) -> Field:
    """A ramp of brightness across the image in a random direction."""
    angle = rng.uniform(0.0, 2 * np.pi)
    down, across = np.mgrid[-1.0 : 1.0 : size * 1j, -1.0 : 1.0 : size * 1j]
    ramp: Field = np.cos(angle) * across + np.sin(angle) * down
    return 1 + rng.uniform(0.0, 0.35) * ramp[..., None]


def photograph(rng: np.random.Generator, scene: Field) -> NDArray[np.uint8]:
    """The scene through a blurred lens and a noisy sensor."""
    sharp = Image.fromarray(np.clip(scene, 0, 255).astype(np.uint8))
    blurred = np.asarray(sharp.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 1.3))), dtype=np.float64)
    noisy = blurred + rng.normal(0.0, rng.uniform(3.0, 11.0), size=scene.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)
