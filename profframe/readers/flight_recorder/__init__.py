"""Dumps of torch's flight recorder; `reading` reads them."""

from __future__ import annotations

import re
from typing import Final

FORMAT: Final = "flight_recorder"
_WORDS: Final = (
    rb"(?:pg_config|pg_status|collective_seq_id|comm_lib_version|nccl_version|nccl_comm_state"
    rb"|profiling_name)"
)
_BEGINNING: Final = re.compile(
    rb"\A(?:\x80[\x02-\x05].*"
    + _WORDS
    + rb'|\s*\{\s*"(?:version|entries|pg_config|pg_status|comm_lib_version|nccl_version'
    rb'|nccl_comm_state)"(?=.*"' + _WORDS + rb'")(?!.*"traceEvents"\s*:))',
    re.DOTALL,
)
"""How a dump begins, as a pickle and as JSON."""


def knows(head: bytes) -> bool:
    """Whether a file begins like a flight recorder dump."""
    return _BEGINNING.search(head) is not None
