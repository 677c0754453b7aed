"""Lines of NCCL's Inspector, a profiler plugin; `reading` reads them."""

from __future__ import annotations

import re
from typing import Final

FORMAT: Final = "nccl_inspector"
_MEMBERS: Final = re.compile(
    rb'"(?:coll_perf|p2p_perf|dump_stats|proxy_trace)"\s*:\s*\{'
    rb'|"inspector_output_format_version"\s*:'
)
"""Members that are in one of the first lines, even if the first one is cut."""
_TRACE: Final = re.compile(rb'"(?:traceEvents|ph)"\s*:')


def knows(head: bytes) -> bool:
    """Whether a file begins like one that Inspector writes."""
    return _MEMBERS.search(head) is not None and _TRACE.search(head) is None
