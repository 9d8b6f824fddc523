"""DomainNet (Peng et al., 2019): 345 classes, in its official folders and list files.

A domain is the union of its two lists. The paper draws 40,000 training and 8,000 test images of each domain, and the
training lists of Clipart (33,525) and Infograph (36,023) are smaller than that.
"""

import gzip
import zlib
from importlib import resources
from pathlib import Path

from grcl.benchmarks.file_list import FileList, data_folder, list_folder
from grcl.data.file_pool import pool_of_files
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.runtime.errors import Refusal

CLASSES = tuple((resources.files("grcl.benchmarks") / "domainnet_classes.txt").read_text(encoding="utf-8").split())
ORDER = ("clipart", "real", "infograph", "sketch", "painting")
DOMAINS = (*ORDER, "quickdraw")  # the paper leaves the last one out
LAYOUT = (
    "DATA/<domain>/<class>/<file> and the official lists DATA/<domain>_train.txt and DATA/<domain>_test.txt, "
    "also as .txt.gz or in a folder splits, lists, txt or image_list"
)
NOTE = "drawn from the official training and test lists together"
LIST_FOLDERS = ("", "splits", "lists", "txt", "image_list")
SHOWN = 3


def pool(name: str, data: Path | None, reading: Reading) -> Pool:
    """All images of one domain that its lists name."""
    root, found, missing = files(name, data)
    if missing:
        raise Refusal(
            f"{len(missing):,} of the {len(found) + len(missing):,} images in the lists of {name} are not in {root}, "
            f"such as {', '.join(missing[:SHOWN])}; unpack DomainNet's {name} there (its cleaned version, "
            "which the official lists belong to)"
        )
    return pool_of_files(root, found, reading, NOTE)


def files(name: str, data: Path | None) -> FileList:
    """The images that the two lists of a domain name, by path."""
    if name not in DOMAINS:
        raise Refusal(f"domainnet has no domain {name!r}; there are: {', '.join(DOMAINS)}")
    root = data_folder("domainnet", data, layout(name))
    listed: dict[str, int] = {}
    for part in ("train", "test"):
        listed |= _read_list(_find_list(name, part, root), name)
    there = _present(root, {path.rpartition("/")[0] for path in listed})
    found = sorted((path, label) for path, label in listed.items() if path in there)
    return FileList(root, found, tuple(sorted(listed.keys() - there)))


def layout(name: str) -> str:
    """Where the images and lists of one domain are expected."""
    return LAYOUT.replace("<domain>", name)


def _find_list(name: str, part: str, data: Path) -> Path:
    for folder in LIST_FOLDERS:
        for ending in (".txt", ".txt.gz"):
            path = data / folder / f"{name}_{part}{ending}"
            if path.is_file():
                return path
    raise Refusal(f"no list {name}_{part}.txt in {data}; expected: {layout(name)}")


def _read_list(path: Path, name: str) -> dict[str, int]:
    """Labels by path."""
    lines = [(number, line) for number, line in enumerate(_read_lines(path), start=1) if line.strip()]
    if not lines:
        raise Refusal(f"the list {path} is empty; download it again")
    return dict(_read_line(line, name, f"{path}, line {number}") for number, line in lines)


def _read_lines(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        return content.decode("utf-8-sig").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise Refusal(f"the list {path} cannot be read ({error}); download it again") from None


def _read_line(line: str, name: str, place: str) -> tuple[str, int]:
    """Path and label of a line such as `clipart/aircraft_carrier/clipart_001_000001.jpg 0`."""
    path, number = line.rsplit(maxsplit=1) if len(line.split()) > 1 else (line.strip(), "")
    parts = path.strip().split("/")
    if path.startswith("/") or ".." in parts or "\\" in path:
        raise Refusal(f"{place}: {path} leads out of the data folder; give a path such as {name}/axe/FILE.jpg")
    if len(parts) != 3 or parts[0] != name or not all(parts) or not (number.isascii() and number.isdigit()):
        raise Refusal(f"{place}: {line.strip()!r} is not of the form {name}/CLASS/FILE LABEL")
    label = int(number)
    if label >= len(CLASSES) or CLASSES[label] != parts[1]:
        title = CLASSES[label] if label < len(CLASSES) else "no class"
        raise Refusal(f"{place}: {parts[1]} has the label {label}, which is {title}; use DomainNet's official lists")
    return "/".join(parts), label


def _present(root: Path, folders: set[str]) -> set[str]:
    """What is in these folders; listing each of them once is far quicker than looking for every file."""
    there: set[str] = set()
    for folder in folders:
        there |= {f"{folder}/{file.name}" for file in list_folder(root / folder)}
    return there
