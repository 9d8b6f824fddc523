"""The labelled source in later months: its folder if it is still the same, else the part that the state has kept."""

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grcl.data.images import ImageArray
from grcl.data.reading import Reading
from grcl.learner import arrays
from grcl.learner.inputs import Data, read_labelled
from grcl.learner.state import Facts, StateDirectory
from grcl.runtime.errors import Refusal
from grcl.runtime.seeding import generator
from grcl.shapes import Int

logger = logging.getLogger(__name__)

KEPT = "source/kept.ckpt"


def given_source(given: Any, facts: Facts, reading: Reading) -> Data:
    """A source that the user names anew: of known classes only, but not all of them need be there."""
    data = read_labelled(given, reading, classes=facts.classes)
    known, others = data.among(facts.classes)
    if others:
        raise Refusal(f"the source {data.name} has a class that the learner does not know: {min(others)}")
    if data.fingerprint != facts.source.fingerprint:
        logger.warning("the source %s holds other images than those of the fit", data.name)
    return known


def remembered_source(state: StateDirectory, facts: Facts, reading: Reading) -> Data:
    """The source's folder where it was, if it is as it was; else the kept part; else one must be named."""
    problem = _try_place(facts, reading)
    if isinstance(problem, Data):
        return problem
    if facts.source.kept:
        logger.info("%s; the %d images of it that the state keeps are taken", problem, facts.source.kept)
        return _kept(state, facts)
    raise Refusal(f"{problem}; an adapt needs it: name it with --source (in Python: source=)")


def balanced(labels: Int[Tensor, " n"], count: int, seed: int) -> Int[Tensor, " kept"]:
    """The places of `count` images, the classes as even as they can be, drawn at random."""
    order = torch.randperm(len(labels), generator=generator(seed, "kept source"))
    ranks = torch.empty_like(labels)
    for members in (order[labels[order] == k] for k in labels.unique()):
        ranks[members] = torch.arange(len(members))
    return order[ranks[order].argsort(stable=True)[:count]].sort().values


def _try_place(facts: Facts, reading: Reading) -> Data | str:
    """The source from its folder, or what is wrong with it."""
    if facts.source.place is None:
        return f"the source {facts.source.name} was given as an array and is not kept"
    place = Path(facts.source.place)
    try:
        data = read_labelled(place, reading, classes=facts.classes)
    except Refusal as error:
        return f"the source is not to be had from {place} ({error})"
    if data.fingerprint != facts.source.fingerprint:
        return f"the source in {place} has changed since the fit"
    return data


def _kept(state: StateDirectory, facts: Facts) -> Data:
    pixels, labels = state.images(facts, KEPT)
    files = tuple(str(place) for place in range(len(labels)))
    name, fingerprint = facts.source.name, arrays.fingerprint(pixels, [str(label) for label in labels.tolist()])
    return Data(name, ImageArray(pixels), labels, facts.classes, files, fingerprint, note="the kept part")
