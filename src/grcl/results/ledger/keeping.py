"""Putting finished runs among the results: never over another result in silence."""

from collections.abc import Iterable
from pathlib import Path

from grcl.results.comparison import FinishedRun
from grcl.results.ledger.kept import as_text, place_of, read_kept
from grcl.results.run_files import Record, RunFiles
from grcl.results.tables import percent
from grcl.runtime.errors import Failure, Refusal
from grcl.runtime.files import write_atomically
from grcl.runtime.run_directory import differences

SHOWN = 3  # differences told in one sentence


def runs_below(folder: Path) -> tuple[list[FinishedRun], list[Path]]:
    """The runs below the folder that are done, wherever they lie, and the directories of those that are not."""
    if not folder.is_dir():
        raise Refusal(f"no folder {folder}; name one that holds runs, such as the --out of grcl compare")
    runs, unfinished = [], []
    for path in sorted(folder.rglob("config.json")):
        files = RunFiles.read(path.parent)
        if "method" not in files.config:  # a source model
            continue
        if files.matrix is not None and files.matrix.is_complete and (path.parent / "done").exists():
            runs.append(FinishedRun(files, files.matrix, ""))
        else:
            unfinished.append(path.parent)
    return runs, unfinished


def keep(records: Iterable[Record], results: Path, is_replacing: bool) -> dict[Path, bool]:
    """Write the result files, all checked before the first is written; path -> whether it is new or another."""
    wanted: dict[Path, Record] = {}
    outcome: dict[Path, bool] = {}
    for record in records:
        path = results / place_of(record)
        there = wanted.get(path) or (read_kept(path, results).record if path.exists() else None)
        is_taken = there is None or _supersedes(record, there, path, is_replacing)
        wanted |= {path: record} if is_taken else {}
        outcome[path] = outcome.get(path, False) or is_taken
    for path, record in wanted.items():
        _write(path, as_text(record))
    return outcome


def _supersedes(new: Record, there: Record, path: Path, is_replacing: bool) -> bool:
    """Whether the new result takes the place of that which is there."""
    if new == there:
        return False
    changed = {part: differences(there[part], new[part]) for part in ("settings", "data", "environment")}
    told = [
        f"{key} is {old} there, {now} here" for part in changed.values() for key, (old, now) in sorted(part.items())
    ]
    is_same_result = new["accuracy"] == there["accuracy"]
    if is_same_result and not changed["settings"] and not changed["data"]:
        return is_replacing
    if not told:
        raise Failure(
            f"{path}: the same settings, data and environment gave another result ({_difference(there, new)});"
            " one of the two cannot be reproduced: find out which, and remove it"
        )
    if not is_replacing:
        more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
        raise Refusal(
            f"{path} holds another run ({'; '.join(told[:SHOWN])}{more}); --replace puts this one in its place"
        )
    return True


def _difference(there: Record, new: Record) -> str:
    before, now = ([percent(value) for value in record["accuracy"]["accuracy"][-1]] for record in (there, new))
    return f"final accuracies {', '.join(before)} there, {', '.join(now)} here"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise Refusal(f"cannot write to {path}: {error.strerror}; choose another place with --results") from None
