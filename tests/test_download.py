"""Downloads: whatever the network does, the file is there whole and right, or it is not there."""

import ast
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPMessage
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.request import Request
from zipfile import ZipFile, ZipInfo

import pytest

from grcl.benchmarks import BENCHMARKS, download, web
from grcl.benchmarks.download import Patience
from grcl.benchmarks.obtain import RECORD, obtain, obtain_domain
from grcl.benchmarks.sources import SOURCES, File, Source
from grcl.runtime.errors import Failure
from grcl.runtime.transfers import SilentTransfers, megabytes
from local_server import LocalServer, answer, local_server, send, serve, without_length

HASTY = Patience(tries=3, pause=0.01, timeout=5.0)
CONTENT = hashlib.shake_256(b"images").digest(300_000)
OTHER = hashlib.shake_256(b"other images").digest(300_000)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as running:
        running.files["/a.bin"] = CONTENT
        yield running


class Heard(SilentTransfers):
    """Remembers what was said and shown."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.shown: list[int] = []

    def advance(self, done: int) -> None:
        self.shown.append(done)

    def say(self, text: str) -> None:
        self.said.append(text)


def md5(content: bytes) -> str:
    return f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"


def published(server: LocalServer, *paths: str) -> File:
    """The file with its digest and size, at these paths of the server."""
    addresses = tuple(server.address(path) for path in paths or ("/a.bin",))
    return File("sub/a.bin", addresses, md5(CONTENT), len(CONTENT))


def get(file: File, folder: Path) -> Path:
    return obtain(file, folder, SilentTransfers(), HASTY)


def left(folder: Path) -> list[str]:
    """All files below the folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def refused(file: File, folder: Path) -> str:
    """The sentence of a download that fails and leaves nothing under the final name."""
    with pytest.raises(Failure) as failure:
        get(file, folder)
    assert not (folder / file.name).exists()
    return str(failure.value)


def test_a_file_comes_whole_and_leaves_nothing_else(server: LocalServer, tmp_path: Path) -> None:
    assert get(published(server), tmp_path).read_bytes() == CONTENT
    assert left(tmp_path) == ["sub/a.bin"]


def test_what_is_there_and_right_is_not_asked_for(server: LocalServer, tmp_path: Path) -> None:
    get(published(server), tmp_path)
    get(published(server), tmp_path)
    assert len(server.requests) == 1


