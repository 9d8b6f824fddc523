"""The benchmarks follow the code that they measure: every module of theirs can be imported."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "bench" / "peers"  # these run in an environment of their own, with what users take instead


def test_every_module_of_the_benchmarks_can_be_imported() -> None:
    files = [path for path in sorted((ROOT / "bench").rglob("*.py")) if PEERS not in path.parents]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files if path.name != "__main__.py"]
    assert len(names) > 10
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
