"""Files of NCCL's example profiler plugin; `reading` reads them."""

from __future__ import annotations

import re
from typing import Final

FORMAT: Final = "nccl_profiler"
_EVENT: Final = re.compile(
    rb'"cat"\s*:\s*"(?:GROUP_API|COLL_API|P2P_API|KERNEL_LAUNCH|GROUP|COLL|P2P|PROXY|CE_COLL)"'
    rb'\s*,\s*"ph"\s*:\s*"b"\s*,\s*"id"\s*:\s*\d+\s*,\s*"pid"\s*:'
)
"""An event as the plugin writes it: its members come in one order."""


def knows(head: bytes) -> bool:
    """Whether a file begins like one of this plugin."""
    return head.lstrip().startswith(b"[") and _EVENT.search(head) is not None
