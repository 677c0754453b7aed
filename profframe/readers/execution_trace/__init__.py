"""torch's execution traces, as ``ExecutionTraceObserver`` writes them; `reading` reads them."""

from __future__ import annotations

import re
from typing import Final

FORMAT: Final = "execution_trace"
_BEGINNING: Final = re.compile(
    rb'\A\s*\{(?!.*"(?:traceEvents|schemaVersion)")'
    rb'(?:(?=.*"schema"\s*:\s*"\d+\.\d+\.\d+[^"]*")(?=.*"(?:nodes|start_ts)"\s*:)'
    rb'|(?=.*"nodes"\s*:\s*\[\s*\{)(?=.*"(?:ctrl_deps|rf_id)"\s*:))',
    re.DOTALL,
)


def knows(head: bytes) -> bool:
    """Whether a file begins like an execution trace."""
    return _BEGINNING.search(head) is not None
