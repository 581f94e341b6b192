"""How wide the terminal is on which an answer's text is read."""

from __future__ import annotations

import os
import sys


def columns() -> int | None:
    """Return the columns of the terminal that standard output goes to; None for a notebook or a file."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
    except (AttributeError, OSError, ValueError):
        return None
