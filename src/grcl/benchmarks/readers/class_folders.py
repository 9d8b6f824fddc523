"""Images in a folder for each digit: 0/*, 1/*, ..., 9/*."""

from pathlib import Path

from grcl.benchmarks.readers.image_files import read_images
from grcl.benchmarks.readers.part import Part, refusing

DIGITS = tuple("0123456789")


def read_class_folders(folder: Path) -> Part:
    """The images of all digits, in the order of digit and file name; hidden files are left out."""
    with refusing(folder):
        unknown = [path.name for path in visible(folder) if path.name not in DIGITS]
        if unknown:
            raise ValueError(f"it has {unknown[0]} beside the folders 0 to 9")
        return read_images([(path, int(digit.name)) for digit in visible(folder) for path in visible(digit)])


def visible(folder: Path) -> list[Path]:
    """What a folder holds, by name."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
