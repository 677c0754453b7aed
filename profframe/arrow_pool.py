"""Where Arrow takes its memory from while a trace is loaded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

_lock = threading.Lock()
_before: list[pa.MemoryPool] = []
"""One entry for each that wants the system's memory now; the first is what it was before."""


@contextmanager
def system_memory() -> Iterator[None]:
    """Arrow takes memory from the system, no longer from the pool that the process has set.

    Its own asks for huge pages: most of each stays empty, and to clear them is a tenth of a load.
    There is one setting for the whole process, so the last of several that load at once resets it.

    Examples
    --------
    >>> with system_memory():
    ...     pa.default_memory_pool().backend_name
    'system'
    """
    with _lock:
        _before.append(pa.default_memory_pool())
        pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        with _lock:
            found = _before.pop()
            if not _before:
                pa.set_memory_pool(found)
