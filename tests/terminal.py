"""A real pseudo-terminal, and what a process shows on it."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def shown_on_a_terminal(script: str, environment: Mapping[str, str], folder: Path | None = None) -> str:
    """All that the Python script writes to its terminal; it must end well."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, stdout=child, stderr=child, stdin=child, env=environment, cwd=folder)
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # Linux reports the closed terminal so
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    assert process.wait() == 0
    return shown.decode()
