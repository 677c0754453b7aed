"""How many threads a question may use in this process."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "PROFFRAME_THREADS"
"""Environment variable with the number; without one DuckDB uses as many as there are cores."""


def most_threads() -> int | None:
    """The number; None for all cores.

    Examples
    --------
    >>> most_threads() is None or most_threads() > 0
    True
    """
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isdecimal() and int(text) else None
