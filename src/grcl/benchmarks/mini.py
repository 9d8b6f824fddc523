"""The embedded benchmark: five small domains of digits, made from what the installed packages carry.

Printed digits (synnum, the source), then MNIST, MNIST-M, 8x8 digits and house numbers. Nothing is downloaded.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import metadata, resources
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, features

from grcl.benchmarks import generators
from grcl.benchmarks.cache import Arrays, cache_folder, fingerprint, load_or_make
from grcl.benchmarks.generators import blend_mnist_m, cut_patch, render_house_number, render_synnum
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.runtime.errors import Refusal
from grcl.runtime.recipe import recipe

CLASSES = tuple("0123456789")
ORDER = ("synnum", "mnist", "mnist_m", "digits8", "house_numbers")

RECIPE = recipe(Path(__file__), *sorted(Path(generators.__file__).parent.glob("*.py")))
DATA_SEED = 20210  # of its own, so that every training seed sees the same data
SIZE = 32
RENDERED_PER_CLASS = 250
TEST_PER_CLASS = 50

FONTS = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
    *("cmb10", "cmr10", "cmss10", "cmti10", "cmtt10"),
)
PHOTOGRAPHS = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")
MAKERS = ("matplotlib", "mlxtend", "numpy", "pillow", "scikit-image", "scikit-learn")

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
Renderer = Callable[[np.random.Generator, int, Sequence[Path], int], Pixels]


def pool(name: str, data: Path | None, reading: Reading) -> Pool:
    """All images of one domain, from the cache if they were made before."""
    if data is not None:
        raise Refusal(f"mini makes its own images and reads none from {data}; leave --data out")
    if reading.size != SIZE:
        raise Refusal(f"mini has images of {SIZE} pixels; images.size = {reading.size} needs another benchmark")
    return as_pool(name, _arrays(cache_folder(), version()))


@cache
def _arrays(folder: Path, version: str) -> Arrays:
    """All domains, read once however many of them are asked for."""
    return load_or_make(folder / f"mini-{version}.npz", make)


def version() -> str:
    """Changes with the code that makes the images and with every package whose release may change a pixel."""
    packages = [f"{package} {metadata.version(package)}" for package in MAKERS]
    text = "\n".join([RECIPE, *packages, f"freetype {features.version('freetype2')}"])
    return fingerprint(np.frombuffer(text.encode(), np.uint8))


def as_pool(name: str, arrays: Arrays) -> Pool:
    """A domain out of its four arrays."""
    parts = [arrays[f"{name}/{part}"] for part in ("train/images", "train/labels", "test/images", "test/labels")]
    train_images, train_labels, test_images, test_labels = map(torch.from_numpy, parts)
    places = torch.arange(len(train_labels) + len(test_labels))
    images, labels = torch.cat([train_images, test_images]), torch.cat([train_labels, test_labels])
    sides = places[: len(train_labels)], places[len(train_labels) :]
    return Pool(ImageArray(images), labels, fingerprint(*parts), sides)


def make() -> Arrays:
    """All domains as arrays named `<domain>/<train or test>/<images or labels>`."""
    plain, blended = split_mnist(*read_mnist())
    domains = {
        "synnum": render(generator("synnum"), render_synnum),
        "mnist": (as_colour(plain[0]), plain[1]),
        "mnist_m": (blend(generator("mnist_m"), blended[0], read_photographs()), blended[1]),
        "digits8": read_digits8(),
        "house_numbers": render(generator("house_numbers"), render_house_number),
    }
    arrays: Arrays = {}
    for name in ORDER:
        arrays |= split(generator(f"{name} split"), name, *domains[name])
    return arrays


def generator(purpose: str) -> np.random.Generator:
    """Random numbers of their own for each purpose, so that a change of one domain leaves the others as they are."""
    return np.random.default_rng([DATA_SEED, *purpose.encode()])


def render(rng: np.random.Generator, renderer: Renderer) -> tuple[Pixels, Labels]:
    """Equally many rendered images of each class."""
    fonts = find_fonts()
    labels = np.repeat(np.arange(len(CLASSES), dtype=np.int64), RENDERED_PER_CLASS)
    return np.stack([renderer(rng, int(label), fonts, SIZE) for label in labels]), labels


def blend(rng: np.random.Generator, digits: Pixels, photographs: Sequence[Pixels]) -> Pixels:
    """Each digit on a patch of its own."""
    return np.stack([blend_mnist_m(digit, cut_patch(rng, photographs, SIZE)) for digit in digits])


def split_mnist(digits: Pixels, labels: Labels) -> tuple[tuple[Pixels, Labels], tuple[Pixels, Labels]]:
    """Two halves without a common digit, one for `mnist` and one for `mnist_m`."""
    classes = shuffled_classes(generator("mnist halves"), labels)
    first = np.concatenate([members[::2] for members in classes])
    second = np.concatenate([members[1::2] for members in classes])
    return (digits[first], labels[first]), (digits[second], labels[second])


def split(rng: np.random.Generator, name: str, images: Pixels, labels: Labels) -> Arrays:
    """Training and test part in random order, the test part with equally many images of each class."""
    classes = shuffled_classes(rng, labels)
    test = np.concatenate([members[:TEST_PER_CLASS] for members in classes])
    train = np.concatenate([members[TEST_PER_CLASS:] for members in classes])
    arrays: Arrays = {}
    for part, members in {"train": train, "test": test}.items():
        index = rng.permutation(members)
        arrays[f"{name}/{part}/images"] = np.ascontiguousarray(images[index].transpose(0, 3, 1, 2))
        arrays[f"{name}/{part}/labels"] = labels[index]
    return arrays


def shuffled_classes(rng: np.random.Generator, labels: Labels) -> list[Labels]:
    """The places of each class in random order."""
    return [rng.permutation(np.flatnonzero(labels == label)) for label in range(len(CLASSES))]


def read_mnist() -> tuple[Pixels, Labels]:
    """5,000 grey digits of MNIST, 500 of each class; `mlxtend.data.mnist_data` parses the same file in 3 s."""
    table = np.loadtxt(package_file("mlxtend", "data/data/mnist_5k.csv.gz"), np.uint8, delimiter=",")
    digits, labels = table[:, :-1], table[:, -1]
    return enlarge(digits.reshape(-1, 28, 28)), labels.astype(np.int64)


def read_digits8() -> tuple[Pixels, Labels]:
    """1,797 handwritten digits of 8x8 pixels with 17 shades of grey."""
    from sklearn.datasets import load_digits  # slow to import, and needed only while the data is made

    digits = load_digits()
    grey = np.round(digits.images * (255 / 16)).astype(np.uint8)
    framed = np.pad(grey, ((0, 0), (1, 1), (1, 1)))  # they touch the edge, which no other domain does
    return as_colour(enlarge(framed)), digits.target.astype(np.int64)


def read_photographs() -> list[Pixels]:
    """Photographs among the packages' own files; `skimage.data` might download one."""
    from sklearn.datasets import load_sample_images

    paths = [package_file("skimage", f"data/{name}") for name in PHOTOGRAPHS]
    return [np.asarray(Image.open(path).convert("RGB")) for path in paths] + list(load_sample_images().images)


def find_fonts() -> list[Path]:
    """The fonts of matplotlib whose digits look like digits; the others hold symbols."""
    return [package_file("matplotlib", f"mpl-data/fonts/ttf/{name}.ttf") for name in FONTS]


def package_file(package: str, name: str) -> Path:
    """A file that an installed package carries."""
    path = Path(str(resources.files(package) / name))
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; reinstall the package {package}")
    return path


def enlarge(digits: Pixels) -> Pixels:
    """Grey images at the size of the benchmark."""
    resized = [Image.fromarray(digit).resize((SIZE, SIZE), Image.Resampling.BILINEAR) for digit in digits]
    return np.stack([np.asarray(image) for image in resized])


def as_colour(grey: Pixels) -> Pixels:
    """The same value in all three channels."""
    return np.repeat(grey[..., None], 3, axis=-1)
