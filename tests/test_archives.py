"""Archives: a good one is unpacked whole, a hostile or damaged one leaves nothing, inside or outside its folder."""

import bz2
import gzip
import io
import lzma
import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grcl.benchmarks.archives import Limits, unpack
from grcl.runtime.errors import Failure, Refusal

FILES = {"images/cat/1.jpg": b"one" * 1000, "images/dog/2.jpg": b"two", "images/empty": b""}
TIGHT = Limits(members=5, total=200_000, ratio=2, harmless=100_000)


def zip_of(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tar_of(path: Path, files: dict[str, bytes]) -> Path:
    return tar_with(path, *((tarfile.TarInfo(name), content) for name, content in files.items()))


def tar_with(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    packings = {".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz", ".tar": "w"}
    with tarfile.open(path, packings[path.suffix]) as archive:  # type: ignore[call-overload]
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """All files below the folder, with their bytes; folders that are empty count too."""
    paths = sorted(folder.rglob("*"))
    found = {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}
    return found | {f"{path.relative_to(folder)}/": b"" for path in paths if path.is_dir() and not any(path.iterdir())}


def refused(archive: Path, limits: Limits = TIGHT) -> str:
    """The sentence with which an archive is refused, in a folder that stays as it was."""
    before = tree(archive.parent.parent)
    with pytest.raises(Failure) as failure:
        unpack(archive, archive.parent / "images", limits)
    assert tree(archive.parent.parent) == before
    return str(failure.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With something outside it that must stay as it is."""
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


MAKERS: dict[str, Callable[[Path, dict[str, bytes]], Path]] = {
    "a.zip": zip_of,
    "a.tar": tar_of,
    "a.tar.gz": tar_of,
    "a.tgz": tar_of,
    "a.tar.bz2": tar_of,
    "a.tar.xz": tar_of,
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_top_folder_named_like_the_target_becomes_it(folder: Path, name: str) -> None:
    archive = MAKERS[name](folder / name, FILES)
    unpack(archive, folder / "images")
    assert tree(folder / "images") == {path.removeprefix("images/"): content for path, content in FILES.items()}
    assert {path.name for path in folder.iterdir()} == {name, "images"}


@pytest.mark.parametrize("name", MAKERS)
def test_any_other_content_goes_into_the_target(folder: Path, name: str) -> None:
    unpack(MAKERS[name](folder / name, FILES | {"./readme.txt": b"hello"}), folder / "images")
    assert tree(folder / "images") == FILES | {"readme.txt": b"hello"}


@pytest.mark.parametrize("name", MAKERS)
def test_a_single_file_named_like_the_target_becomes_it(folder: Path, name: str) -> None:
    unpack(MAKERS[name](folder / name, {"train.pt": b"tensor", "._train.pt": b"junk"}), folder / "train.pt")
    assert (folder / "train.pt").read_bytes() == b"tensor"


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_a_compressed_file_is_an_archive_of_one(folder: Path, ending: str, pack: Callable[[bytes], bytes]) -> None:
    archive = folder / f"train.pt.{ending}"
    archive.write_bytes(pack(b"tensor" * 1000))
    unpack(archive, folder / "train.pt")
    assert (folder / "train.pt").read_bytes() == b"tensor" * 1000


def test_files_get_the_usual_rights_whatever_the_archive_says(folder: Path) -> None:
    info = tarfile.TarInfo("run.sh")
    info.mode = 0o6777
    unpack(tar_with(folder / "a.tar", (info, b"#!/bin/sh")), folder / "images")
    (folder / "usual").write_bytes(b"")
    assert stat.S_IMODE((folder / "images/run.sh").stat().st_mode) == stat.S_IMODE((folder / "usual").stat().st_mode)
    (folder / "usual folder").mkdir()
    assert (folder / "images").stat().st_mode == (folder / "usual folder").stat().st_mode


def test_junk_of_macos_is_left_out(folder: Path) -> None:
    junk = {"__MACOSX/images/cat/._1.jpg": b"x", "images/.DS_Store": b"x", "images/cat/._1.jpg": b"x"}
    unpack(zip_of(folder / "a.zip", FILES | junk), folder / "images")
    assert len(tree(folder / "images")) == len(FILES)


ESCAPES = [
    "../outside",
    "images/../../outside",
    "/tmp/outside",
    "//tmp/outside",
    "C:/outside",
    "images/c:outside",
    "..\\outside",
    "images\\..\\..\\outside",
    "images/\x1b[2J",
    "images/line\nbreak",
]


@pytest.mark.parametrize("maker", [zip_of, tar_of])
@pytest.mark.parametrize("name", ESCAPES)
def test_paths_that_could_lead_out_are_refused(
    folder: Path, name: str, maker: Callable[[Path, dict[str, bytes]], Path]
) -> None:
    archive = maker(folder / ("a.zip" if maker is zip_of else "a.tar"), {"images/1.jpg": b"good", name: b"evil"})
    assert "could lead out of its folder" in refused(archive)


def test_a_zero_byte_in_a_name_is_refused(folder: Path) -> None:
    archive = zip_of(folder / "a.zip", {"images/1.jpg_/../../outside": b"evil"})
    archive.write_bytes(archive.read_bytes().replace(b"1.jpg_", b"1.jpg\0"))
    assert "could lead out of its folder" in refused(archive)


@pytest.mark.parametrize(
    ("kind", "goal"),
    [
        (tarfile.SYMTYPE, "../../outside"),
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "1.jpg"),
        (tarfile.LNKTYPE, "../outside"),
        (tarfile.LNKTYPE, "images/1.jpg"),
        (tarfile.CHRTYPE, ""),
        (tarfile.BLKTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(folder: Path, kind: bytes, goal: str) -> None:
    special = tarfile.TarInfo("images/special")
    special.type, special.linkname = kind, goal
    archive = tar_with(folder / "a.tar", (tarfile.TarInfo("images/1.jpg"), b"good"), (special, b""))
    assert "'images/special' is a link or a device" in refused(archive)


def test_a_link_to_a_folder_and_a_file_through_it_are_refused(folder: Path) -> None:
    link = tarfile.TarInfo("images")
    link.type, link.linkname = tarfile.SYMTYPE, ".."
    archive = tar_with(folder / "a.tar", (link, b""), (tarfile.TarInfo("images/outside"), b"evil"))
    assert "is a link" in refused(archive)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_links_and_devices_in_a_zip_are_refused(folder: Path, kind: int) -> None:
    info = zipfile.ZipInfo("images/special")
    info.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(folder / "a.zip", "w") as file:
        file.writestr(info, "../outside")
    assert "'images/special' is a link, a device or encrypted" in refused(folder / "a.zip")


@pytest.mark.parametrize("maker", [zip_of, tar_of])
def test_too_many_members_are_refused(folder: Path, maker: Callable[[Path, dict[str, bytes]], Path]) -> None:
    archive = maker(folder / ("a.zip" if maker is zip_of else "a.tar"), {f"images/{k}": b"" for k in range(6)})
    assert "more than 5 members" in refused(archive)
    unpack(archive, folder / "images", Limits(members=6))


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.bz2", "a.tar.xz"])
def test_a_bomb_is_refused_and_the_same_content_in_plain_is_not(folder: Path, name: str) -> None:
    archive = MAKERS[name](folder / name, {"images/zeros": bytes(1_000_000)})
    assert archive.stat().st_size < 5_000
    assert "it unpacks to more than 100,000 bytes" in refused(archive)
    unpack(archive, folder / "images", Limits())


def test_a_compressed_bomb_of_one_file_is_refused(folder: Path) -> None:
    (folder / "images.gz").write_bytes(gzip.compress(bytes(1_000_000)))
    assert "it unpacks to more than 100,000 bytes" in refused(folder / "images.gz")


def test_a_zip_that_lies_about_its_sizes_is_refused(folder: Path) -> None:
    """The sizes in the directory say 10 bytes, the content has a million."""
    archive = zip_of(folder / "a.zip", {"images/zeros": bytes(1_000_000)})
    archive.write_bytes(archive.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    assert refused(archive)


def test_a_bomb_in_the_headers_of_a_tar_is_refused(folder: Path) -> None:
    """A comment of a megabyte is never written, and still must be paid for."""
    info = tarfile.TarInfo("images/1.jpg")
    info.pax_headers = {"comment": "a" * 1_000_000}
    with tarfile.open(folder / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(b""))
    assert "it unpacks to more than 100,000 bytes" in refused(folder / "a.tar.gz")


def test_a_sparse_file_is_refused(folder: Path) -> None:
    """A few bytes that claim to be a terabyte of zeros."""
    info = tarfile.TarInfo("images/1.jpg")
    claims = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "images/1.jpg"}
    info.pax_headers = claims | {"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,0"}
    with tarfile.open(folder / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(b""))
    assert "is a link or a device" in refused(folder / "a.tar", Limits())


@pytest.mark.parametrize(
    ("first", "second"), [("images/1", "images/1"), ("images/1", "images/1/2"), ("images/1/2", "images/1")]
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_comes_twice_is_refused(folder: Path, first: str, second: str) -> None:
    members = [(tarfile.TarInfo(name), b"content") for name in (first, second)]
    assert "twice" in refused(tar_with(folder / "a.tar", *members))
    with zipfile.ZipFile(folder / "a.zip", "w") as file:
        file.writestr(first, b"content")
        file.writestr(second, b"content")
    assert "twice" in refused(folder / "a.zip")


def test_an_encrypted_zip_is_refused(folder: Path) -> None:
    archive = zip_of(folder / "a.zip", {"images/1.jpg": b"secret"})
    content = bytearray(archive.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    assert "encrypted" in refused(archive)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("content", [b"", b"<html>please log in</html>" * 100])
def test_what_is_no_archive_is_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    assert f"{folder / name} is damaged or no such archive" in refused(folder / name)


@pytest.mark.parametrize("name", MAKERS)
def test_an_archive_that_is_cut_is_refused(folder: Path, name: str) -> None:
    noise = {f"images/{k}": os.urandom(3000) for k in range(3)}
    archive = MAKERS[name](folder / name, noise)
    archive.write_bytes(archive.read_bytes()[:5000])
    assert "is damaged or no such archive" in refused(archive, Limits())


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(MAKERS)), place=st.floats(0, 0.999), value=st.integers(1, 255))
def test_a_changed_byte_never_leads_out_and_never_to_another_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: float, value: int
) -> None:
    root = tmp_path_factory.mktemp("changed")
    archive = MAKERS[name](root / name, FILES)
    content = bytearray(archive.read_bytes())
    content[int(place * len(content))] ^= value
    archive.write_bytes(content)
    try:
        unpack(archive, root / "images")
    except Failure:
        assert [path.name for path in root.iterdir()] == [name]
    assert {path.name for path in root.iterdir()} <= {name, "images"}


def test_what_is_there_is_not_touched(folder: Path) -> None:
    archive = zip_of(folder / "a.zip", FILES)
    (folder / "images").mkdir()
    with pytest.raises(Refusal, match="is there already"):
        unpack(archive, folder / "images")
    assert not any((folder / "images").iterdir())


def test_an_unknown_ending_is_refused(folder: Path) -> None:
    (folder / "a.rar").write_bytes(b"Rar!")
    with pytest.raises(Refusal, match=r"a\.rar cannot be unpacked"):
        unpack(folder / "a.rar", folder / "images")
    assert [path.name for path in folder.iterdir()] == ["a.rar"]


def test_a_killed_process_leaves_nothing_under_the_final_name_and_the_next_begins_again(folder: Path) -> None:
    """SIGKILL while a real process reads an archive that comes slowly through a pipe."""
    script = "import sys; from pathlib import Path; from grcl.benchmarks.archives import unpack\n"
    script += "unpack(Path(sys.argv[1]), Path(sys.argv[2]))"
    archive, target = folder / "a.tar", folder / "images"
    content = tar_of(folder / "whole.tar", FILES | {"images/large": bytes(100_000)}).read_bytes()
    os.mkfifo(archive)
    process = subprocess.Popen([sys.executable, "-c", script, archive, target])
    with archive.open("wb") as pipe:
        pipe.write(content[:50_000])
        pipe.flush()
        while not (folder / ".images.unpacking/content/images/cat/1.jpg").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not target.exists()
    unpack(folder / "whole.tar", target)
    assert len(tree(target)) == 4
    assert {path.name for path in folder.iterdir()} == {"a.tar", "whole.tar", "images"}
