"""Operators that were exported with the name of their overload."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import encoded, is_kind, words
from profframe.facts.fact import Output, Tables, columns, fact, of_events
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


_WITH_OVERLOAD: Final = re.compile(r"(\w+::\w+)\.(\w+)", re.ASCII)
"""Form of the names of torch's operators; functions and regions with dots differ."""


@fact(
    inputs=columns(events="kind name overload_name"),
    outputs=columns(events="name overload_name"),
)
def overloads(tables: Tables) -> Output:
    """Split the overload from the name: ``aten::add.Tensor`` is ``Tensor`` of ``aten::add``.

    Kineto writes one name if ``capture_overload_names`` was on; torch's own ``events()`` has two.
    Only operators are split, at the first dot after the namespace.
    """
    events = tables["events"]
    names, texts = words(events, "name")
    matches = {
        code: match
        for code, text in enumerate(texts)
        if "::" in text and (match := _WITH_OVERLOAD.fullmatch(text))
    }
    if not matches:
        return Output()
    splits = np.zeros(len(texts) + 1, np.bool_)
    splits[list(matches)] = True
    rows = np.flatnonzero(splits[names] & is_kind(events, ("host_op",)))
    overload_codes, overload_texts = words(events, "overload_name")
    rows = rows[overload_codes[rows] < 0]

    name_numbers = {text: code for code, text in enumerate(texts)}
    numbers = {text: code for code, text in enumerate(overload_texts)}
    short, overload = np.full((2, len(texts)), -1, np.int64)
    for code, match in matches.items():
        short[code] = name_numbers.setdefault(match[1], len(name_numbers))
        overload[code] = numbers.setdefault(match[2], len(numbers))
    overload_codes, short_names = overload_codes.copy(), names.copy()
    overload_codes[rows] = overload[names[rows]]
    short_names[rows] = short[names[rows]]
    return of_events(
        name=encoded(short_names, list(name_numbers)),
        overload_name=encoded(overload_codes, list(numbers)),
    )
