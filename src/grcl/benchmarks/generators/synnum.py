"""SynNum: one to three printed digits in random colours (after the Syn Numbers of Ganin and Lempitsky, 2015)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from grcl.benchmarks.generators.glyphs import Writing, random_font, random_neighbour

LEAST_CONTRAST = 90.0


def render_synnum(rng: np.random.Generator, digit: int, fonts: Sequence[Path], size: int = 32) -> NDArray[np.uint8]:
    """An RGB image of `digit`, often with other digits at its sides."""
    writing = random_writing(rng, digit, fonts)
    paper, ink, outline = random_colours(rng)
    image = Image.new("RGB", (size, size), paper)
    if rng.random() < 0.4:
        image.paste(outline, mask=writing.mask(size, stroke=rng.uniform(0.015, 0.06)))
    image.paste(ink, mask=writing.mask(size))
    blurred = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.0, 1.0)))
    return np.asarray(blurred)


def random_writing(rng: np.random.Generator, digit: int, fonts: Sequence[Path]) -> Writing:
    return Writing(
        digit=str(digit),
        left=random_neighbour(rng, 0.5),
        right=random_neighbour(rng, 0.5),
        font=random_font(rng, fonts),
        height=rng.uniform(0.7, 1.1),
        gap=rng.uniform(0.03, 0.12),
        angle=rng.uniform(-0.3, 0.3),
        slant=rng.uniform(-0.2, 0.2),
        shift=(rng.uniform(-0.06, 0.06), rng.uniform(-0.06, 0.06)),
    )


def random_colours(rng: np.random.Generator) -> tuple[tuple[int, ...], ...]:
    """Colours of paper, ink and outline, of which the first two differ enough to be read."""
    while True:
        paper, ink, outline = rng.integers(256, size=(3, 3))
        if np.abs(paper - ink).mean() >= LEAST_CONTRAST:
            return tuple(paper.tolist()), tuple(ink.tolist()), tuple(outline.tolist())
