"""The laws of DomainNet: the pool is what its list files say, and a list that cannot be true is refused by its line."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from grcl.benchmarks import BENCHMARKS, domainnet
from grcl.config import read_preset
from grcl.data.reading import Reading
from grcl.data.split import Split, draw_split
from grcl.runtime.errors import Refusal
from miniature import write_domainnet

READING = Reading(size=8, workers=0)
LISTS = Path(__file__).parents[2] / "shared" / "data" / "domainnet_lists"


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("domainnet")
    write_domainnet(folder, domains=("clipart", "quickdraw"))
    return folder


@pytest.fixture
def changed(tree: Path, tmp_path: Path) -> Path:
    """A copy whose lists can be spoilt; the images are linked."""
    (tmp_path / "clipart").symlink_to(tree / "clipart", target_is_directory=True)
    for path in tree.glob("clipart_*.txt"):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_the_pool_is_the_union_of_the_lists_in_the_order_of_the_paths(tree: Path) -> None:
    root, files, missing = domainnet.files("clipart", tree)
    pool = domainnet.pool("clipart", tree, READING)
    assert root == tree
    assert not missing
    assert files == sorted(files)
    assert pool.labels.tolist() == [label for _, label in files]
    assert pool.labels.bincount().tolist() == [3] * 345
    assert all(path.split("/")[1] == domainnet.CLASSES[label] for path, label in files)
    assert pool.sides is None
    assert "training and test lists together" in pool.note


def test_more_can_be_trained_on_than_the_training_list_has(tree: Path) -> None:
    pool = domainnet.pool("clipart", tree, READING)
    train, test = draw_split("clipart", pool, Split(train=700, test=300))
    assert (len(train), len(test)) == (700, 300)
    assert len(torch.cat([train, test]).unique()) == 1000


def test_quickdraw_is_a_domain_too_though_not_of_the_stream(tree: Path) -> None:
    assert "quickdraw" not in domainnet.ORDER
    assert len(domainnet.files("quickdraw", tree).files) == 3 * 345


@pytest.mark.parametrize("folder", ["splits", "lists", "txt", "image_list"])
def test_lists_in_folders_and_compressed_ones_say_the_same(changed: Path, folder: str) -> None:
    expected = domainnet.files("clipart", changed).files
    (changed / folder).mkdir()
    for path in changed.glob("clipart_*.txt"):
        (changed / folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert domainnet.files("clipart", changed).files == expected


def test_an_image_in_both_lists_is_taken_once(changed: Path) -> None:
    train, test = changed / "clipart_train.txt", changed / "clipart_test.txt"
    expected = domainnet.files("clipart", changed).files
    train.write_bytes(train.read_bytes().replace(b"\n", b"\r\n") + b"\n" + test.read_bytes())
    assert domainnet.files("clipart", changed).files == expected


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("clipart/axe/clipart_012_000001.jpg", "is not of the form clipart/CLASS/FILE LABEL"),
        ("clipart/axe/clipart_012_000001.jpg eleven", "is not of the form"),
        ("clipart/axe/clipart_012_000001.jpg -1", "is not of the form"),
        ("axe/clipart_012_000001.jpg 11", "is not of the form"),
        ("real/axe/real_012_000001.jpg 11", "is not of the form"),
        ("clipart//clipart_012_000001.jpg 11", "is not of the form"),
        ("/clipart/axe/clipart_012_000001.jpg 11", "leads out of the data folder"),
        ("clipart/axe/../../../secret.jpg 11", "leads out of the data folder"),
        ("clipart/../secret.jpg 11", "leads out of the data folder"),
        (r"clipart\axe\clipart_012_000001.jpg 11", "leads out of the data folder"),
        ("clipart/axe/clipart_012_000001.jpg 4", "axe has the label 4, which is angel; use DomainNet's official lists"),
        ("clipart/axe/clipart_012_000001.jpg 345", "axe has the label 345, which is no class"),
        ("clipart/blunderbuss/clipart_012_000001.jpg 11", "blunderbuss has the label 11, which is axe"),
    ],
)
def test_a_false_line_is_refused_with_its_file_and_number(changed: Path, line: str, complaint: str) -> None:
    path = changed / "clipart_test.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:6], line, *lines[6:]]), encoding="utf-8")
    with pytest.raises(Refusal) as refused:
        domainnet.pool("clipart", changed, READING)
    assert "clipart_test.txt, line 7: " in str(refused.value)
    assert complaint in str(refused.value)


def test_missing_images_are_counted_and_some_are_named(changed: Path) -> None:
    lines = [f"clipart/axe/clipart_012_9{number:05}.jpg 11\n" for number in range(5)]
    with (changed / "clipart_test.txt").open("a", encoding="utf-8") as file:
        file.writelines(lines)
    with pytest.raises(Refusal) as refused:
        domainnet.pool("clipart", changed, READING)
    assert str(refused.value).startswith("5 of the 1,040 images in the lists of clipart are not in ")
    assert "clipart/axe/clipart_012_900000.jpg" in str(refused.value)
    assert "clipart_012_900003.jpg" not in str(refused.value)
    assert "unpack DomainNet's clipart there" in str(refused.value)
    found = domainnet.files("clipart", changed)
    assert (len(found.files), len(found.missing)) == (3 * 345, 5)


def test_images_that_were_never_unpacked_are_all_missing(changed: Path) -> None:
    (changed / "clipart").unlink()
    with pytest.raises(Refusal, match=r"1,035 of the 1,035 images"):
        domainnet.pool("clipart", changed, READING)


def removed(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"\n")


def not_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x80")


def cut_short(path: Path) -> None:
    compressed = gzip.compress(path.read_bytes())
    path.unlink()
    path.with_suffix(".txt.gz").write_bytes(compressed[: len(compressed) // 2])


def not_compressed(path: Path) -> None:
    path.rename(path.with_suffix(".txt.gz"))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (removed, r"no list clipart_train\.txt in .*; expected: DATA/clipart/<class>"),
        (emptied, r"clipart_train\.txt is empty; download it again"),
        (not_text, r"clipart_train\.txt cannot be read .*; download it again"),
        (cut_short, r"clipart_train\.txt\.gz cannot be read .*; download it again"),
        (not_compressed, r"clipart_train\.txt\.gz cannot be read .*; download it again"),
    ],
)
def test_a_damaged_list_is_refused_with_the_remedy(
    changed: Path, damage: Callable[[Path], None], complaint: str
) -> None:
    damage(changed / "clipart_train.txt")
    with pytest.raises(Refusal, match=complaint):
        domainnet.pool("clipart", changed, READING)


def test_no_folder_and_unknown_domains_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="--data"):
        domainnet.pool("real", None, READING)
    with pytest.raises(Refusal, match=r"no folder at .*nowhere"):
        domainnet.pool("real", tmp_path / "nowhere", READING)
    with pytest.raises(Refusal, match="no domain 'amazon'; there are: clipart, real"):
        domainnet.pool("amazon", tmp_path, READING)


def test_there_are_345_classes_in_the_order_of_their_letters() -> None:
    classes = BENCHMARKS["domainnet"].classes()
    letters = ["".join(filter(str.isalpha, name.lower())) for name in classes]
    assert len(set(classes)) == 345
    assert letters == sorted(letters)
    assert (classes[0], classes[-1]) == ("aircraft_carrier", "zigzag")
    assert BENCHMARKS["domainnet"].order() == ("clipart", "real", "infograph", "sketch", "painting")


@pytest.mark.skipif(not LISTS.is_dir(), reason="DomainNet's own list files are not on this machine")
def test_the_numbers_in_real_file_names_are_the_labels() -> None:
    """The lists are of 100 classes with labels of their own, but their files keep DomainNet's numbers, from 1."""
    paths = [
        line.split()[0]
        for path in LISTS.glob("*.txt.gz")
        if "quickdraw" not in path.name  # whose files have no such numbers
        for line in gzip.decompress(path.read_bytes()).decode().splitlines()
    ]
    numbers = {(int(path.split("/")[2].split("_")[1]), path.split("/")[1]) for path in paths}
    assert len(numbers) == 100
    assert all(domainnet.CLASSES[number - 1] == name for number, name in numbers)


def test_the_preset_has_the_sizes_of_the_paper() -> None:
    preset = read_preset("domainnet")
    assert Split.model_validate(preset["split"]) == Split(train=40000, test=8000)
    assert Reading.model_validate(preset["images"]).cache
    assert preset["network"]["name"] == "resnet50"
