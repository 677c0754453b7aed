"""Waiting for something to be so, and no longer: the machine may be as slow as it likes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LIMIT_S: Final = 120.0
"""Against a hang; nothing takes so long that works."""


def until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait until a condition holds.

    Parameters
    ----------
    condition
        Is asked a hundred times a second.
    limit_s
        Seconds after which it never will.

    Raises
    ------
    AssertionError
        It does not hold yet.
    """
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"not so after {limit_s:g} s"
        time.sleep(0.01)


def computed_s(group: int) -> float:
    """CPU seconds of the processes of a group, of those that are there: how far their work is.

    A moment in the work of a process is the same on a machine that is busy, and one after some
    seconds is not.
    """
    ticks = 0
    for process in Path("/proc").iterdir():
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # no process, or one that has just ended
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
