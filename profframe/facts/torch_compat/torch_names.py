"""Names as torch's ``events()`` has them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.columns import words
from profframe.intervals import Mask

DROPPED_NAMES: Final = (
    "[memory]", "[OutOfMemory]", "aten::is_leaf", "aten::output_nr", "aten::_version",
    "profiler::_record_function_enter", "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
)  # fmt: skip
"""Slices of these names torch drops before it nests; ``sql/lib/key_events.sql`` has them too."""


def rewritten(name: str) -> str:
    """The name that slices are compared and grouped by: all profiler steps have one."""
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


def is_dropped(events: pa.Table) -> Mask:
    """Slices that torch drops by their name."""
    codes, texts = words(events, "name")
    found = np.array([*(text in DROPPED_NAMES for text in texts), False], np.bool_)
    mask: Mask = found[codes]
    return mask
