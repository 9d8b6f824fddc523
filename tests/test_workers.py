"""Images are read ahead by other processes, which changes no bit of a result and survives what happens to processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

import tiny_files
from grcl.data.ahead import in_advance
from grcl.data.augment import Augmentation
from grcl.data.feeds import Batch, Feed, Feeder
from grcl.data.image_files import ImageFiles
from grcl.data.images import ImageArray, Joined, Subset
from grcl.evaluate import batches_of, map_images
from grcl.run import run
from grcl.runtime.checkpoint import Checkpoints
from grcl.runtime.errors import Failure
from tiny import tiny_settings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_files.write(tmp_path_factory.mktemp("images"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRCL_CACHE", str(tmp_path / "cache"))


def files_of(data: Path, domain: str, workers: int) -> ImageFiles:
    names = sorted(path.relative_to(data).as_posix() for path in (data / domain).iterdir())
    return ImageFiles(data, tuple(names), 32, workers)


def weights(path: Path) -> dict[str, Tensor]:
    state = Checkpoints(path / "checkpoints").newest()
    assert state is not None
    modules: dict[str, Tensor] = state["method"]["modules"]
    return modules


def test_a_run_has_the_same_bits_from_files_with_and_without_workers_packed_and_in_memory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grcl.run.write_report", lambda path: None)  # to draw it takes longer than to train
    short = {"training__epochs": 1, "stage0__epochs": 1}
    ways = {
        "memory": tiny_settings("grcl", **short),
        "here": tiny_files.file_settings("grcl", data, images__workers=0, **short),
        "workers": tiny_files.file_settings("grcl", data, images__workers=2, **short),
        "packed": tiny_files.file_settings("grcl", data, images__workers=2, images__cache=True, **short),
    }
    found = {name: run(settings, tmp_path / name) for name, settings in ways.items()}
    expected = weights(tmp_path / "memory")
    for name, matrix in found.items():
        assert matrix == found["memory"], name
        other = weights(tmp_path / name)
        assert other.keys() == expected.keys()
        assert all(torch.equal(other[key], expected[key]) for key in expected), name


def feeder(data: Path, workers: int) -> Feeder:
    """Files alone, files and memory joined, and a part of the files: all that a stage puts together."""
    white, dark = files_of(data, "white", workers), files_of(data, "dark", workers)
    remembered = ImageArray(torch.arange(12, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 32, 32).contiguous())
    union = Joined([white, remembered, Subset(dark, torch.arange(0, 60, 2))])
    feeds = Feed("source", white, torch.arange(144)), Feed("union", union, None, Augmentation(), views=2, clock=186)
    return Feeder(feeds, 40, (3, 1), CPU)


def assert_equal(one: Batch, other: Batch) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name].images, other[name].images)
        assert torch.equal(one[name].index, other[name].index)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_read_ahead_are_those_read_one_by_one_from_any_step_on(data: Path, workers: int) -> None:
    expected = feeder(data, 0)
    ahead = list(feeder(data, workers).batches(3, 11))
    assert len(ahead) == 8
    for step, batch in enumerate(ahead, 3):
        assert_equal(batch, expected.batch(step))
    assert list(feeder(data, workers).batches(5, 5)) == []


def test_workers_that_were_started_elsewhere_find_relative_paths(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = torch.arange(4)
    monkeypatch.chdir(tmp_path)
    expected = files_of(data, "white", workers=1).read(places)  # by now the worker is there
    monkeypatch.chdir(data)
    here = files_of(data, "white", workers=1)
    assert torch.equal(ImageFiles(Path(), here.names, 32, workers=1).read(places), expected)


def test_evaluation_sees_the_same_images_in_their_order(data: Path) -> None:
    here, there = (Joined([files_of(data, name, workers) for name in ("noisy", "dark")]) for workers in (0, 2))
    assert torch.equal(map_images(lambda batch: batch, here, CPU), map_images(lambda batch: batch, there, CPU))


def test_large_images_meet_the_network_in_smaller_batches() -> None:
    def sizes(side: int) -> list[int]:
        pixels = torch.zeros(600, 3, side, side, dtype=torch.uint8)
        return [len(batch) for batch in batches_of(ImageArray(pixels), CPU)]

    assert sizes(32) == [500, 100]
    assert sum(sizes(128)) == 600
    assert max(sizes(128)) * 128**2 <= 500 * 64**2


def test_work_is_begun_a_few_pieces_ahead_and_ends_in_order() -> None:
    begun: list[int] = []

    def pieces() -> Iterator[Callable[[], int]]:
        for number in range(6):
            begun.append(number)
            yield lambda number=number: number  # type: ignore[misc]

    seen = []
    for result in in_advance(pieces(), ahead=2):
        seen.append((result, len(begun)))
    assert seen == [(0, 3), (1, 4), (2, 5), (3, 6), (4, 6), (5, 6)]


def worker_ids(parent: int) -> list[int]:
    """The worker processes of a process."""
    shown = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(line.split()[0]) for line in shown.stdout.splitlines() if "grcl.data.workers" in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_stop_do_not_reach_workers(data: Path, number: signal.Signals) -> None:
    images = files_of(data, "white", 2)
    expected = images.read(torch.arange(144))
    before = worker_ids(os.getpid())
    started = images.start(torch.arange(144))
    for worker in before:
        os.kill(worker, number)
    assert torch.equal(started(), expected)
    assert torch.equal(images.read(torch.arange(144)), expected)
    assert worker_ids(os.getpid()) == before


@pytest.mark.parametrize("workers", [0, 2])
def test_a_file_that_vanishes_or_spoils_during_a_run_is_named(tmp_path: Path, workers: int) -> None:
    data = tiny_files.write(tmp_path / "images")
    batches = feeder(data, workers).batches(0, 100)
    next(batches)
    victim = data / "white" / "077.png"
    victim.unlink()
    with pytest.raises(Failure, match=f"^{victim} is missing, though it was readable before"):
        list(batches)
    victim.write_bytes(b"")
    with pytest.raises(Failure, match=f"^{victim} is empty, though"):
        list(feeder(data, workers).batches(0, 100))


def test_a_worker_that_dies_is_told_with_the_image_and_the_next_one_takes_over(data: Path, tmp_path: Path) -> None:
    Image.new("RGB", (6000, 6000)).save(tmp_path / "large.png", compress_level=1)
    images = ImageFiles(tmp_path, ("large.png",) * 16, 32, 1)
    images.read(torch.tensor([0]))
    workers = set(worker_ids(os.getpid()))
    started = images.start(torch.arange(16))  # a second or more
    time.sleep(0.2)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    with pytest.raises(Failure, match=r"a worker process ended \(exit code -9\) while it read .*large\.png or one of"):
        started()
    assert images.read(torch.tensor([0])).shape == (1, 3, 32, 32)
    assert not workers & set(worker_ids(os.getpid()))


READ_AND_WAIT = """
import sys, torch
from pathlib import Path
from grcl.data.image_files import ImageFiles
names = tuple(path.name for path in Path(sys.argv[1]).iterdir())
print("a script without a guard", ImageFiles(Path(sys.argv[1]), names, 32, 2).read(torch.arange(40)).shape, flush=True)
sys.stdin.readline()
"""


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("end", ["return", "kill"])
def test_workers_end_with_the_process_that_asks(data: Path, tmp_path: Path, end: str) -> None:
    """However it ends; and it may be a script that does its work at the top, as README shows it."""
    script = tmp_path / "script.py"
    script.write_text(READ_AND_WAIT)
    command, pipe = [sys.executable, str(script), str(data / "dark")], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a script without a guard torch.Size([40, 3, 32, 32])\n"
        workers = worker_ids(process.pid)
        assert len(workers) == 2
        if end == "kill":
            process.kill()
        said, complaints = process.communicate("\n")
        assert (said, complaints) == ("", "")
    deadline = time.monotonic() + 20
    while any(map(is_running, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_stops_a_run_with_workers_after_a_step(data: Path, tmp_path: Path) -> None:
    """The signal goes to the whole group of processes, as a terminal sends it."""
    settings = {
        "training.epochs": "500",
        "stage0.epochs": "1",
        "images.workers": "2",
        "targets": "dark",
        "out": str(tmp_path / "run"),
    }
    flags = [word for key, value in settings.items() for word in (f"--{key}", value)]
    preset = str(Path(__file__).with_name("tiny.toml"))
    command = [sys.executable, "-m", "grcl", "run", "tiny_files", "--data", str(data), "--preset", preset, *flags]
    here = str(Path(__file__).parent)
    environment = {**os.environ, "GRCL_PLUGINS": "tiny_files", "PYTHONPATH": here}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment, start_new_session=True
    ) as process:
        assert process.stderr is not None
        heard = next((line for line in process.stderr if line.startswith("stage 1")), "")
        assert heard
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stderr.read().splitlines()
    assert process.returncode == 130
    assert "the same command goes on from there" in rest[-1]
    assert list((tmp_path / "run" / "checkpoints").iterdir())
