"""Fonts of this machine whose digits can be read."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from grcl.benchmarks.generators.glyphs import open_font

FOLDERS = (  # Linux, then macOS
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.local/share/fonts",
    "~/.fonts",
    "/System/Library/Fonts",
    "/Library/Fonts",
    "~/Library/Fonts",
)
SUFFIXES = (".otf", ".ttc", ".ttf")
REFERENCES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif"),
    *("STIXGeneral", "STIXGeneralItalic", "cmr10"),
)

HEIGHT = 48
BOX = (16, 24)
LEAST_RIGHT = 7  # of ten; fonts of digits have 9 or 10 right, those of symbols 3 at most

Glyphs = NDArray[np.float64]


def find_system_fonts() -> list[Path]:
    """The legible fonts in the usual folders and among matplotlib's own, one of each file name, by name."""
    folders = [*(Path(folder).expanduser() for folder in FOLDERS), matplotlib_folder()]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES]
    by_name = {path.name: path for path in reversed(files)}
    return keep_legible([by_name[name] for name in sorted(by_name)])


def keep_legible(fonts: Sequence[Path]) -> list[Path]:
    """Those whose digits resemble the digits of fonts that are known; the others hold symbols, boxes or nothing."""
    return [font for font in fonts if count_right(font) >= LEAST_RIGHT]


def count_right(font: Path) -> int:
    """How many of the ten digits look more like themselves than like another digit."""
    try:
        glyphs = draw_digits(font)
    except Exception:  # broken files and fonts of other sizes fail in many ways, and all of them are left out
        return 0
    distances = np.abs(reference_digits()[:, :, None] - glyphs).mean(axis=(3, 4)).min(axis=0)
    return int((distances.argmin(axis=0) == np.arange(10)).sum())


@cache
def reference_digits() -> Glyphs:
    """The ten digits of fonts that every machine has, (fonts, 10, height, width)."""
    return np.stack([draw_digits(matplotlib_folder() / f"{name}.ttf") for name in REFERENCES])


def draw_digits(font: Path) -> Glyphs:
    """The ten digits, each stretched to one box."""
    return np.stack([draw_digit(font, str(digit)) for digit in range(10)])


def draw_digit(font: Path, digit: str) -> Glyphs:
    mask, _ = open_font(font, HEIGHT).getmask2(digit)
    image = Image.frombytes("L", mask.size, bytes(mask))
    ink = image.getbbox()
    if ink is None:
        raise ValueError(f"{font} draws no {digit}")
    return np.asarray(image.crop(ink).resize(BOX, Image.Resampling.BILINEAR), np.float64)


def matplotlib_folder() -> Path:
    """Where matplotlib keeps the fonts that come with it."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"
