"""The op of each slice that counted: the one around it, or around the launch of its place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import ids, is_kind, numbers, present, words
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.intervals import Ints, nearest

_LAUNCHES = "LaunchKernel"


@fact(
    inputs=columns(
        counters="event_id", events="kind name start_ns parent_id launch_id op_id device"
    ),
    outputs=columns(events="launch_id op_id"),
)
def counted_ops(tables: Tables) -> Output:
    """Fill ``launch_id op_id`` of slices that counted while they ran.

    One inside a host op, on its thread, belongs to the innermost. The others are of a kernel each,
    on a clock that need not be the host's: where they are as many as the launches of kernels, the
    first belongs to the first launch, and so on. Otherwise they are counted in ``quality``.
    """
    counting = np.unique(numbers(tables["counters"], "event_id", missing=-1))
    counting = counting[counting >= 0]
    if not counting.size:
        return Output()
    events = tables["events"]
    parent = numbers(events, "parent_id", missing=-1)
    is_op = is_kind(events, ("host_op",))
    around = np.append(nearest(parent, is_op), -1)
    launch, op = (numbers(events, name, missing=-1).copy() for name in ("launch_id", "op_id"))
    op[counting] = around[parent[counting]]
    placed = counting[op[counting] < 0]
    calls = _launches(events)
    notes = []
    if placed.size and placed.size == calls.size:
        placed = placed[np.argsort(numbers(events, "start_ns")[placed], kind="stable")]
        launch[placed] = calls
        op[placed] = around[parent[calls]]
    elif placed.size:
        detail = f"{placed.size} slices, {calls.size} launches"
        notes.append(("counted_slice_without_launch", placed.size, detail, int(placed[0])))
    return of_events(*notes, launch_id=ids(launch), op_id=ids(op))


def _launches(events: pa.Table) -> Ints:
    """Calls that launch a kernel, in the order of time."""
    codes, texts = words(events, "name")
    launches = np.array([*(_LAUNCHES in text for text in texts), False], np.bool_)[codes]
    launches &= is_kind(events, schema.LAUNCH_KINDS) & present(events, "start_ns")
    rows = np.flatnonzero(launches)
    return rows[np.argsort(numbers(events, "start_ns")[rows], kind="stable")]
