"""Images that stay in their files until a batch asks for them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from grcl.data.decoding import Pixels, read_pixels
from grcl.data.workers import start
from grcl.shapes import Int, UInt8


@dataclass(frozen=True)
class ImageFiles:
    """Files below `root`, decoded by so many worker processes; without workers, by whoever reads."""

    root: Path
    names: tuple[str, ...]
    size: int
    workers: int

    def __len__(self) -> int:
        return len(self.names)

    def read(self, index: Int[Tensor, " batch"]) -> UInt8[Tensor, "batch 3 height width"]:
        pixels: Tensor = self.start(index)()
        return pixels

    def start(self, index: Int[Tensor, " batch"]) -> Callable[[], Tensor]:
        paths = [str(self.root / self.names[place]) for place in index.tolist()]
        return partial(self._gather, start(read_pixels, paths, self.size, workers=self.workers))

    def _gather(self, answers: Callable[[], list[Pixels]]) -> Tensor:
        nothing = torch.empty(0, 3, self.size, self.size, dtype=torch.uint8)
        return torch.cat([nothing, *map(torch.from_numpy, answers())])
