"""From a published file to data on the disk: downloaded, checked, unpacked; one process at a time per file."""

import json
from dataclasses import replace
from pathlib import Path

from grcl.benchmarks.archives import unpack
from grcl.benchmarks.download import PATIENT, Patience, digest_of, download
from grcl.benchmarks.sources import File, Source
from grcl.runtime.errors import Failure
from grcl.runtime.files import write_atomically
from grcl.runtime.transfers import Transfers
from grcl.runtime.turns import one_at_a_time

RECORD = ".grcl-downloads.json"


def place(file: File, folder: Path) -> Path:
    """Where the file, or what it is unpacked to, stands below the folder."""
    path = folder / file.name
    return path if file.unpacked is None else path.with_name(file.unpacked)


def obtain_domain(source: Source, folder: Path, transfers: Transfers, patience: Patience = PATIENT) -> list[Path]:
    """All files of the first form that is there or can be had."""
    failures = []
    for form in sorted(source.forms, key=lambda form: not all(place(file, folder).exists() for file in form)):
        try:
            return [obtain(file, folder, transfers, patience) for file in form]
        except Failure as failure:
            failures.append(str(failure))
    make = f", or make it: {source.make}" if source.make else ""
    raise Failure(f"{'; '.join(failures)}; put it into {folder} by hand from {source.page}{make}")


def obtain(file: File, folder: Path, transfers: Transfers, patience: Patience = PATIENT) -> Path:
    """The file, or what it is unpacked to, below the folder; nothing is done if it is there."""
    path = folder / file.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(_lock(path), transfers.say):
            if file.unpacked is None or not place(file, folder).exists():
                _obtain(file, folder, transfers, patience)
    except OSError as error:
        remedy = "free some space or give another folder, and the same command goes on"
        raise Failure(f"cannot write {error.filename or path} ({error.strerror}); {remedy}") from error
    return place(file, folder)


def _obtain(file: File, folder: Path, transfers: Transfers, patience: Patience) -> None:
    path = folder / file.name
    recorded = _recorded(folder).get(file.name) if file.digest is None else None
    try:
        download(replace(file, digest=file.digest or recorded), path, transfers, patience)
    except Failure as failure:
        hint = f"; the first download had {recorded}: if you trust the new one, remove it from {folder / RECORD}"
        raise Failure(f"{failure}{hint if recorded else ''}") from failure
    digest = digest_of(path) if file.digest is None else None
    if file.unpacked is not None:
        transfers.say(f"{path.name}: unpacking")
        try:
            unpack(path, place(file, folder))
        except Failure:
            if digest:
                path.unlink()  # what is no archive is not the file, whatever the server said
            raise
    if digest:
        _remember(folder, file.name, digest)
    if file.unpacked is not None:
        path.unlink()


def _recorded(folder: Path) -> dict[str, str]:
    """Digests of first downloads, by the name of the file."""
    path = folder / RECORD
    try:
        record = json.loads(path.read_text())
        return {str(name): str(digest) for name, digest in record.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError) as error:
        raise Failure(f"{path} cannot be read ({error}); mend it, or remove it to trust the next download") from error


def _remember(folder: Path, name: str, digest: str) -> None:
    with one_at_a_time(_lock(folder / RECORD)):
        record = {**_recorded(folder), name: digest}
        write_atomically(folder / RECORD, (json.dumps(record, indent=2, sort_keys=True) + "\n").encode())


def _lock(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")
