"""Self time of host slices."""

from __future__ import annotations

from profframe import schema
from profframe.facts.columns import column, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.intervals import child_sums


@fact(inputs=columns(events="kind dur_ns parent_id depth"), outputs=columns(events="self_ns"))
def self_time(tables: Tables) -> Output:
    """Add ``self_ns``: the duration without that of the direct children.

    Device slices have no children: their self time is their duration.
    """
    events = tables["events"]
    dur = numbers(events, "dur_ns")
    own = dur - child_sums(numbers(events, "parent_id", missing=-1), dur)
    busy = is_kind(events, schema.DEVICE_KINDS) & present(events, "dur_ns")
    return of_events(self_ns=column("self_ns", own, present(events, "depth") | busy))
