"""Office-Caltech-10: the ten classes that the three domains of Office-31 share with Caltech-256 (Gong et al., 2012).

The folders are taken as they circulate: Office-31 unpacked beside Caltech-256, or both in one tree with common names.
"""

import re
from collections.abc import Container, Iterator
from pathlib import Path

from grcl.benchmarks.file_list import FileList, data_folder, list_folder
from grcl.data.file_pool import pool_of_files
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.runtime.errors import Refusal

CLASSES = (
    *("back_pack", "bike", "calculator", "headphones", "keyboard"),
    *("laptop_computer", "monitor", "mouse", "mug", "projector"),
)
ORDER = ("dslr", "amazon", "webcam", "caltech")
LAYOUT = (
    "DATA/<domain>/<class>/*.jpg or DATA/<domain>/images/<class>/*.jpg with the classes "
    f"{', '.join(CLASSES)}, also by their names in Caltech-256, such as 041.coffee-mug"
)

# All names are compared by their letters and digits alone, so that DSLR, Back-Pack and back_pack are known too.
PARENTS = ("officecaltech10", "officecaltech", "office31", "domainadaptationimages", "caltech256", "images")
DOMAIN_NAMES = {
    "dslr": ("dslr",),
    "amazon": ("amazon",),
    "webcam": ("webcam",),
    "caltech": ("caltech", "caltech10", "caltech256", "256objectcategories"),
}
CLASS_NAMES = {
    "back_pack": ("backpack",),
    "bike": ("bike", "touringbike"),
    "calculator": ("calculator",),
    "headphones": ("headphones",),
    "keyboard": ("keyboard", "computerkeyboard"),
    "laptop_computer": ("laptopcomputer", "laptop", "laptop101"),
    "monitor": ("monitor", "computermonitor"),
    "mouse": ("mouse", "computermouse"),
    "mug": ("mug", "coffeemug"),
    "projector": ("projector", "videoprojector"),
}
LABELS = {name: CLASSES.index(label) for label, names in CLASS_NAMES.items() for name in names}
IMAGES = (".jpg", ".jpeg", ".png", ".bmp")


def pool(name: str, data: Path | None, reading: Reading) -> Pool:
    """All images of one domain."""
    root, found, _ = files(name, data)
    present = {label for _, label in found}
    absent = [title for label, title in enumerate(CLASSES) if label not in present]
    if absent:
        raise Refusal(f"{name} has no images of {', '.join(absent)} in {root}; expected: {layout(name)}")
    return pool_of_files(root, found, reading)


def files(name: str, data: Path | None) -> FileList:
    """The images of one domain by class and file name, so that every layout gives the same order."""
    root, folders = _find(name, data_folder("office_caltech", data, layout(name)))
    found = [
        (f"{folder.name}/{file.name}", label)
        for label, folder in sorted(folders.items())
        for file in list_folder(folder)
        if file.suffix.lower() in IMAGES and not file.name.startswith(".")
    ]
    return FileList(root, found)


def layout(name: str) -> str:
    """Where the images of one domain are expected."""
    return LAYOUT.replace("<domain>", name)


def _find(name: str, data: Path) -> tuple[Path, dict[int, Path]]:
    """The first folder that holds classes of the domain, and its class folders by label."""
    if name not in DOMAIN_NAMES:
        raise Refusal(f"office_caltech has no domain {name!r}; there are: {', '.join(ORDER)}")
    for folder in _candidates(name, data):
        if folders := _class_folders(folder):
            return folder, folders
    raise Refusal(f"no images of {name} below {data}; expected: {layout(name)}")


def _candidates(name: str, data: Path) -> Iterator[Path]:
    for parent in (data, *_named(data, PARENTS)):
        for folder in _named(parent, DOMAIN_NAMES[name]):
            yield from (folder, folder / "images", folder / "256_ObjectCategories")


def _class_folders(folder: Path) -> dict[int, Path]:
    """The folders of the ten classes by label; the other classes of Office-31 and Caltech-256 are left out."""
    folders: dict[int, Path] = {}
    for child in _named(folder, LABELS):
        label = LABELS[_plain(child.name)]
        if label in folders:
            twins = f"{folders[label].name} and {child.name}"
            raise Refusal(f"{folder} has two folders of the class {CLASSES[label]}, {twins}; keep one of them")
        folders[label] = child
    return folders


def _named(folder: Path, names: Container[str]) -> list[Path]:
    return [child for child in list_folder(folder) if _plain(child.name) in names and child.is_dir()]


def _plain(name: str) -> str:
    """Letters and digits only, without the number of a class of Caltech-256."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"^\d{3}\.", "", name.lower()))
