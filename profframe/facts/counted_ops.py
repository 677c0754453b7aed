"""The op of each slice with hardware counters: around it, or around a launch by position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profframe import schema
from profframe.facts.columns import is_kind, numbers, present, words
from profframe.facts.fact import Columns, Note, Tables, columns
from profframe.intervals import Ints, nearest

COUNTED_COLUMNS: Final[Columns] = columns(
    counters="event_id", events="kind name start_ns parent_id"
)
"""Columns for finding the ops of slices with counters."""
_LAUNCHES: Final = "LaunchKernel"


def place_counted(tables: Tables, launch: Ints, op: Ints) -> Iterator[Note]:
    """Fill in calls and ops of slices with hardware counters.

    A slice inside a host op, on its thread, belongs to the innermost one. Each other slice is for
    one kernel, on a clock that may not be the host's: if there are as many as launches of kernels,
    the first belongs to the first launch, and so on. Otherwise they are noted.
    """
    counting = np.unique(numbers(tables["counters"], "event_id", missing=-1))
    counting = counting[counting >= 0]
    if not counting.size:
        return
    events = tables["events"]
    parent = numbers(events, "parent_id", missing=-1)
    around = np.append(nearest(parent, is_kind(events, ("host_op",))), -1)
    op[counting] = around[parent[counting]]
    placed, calls = counting[op[counting] < 0], _launches(tables)
    if placed.size and placed.size == calls.size:
        placed = placed[np.argsort(numbers(events, "start_ns")[placed], kind="stable")]
        launch[placed] = calls
        op[placed] = around[parent[calls]]
    elif placed.size:
        detail = f"{placed.size} slices, {calls.size} launches"
        yield "counted_slice_without_launch", placed.size, detail, int(placed[0])


def _launches(tables: Tables) -> Ints:
    """Calls that launch a kernel, in the order of time."""
    events = tables["events"]
    codes, texts = words(events, "name")
    launches = np.array([*(_LAUNCHES in text for text in texts), False], np.bool_)[codes]
    launches &= is_kind(events, schema.LAUNCH_KINDS) & present(events, "start_ns")
    rows = np.flatnonzero(launches)
    return rows[np.argsort(numbers(events, "start_ns")[rows], kind="stable")]
