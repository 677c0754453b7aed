"""How much memory the process may still take, where it has a limit, and errors that say so.

Native code that gets no memory ends the process: what is sure not to fit is refused before that.
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
"""Bytes that the next step may need, as to parse what is read at once."""

_LIBRARIES: Final = 1800 << 20
_LIBRARIES_MEMORY: Final = 192 << 20
_LIBRARIES_PER_CORE: Final = 64 << 20
"""Address space that the libraries reserve; they take a tenth of it."""
_ARENA_MAX: Final = -8
"""``M_ARENA_MAX`` of mallopt(3): how often malloc reserves 64 MB, for so many threads."""
_STATM: Final = Path("/proc/self/statm")
_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_NO_LIMIT: Final = 1 << 60
"""What groups of the first version say in place of max is a little less than 2**63."""
_SAID: Final = ("can't start new thread", "failed to map segment", "Cannot allocate memory")


@dataclass(frozen=True, slots=True)
class _Groups:
    """How a version of cgroups names what it knows."""

    named: str
    """What is before the path of a group in ``/proc/self/cgroup``."""
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


def left() -> int | None:
    """Bytes that the process may still take by its limits; None without one that is known.

    Examples
    --------
    >>> room = left()
    >>> room is None or room > 0
    True
    """
    found = [room for room in (_address_space(), _group()) if room is not None]
    return min(found, default=None)


def check(held: int = 0) -> None:
    """Raise an error where there is too little room to go on.

    ``held`` bytes were read so far; what is found in them takes as much again.
    """
    room = left()
    if room is not None and room < RESERVE + held:
        raise MemoryLimitError(
            f"needs more than the {max(0, room) >> 20:,} MB that this process may still take; "
            "profframe convert writes a trace into a store in parts, of which "
            "load(store, memory_limit=) reads what a question needs"
        )


def check_start() -> None:
    """Raise an error where the libraries have no room, before they are loaded."""
    room = _group()
    if room is not None and room < _LIBRARIES_MEMORY:
        raise MemoryLimitError(
            f"{max(0, room) >> 20:,} MB of memory are left by the limit of this process (cgroup), "
            f"and {_LIBRARIES_MEMORY >> 20:,} MB are needed to begin with"
        )
    room = _address_space()
    if room is None:
        return
    with suppress(OSError, AttributeError):  # what is no glibc
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    needed = _LIBRARIES + _LIBRARIES_PER_CORE * (os.cpu_count() or 1)
    if room < needed:
        raise MemoryLimitError(
            f"{room >> 20:,} MB of address space are left by the limit of this process (ulimit "
            f"-v), and {needed >> 20:,} MB are needed to begin with; most of that takes no memory: "
            "limit memory itself, as by a cgroup"
        )


@contextmanager
def within(what: object) -> Iterator[None]:
    """Errors of memory as one that names what did not fit.

    Examples
    --------
    >>> with within("trace.json"):
    ...     raise MemoryError
    Traceback (most recent call last):
    profframe.errors.MemoryLimitError: trace.json: memory was refused to this process; profframe
    convert writes a trace into a store in parts, and memory_limit= limits what a question of a
    store takes
    """
    try:
        yield
    except MemoryLimitError as error:
        raise MemoryLimitError(f"{what}: {error}") from None
    except Exception as error:
        if not is_of_memory(error):
            raise
        raise MemoryLimitError(f"{what}: {refused()}") from error


def refused() -> str:
    """What to say where memory was refused."""
    return (
        "memory was refused to this process; profframe convert writes a trace into a store in "
        "parts, and memory_limit= limits what a question of a store takes"
    )


def is_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory was refused, or an address, or a thread."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if isinstance(error, (RuntimeError, ImportError, OSError)):
        return any(said in str(error) for said in _SAID)
    room = left() if isinstance(error, SystemError) else None
    return room is not None and room < RESERVE


def _address_space() -> int | None:
    """What is left by ``RLIMIT_AS``."""
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
    """What is left by the limits of its cgroup and of those around it."""
    limits = _limits(_GROUPS, _OWN, int(time.monotonic()))
    rooms = (_room(kind, folder, limit) for kind, folder, limit in limits)
    return min((room for room in rooms if room is not None), default=None)


@lru_cache(maxsize=1)
def _limits(groups: Path, own: Path, _second: int) -> tuple[tuple[_Groups, Path, int], ...]:
    """Limits and their groups, from that of the process outwards: looked for once in a second."""
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
    named = (line.partition(kind.named)[2] for line in names.splitlines() if kind.named in line)
    own = root / next(named, "").lstrip("/")
    # In a container the group of the process is the root of those that it sees.
    folder = own if own.is_dir() else root
    for group in (folder, *folder.parents):
        yield group
        if group == root:
            break


def _limit(file: Path) -> int | None:
    with suppress(OSError, ValueError):  # without a limit it says max
        limit = int(file.read_text())
        return limit if limit < _NO_LIMIT else None
    return None


def _room(kind: _Groups, folder: Path, limit: int) -> int | None:
    """What a group's limit leaves; None where it does not say what is used."""
    with suppress(OSError, ValueError):
        return limit - _used(folder, kind)
    return None


def _used(folder: Path, kind: _Groups) -> int:
    """Memory of a group, but for files that can go from it."""
    used = int((folder / kind.used).read_text())
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, size = line.partition(" ")
        if name in kind.files:
            used -= int(size)
    return used
