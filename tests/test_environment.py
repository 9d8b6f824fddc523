"""What a run tells about the machine it ran on."""

import platform
import subprocess
import sys

import torch

from grcl.runtime.environment import DECISIVE, describe_environment, gone_on_in

PEAK = "from grcl.runtime.environment import peak_memory as peak\n"


def numbers_of(code: str) -> list[int]:
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", PEAK + code], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_a_run_that_moved_tells_where_it_was() -> None:
    here = describe_environment(torch.device("cpu"))
    there, elsewhere = here | {"processor": "another"}, here | {"commit": "another"}
    assert gone_on_in(here, here) == here
    moved = gone_on_in(here, there)
    assert [place["processor"] for place in moved["earlier"]] == ["another"]
    back = gone_on_in(there, gone_on_in(elsewhere, moved))
    assert back["processor"] == "another"
    assert back["earlier"] == [{key: place[key] for key in DECISIVE} for place in (here, elsewhere)]


def test_the_kernel_is_not_among_what_decides() -> None:
    """Another kernel gives the same numbers; a result that named it would be another for every machine."""
    told = describe_environment(torch.device("cpu"))["platform"]
    assert told.startswith(platform.system())
    assert platform.release() not in told


def test_the_peak_is_what_was_held_though_it_is_held_no_more() -> None:
    before, after = numbers_of("import torch; print(peak()); torch.ones(64 << 20); print(peak())")
    assert 240 << 20 < after - before < 300 << 20


def test_the_peak_of_a_process_does_not_count_its_parent() -> None:
    held = torch.ones(256 << 20)  # a gigabyte
    assert numbers_of("print(peak())")[0] < held.nbytes
