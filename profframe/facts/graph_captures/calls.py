"""Calls that capture and replay graphs, by their names in CUDA and HIP."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import is_kind, words
from profframe.intervals import Mask

BEGIN: Final = re.compile(r"(cuda|cu|hip)StreamBeginCapture\w*")
END: Final = re.compile(r"(cuda|cu|hip)StreamEndCapture\w*")
REPLAY: Final = re.compile(r".*GraphLaunch.*", re.IGNORECASE | re.DOTALL)
KERNEL: Final = re.compile(r"(cuda|cu|hip)\w*Launch\w*Kernel\w*|hip(Ext)?LaunchByPtr\w*")
COPY: Final = re.compile(r"(cuda|cu|hip)Memcpy\w*")
FILL: Final = re.compile(r"(cuda|cu|hip)Memset\w*")


def is_call(events: pa.Table, *patterns: re.Pattern[str]) -> Mask:
    """Rows that are calls of the runtime or the driver whose whole name matches a pattern."""
    codes, texts = words(events, "name")
    matches = [any(pattern.fullmatch(text) for pattern in patterns) for text in texts]
    if not any(matches):
        return np.zeros(events.num_rows, np.bool_)
    return np.array([*matches, False], np.bool_)[codes] & is_kind(events, schema.LAUNCH_KINDS)
