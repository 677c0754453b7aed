"""torch's memory timelines; `reading` reads them."""

from __future__ import annotations

import re
from typing import Final

FORMAT: Final = "memory_timeline"
RECORD: Final = re.compile(rb"\A\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*\d\s*\]")
_SUMS: Final = re.compile(rb"\A\s*\[\s*\[\s*-?\d{5,20}\s*[,\]]")


def knows(head: bytes) -> bool:
    """Whether a file begins like a memory timeline, even one of sums, which `read` refuses."""
    return RECORD.search(head) is not None or _SUMS.search(head) is not None
