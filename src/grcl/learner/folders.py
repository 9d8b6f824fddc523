"""Which files of a folder are images, and of which class. Nothing is opened here."""

import logging
import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from grcl.runtime.errors import Refusal

logger = logging.getLogger(__name__)

# The common endings of the formats that are decoded.
ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")

UNLABELLED = -1


class Listing(NamedTuple):
    """Image files in an order that every machine agrees on."""

    root: Path
    files: list[tuple[str, int]]
    """Path below the root, with slashes, and the place of its class in `classes`."""
    classes: tuple[str, ...] = ()
    note: str = ""


def list_labelled(root: Path) -> Listing:
    """The images below ROOT/<class>/, at any depth; a class without images is left out, with a warning."""
    _require_folder(root)
    children = _children(root)
    folders = sorted((_class_name(child), child) for child in children if child.is_dir())
    if not folders:
        raise Refusal(f"{root} has no class folders; a labelled folder holds its images as {root.name}/CLASS/IMAGE")
    found = [(name, *_images(folder, root)) for name, folder in folders]
    if empty := [name for name, images, _ in found if not images]:
        logger.warning("%s without an image left out: %s", _count(len(empty), "class folder"), ", ".join(empty))
    if loose := [child.name for child in children if _is_image(child) and not child.is_dir()]:
        logger.warning("%s beside the class folders of %s left out: %s", _count(len(loose), "image"), root, loose[0])
    classes = tuple(dict.fromkeys(name for name, images, _ in found if images))
    files = sorted((image, classes.index(name)) for name, images, _ in found for image in images)
    if not files:
        raise Refusal(f"there is no image in the class folders of {root}; images end in {', '.join(ENDINGS)}")
    return Listing(root, files, classes, _note(sum(others for *_, others in found)))


def list_unlabelled(root: Path) -> Listing:
    """All images below a folder, at any depth."""
    _require_folder(root)
    images, others = _images(root, root)
    if not images:
        raise Refusal(f"there is no image in {root}; images end in {', '.join(ENDINGS)}")
    return Listing(root, [(image, UNLABELLED) for image in sorted(images)], note=_note(others))


def list_files(given: Sequence[Path]) -> Listing:
    """The files as they are named, whatever they end in and however often, and further images of the folders."""
    if not given:
        raise Refusal("no image is named; give files or folders")
    paths = [_absolute(path) for path in given]
    if missing := [path for path in paths if not path.exists()]:
        raise Refusal(f"there is no file or folder {missing[0]}")
    root = common_folder(paths)
    files: list[str] = []
    for path in paths:
        files += _not_yet(files, _images(path, root)[0]) if path.is_dir() else [path.relative_to(root).as_posix()]
    if not files:
        raise Refusal(f"there is no image in {root}; images end in {', '.join(ENDINGS)}")
    return Listing(root, [(file, UNLABELLED) for file in files])


def _not_yet(files: list[str], more: list[str]) -> list[str]:
    """Those of the images of a folder that are not among the files."""
    return sorted(set(more).difference(files))


def common_folder(given: Sequence[Path]) -> Path:
    """The folder below which all of these lie."""
    paths = [_absolute(path) for path in given]
    return Path(os.path.commonpath([path if path.is_dir() else path.parent for path in paths]))


def in_unicode(name: str) -> str:
    """The name as JSON can hold it; bytes that are no Unicode, which file systems allow, are written out."""
    return name.encode("utf-8", "backslashreplace").decode()


def _absolute(path: Path) -> Path:
    """Links stay as they are named."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow them


def _images(folder: Path, root: Path) -> tuple[list[str], int]:
    """The images below a folder, by their names below `root`, and how many other files there are."""
    files = list(_walk(folder, frozenset([folder.resolve()])))
    images = [file.relative_to(root).as_posix() for file in files if _is_image(file)]
    return images, len(files) - len(images)


def _walk(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    """All files below a folder; a link to a folder is followed, but not back to one that it lies in."""
    for child in _children(folder):
        if not child.is_dir():
            yield child
        elif (real := child.resolve()) not in above:
            yield from _walk(child, above | {real})


def _children(folder: Path) -> list[Path]:
    """What is in a folder; what a dot hides is left out."""
    try:
        return sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    except OSError as error:
        raise Refusal(f"the folder {folder} cannot be read: {error.strerror}") from None


def _require_folder(root: Path) -> None:
    if not root.is_dir():
        raise Refusal(f"{root} is no folder" if root.exists() else f"there is no folder {root}")


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def _class_name(folder: Path) -> str:
    """A folder's name; an accent is the same class whichever way a file system spells it."""
    return unicodedata.normalize("NFC", in_unicode(folder.name))


def _note(others: int) -> str:
    return f"{_count(others, 'file')} of other kinds passed over" if others else ""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
