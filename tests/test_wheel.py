"""The built wheel holds everything: installed in an empty environment, it runs from there."""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

PROGRAM = """
import pathlib, sys, grcl
assert pathlib.Path(grcl.__file__).is_relative_to(sys.argv[1]), grcl.__file__
from grcl.cli import main
words = ["run", "--method", "source_only", "--targets", "mnist", "--stage0.epochs", "1", "--out", sys.argv[2]]
sys.exit(main([*words, "--training.threads", "1"]))
"""


def test_the_wheel_runs_from_an_empty_environment(tmp_path: Path) -> None:
    """Its dependencies, which are large, are lent by the environment of the tests; grcl itself is not."""
    wheel = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(wheel, check=True, capture_output=True)
    (built,) = tmp_path.glob("grcl-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(built)], check=True)
    (packages,) = (tmp_path / "empty").glob("lib/python*/site-packages")
    lent = Path(os.__file__).parent / "site-packages" if sys.prefix == sys.base_prefix else Path(sys.prefix)
    (own,) = [lent] if lent.name == "site-packages" else lent.glob("lib/python*/site-packages")
    # Added behind the environment's own packages, and without the links of editable installs.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(own)])}
    done = subprocess.run(
        [python, "-c", PROGRAM, str(packages), str(tmp_path / "run")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ACC" in done.stdout
    assert (tmp_path / "run" / "report.html").read_text().startswith("<!doctype html>")
