"""Digits as masks: 255 where there is ink, with the labelled digit in the middle."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

# Masks are drawn larger than asked and shrunk at the end, which smooths the edges after turning.
OVERSAMPLING = 2


@dataclass(frozen=True)
class Writing:
    """A digit, its neighbours ("" for none) and how they are written; lengths are shares of the image."""

    digit: str
    left: str
    right: str
    font: Path
    height: float
    gap: float
    angle: float
    slant: float
    shift: tuple[float, float]

    def mask(self, size: int, stroke: float = 0.0) -> Image.Image:
        """The writing as a grey image of size x size, its strokes widened by `stroke` on every side."""
        unit = OVERSAMPLING * size
        upright = self._draw(unit, round(stroke * unit))
        placement = self._placement(unit, upright.width)
        turned = upright.transform((unit, unit), Image.Transform.AFFINE, placement, Image.Resampling.BILINEAR)
        return turned.resize((size, size), Image.Resampling.BILINEAR)

    def _draw(self, unit: int, stroke: int) -> Image.Image:
        canvas = 3 * unit // 2  # so that what turns into view was not cut off
        font = open_font(self.font, round(self.height * unit))
        left, top, right, bottom = ink_box(font, self.digit)
        start, baseline = (canvas - left - right) // 2, (canvas - top - bottom) // 2
        gap = round(self.gap * unit)
        image = Image.new("L", (canvas, canvas))
        draw = ImageDraw.Draw(image)
        draw.text((start, baseline), self.digit, 255, font, anchor="ls", stroke_width=stroke)
        draw.text((start + left - gap, baseline), self.left, 255, font, anchor="rs", stroke_width=stroke)
        draw.text((start + right + gap, baseline), self.right, 255, font, anchor="ls", stroke_width=stroke)
        return image

    def _placement(self, unit: int, canvas: int) -> tuple[float, ...]:
        """Where each pixel of the turned image comes from, in the six numbers that Pillow wants."""
        cosine, sine = np.cos(self.angle), np.sin(self.angle)
        turn = np.array([[1.0, self.slant], [0.0, 1.0]]) @ np.array([[cosine, -sine], [sine, cosine]])
        offset = canvas / 2 - turn @ (unit / 2 + unit * np.array(self.shift))
        return (*turn[0].tolist(), float(offset[0]), *turn[1].tolist(), float(offset[1]))


@lru_cache(maxsize=4096)
def open_font(path: Path, height: int) -> ImageFont.FreeTypeFont:
    # The basic layout is in every build of Pillow, so the same bytes come out everywhere.
    return ImageFont.truetype(str(path), height, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=4096)
def ink_box(font: ImageFont.FreeTypeFont, digit: str) -> tuple[int, int, int, int]:
    """The edges of the ink, seen from the start of the baseline; Pillow's own box counts the space beside it too."""
    mask, (x, y) = font.getmask2(digit, anchor="ls")
    left, top, right, bottom = mask.getbbox()
    return x + left, y + top, x + right, y + bottom


def random_neighbour(rng: np.random.Generator, probability: float) -> str:
    """A digit, or "" when there is none."""
    digit = str(rng.integers(10))
    return digit if rng.random() < probability else ""


def random_font(rng: np.random.Generator, fonts: Sequence[Path]) -> Path:
    return fonts[int(rng.integers(len(fonts)))]
