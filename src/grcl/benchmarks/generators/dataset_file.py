"""The file that a generated dataset is written to."""

import io
from pathlib import Path

import numpy as np

from grcl.benchmarks.readers import Part
from grcl.runtime.errors import Failure, Refusal
from grcl.runtime.files import write_atomically


def prepare(path: Path) -> None:
    """Make the folder, before any work; a file that is there may be the original and is never replaced."""
    if path.exists():
        raise Refusal(f"{path} exists already; move it away or choose another folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"the folder {path.parent} cannot be made ({error.strerror}); choose another") from None


def write(path: Path, train: Part, test: Part) -> Path:
    """Both parts as `grcl.benchmarks.readers.read_npz` reads them; the same arrays give the same bytes."""
    content = io.BytesIO()
    np.savez_compressed(
        content,
        x_train=np.asarray(train.images),
        y_train=train.labels.astype(np.uint8),
        x_test=np.asarray(test.images),
        y_test=test.labels.astype(np.uint8),
        note=np.array(train.note),
    )
    try:
        write_atomically(path, content.getvalue())
    except OSError as error:
        raise Failure(f"{path} cannot be written ({error.strerror}); free the space or choose another folder") from None
    return path
