"""Memory grows with the number of images by their names and indices alone; pixels stay on the disk."""

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

SIZE = 96
FEW, MANY = 3_000, 6_000  # of both so many that as many batches are read ahead as there ever are
PIXELS = 3 * SIZE * SIZE  # bytes of an image, were it kept
BOOKKEEPING = 3_000  # bytes of an image's name, digest, label and places, while they are counted

GO_THROUGH = """
import sys
from pathlib import Path
import torch
from grcl.data.file_pool import pool_of_files
from grcl.data.reading import Reading
from grcl.data.split import Split, split_domain
from grcl.evaluate import batches_of

root, cache = Path(sys.argv[1]), sys.argv[2] == "packed"
files = [(path.relative_to(root).as_posix(), len(path.name) % 2) for path in sorted(root.rglob("*.png"))]
pool = pool_of_files(root, files, Reading(size=int(sys.argv[3]), cache=cache, workers=0))
domain = split_domain("many", pool, Split(train=len(files) // 2))
seen = sum(len(batch) for part in (domain.train, domain.test) for batch in batches_of(part.images, torch.device("cpu")))
(peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(seen, peak.split()[1])
"""


def make_images(root: Path, count: int) -> Path:
    """Files that all differ, if only by what follows the image in them."""
    png = BytesIO()
    Image.new("RGB", (8, 8), (10, 20, 30)).save(png, "PNG")
    for number in range(count):
        path = root / f"{number % 20:02}" / f"{number:06}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png.getvalue() + str(number).encode())
    return root


def peak_kilobytes(root: Path, form: str, count: int, cache: Path) -> int:
    """The most memory that a process held which went through all images, its page tables' view of the file included."""
    environment = {**os.environ, "GRCL_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    environment |= {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}  # what is freed goes back at once
    command = [sys.executable, "-c", GO_THROUGH, str(root), form, str(SIZE)]
    said = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    seen, peak = map(int, said.stdout.split())
    assert seen == count
    return peak


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_twice_the_images_need_no_more_memory_for_pixels(tmp_path: Path) -> None:
    few, many = (make_images(tmp_path / str(count), count) for count in (FEW, MANY))
    for form in ("files", "packed"):
        growth = 1024 * (
            peak_kilobytes(many, form, MANY, tmp_path / "cache") - peak_kilobytes(few, form, FEW, tmp_path / "cache")
        )
        assert growth < BOOKKEEPING * (MANY - FEW) < PIXELS * (MANY - FEW) / 8, form
