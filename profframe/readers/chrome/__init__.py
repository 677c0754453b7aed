"""Chrome trace JSON, from Kineto and other writers.

The words of the format (``ph``, ``cat``, ``args`` and its members) occur only in this folder.
"""

from __future__ import annotations

import re
from typing import Final

_BEGINNING: Final = re.compile(rb'\A\s*(?:\{.*"traceEvents"\s*:|\[\s*\{.*"ph"\s*:)', re.DOTALL)
_KINETO_MEMBER: Final = re.compile(rb'\A\s*\{.*"(?:schemaVersion|deviceProperties)"\s*:', re.DOTALL)
_BESIDE_IT: Final = re.compile(
    rb'"(?:traceEvents|traceName|trace_id|displayTimeUnit|baseTimeNanoseconds|distributedInfo'
    rb'|deviceProperties|record_shapes|with_stack|profile_memory)"\s*:'
)
"""Members of its header that other documents with a ``schemaVersion`` lack."""


def knows(head: bytes) -> bool:
    """Whether a file begins like a Chrome trace, whose events come soon."""
    return _BEGINNING.search(head) is not None


def knows_kineto(head: bytes) -> bool:
    """Whether a file begins with the header of Kineto."""
    return _KINETO_MEMBER.search(head) is not None and _BESIDE_IT.search(head) is not None
