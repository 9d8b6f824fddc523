"""Messages of the package on the terminal."""

import logging
import os
from typing import TYPE_CHECKING

from grcl.runtime.visible import visible

if TYPE_CHECKING:
    from rich.console import Console


def set_up_logging(console: "Console") -> None:
    """Show what the package tells; of several processes the first alone speaks, but for errors."""
    from rich.logging import RichHandler

    is_first = int(os.environ.get("RANK", "0")) == 0
    if console.is_terminal:
        handler: logging.Handler = RichHandler(console=console, show_time=False, show_path=False, markup=False)
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(_written_out)
    logging.getLogger("grcl").handlers = [handler]
    logging.getLogger("grcl").setLevel(logging.INFO if is_first else logging.ERROR)


def _written_out(record: logging.LogRecord) -> bool:
    """Names come from outside: what they could do to a terminal is shown, not done."""
    record.msg, record.args = visible(record.getMessage()), ()
    return True
