"""What torch.save wrote, loaded without running code and without taking more memory than the file has bytes."""

import warnings
import zipfile
from io import BufferedReader, BytesIO
from typing import Any

import torch


def load_torch(file: BufferedReader | BytesIO) -> Any:
    """Tensors and plain values; anything else raises, and torch names no common base of what it raises."""
    stored = file.seek(0, 2)
    file.seek(0)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
        if claimed > stored:  # torch compresses nothing
            raise ValueError(f"it claims to hold {claimed:,} bytes in {stored:,}")
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of foreign pickles before it refuses them; one sentence is enough
        return torch.load(file, map_location="cpu", weights_only=True)
