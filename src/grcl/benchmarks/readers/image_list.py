"""MNIST-M's own format: a folder of images, and beside it a list with a file name and a digit in each line."""

from pathlib import Path

from grcl.benchmarks.readers.image_files import read_images
from grcl.benchmarks.readers.part import Part, refusing


def read_image_list(folder: Path, labels: Path) -> Part:
    """The images that the list names, in its order."""
    with refusing(labels):
        lines = [line.split() for line in labels.read_text(encoding="utf-8").splitlines() if line.strip()]
        wrong = [line for line in lines if len(line) != 2 or Path(line[0]).name != line[0]]
        if wrong:
            raise ValueError(f'the line "{" ".join(wrong[0])}" is no file name and digit')
        return read_images([(folder / name, int(digit)) for name, digit in lines])
