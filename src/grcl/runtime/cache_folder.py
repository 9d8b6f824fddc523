"""Where things are kept that can be made again."""

import os
import sys
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """$GRCL_CACHE, or `grcl` in the user's cache folder."""
    chosen = os.environ.get("GRCL_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_folder() / "grcl"


def user_cache_folder() -> Path:
    """Where this platform keeps what can be made again."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen)
    try:
        return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir())
