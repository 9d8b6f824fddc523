"""What a result depends on besides its settings."""

import platform
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from grcl import __version__
from grcl.runtime import distributed

_PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "scikit-image",
    "mlxtend",
    "matplotlib",
    "pillow",
    "torchvision",
    "timm",
    "safetensors",
)
_STATUS = Path("/proc/self/status")  # of Linux

# What a result depends on; the command is left out, since it names the folders of a machine.
DECISIVE = ("python", "platform", "processor", "packages", "commit", "threads", "processes", "device")


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions, machine, threads, device, command: for environment.json."""
    return {
        "python": platform.python_version(),
        "platform": _platform(),
        "processor": _processor(),
        "packages": {"grcl": __version__, **{name: version(name) for name in _PACKAGES}},
        "commit": _commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "threads": torch.get_num_threads(),
        "processes": distributed.world_size(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
    }


def gone_on_in(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The description of the environment that a run goes on in, with those that it was at work in earlier."""
    places = [*before.get("earlier", []), {key: before.get(key) for key in DECISIVE}]
    here = {key: now.get(key) for key in DECISIVE}
    earlier = [place for number, place in enumerate(places) if place != here and place not in places[:number]]
    return now | {"earlier": earlier} if earlier else now


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    if _STATUS.exists():
        # getrusage counts what the parent held when it started this process.
        (peak,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(peak.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _commit() -> str | None:
    """The commit of a source checkout, and whether it was changed since; none for an installed wheel."""
    checkout = Path(__file__).parents[3]
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _platform() -> str:
    """The system and its libraries, whose functions are in the numbers: of Linux the C library's version, of macOS its
    own; the kernel is not."""
    return " ".join(filter(None, (platform.system(), *platform.libc_ver(), platform.mac_ver()[0])))


def _processor() -> str:
    """The processor decides which kernels the libraries take, and so the last bits of a sum."""
    facts = [platform.machine(), torch.backends.cpu.get_cpu_capability()]
    listing = Path("/proc/cpuinfo")
    if listing.exists():  # Linux
        pairs = (line.split(":", 1) for line in listing.read_text().splitlines() if ":" in line)
        first: dict[str, str] = {}
        for key, value in pairs:
            first.setdefault(key.strip(), value.strip())
        facts += [first[key] for key in ("vendor_id", "cpu family", "model", "stepping") if key in first]
    return " ".join(facts)
