"""MNIST-M made anew: MNIST on patches of photographs (Ganin and Lempitsky, 2015, took those of BSDS500)."""

from pathlib import Path

import numpy as np
from PIL import Image

from grcl.benchmarks.digits import read_domain
from grcl.benchmarks.generators import dataset_file
from grcl.benchmarks.generators.mnist_m import Pixels, blend_mnist_m, cut_patch
from grcl.benchmarks.readers import Part
from grcl.runtime.errors import Refusal

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
LONGEST_SIDE = 481  # of BSDS500; patches of much larger photographs would be of one colour
FEWEST_PHOTOGRAPHS = 5
MOST_PHOTOGRAPHS = 1000  # more would only take memory
NOTE = "re-created MNIST-M, not the original"


def make_mnist_m(mnist: Path, photographs: Path, out: Path, seed: int = 0) -> Path:
    """Write mnist_m.npz: every MNIST image found in `mnist`, each on a patch of its own."""
    path = out / "mnist_m.npz"
    dataset_file.prepare(path)
    (train, test), _ = read_domain("mnist", mnist)
    pictures = read_photographs(photographs, np.asarray(train.images).shape[1])
    return dataset_file.write(path, blend([seed, 0], train, pictures), blend([seed, 1], test, pictures))


def blend(seed: list[int], part: Part, photographs: list[Pixels]) -> Part:
    """Each digit on a patch of its own."""
    rng = np.random.default_rng(seed)
    images = [blend_mnist_m(digit, cut_patch(rng, photographs, len(digit))) for digit in part.images]
    return Part(np.stack(images), part.labels, NOTE)


def read_photographs(folder: Path, smallest: int) -> list[Pixels]:
    """The photographs in a folder and its subfolders, by name, without those that are smaller than a digit."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    spread = np.linspace(0, len(paths) - 1, min(len(paths), MOST_PHOTOGRAPHS)).astype(int)
    photographs = [read_photograph(paths[place]) for place in spread]
    large = [photograph for photograph in photographs if min(photograph.shape[:2]) >= smallest]
    if len(large) < FEWEST_PHOTOGRAPHS:
        raise Refusal(
            f"mnist_m needs at least {FEWEST_PHOTOGRAPHS} photographs of {smallest} pixels or more, and {folder} "
            f"has {len(large)}; give a folder with more ({', '.join(SUFFIXES)}), such as the images of BSDS500"
        )
    return large


def read_photograph(path: Path) -> Pixels:
    """A photograph in RGB, at most as large as those of BSDS500."""
    try:
        with Image.open(path) as image:
            image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
            return np.asarray(image.convert("RGB"))
    except Exception as error:  # a damaged photograph fails in many ways, and one remedy mends them all
        raise Refusal(f"the photograph {path} cannot be read ({error}); replace it or take it away") from None
