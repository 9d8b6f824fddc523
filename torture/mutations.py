"""Mutate files one at a time and read them: each must be refused in a sentence, or be seen to be another one."""

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from grcl.runtime.environment import peak_memory
from grcl.runtime.errors import Failure, Refusal
from torture.child import start
from torture.subjects import CheckpointFiles, StateFiles, Subject, data_subjects

PATIENCE = 30.0  # seconds for one small file; longer is a hang
MOST_MEMORY = 300 << 20  # bytes that reading a file of some kilobytes may take beside what was taken before
REFUSED, NOTICED, HARMLESS, CRASHED = "refused", "noticed", "harmless", "crashed"


@dataclass
class Tally:
    """What became of the mutated files; harmless are those that changed no byte that is read, and do not count."""

    counts: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.counts[REFUSED] + self.counts[NOTICED] + self.counts[CRASHED]

    @property
    def sentence(self) -> str:
        good = self.counts[REFUSED] + self.counts[NOTICED]
        return f"mutated files tried / refused or noticed / crashed = {self.tried} / {good} / {self.counts[CRASHED]}"


class Amounts(NamedTuple):
    """How many mutations are to be tried."""

    checkpoints: int
    states: int
    files: int
    """Of all kinds of data and weights together."""


def mutate_all(amounts: Amounts, seed: int, folder: Path, say: Callable[[str], None]) -> dict[str, Tally]:
    """So many mutations of everything."""
    tallies, subjects = {}, data_subjects()
    shares = [
        amounts.files * (k + 1) // len(subjects) - amounts.files * k // len(subjects) for k in range(len(subjects))
    ]
    own = [(CheckpointFiles(), amounts.checkpoints), (StateFiles(), amounts.states)]
    for subject, count in [*own, *zip(subjects, shares, strict=True)]:
        if count:
            place = folder / subject.name.replace(" ", "-")
            tallies[subject.name] = Examination(subject, place, seed).examine(count)
            say(f"{subject.name}: {tallies[subject.name].sentence}")
    return tallies


class Examination:
    """One subject, whose mutated files are read by children that may die of them."""

    def __init__(self, subject: Subject, folder: Path, seed: int) -> None:
        self.subject, self.folder, self.seed = subject, folder, seed
        self.whole, self.notes = folder / "whole", folder / "notes.txt"
        self.whole.mkdir(parents=True)
        subject.write(self.whole)
        os.environ["GRCL_CACHE"] = str(folder / "cache")
        self.expected = subject.read(self.whole)

    def examine(self, count: int) -> Tally:
        """Mutate until so many mutations have counted; a child that dies or hangs is one that crashed."""
        tally, number = Tally(), 0
        self.notes.touch()
        while tally.tried < count:
            # a child reads one file after another; where it dies, the next goes on behind it
            first, wanted = number, count - tally.tried
            child = start(partial(self._read_many, first, wanted), self.folder / "output.txt")
            seen, since = 0, time.monotonic()
            while child.is_alive() and time.monotonic() < since + PATIENCE:
                time.sleep(0.02)
                size = self.notes.stat().st_size
                seen, since = size, since if size == seen else time.monotonic()
            child.kill()
            number = self._take(tally, number, child.code)
        return tally

    def _take(self, tally: Tally, first: int, code: int | None) -> int:
        """Count what a child has noted; returns the number of the next mutation."""
        notes = self.notes.read_text().splitlines()
        self.notes.write_text("")
        for note in notes:
            kind, _, reason = note.partition(" ")
            tally.counts[kind] += 1
            if kind == CRASHED:
                tally.crashes.append(f"{self.subject.name}: {reason}")
        if code:
            tally.counts[CRASHED] += 1
            tally.crashes.append(f"{self.subject.name}: mutation {first + len(notes)} ended its process ({code})")
        return first + len(notes) + bool(code)

    def _read_many(self, first: int, wanted: int) -> int:
        """What a child does."""
        place = self.folder / "mutated"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.whole, place)
        number = first
        with self.notes.open("a") as notes:
            while wanted > 0:
                kind, reason = self._read_one(place, number)
                notes.write(f"{kind} mutation {number}: {' '.join(reason.split())}\n")
                notes.flush()
                number, wanted = number + 1, wanted - (kind != HARMLESS)
        return 0

    def _read_one(self, place: Path, number: int) -> tuple[str, str]:
        undo = self.subject.harm(place, random.Random(f"{self.seed} {self.subject.name} {number}"))
        try:
            return self._outcome(place)
        finally:
            undo()

    def _outcome(self, place: Path) -> tuple[str, str]:
        """Whether what is read is refused, seen to be something else, or no different."""
        before = peak_memory()
        try:
            fingerprint, content = self.subject.read(place)
        except (Refusal, Failure) as error:
            return (REFUSED, str(error)) if len(str(error)) > 20 else (CRASHED, f"no sentence: {error!r}")
        except BaseException as error:
            return CRASHED, f"{type(error).__name__}: {error}"
        if peak_memory() - before > MOST_MEMORY:
            return CRASHED, f"took {(peak_memory() - before) >> 20} MB"
        if fingerprint != self.expected[0]:
            return NOTICED, fingerprint
        return (HARMLESS, "") if content == self.expected[1] else (CRASHED, "another content, the same fingerprint")
