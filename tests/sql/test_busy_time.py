"""``device_busy_ns`` against a plain-Python union of intervals."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe.answering import find, run

INTERVALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)))
"""Device, start, duration."""


def busy_by_hand(intervals: list[tuple[int, int, int]]) -> int:
    moments = {
        (device, moment)
        for device, start, duration in intervals
        for moment in range(start, start + duration)
    }
    return len(moments)


@settings(max_examples=60, deadline=None)
@given(INTERVALS)
def test_union_of_intervals(intervals: list[tuple[int, int, int]]) -> None:
    events = pa.table(
        {
            "run": pa.array(["r"] * len(intervals), pa.string()),
            "rank": pa.array([0] * len(intervals), pa.int32()),
            "event_id": pa.array(range(len(intervals)), pa.int64()),
            "kind": pa.array(["kernel"] * len(intervals), pa.string()),
            "start_ns": pa.array([start for _, start, _ in intervals], pa.int64()),
            "dur_ns": pa.array([duration for _, _, duration in intervals], pa.int64()),
            "device": pa.array([device for device, _, _ in intervals], pa.int32()),
            "thread": pa.array([0] * len(intervals), pa.int32()),
            "step": pa.nulls(len(intervals), pa.int64()),
            "self_ns": pa.nulls(len(intervals), pa.int64()),
        }
    )
    traces = pa.table({"run": ["r"], "rank": pa.array([0], pa.int32())})
    with duckdb.connect() as connection:
        connection.register("events", events)
        connection.register("traces", traces)
        relation = run(connection, find("overview"))
        ((busy,),) = relation.project("device_busy_ns").fetchall()
    assert busy == busy_by_hand(intervals)
