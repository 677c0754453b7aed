"""``device_busy_ns`` against a plain-Python union of intervals."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from profframe.query.answering import find, run
from tests.cases import Rows, connected

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
    kernel = {"run": "r", "rank": 0, "kind": "kernel", "thread": 0}
    events: Rows = [
        kernel | {"event_id": number, "device": device, "start_ns": start, "dur_ns": duration}
        for number, (device, start, duration) in enumerate(intervals)
    ]
    traces: Rows = [{"run": "r", "rank": 0}]
    relation = run(connected({"events": events, "traces": traces}), find("overview"))
    ((busy,),) = relation.project("device_busy_ns").fetchall()
    assert busy == busy_by_hand(intervals)
