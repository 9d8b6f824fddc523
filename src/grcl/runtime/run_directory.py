"""One directory per run; its files are the only thing that reports and comparisons read."""

import hashlib
import json
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from grcl.runtime import distributed
from grcl.runtime.checkpoint import Checkpoints
from grcl.runtime.errors import Refusal
from grcl.runtime.files import sweep, write_atomically, writing
from grcl.runtime.turns import alone

_LOCK = "lock"  # there while a command is at work


class RunDirectory:
    """config.json, environment.json, log.jsonl, tensorboard/, accuracy.json, checkpoints/, report.html, done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoints")

    @property
    def is_done(self) -> bool:
        """Whether the run has finished."""
        return (self.path / "done").exists()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Be the one command that works here, for two would share a log; of several processes the first holds it."""
        refusal = f"another process is at work in {self.path}; wait for it, or choose another place with --out"
        with ExitStack() as stack:
            if distributed.is_main():
                try:
                    self.path.mkdir(parents=True, exist_ok=True)
                    stack.enter_context(alone(self.path / _LOCK, refusal))
                except OSError as error:
                    raise self._unwritable(error) from None
            yield

    def claim(self, config: dict[str, Any], without_effect: Collection[str] = ()) -> None:
        """Make this the directory of the run with this config; refuse if it holds another one."""
        if distributed.is_main():
            self._check(config, without_effect)
            try:
                sweep(self.path)
                write_atomically(self.path / "config.json", _as_json(config))
            except OSError as error:
                raise self._unwritable(error) from None
        distributed.wait_for_all()

    def _check(self, config: dict[str, Any], without_effect: Collection[str]) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            unfinished = set(self.path.glob(".config.json.*.tmp"))  # of a process that was killed when it began
            present = sorted({path.name for path in self.path.iterdir() if path not in unfinished} - {_LOCK})
        except OSError as error:
            raise self._unwritable(error) from None
        if not present:
            return
        if "config.json" not in present:
            raise Refusal(f"{self.path} is not empty and holds no run ({present[0]}); choose another place with --out")
        found = differences(self.read_settings("config.json"), config)
        difference = {key: both for key, both in sorted(found.items()) if key not in without_effect}
        if difference:
            listed = "; ".join(f"{key} is {old} there, {new} here" for key, (old, new) in difference.items())
            raise Refusal(f"{self.path} holds a run with other settings ({listed}); choose another place with --out")

    def read_settings(self, name: str) -> dict[str, Any]:
        """One of the JSON files that hold settings."""
        settings = self.read_json(name)
        if not isinstance(settings, dict):
            raise self._damaged(name)
        return settings

    def _unwritable(self, error: OSError) -> Refusal:
        return Refusal(f"cannot write to {self.path}: {error.strerror or error}; choose another place with --out")

    def read_json(self, name: str) -> Any:
        """One of the JSON files."""
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise self._damaged(name) from None

    def _damaged(self, name: str) -> Refusal:
        return Refusal(
            f"{self.path / name} is missing or damaged; put a good copy there, or remove {self.path} to run again"
        )

    def write_json(self, name: str, content: Any) -> None:
        """Write one of the JSON files; the first process alone writes."""
        if distributed.is_main():
            with writing(self.path):
                write_atomically(self.path / name, _as_json(content))

    def finish(self) -> None:
        """Mark the run as finished."""
        if distributed.is_main():
            with writing(self.path):
                write_atomically(self.path / "done", b"")
        distributed.wait_for_all()


def _as_json(content: Any) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level: {"memory": {"size": 256}} becomes {"memory.size": 256}."""
    pairs: dict[str, Any] = {}
    for key, value in settings.items():
        pairs |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return pairs


def nested(pairs: dict[str, Any]) -> dict[str, Any]:
    """The reverse of `flat`."""
    settings: dict[str, Any] = {}
    for key, value in pairs.items():
        *sections, name = key.split(".")
        place = settings
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return settings


def differences(old: dict[str, Any], new: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings in which two configs differ, with both values."""
    a, b = flat(old), flat(new)
    return {key: (a.get(key), b.get(key)) for key in a.keys() | b.keys() if a.get(key) != b.get(key)}


def variant_name(changes: dict[str, Any]) -> str:
    """A path segment for settings that differ from the preset: "memory.size=256"; a digest where that is too long."""
    spelled = ",".join(
        f"{key}={'-'.join(value) if isinstance(value, list) else value}" for key, value in changes.items()
    )
    plain = re.sub(r"[^\w.,=+-]", "_", spelled, flags=re.ASCII)
    if len(plain) <= 100:
        return plain
    return f"{plain[:80]}~{hashlib.sha256(spelled.encode(errors='backslashreplace')).hexdigest()[:8]}"
