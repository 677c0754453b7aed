"""Self time of host slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import column, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.intervals import Ints, child_overlaps, child_sums


@fact(
    inputs=columns(events="kind start_ns dur_ns parent_id depth preorder last_descendant_id"),
    outputs=columns(events="self_ns"),
)
def self_time(tables: Tables) -> Output:
    """Add ``self_ns``: the duration without the time that direct children cover.

    Where two children overlap, their common time counts once. Device slices have no children: their
    self time is their duration.
    """
    events = tables["events"]
    rows = np.flatnonzero(present(events, "depth"))
    place = np.full(events.num_rows + 1, -1, np.int64)
    place[rows] = np.arange(rows.size)
    start, dur = (numbers(events, name)[rows] for name in ("start_ns", "dur_ns"))
    overlaps = np.zeros(events.num_rows, np.int64)
    # A record_function may begin in one Python frame and end in the next: what two children share
    # was subtracted twice from the frame around both, which made negative self times.
    overlaps[rows] = child_overlaps(
        place[numbers(events, "parent_id", missing=-1)[rows]],
        place[numbers(events, "last_descendant_id")[rows]],
        numbers(events, "preorder")[rows],
        start,
        start + dur,
    )
    return self_column(events, overlaps)


def self_column(events: pa.Table, overlaps: Ints | int) -> Output:
    """Durations minus the children's, plus what overlapping children subtract twice."""
    dur = numbers(events, "dur_ns")
    own = dur - child_sums(numbers(events, "parent_id", missing=-1), dur) + overlaps
    busy = is_kind(events, schema.DEVICE_KINDS) & present(events, "dur_ns")
    return of_events(self_ns=column("self_ns", own, present(events, "depth") | busy))
