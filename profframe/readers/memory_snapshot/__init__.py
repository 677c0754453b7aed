"""Snapshots of torch's caching allocator; `reading` reads them."""

from __future__ import annotations

import re
from typing import Final

from profframe.readers.bytes import ByteSource

FORMAT: Final = "memory_snapshot"
_BEGINNING: Final = re.compile(
    rb"\A\x80[\x02-\x7f].*(?:device_traces|segments|host_traces|total_size)", re.DOTALL
)
"""How a snapshot begins, also in a future protocol, which is refused.

`torch.cuda.memory_snapshot()` alone is a list of segments."""

_READABLE: Final = re.compile(rb"\A\x80[\x02-\x05]")
"""Protocols that can be read."""


def knows(head: bytes) -> bool:
    """Whether a file begins like a memory snapshot."""
    return _BEGINNING.search(head) is not None


def opened(source: ByteSource) -> str | None:
    """The format; None in a future protocol."""
    return FORMAT if _READABLE.match(source.beginning().plain) else None
