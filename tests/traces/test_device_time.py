"""Time of the devices in real traces, against plain unions of their slices."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from profframe.schema import DEVICE_KINDS
from tests import needs
from tests.conftest import real_trace
from tests.oracles.intervals import Span, length, merged, shared, when
from tests.oracles.kernels import class_of

LARGEST: Final = 1_500_000
"""Bytes of the compressed files that are looked at in plain Python."""
LARGE: Final = 150_000
"""Those of so many bytes take twice as long as all others together."""


def parts(slices: Iterable[dict[str, Any]], start: int, end: int) -> dict[str, int]:
    """Time of each part of a window, by unions of what is in it."""
    classes: dict[str, list[Span]] = {"compute": [], "communication": [], "copy": []}
    for row in slices:
        a, b = when(row)
        classes[class_of(row)].append((max(start, a), min(end, b)))
    compute, communication, copy = map(merged, classes.values())
    busy = merged([*compute, *communication])
    hidden_communication, hidden_copy = shared(communication, compute), shared(copy, busy)
    return {
        "compute_ns": length(compute),
        "exposed_communication_ns": length(communication) - hidden_communication,
        "exposed_copy_ns": length(copy) - hidden_copy,
        "idle_ns": end - start - length([*busy, *copy]),
        "hidden_communication_ns": hidden_communication,
        "hidden_copy_ns": hidden_copy,
    }


def test_parts_of_the_span(chrome_trace: Path) -> None:
    if chrome_trace.stat().st_size >= LARGEST:
        needs.another_trace("it is too large for plain Python")
    with real_trace(chrome_trace).session() as trace:
        check_parts(trace)


def check_parts(trace: profframe.Trace) -> None:
    rows = trace.time_breakdown("host").to_dicts()
    events = trace.events.select("kind", "kernel_category", "start_ns", "dur_ns").drop_nulls()
    slices = events.filter(events["kind"].is_in(DEVICE_KINDS)).to_dicts()
    if not slices:
        assert rows == []
        needs.another_trace("no device is in it")
    start = min(row["start_ns"] for row in slices)
    end = max(row["start_ns"] + row["dur_ns"] for row in slices)
    steps = trace.step_times().select("step", "start_ns", "host_ns").drop_nulls().rows()
    windows = [(None, start, end), *((n, a, a + dur) for n, a, dur in steps)]
    assert [(row["step"], row["span_ns"]) for row in rows] == [(n, b - a) for n, a, b in windows]
    types = trace.time_breakdown(per="combination")
    assert types["total_ns"].sum() == rows[0]["span_ns"] - rows[0]["idle_ns"]
    for row, (_, a, b) in zip(rows, windows, strict=True):
        expected = parts(slices, a, b)
        assert {column: row[column] for column in expected} == expected


@pytest.mark.parametrize("rank", [0, 1])
def test_an_ascend_trace_says_itself_what_overlaps(traces: Path, rank: int) -> None:
    (path,) = traces.glob(f"*Ascend*/v2/level0/rank{rank}/trace_view.json.gz")
    trace = profframe.load(path)
    said = trace.sql(
        "SELECT name, sum(dur_ns)::BIGINT, count(*) FROM events WHERE kind = 'profiler' GROUP BY 1"
    )
    found, overlap = (
        answer.row(0, named=True) for answer in (trace.time_breakdown(), trace.kernel_overlap())
    )
    ours = {
        "Computing": found["compute_ns"],
        "Communication": overlap["communication_ns"],
        "Communication(Not Overlapped)": found["exposed_communication_ns"],
    }
    rows = {name: (total, count) for name, total, count in said.iter_rows() if name in ours}
    assert rows.keys() == ours.keys()
    for name, (total, count) in rows.items():
        assert abs(ours[name] - total) <= count, "its decimals are finer than a nanosecond"
