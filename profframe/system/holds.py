"""Locks that say who still uses a file: many processes hold it, and who removes it holds it alone.

A lock ends with its process, however that ends. Where a file system or Windows has no locks, nobody
is known to use anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Hold:
    """A file in use, as long as this object exists."""

    __slots__ = ("_handle", "_path")

    def __init__(self, path: Path, handle: int) -> None:
        self._path, self._handle = path, handle

    @classmethod
    def of(cls, path: Path) -> Hold | None:
        """Use a file; None if it does not exist."""
        while True:
            try:
                handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            except OSError:
                return None
            hold = cls(path, handle)
            _lock(handle, "LOCK_SH")
            with suppress(OSError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return hold
            # whoever removed it had it when this asked: look whether there is another one

    def __del__(self) -> None:
        os.close(self._handle)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Hold.of, (self._path,)


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Whether nobody else uses a file; nobody begins to before the block ends."""
    try:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        yield True
        return
    try:
        yield _lock(handle, "LOCK_EX", "LOCK_NB")
    finally:
        os.close(handle)


def _lock(handle: int, *flags: str) -> bool:
    """Lock a file; False if another process is in the way."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(handle, sum(getattr(fcntl, flag) for flag in flags))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
