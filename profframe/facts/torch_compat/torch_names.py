"""Names as in torch's ``events()``."""

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
"""Names of slices that torch drops before nesting; ``sql/lib/key_events.sql`` has them too."""


def grouping_name(name: str) -> str:
    """The name by which slices are compared and grouped: all profiler steps share one."""
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


def is_dropped(events: pa.Table) -> Mask:
    """Slices that torch drops because of their name."""
    codes, texts = words(events, "name")
    return np.array([*(text in DROPPED_NAMES for text in texts), False], np.bool_)[codes]
