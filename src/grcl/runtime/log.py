"""The log of a run: lines of JSON, and the same numbers as TensorBoard events."""

import json
from pathlib import Path
from typing import Any

from grcl.runtime import distributed
from grcl.runtime.files import writing


class RunLog:
    """log.jsonl and tensorboard/. Resuming cuts off what was written after the checkpoint."""

    def __init__(self, folder: Path, offset: int, step: int) -> None:
        self.folder, self.offset = folder, offset
        self._file, self._events = None, None
        if not distributed.is_main():
            return
        from torch.utils.tensorboard import SummaryWriter

        path = folder / "log.jsonl"
        with writing(folder):
            path.touch()
            self.offset = min(offset, path.stat().st_size)  # a power cut may have taken its last lines
            self._file = path.open("r+b")
            self._file.truncate(self.offset)
            self._file.seek(self.offset)
            self._events = SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def write(self, kind: str, **entry: Any) -> None:
        """Append one line."""
        if self._file is None:
            return
        with writing(self.folder):
            self._file.write(json.dumps({"kind": kind, **entry}).encode() + b"\n")
            self._file.flush()
        self.offset = self._file.tell()

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Numbers over the steps of the whole run, for TensorBoard."""
        if self._events is not None:
            with writing(self.folder):
                for name, value in values.items():
                    self._events.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close both."""
        if self._file is not None and self._events is not None:
            with writing(self.folder):
                self._file.close()
                self._events.close()
