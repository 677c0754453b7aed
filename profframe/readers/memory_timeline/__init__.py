"""torch's memory timelines; `reading` reads them."""

from __future__ import annotations

import re
from typing import Final

from profframe.readers.bytes import ByteSource

FORMAT: Final = "memory_timeline"
_RECORD: Final = re.compile(rb"\A\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*\d\s*\]")
_SUMS: Final = re.compile(rb"\A\s*\[\s*\[\s*-?\d{5,20}\s*[,\]]")


def knows(head: bytes) -> bool:
    """Whether a file begins like a memory timeline, even one of sums, which `read` refuses."""
    return _RECORD.search(head) is not None or _SUMS.search(head) is not None


def opened(source: ByteSource) -> str | None:
    """The format; None for one of sums."""
    return FORMAT if _RECORD.search(source.beginning().plain) else None
