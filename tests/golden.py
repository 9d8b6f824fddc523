"""A short run of `mini` whose outcome is kept: `python tests/golden.py` writes it anew."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from grcl.config import RunSettings, resolve
from grcl.run import run
from grcl.runtime.checkpoint import Checkpoints

GOLDEN = Path(__file__).parent / "golden" / "mini.json"


def golden_settings() -> RunSettings:
    overrides = {
        "training.epochs": 1,
        "training.threads": 1,
        "training.device": "cpu",
        "stage0.epochs": 5,
        "memory.size": 256,
        "targets": ["mnist", "digits8"],
    }
    return resolve("mini", "grcl", overrides)


def outcome(folder: Path) -> dict[str, Any]:
    """R, a digest of all weights and keys, the losses, and what the bits depend on."""
    matrix = run(golden_settings(), folder)
    state = Checkpoints(folder / "checkpoints").newest()
    assert state is not None
    digest = hashlib.sha256()
    for name, value in sorted(state["method"]["modules"].items()):
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    environment = json.loads((folder / "environment.json").read_text())
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {
        "depends_on": {
            "data": {name: facts["fingerprint"] for name, facts in environment["data"].items()},
            "torch": environment["packages"]["torch"],
            "processor": environment["processor"],
            "settings": golden_settings().as_json(),
        },
        "weights": digest.hexdigest(),
        "losses": [line["values"] for line in lines if line["kind"] == "step"],
        **matrix.to_json(),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(outcome(Path(folder)), indent=1) + "\n")
