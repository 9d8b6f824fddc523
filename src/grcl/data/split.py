"""Splits are data: lists of places in a domain's pool, drawn with a seed of their own and written into every run."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from grcl.data.images import select
from grcl.data.pool import Pool
from grcl.data.stream import Domain, Labelled
from grcl.runtime.errors import Refusal
from grcl.runtime.seeding import generator
from grcl.runtime.settings import Settings
from grcl.shapes import Int


class Split(Settings):
    """Which images of every domain are trained on, and which are tested."""

    train: PositiveInt | None = None
    """Training images of each domain, drawn by class; all that its distribution means for training if none is given."""
    test: PositiveInt | None = None
    """Test images of each domain, drawn by class; all that are left if none is given."""
    seed: NonNegativeInt = 0
    """Seed of this draw, apart from the training's, whose spread it would blur."""
    file: Path | None = None
    """splits.json of an earlier run: take its images and draw none."""


class Chosen(NamedTuple):
    """The places of the training and test images in a pool."""

    train: Int[Tensor, " train"]
    test: Int[Tensor, " test"]

    @property
    def fingerprint(self) -> str:
        """16 hex digits that change with any place."""
        text = json.dumps([self.train.tolist(), self.test.tolist()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def split_domain(name: str, pool: Pool, split: Split) -> Domain:
    """A domain with the images that the split chooses from its pool."""
    chosen = read_chosen(split.file, name, pool) if split.file else draw_split(name, pool, split)
    if not len(chosen.train) or not len(chosen.test):
        raise Refusal(f"{name} has {len(pool.labels)} images, which leaves none to train on or none to test on")
    train, test = (Labelled(select(pool.images, side), pool.labels[side]) for side in chosen)
    notes = [pool.note, _shortage("training", split.train, train), _shortage("test", split.test, test)]
    fingerprint = f"{pool.fingerprint}-{chosen.fingerprint[:8]}"
    record = {
        "pool": pool.fingerprint,
        "seed": split.seed,
        "train": chosen.train.tolist(),
        "test": chosen.test.tolist(),
    }
    return Domain(name, train, test, fingerprint, "; ".join(filter(None, notes)), record)


def draw_split(name: str, pool: Pool, split: Split) -> Chosen:
    """Draw by class: training images first, from those meant for it; test images from what may be tested."""
    places = torch.arange(len(pool.labels))
    if pool.sides is None:
        if split.train is None:
            raise Refusal(f"{name} comes without a training part; split.train must say how many images to draw for it")
        # A training image has no twin anywhere, so that no test image can be one.
        train = _draw(pool, places if pool.unique is None else pool.unique, split.train, (split.seed, name, "train"))
        testable = places[~torch.isin(places, train)]
    else:
        train = _draw(pool, pool.sides[0], split.train, (split.seed, name, "train"))
        testable = pool.sides[1]
    return Chosen(train, _draw(pool, testable, split.test, (split.seed, name, "test")))


def read_chosen(path: Path, name: str, pool: Pool) -> Chosen:
    """The split of an earlier run, if it was drawn from the same pool."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))[name]
        chosen = Chosen(_places(record["train"]), _places(record["test"]))
        drawn_from = record["pool"]
    except OSError as error:
        raise Refusal(f"split.file {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RuntimeError, OverflowError):
        raise Refusal(f"split.file {path} holds no split of {name}; give the splits.json of a run") from None
    if drawn_from != pool.fingerprint:
        raise Refusal(f"split.file {path} was drawn from other images of {name} (fingerprint {drawn_from})")
    both = torch.cat(chosen)
    if len(both.unique()) < len(both) or not ((both >= 0) & (both < len(pool.labels))).all():
        raise Refusal(f"split.file {path} names an image of {name} twice or one that is not there")
    return chosen


def _places(listed: Any) -> Int[Tensor, " n"]:
    """A list of whole numbers; 3.5 or true is no place."""
    if not isinstance(listed, list) or any(type(place) is not int for place in listed):
        raise TypeError
    return torch.tensor(listed, dtype=torch.long)


def describe_splits(domains: tuple[Domain, ...]) -> dict[str, Any]:
    """What splits.json holds."""
    return {domain.name: domain.split for domain in domains}


def _draw(pool: Pool, places: Tensor, size: int | None, path: tuple[int, str, str]) -> Int[Tensor, " size"]:
    """`size` of the places, every class by its share, in ascending order; all of them if there are no more."""
    if size is None or size >= len(places):
        return places.sort().values
    source = generator(*path)
    shuffled = places[torch.randperm(len(places), generator=source)]
    classes = [shuffled[pool.labels[shuffled] == k] for k in pool.labels[places].unique()]
    counts = _shares(torch.tensor([len(members) for members in classes]), size)
    return torch.cat([members[:count] for members, count in zip(classes, counts, strict=True)]).sort().values


def _shares(counts: Tensor, size: int) -> list[int]:
    """`size` divided in proportion to `counts`; what rounding leaves goes to the largest remainders."""
    exact = counts.double() * size / counts.sum()
    shares = exact.floor().long()
    largest = (exact - shares).argsort(descending=True, stable=True)[: size - int(shares.sum())]
    shares[largest] += 1
    return [int(share) for share in shares]


def _shortage(part: str, asked: int | None, labelled: Labelled) -> str:
    return f"{len(labelled):,} of the {asked:,} {part} images asked for" if asked and len(labelled) < asked else ""
