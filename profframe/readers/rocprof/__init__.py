"""rocprofv3's own formats: rocpd, which is an SQLite database, and its JSON."""

from __future__ import annotations

import re
from typing import Final

DATABASE: Final = "rocpd"
DOCUMENT: Final = "rocprofv3"
"""Names of the formats, in `traces`."""
DOCUMENT_KEY: Final = "rocprofiler-sdk-tool"
_BEGINNING: Final = re.compile(rb'\A\s*\{\s*"' + DOCUMENT_KEY.encode() + rb'"\s*:')


def knows(head: bytes) -> bool:
    """Whether a file begins like rocprofv3's JSON.

    Examples
    --------
    >>> knows(b'{"rocprofiler-sdk-tool": ['), knows(b'{"traceEvents": [')
    (True, False)
    """
    return _BEGINNING.match(head) is not None
