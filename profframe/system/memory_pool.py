"""Where memory is from while a trace is loaded, and that it is used again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa

_LARGE: Final = 12 << 20
"""Bytes, more than what is read at once takes in one block: larger columns go back when freed."""

_lock = threading.Lock()
_before: list[pa.MemoryPool] = []
"""One entry for each that wants the system's memory now; the first is what it was before."""


@contextmanager
def system_memory() -> Iterator[None]:
    """Arrow takes memory from the system, no longer from the pool that the process has set.

    Its own asks for huge pages: most of each stays empty, and to clear them is a tenth of a load.
    There is one setting for the whole process, so the last of several that load at once resets it.

    What is freed is used again: glibc gives the kernel back what is free beyond twice the largest
    block that was ever freed (``M_MMAP_THRESHOLD`` in mallopt(3)), and to get all of its pages anew
    is a twentieth of a load. So a large one is freed, untouched, to begin with.

    Examples
    --------
    >>> with system_memory():
    ...     pa.default_memory_pool().backend_name
    'system'
    """
    np.empty(_LARGE, np.uint8)
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
