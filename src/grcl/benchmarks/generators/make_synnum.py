"""SynNum made anew from its description, for those whom the dead links left without."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from grcl.benchmarks.generators import dataset_file
from grcl.benchmarks.generators.synnum import render_synnum
from grcl.benchmarks.generators.system_fonts import find_system_fonts, keep_legible
from grcl.benchmarks.readers import Part
from grcl.runtime.errors import Refusal

SIZE = 32
FEWEST_FONTS = 5
NOTE = "re-created SynNum, not the original"


def make_synnum(out: Path, train: int, test: int, seed: int = 0, fonts: Sequence[Path] | None = None) -> Path:
    """Write synnum_recreated.npz: one to three digits in an image, the middle one is the label."""
    path = out / "synnum_recreated.npz"
    dataset_file.prepare(path)
    if min(train, test) < 1:
        raise Refusal(f"synnum needs at least one training and one test image, not {train} and {test}")
    legible = find_system_fonts() if fonts is None else keep_legible(fonts)
    if len(legible) < FEWEST_FONTS:
        raise Refusal(
            f"synnum needs at least {FEWEST_FONTS} fonts with legible digits and found {len(legible)}; "
            "install some (.ttf or .otf) in ~/.local/share/fonts or ~/Library/Fonts"
        )
    return dataset_file.write(path, render([seed, 0], train, legible), render([seed, 1], test, legible))


def render(seed: list[int], count: int, fonts: Sequence[Path]) -> Part:
    """Images of all digits, equally many of each, in random order."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count, dtype=np.int64) % 10)
    return Part(np.stack([render_synnum(rng, int(label), fonts, SIZE) for label in labels]), labels, NOTE)
