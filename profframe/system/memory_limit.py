"""Memory that the process may still use within its limits, and errors about it.

Native code that runs out of memory ends the process, so work that is sure not to fit is refused
first.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from profframe.errors import MemoryLimitError

RESERVE: Final = 256 << 20
"""Bytes that the next step may need, as for parsing one wave."""

_LIBRARIES: Final = 1800 << 20
_LIBRARIES_MEMORY: Final = 192 << 20
_LIBRARIES_PER_CORE: Final = 64 << 20
"""Address space that the libraries reserve; they take a tenth of it."""
_ARENA_MAX: Final = -8
"""``M_ARENA_MAX`` of mallopt(3): how many times malloc reserves 64 MB, for threads."""
_STATM: Final = Path("/proc/self/statm")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")
_NO_LIMIT: Final = 1 << 60
"""Without a limit, cgroups v1 have a number slightly below 2**63."""
_MESSAGES: Final = ("can't start new thread", "failed to map segment", "Cannot allocate memory")


@dataclass(frozen=True, slots=True)
class _Groups:
    """Names of files in a version of cgroups."""

    path_prefix: str
    """Text before the path of a group in ``/proc/self/cgroup``."""
    folder: str
    limit: str
    used: str
    files: frozenset[str]


_KINDS: Final = (
    _Groups(
        "0::/", "", "memory.max", "memory.current", frozenset(("inactive_file", "active_file"))
    ),
    _Groups(
        ":memory:/",
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        frozenset(("total_inactive_file", "total_active_file")),
    ),
)


def available_bytes() -> int | None:
    """Bytes that the process may still use within its limits; None without a known limit.

    Examples
    --------
    >>> room = available_bytes()
    >>> room is None or room > 0
    True
    """
    rooms = [room for room in (_address_space(), _group()) if room is not None]
    return min(rooms, default=None)


def check(size: int = 0) -> None:
    """Raise an error if there is too little memory to go on.

    ``size`` bytes were read so far; the facts about them take as much again.
    """
    room = available_bytes()
    if room is not None and room < RESERVE + size:
        raise MemoryLimitError(
            f"needs more than the {max(0, room) >> 20:,} MB that this process may still use; "
            "profframe convert writes a trace into a store in parts, and "
            "load(store, memory_limit=) reads only what a question needs"
        )


def check_start() -> None:
    """Raise an error if there is no room for the libraries, before they are loaded."""
    room = _group()
    if room is not None and room < _LIBRARIES_MEMORY:
        raise MemoryLimitError(
            f"{max(0, room) >> 20:,} MB of memory are left by the limit of this process (cgroup), "
            f"and {_LIBRARIES_MEMORY >> 20:,} MB are needed to start"
        )
    room = _address_space()
    if room is None:
        return
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    needed = _LIBRARIES + _LIBRARIES_PER_CORE * (os.cpu_count() or 1)
    if room < needed:
        raise MemoryLimitError(
            f"{room >> 20:,} MB of address space are left by the limit of this process (ulimit "
            f"-v), and {needed >> 20:,} MB are needed to start; most of that takes no memory: "
            "limit memory itself, for example with a cgroup"
        )


@contextmanager
def within(what: object) -> Iterator[None]:
    """Turn memory errors into one that names what did not fit.

    Examples
    --------
    >>> with within("trace.json"):
    ...     raise MemoryError
    Traceback (most recent call last):
    profframe.errors.MemoryLimitError: trace.json: this process was refused memory; profframe
    convert writes a trace into a store in parts, and memory_limit= limits what a question of a
    store takes
    """
    try:
        yield
    except MemoryLimitError as error:
        raise MemoryLimitError(f"{what}: {error}") from None
    except Exception as error:
        if not is_memory_error(error):
            raise
        raise MemoryLimitError(f"{what}: {refusal_message()}") from error


def refusal_message() -> str:
    """The message for refused memory."""
    return (
        "this process was refused memory; profframe convert writes a trace into a store in "
        "parts, and memory_limit= limits what a question of a store takes"
    )


def is_memory_error(error: BaseException) -> bool:
    """Whether an error means that memory, address space or a thread was refused."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if isinstance(error, (RuntimeError, ImportError, OSError)):
        return any(message in str(error) for message in _MESSAGES)
    room = available_bytes() if isinstance(error, SystemError) else None
    return room is not None and room < RESERVE


def _address_space() -> int | None:
    """Bytes left within ``RLIMIT_AS``."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return None
        used = int(_STATM.read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None
    return limit - used


def _group() -> int | None:
    """Bytes left within the limits of the process's cgroup and its ancestors."""
    limits = _limits(_CGROUPS, _OWN_CGROUP, int(time.monotonic()))
    rooms = (_room(kind, folder, limit) for kind, folder, limit in limits)
    return min((room for room in rooms if room is not None), default=None)


@lru_cache(maxsize=1)
def _limits(groups: Path, own: Path, _second: int) -> tuple[tuple[_Groups, Path, int], ...]:
    """Limits and their groups, from the process's own outwards; searched once a second."""
    names = ""
    with suppress(OSError):
        names = own.read_text()
    return tuple(
        (kind, folder, limit)
        for kind in _KINDS
        for folder in _folders(kind, groups, names)
        if (limit := _limit(folder / kind.limit)) is not None
    )


def _folders(kind: _Groups, groups: Path, names: str) -> Iterator[Path]:
    root = groups / kind.folder
    paths = (
        line.partition(kind.path_prefix)[2]
        for line in names.splitlines()
        if kind.path_prefix in line
    )
    own = root / next(paths, "").lstrip("/")
    # In a container the group of the process is the root of the visible groups.
    folder = own if own.is_dir() else root
    for group in (folder, *folder.parents):
        yield group
        if group == root:
            break


def _limit(file: Path) -> int | None:
    with suppress(OSError, ValueError):  # "max" without a limit
        limit = int(file.read_text())
        return limit if limit < _NO_LIMIT else None
    return None


def _room(kind: _Groups, folder: Path, limit: int) -> int | None:
    """Bytes left within a group's limit; None if its usage is unknown."""
    with suppress(OSError, ValueError):
        room = limit - int((folder / kind.used).read_text())
        for line in (folder / "memory.stat").read_text().splitlines():
            name, _, size = line.partition(" ")
            if name in kind.files:  # they can be evicted
                room += int(size)
        return room
    return None
