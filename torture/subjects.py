"""The files that are mutated, each with what reads it and what that says of them."""

import json
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import safetensors.torch
import torch
from PIL import Image

import tiny
from digit_files import WRITERS, write_form
from grcl.benchmarks import digits
from grcl.data.file_pool import pool_of_files
from grcl.data.images import ImageArray
from grcl.data.pool import Pool
from grcl.data.reading import Reading
from grcl.data.split import Split, describe_splits, split_domain
from grcl.learner.present import Present
from grcl.learner.state import StateDirectory
from grcl.networks import Network, build, fingerprint
from grcl.runtime.checkpoint import Checkpoints
from grcl.runtime.errors import Refusal
from learners import fitted, pixels
from torture.accidents import mutated

SIZE = 32


class Subject(ABC):
    """Files in a folder, one of which is mutated at a time."""

    name: str
    pattern = "*"

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Make the files."""

    @abstractmethod
    def read(self, folder: Path) -> tuple[str, bytes]:
        """What a command reads from them: the fingerprint that it goes by, and the content itself."""

    def files(self, folder: Path) -> list[Path]:
        """Those that may be mutated."""
        return sorted(path for path in folder.rglob(self.pattern) if path.is_file())

    def harm(self, folder: Path, chance: random.Random) -> Callable[[], object]:
        """Let an accident happen to one of them; returns what undoes it."""
        path = chance.choice(self.files(folder))
        whole = path.read_bytes()
        path.write_bytes(mutated(whole, chance))
        return lambda: path.write_bytes(whole)


class DigitFiles(Subject):
    """A domain of digits in one of the forms in which it is published."""

    def __init__(self, form: str) -> None:
        self.name = form

    def write(self, folder: Path) -> None:
        write_form(self.name, folder)

    def read(self, folder: Path) -> tuple[str, bytes]:
        pool = digits.pool(WRITERS[self.name][0], folder, Reading(size=SIZE))
        assert isinstance(pool.images, ImageArray)
        return pool.fingerprint, pool.images.pixels.numpy().tobytes() + str(pool.labels.tolist()).encode()


class ImageFolder(Subject):
    """Photographs in folders, as PNG or JPEG, as the large benchmarks keep them."""

    def __init__(self, ending: str) -> None:
        self.name, self.ending = f"image folder of {ending}", ending

    def write(self, folder: Path) -> None:
        pixels = tiny.pool("dark", None, Reading(size=SIZE)).images.read(torch.arange(12))
        for place, image in enumerate(pixels):
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / f"{place:02}.{self.ending}")

    def read(self, folder: Path) -> tuple[str, bytes]:
        files = [(path.name, 0) for path in self.files(folder)]
        pool = pool_of_files(folder, files, Reading(size=SIZE, workers=0))
        return pool.fingerprint, pool.images.read(torch.arange(len(pool.labels))).numpy().tobytes()


class SplitFile(Subject):
    """splits.json of an earlier run."""

    name = "splits.json"

    def __init__(self) -> None:
        self.pool: Pool = tiny.pool("dark", None, Reading(size=SIZE))

    def write(self, folder: Path) -> None:
        split = describe_splits((split_domain("dark", self.pool, Split(train=24, test=12)),))
        (folder / "splits.json").write_text(json.dumps(split))

    def read(self, folder: Path) -> tuple[str, bytes]:
        domain = split_domain("dark", self.pool, Split(file=folder / "splits.json"))
        return domain.fingerprint, json.dumps([domain.split["train"], domain.split["test"]]).encode()


class Weights(Subject):
    """Weights of a network, in torch's form or in that of safetensors."""

    def __init__(self, ending: str) -> None:
        self.name, self.ending = f"weights .{ending}", ending

    def write(self, folder: Path) -> None:
        torch.manual_seed(0)
        state = build(Network(), 4).encoder.state_dict()
        path = folder / f"weights.{self.ending}"
        if self.ending == "safetensors":
            safetensors.torch.save_file(state, path)
        else:
            torch.save(state, path)

    def read(self, folder: Path) -> tuple[str, bytes]:
        torch.manual_seed(0)
        network = build(Network(weights=folder / f"weights.{self.ending}"), 4)
        return fingerprint(network), b"".join(value.numpy().tobytes() for value in network.state_dict().values())


class CheckpointFiles(Subject):
    """The newest of two checkpoints; the other one must be used where it is damaged."""

    name = "checkpoint"
    pattern = "00000002.ckpt"

    def write(self, folder: Path) -> None:
        torch.manual_seed(0)
        checkpoints = Checkpoints(folder)
        for step in (1, 2):
            checkpoints.save({"step": step, "method": build(Network(), 4).state_dict(), "episodes": []})

    def read(self, folder: Path) -> tuple[str, bytes]:
        state = Checkpoints(folder).final()
        weights = b"".join(value.numpy().tobytes() for value in state["method"].values())
        return f"step {state['step']}", weights


class StateFiles(Subject):
    """The state of a learner: any file mutated, missing, swapped with another or there in addition.

    A problem counts as noticed; where one is, no file that it names may be read all the same.
    """

    name = "state of a learner"

    def write(self, folder: Path) -> None:
        fitted(folder / "state", keep_source=16).adapt(pixels("dark"), if_worse="keep")

    def read(self, folder: Path) -> tuple[str, bytes]:
        state = StateDirectory(folder / "state")
        problems, present = state.problems(), Present(state)
        damaged = [name for name in present.facts.files if any(text.startswith(name) for text in problems)]
        for name in damaged:
            try:
                state.read(present.facts, name)
            except Refusal:
                continue
            return "", b"what is damaged was read"
        if not damaged:
            assert present.model.familiarity is not None
            assert len(present.episodes()) == 1
        return " ".join(problems), repr((present.facts, present.entries)).encode()

    def harm(self, folder: Path, chance: random.Random) -> Callable[[], object]:
        accident = chance.choice((super().harm, super().harm, super().harm, _lose, _swap, _add))
        return accident(folder, chance)


def _lose(folder: Path, chance: random.Random) -> Callable[[], object]:
    path = chance.choice(_all(folder))
    content = path.read_bytes()
    path.unlink()
    return lambda: path.write_bytes(content)


def _swap(folder: Path, chance: random.Random) -> Callable[[], object]:
    a, b = chance.sample(_all(folder), 2)

    def exchange() -> None:
        a.rename(folder / "aside")
        b.rename(a)
        (folder / "aside").rename(b)

    exchange()
    return exchange


def _add(folder: Path, chance: random.Random) -> Callable[[], object]:
    """A file under a name that the state could give, or that it never gives."""
    like = chance.choice(_all(folder))
    extra = like.with_name(chance.choice((f"{chance.randrange(2, 9999):04d}{like.suffix}", f"copy of {like.name}")))
    shutil.copy(like, extra)
    return extra.unlink


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def data_subjects() -> list[Subject]:
    """Every form in which data and weights are read."""
    folders = [ImageFolder("png"), ImageFolder("jpg")]
    weights = [Weights("pt"), Weights("safetensors")]
    return [*map(DigitFiles, WRITERS), *folders, SplitFile(), *weights]
