"""The release of torch that ``compat="torch"`` follows: releases differ.

A trace does not say which release wrote it. So the installed one counts, or without any the newest
known one.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib import metadata
from typing import Final, TypeAlias

Release: TypeAlias = tuple[int, int]
"""The first two numbers of a version."""

NEWEST: Final[Release] = (2, 15)
"""The newest release that torch's numbers were compared with."""
_WITHOUT_FRAMES: Final[Release] = (2, 14)
_WITHOUT_UNLINKED_CALLS: Final[Release] = (2, 15)


def installed() -> Release:
    """The release of torch that is installed; `NEWEST` if none is."""
    version = getattr(sys.modules.get("torch"), "__version__", None)
    return release_of(str(version)) if version else _of_package()


@cache
def _of_package() -> Release:
    try:
        return release_of(metadata.version("torch"))
    except metadata.PackageNotFoundError:
        return NEWEST


def release_of(version: str) -> Release:
    """The release of a version.

    Examples
    --------
    >>> release_of("2.13.0+cpu"), release_of("2.15.0a0+git1234"), release_of("unknown")
    ((2, 13), (2, 15), (2, 15))
    """
    numbers = re.match(r"(\d{1,9})\.(\d{1,9})", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else NEWEST


def averages_frames(release: Release) -> bool:
    """Whether ``key_averages`` has Python functions unless it is told not to."""
    return release < _WITHOUT_FRAMES


def looks_up_unlinked_calls(release: Release) -> bool:
    """Whether device work is also searched at calls without an op, by the number of the call."""
    return release < _WITHOUT_UNLINKED_CALLS
