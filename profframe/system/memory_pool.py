"""The memory pool while a trace is loaded, the reuse of its memory, and its return."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import numpy as np
import pyarrow as pa

_LARGE: Final = 12 << 20
"""Bytes, more than one block that is read: larger columns are returned when freed."""

_lock = threading.Lock()
_previous: list[pa.MemoryPool] = []
"""One entry per active block; the first is the pool before all of them."""


@contextmanager
def system_memory() -> Iterator[None]:
    """Let Arrow take memory from the system, not from the pool that the process has set.

    Arrow's own pool asks for huge pages: most of each stays empty, and clearing them takes a tenth
    of a load. The setting is global, so the last of several parallel loads resets it.

    Freed memory is reused: glibc returns free memory beyond twice the largest block that was ever
    freed (``M_MMAP_THRESHOLD`` in mallopt(3)), and getting its pages again takes a twentieth of a
    load. So a large block is allocated and freed, untouched, at the start.

    Examples
    --------
    >>> with system_memory():
    ...     pa.default_memory_pool().backend_name
    'system'
    """
    np.empty(_LARGE, np.uint8)
    with _lock:
        _previous.append(pa.default_memory_pool())
        pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        with _lock:
            pool = _previous.pop()
            if not _previous:
                pa.set_memory_pool(pool)


def release() -> None:
    """Return freed memory to the system: between columns that stay there is a third of a load's.

    Only glibc keeps that much, so other C libraries need no call.
    """
    with suppress(OSError, AttributeError, TypeError):  # Windows has no library without a name
        ctypes.CDLL(None).malloc_trim(0)
