"""What a benchmark of image files tells of a domain before any image is opened."""

from pathlib import Path
from typing import NamedTuple

from grcl.runtime.errors import Refusal


class FileList(NamedTuple):
    """The image files of one domain, in an order that every machine agrees on."""

    root: Path
    files: list[tuple[str, int]]
    """Path below the root, with slashes, and label."""
    missing: tuple[str, ...] = ()
    """Paths that the domain's lists name in vain."""


def data_folder(benchmark: str, data: Path | None, layout: str) -> Path:
    """The folder that a user named; nobody can guess it."""
    if data is None:
        raise Refusal(f"{benchmark} reads its images from a folder; name it with --data, expected there: {layout}")
    if not data.is_dir():
        raise Refusal(f"no folder at {data}; --data takes the folder that holds the images of {benchmark}: {layout}")
    return data


def list_folder(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing if there is no such folder."""
    try:
        return sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise Refusal(f"the folder {folder} cannot be read: {error.strerror}") from None
