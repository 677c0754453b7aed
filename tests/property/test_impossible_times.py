"""Times that belong to no program, among drawn ones that do: told apart, and counted."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import profframe

HOUR_US = 3_600 * 10**6
DAY_US = 24 * HOUR_US
STARTS_US = {"since boot": 5 * HOUR_US, "of 2023": 1_690_000_000 * 10**6}
"""Where a program begins on clocks in use."""


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Times of a program within a day, in microseconds, and fewer that are not its own."""
    start = draw(st.sampled_from(sorted(STARTS_US.values())))
    own = [start + at for at in draw(st.lists(st.integers(0, HOUR_US), min_size=4, max_size=12))]
    far = st.integers(32 * DAY_US, 40 * 365 * DAY_US)
    strays = st.one_of(far.map(lambda at: max(own) + at), far.map(lambda at: min(own) - at))
    if start > DAY_US:
        strays = st.one_of(strays, st.just(0))
    return own, draw(st.lists(strays, max_size=len(own) // 2 - 1))


@given(programs(), st.randoms(use_true_random=False))
def test_they_are_told_apart(program: tuple[list[int], list[int]], order: object) -> None:
    own, strays = program
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": place, "ts": at, "dur": 1}
        for place, (name, at) in enumerate(
            [*(("own", at) for at in own), *(("stray", at) for at in strays)]
        )
    ]
    order.shuffle(events)  # type: ignore[attr-defined]
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        path.write_text(json.dumps({"traceEvents": events}), "utf-8")
        trace = profframe.load(path)
    rows = trace.events
    assert rows.filter(name="own")["start_ns"].null_count() == 0
    assert rows.filter(name="stray")["start_ns"].null_count() == len(strays)
    assert trace.quality.filter(issue="impossible_time")["events"].sum() == len(strays)
    times = trace.traces.select(pl.col("end_ns") - pl.col("start_ns")).item()
    assert times == 1000 * (max(own) - min(own) + 1)
