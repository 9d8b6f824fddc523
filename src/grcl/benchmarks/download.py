"""Downloads that end in the whole file or in none: mirrors, resume, bounds, and digests before the rename.

What has come so far is `<name>.part`; `<name>.part.json` says from where. One process at a time: see `obtain`.
"""

import hashlib
import json
import os
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from grcl.benchmarks.sources import File
from grcl.benchmarks.web import Answer, Fault, NoSuchPart, ask
from grcl.runtime.errors import Failure
from grcl.runtime.files import write_atomically
from grcl.runtime.transfers import Transfers

CHUNK = 1 << 18
WORTHWHILE = 1 << 20  # a try that brings this much more than any before it does not count against the address
LONGEST_PAUSE = 30.0
UNPUBLISHED_LIMIT = 8 << 30  # bytes of a file whose size nobody has published


@dataclass(frozen=True)
class Patience:
    """How long a server may keep us waiting."""

    tries: int = 5
    """At each address, not counting those that brought a good piece of the file."""
    pause: float = 1.0
    """Seconds before the second try; doubled with every further one."""
    timeout: float = 30.0
    """Seconds without a byte."""


PATIENT = Patience()


def download(file: File, path: Path, transfers: Transfers, patience: Patience = PATIENT) -> None:
    """Bring the file to `path`, whole and right; nothing is done if it is there."""
    if is_right(file, path):
        return
    if path.exists():
        transfers.say(f"{path} is damaged or not the published file; it is downloaded anew")
    part = Part(path)
    faults = []
    for address in file.addresses:
        try:
            _bring(file, address, part, transfers, patience)
            part.put_in_place()
            return
        except Fault as fault:
            faults.append(f"{address} {fault}")
            transfers.say(f"{address} {fault}")
    part.drop_if_empty()
    raise Failure(f"cannot download {file.name}: {'; '.join(faults)}")


def is_right(file: File, path: Path) -> bool:
    """Whether the file at `path` is the published one, as far as that is known."""
    if not path.is_file() or file.size not in (None, path.stat().st_size):
        return False
    return file.digest is None or digest_of(path, file.digest) == file.digest


def digest_of(path: Path, like: str = "sha256:") -> str:
    """The digest of a file, such as `sha256:...`, by the algorithm of another digest."""
    algorithm = like.partition(":")[0]
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return f"{algorithm}:{digest.hexdigest()}"


class Part:
    """What has come of a file so far, and from where."""

    def __init__(self, final: Path) -> None:
        self.final = final
        self.path = final.with_name(f"{final.name}.part")
        self.origin = final.with_name(f"{final.name}.part.json")
        self.is_pieced = self.size > 0  # together from more than one answer

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def resume(self, address: str, has_digest: bool) -> tuple[int, str]:
        """Where to go on, and the version that must still be there; without a version only a digest can tell."""
        try:
            origin = json.loads(self.origin.read_text())
            start, validator = self.size, str(origin["validator"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0, ""
        is_same = origin["address"] == address and (validator or has_digest)
        return (start, validator) if is_same else (0, "")

    def write(self, answer: Answer, limit: int, transfers: Transfers) -> None:
        """Append all that is answered; a whole file from the start takes the place of what was here."""
        self.is_pieced = answer.start > 0
        with self.path.open("ab") as out:
            out.truncate(answer.start)
            origin = {"address": answer.address, "validator": answer.validator}
            write_atomically(self.origin, json.dumps(origin).encode())
            done = answer.start
            while chunk := answer.read(CHUNK):
                done += len(chunk)
                if done > limit:
                    self.clear()
                    raise Fault(f"sends more than {limit:,} bytes", is_final=True)
                out.write(chunk)
                out.flush()  # what a killed process has received is not lost
                transfers.advance(done)
            os.fsync(out.fileno())

    def put_in_place(self) -> None:
        """Rename, once all is right."""
        self.path.replace(self.final)
        self.origin.unlink(missing_ok=True)
        folder = os.open(self.final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the rename itself must outlive a power cut
        finally:
            os.close(folder)

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
        self.origin.unlink(missing_ok=True)

    def drop_if_empty(self) -> None:
        if not self.size:
            self.clear()


def _bring(file: File, address: str, part: Part, transfers: Transfers, patience: Patience) -> None:
    """Try one address until the part is whole and right, or until patience ends."""
    furthest, fruitless = part.size, 0
    while True:
        try:
            _receive(file, address, part, transfers, patience.timeout)
            return _check(file, part)
        except Fault as fault:
            fruitless = 0 if part.size >= furthest + WORTHWHILE else fruitless + 1
            furthest = max(furthest, part.size)
            if fault.is_final or fruitless >= patience.tries:
                raise
            transfers.say(f"{address} {fault}; trying again")
            time.sleep(min(LONGEST_PAUSE, patience.pause * 2 ** max(0, fruitless - 1)))


def _receive(file: File, address: str, part: Part, transfers: Transfers, timeout: float) -> None:
    """One request and all that it brings."""
    start, validator = part.resume(address, file.digest is not None)
    if start and start == file.size:
        return  # an earlier process received all, and had no time to check it
    try:
        answer = ask(address, start, validator, timeout)
    except NoSuchPart:
        part.clear()
        raise
    with closing(answer.response):
        limit = UNPUBLISHED_LIMIT if file.size is None else file.size
        if file.size is not None and answer.total not in (None, file.size):
            raise Fault(f"has {answer.total:,} bytes instead of the published {file.size:,}", is_final=True)
        if file.digest is None and not answer.tells_its_end:
            raise Fault("does not say how long the file is, and no digest is published", is_final=True)
        transfers.begin(file.name, answer.start, answer.total or file.size)
        part.write(answer, limit, transfers)
    if answer.total is not None and part.size < answer.total:
        raise Fault(f"broke off after {part.size:,} of {answer.total:,} bytes")


def _check(file: File, part: Part) -> None:
    """Refuse and delete what is not the published file; pieces of two versions deserve another try."""
    if is_right(file, part.path):
        return
    digest = f" with {digest_of(part.path, file.digest)} instead of {file.digest}" if file.digest else ""
    fault = Fault(f"sent {part.size:,} wrong bytes{digest}", is_final=not part.is_pieced)
    part.clear()
    raise fault
