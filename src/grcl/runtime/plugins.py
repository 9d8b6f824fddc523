"""Methods and benchmarks of one's own: modules that register them when they are imported."""

import os
from importlib import import_module

from grcl.runtime.errors import Refusal

VARIABLE = "GRCL_PLUGINS"


def load_plugins() -> None:
    """Import the modules that $GRCL_PLUGINS lists, separated by commas; the processes of a comparison do so too."""
    for name in filter(None, map(str.strip, os.environ.get(VARIABLE, "").split(","))):
        try:
            import_module(name)
        except ImportError as error:
            raise Refusal(
                f"cannot import {name!r}, which {VARIABLE} names: {error}; put its folder on PYTHONPATH"
            ) from None