@pytest.mark.parametrize("found", [CONTENT[:1000], OTHER, b""])
def test_what_is_there_and_wrong_is_replaced_and_that_is_said(
    server: LocalServer, tmp_path: Path, found: bytes
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.bin").write_bytes(found)
    heard = Heard()
    assert obtain(published(server), tmp_path, heard, HASTY).read_bytes() == CONTENT
    assert "is damaged or not the published file" in heard.said[0]


def test_what_is_there_and_wrong_stays_until_something_better_has_come(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [answer(404)]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.bin").write_bytes(OTHER)
    with pytest.raises(Failure):
        get(published(server), tmp_path)
    assert (tmp_path / "sub/a.bin").read_bytes() == OTHER


def test_progress_is_shown_up_to_the_end(server: LocalServer, tmp_path: Path) -> None:
    heard = Heard()
    obtain(published(server), tmp_path, heard, HASTY)
    assert heard.shown == sorted(heard.shown)
    assert heard.shown[-1] == len(CONTENT)


def test_a_connection_that_is_cut_is_taken_up_where_it_broke(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [serve(cut_after=100_000), serve(cut_after=50_000), serve()]
    assert get(published(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["", "bytes=100000-", "bytes=150000-"]
    assert all(validator.startswith('"') for _, _, validator in server.requests[1:])


def test_without_version_the_digest_vouches_for_the_pieces(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [serve(cut_after=100_000, tags=False), serve(tags=False)]
    assert get(published(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["", "bytes=100000-"]


def test_without_version_and_digest_it_begins_again(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [serve(cut_after=100_000, tags=False), serve(tags=False)]
    assert get(replace(published(server), digest=None), tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["", ""]


def test_a_server_that_knows_no_ranges_sends_all_again(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [serve(cut_after=100_000), serve(knows_ranges=False)]
    assert get(published(server), tmp_path).read_bytes() == CONTENT


def test_a_server_that_knows_no_ranges_and_always_breaks_off_is_given_up(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "WORTHWHILE", 1000)
    server.behaviours = [serve(knows_ranges=False, cut_after=100_000)]
    assert "broke off after 100,000 of 300,000 bytes" in refused(published(server), tmp_path)
    assert len(server.requests) == 1 + HASTY.tries


def test_tries_that_bring_much_do_not_count(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "WORTHWHILE", 1000)
    server.behaviours = [serve(cut_after=30_000)]
    assert get(published(server), tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 10 > HASTY.tries


@pytest.mark.parametrize("tags", [True, False])
def test_a_file_that_changes_between_two_tries_is_never_mixed(server: LocalServer, tmp_path: Path, tags: bool) -> None:
    """With a version the server sends all of the new file; without one the digest finds the mixture out."""
    server.files["/a.bin"] = OTHER
    server.behaviours = [serve(cut_after=100_000, tags=tags), serve(tags=tags)]
    heard = Heard()
    with ThreadPoolExecutor() as pool:
        getting = pool.submit(obtain, published(server), tmp_path, heard, replace(HASTY, pause=0.3))
        while not server.requests:
            time.sleep(0.001)
        while not heard.said:
            time.sleep(0.001)
        server.files["/a.bin"] = CONTENT
        assert getting.result().read_bytes() == CONTENT
    assert server.ranges[1] == "bytes=100000-"


def test_a_part_longer_than_the_file_begins_again(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [serve(cut_after=100_000), answer(416), serve()]
    assert get(published(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["", "bytes=100000-", ""]


def test_a_received_but_unchecked_part_needs_no_request(server: LocalServer, tmp_path: Path) -> None:
    file = published(server)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.bin.part").write_bytes(CONTENT)
    (tmp_path / "sub/a.bin.part.json").write_text(json.dumps({"address": file.addresses[0], "validator": ""}))
    assert get(file, tmp_path).read_bytes() == CONTENT
    assert not server.requests


@pytest.mark.parametrize("origin", ["", "{", "[]", "{}", '{"address": 3, "validator": []}'])
def test_a_part_of_unknown_origin_begins_again(server: LocalServer, tmp_path: Path, origin: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.bin.part").write_bytes(OTHER[:1000])
    (tmp_path / "sub/a.bin.part.json").write_text(origin)
    assert get(published(server), tmp_path).read_bytes() == CONTENT
    assert server.ranges == [""]


def test_wrong_bytes_are_deleted_and_the_next_mirror_is_tried(server: LocalServer, tmp_path: Path) -> None:
    server.files["/b.bin"] = CONTENT
    server.behaviours = [send(OTHER), serve()]
    heard = Heard()
    assert obtain(published(server, "/a.bin", "/b.bin"), tmp_path, heard, HASTY).read_bytes() == CONTENT
    assert [path for path, _, _ in server.requests] == ["/a.bin", "/b.bin"]
    assert server.ranges == ["", ""]
    assert f"with {md5(OTHER)} instead of {md5(CONTENT)}" in heard.said[0]


def test_wrong_bytes_everywhere_leave_nothing(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [send(OTHER)]
    sentence = refused(published(server, "/a.bin", "/a.bin?again"), tmp_path)
    assert sentence.startswith(f"cannot download sub/a.bin: {server.address('/a.bin')} sent 300,000 wrong bytes")
    assert left(tmp_path) == []


def test_missing_files_are_not_asked_for_twice(server: LocalServer, tmp_path: Path) -> None:
    server.files["/b.bin"] = CONTENT
    assert get(published(server, "/none.bin", "/b.bin"), tmp_path).read_bytes() == CONTENT
    assert [path for path, _, _ in server.requests] == ["/none.bin", "/b.bin"]
    sentence = refused(replace(published(server, "/none.bin"), name="c.bin"), tmp_path)
    assert sentence == f"cannot download c.bin: {server.address('/none.bin')} answered 404"


def test_a_busy_server_is_asked_again_but_not_for_ever(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [answer(503), answer(503), serve()]
    assert get(published(server), tmp_path).read_bytes() == CONTENT
    server.behaviours, server.requests = [answer(503)], []
    assert "answered 503" in refused(replace(published(server), name="c.bin"), tmp_path)
    assert len(server.requests) == HASTY.tries


def test_a_length_other_than_the_published_is_refused_before_a_byte_is_kept(
    server: LocalServer, tmp_path: Path
) -> None:
    server.behaviours = [serve(lie=-100)]
    assert "has 299,900 bytes instead of the published 300,000" in refused(published(server), tmp_path)
    assert len(server.requests) == 1
    assert left(tmp_path) == []


@pytest.mark.parametrize(("lie", "expected"), [(-100, "sent 299,900 wrong bytes"), (100, "broke off after 300,000")])
def test_a_wrong_length_is_found_out_without_a_published_size(
    server: LocalServer, tmp_path: Path, lie: int, expected: str
) -> None:
    server.behaviours = [serve(lie=lie, tags=False, knows_ranges=False)]
    assert expected in refused(replace(published(server), size=None), tmp_path)


def test_more_bytes_than_published_are_not_taken(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [without_length]
    file = replace(published(server), size=1000)
    assert "sends more than 1,000 bytes" in refused(file, tmp_path)
    assert left(tmp_path) == []


def test_an_end_that_could_be_a_cut_needs_a_digest(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [without_length]
    assert "does not say how long" in refused(replace(published(server), digest=None, size=None), tmp_path)
    assert get(published(server), tmp_path).read_bytes() == CONTENT


def test_silence_ends_by_the_clock(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [serve(cut_after=1000, waits=True)]
    began = time.monotonic()
    with pytest.raises(Failure, match="no answer in time"):
        obtain(published(server), tmp_path, SilentTransfers(), Patience(tries=2, pause=0.01, timeout=0.2))
    assert time.monotonic() - began < 5


def test_nobody_there_is_said_for_every_mirror(tmp_path: Path) -> None:
    with local_server() as gone:
        address = gone.address("/a.bin")
    sentence = refused(File("a.bin", (address, "http://nowhere.invalid/a.bin")), tmp_path)
    assert f"{address} cannot be reached (Connection refused)" in sentence
    assert "http://nowhere.invalid/a.bin cannot be reached" in sentence


def test_redirects_are_followed_with_their_range(server: LocalServer, tmp_path: Path) -> None:
    server.files["/old.bin"] = b""
    there = answer(302, Location=server.address("/a.bin"))
    server.behaviours = [there, serve(cut_after=1000), there, serve()]
    assert get(published(server, "/old.bin"), tmp_path).read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=1000-"


@pytest.mark.parametrize("goal", ["file:///etc/passwd", "ftp://127.0.0.1/a", "data:text/plain,a", "/a.bin"])
def test_redirects_out_of_the_web_or_in_circles_are_refused(server: LocalServer, tmp_path: Path, goal: str) -> None:
    server.behaviours = [answer(302, Location=goal)]
    assert "redirects to where we do not follow" in refused(published(server), tmp_path)
    assert left(tmp_path) == []


def test_a_redirect_does_not_leave_https() -> None:
    request = Request("https://127.0.0.1/a")
    with pytest.raises(web.Fault, match="redirects to where we do not follow"):
        web._Redirects().redirect_request(request, BytesIO(), 302, "", HTTPMessage(), "http://127.0.0.1/a")


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/a", "data:,a", "/etc/hostname", ""])
def test_only_the_web_is_asked(tmp_path: Path, address: str) -> None:
    assert "is no http or https address" in refused(File("a.bin", (address,)), tmp_path)


def test_a_folder_that_cannot_be_written_is_named(server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "sub").write_text("a file, not a folder")
    with pytest.raises(Failure, match=r"cannot write .*/sub"):
        get(published(server), tmp_path)


def test_two_at_once_make_one_download(server: LocalServer, tmp_path: Path) -> None:
    server.behaviours = [serve(cut_after=1000, waits=True), serve()]
    heard = [Heard(), Heard()]
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(obtain, published(server), tmp_path, ears, HASTY) for ears in heard]
        while not any("another process" in text for ears in heard for text in ears.said):
            time.sleep(0.01)
        server.has_room.set()
        assert {work.result().read_bytes() for work in both} == {CONTENT}
    assert server.ranges == ["", "bytes=1000-"]
    assert left(tmp_path) == ["sub/a.bin"]


KILLED = """
import sys
from pathlib import Path
from grcl.benchmarks.obtain import obtain
from grcl.benchmarks.sources import File
from grcl.runtime.transfers import SilentTransfers
address, digest, folder = sys.argv[1:]
obtain(File("a.zip", (address,), digest or None, unpacked="a"), Path(folder), SilentTransfers())
"""


def zipped(content: bytes) -> bytes:
    """The same bytes whenever it is called: an entry by name alone would carry the time of day."""
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr(ZipInfo("a/image.bin"), content)
    return archive.getvalue()


@pytest.mark.parametrize("has_digest", [True, False])
def test_a_killed_process_leaves_its_part_and_the_next_goes_on(
    server: LocalServer, tmp_path: Path, has_digest: bool
) -> None:
    """SIGKILL in the middle of a real download: no file under its final name, and no byte is fetched twice."""
    content = zipped(CONTENT)
    server.files["/a.zip"] = content
    server.behaviours = [serve(cut_after=200_000, waits=True), serve()]
    digest = md5(content) if has_digest else ""
    command = [sys.executable, "-c", KILLED, server.address("/a.zip"), digest, str(tmp_path)]
    process = subprocess.Popen(command)
    part = tmp_path / "a.zip.part"
    while not part.exists() or part.stat().st_size < 200_000:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "a.zip").exists()
    assert not (tmp_path / "a").exists()
    subprocess.run(command, check=True, timeout=60)
    assert server.ranges == ["", "bytes=200000-"]
    assert (tmp_path / "a/image.bin").read_bytes() == CONTENT
    assert left(tmp_path) == ([] if has_digest else [RECORD]) + ["a/image.bin"]


def test_the_first_download_is_recorded_and_later_ones_must_match(server: LocalServer, tmp_path: Path) -> None:
    server.files["/a.zip"] = zipped(CONTENT)
    file = File("a.zip", (server.address("/a.zip"),), unpacked="a")
    get(file, tmp_path)
    digest = f"sha256:{hashlib.sha256(zipped(CONTENT)).hexdigest()}"
    assert json.loads((tmp_path / RECORD).read_text()) == {"a.zip": digest}

    (tmp_path / "a/image.bin").unlink()
    (tmp_path / "a").rmdir()
    server.files["/a.zip"] = zipped(OTHER)
    sentence = refused(file, tmp_path)
    assert f"instead of {digest}" in sentence
    assert f"remove it from {tmp_path / RECORD}" in sentence
    assert left(tmp_path) == [RECORD]

    server.files["/a.zip"] = zipped(CONTENT)
    assert (get(file, tmp_path) / "image.bin").read_bytes() == CONTENT


def test_what_is_no_archive_is_neither_kept_nor_recorded(server: LocalServer, tmp_path: Path) -> None:
    """A page that asks for a login comes with status 200 too."""
    server.files["/a.zip"] = b"<html>please log in</html>"
    assert "is damaged or no such archive" in refused(
        File("a.zip", (server.address("/a.zip"),), unpacked="a"), tmp_path
    )
    assert left(tmp_path) == []


def test_a_record_that_cannot_be_read_is_not_passed_over(server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text("{")
    assert RECORD in refused(File("a.bin", (server.address("/a.bin"),)), tmp_path)


def test_a_second_form_serves_where_the_first_cannot_be_had(server: LocalServer, tmp_path: Path) -> None:
    first = replace(published(server, "/none.bin"), name="first.bin")
    source = Source(((first,), (published(server),)), page="http://example.org")
    assert obtain_domain(source, tmp_path, SilentTransfers(), HASTY) == [tmp_path / "sub/a.bin"]
    requests = len(server.requests)
    assert obtain_domain(source, tmp_path, SilentTransfers(), HASTY) == [tmp_path / "sub/a.bin"]
    assert len(server.requests) == requests, "the form that is there is enough"


def test_what_cannot_be_had_names_the_page_and_the_maker(server: LocalServer, tmp_path: Path) -> None:
    source = Source(((published(server, "/none.bin"),),), page="http://example.org/page", make="grcl data make it")
    with pytest.raises(Failure, match=r"answered 404; .* by hand from http://example.org/page, or make it: grcl data"):
        obtain_domain(source, tmp_path, SilentTransfers(), HASTY)


def test_published_sources_are_well_formed() -> None:
    files = [file for name in SOURCES for source in SOURCES[name].values() for form in source.forms for file in form]
    assert len({file.name for file in files}) == len(files)
    for file in files:
        assert file.addresses
        assert all(address.startswith(("http://", "https://")) for address in file.addresses)
        assert file.digest or not file.size, "who publishes a size publishes a digest"
        if file.digest:
            algorithm, _, value = file.digest.partition(":")
            assert len(value) == {"md5": 32, "sha256": 64}[algorithm]
            assert set(value) <= set("0123456789abcdef")


@pytest.mark.parametrize("name", SOURCES)
def test_every_domain_of_a_benchmark_has_a_source(name: str) -> None:
    order = BENCHMARKS[name].order() if name in BENCHMARKS else import_module(f"grcl.benchmarks.{name}").ORDER
    assert tuple(SOURCES[name]) == order


def constants_of_torchvision(module: str) -> dict[str, Any]:
    """The values that the class bodies of a module of torchvision spell out, read without importing it."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        pytest.skip("torchvision is not installed")
    text = (Path(spec.origin).parent / f"datasets/{module}.py").read_text()
    values: dict[str, Any] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(name := node.targets[0], ast.Name):
            with contextlib.suppress(ValueError):
                values.setdefault(name.id, ast.literal_eval(node.value))
    return values


def test_addresses_and_digests_are_those_of_torchvision() -> None:
    ours = {file.name.rpartition("/")[2]: file for source in SOURCES["digits"].values() for file in source.forms[0]}
    mnist = constants_of_torchvision("mnist")
    for name, digest in mnist["resources"]:
        assert ours[name].digest == f"md5:{digest}"
        assert ours[name].addresses[:2] == tuple(f"{mirror}{name}" for mirror in mnist["mirrors"])
    for module in ("usps", "svhn"):
        splits = constants_of_torchvision(module)["split_list"]
        for address, name, digest in (splits["train"], splits["test"]):
            assert ours[name].addresses == (address,)
            assert ours[name].digest == f"md5:{digest}"


def test_sizes_in_words() -> None:
    assert [megabytes(size) for size in (4_542, 9_912_422, 6_062_039_589)] == ["0.0 MB", "9.9 MB", "6,062 MB"]
