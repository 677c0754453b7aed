"""Time of the devices in real traces, against a plain sweep over their slices."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from tests.conftest import real_trace

LARGEST: Final = 1_500_000
"""Bytes of the compressed files that are swept in plain Python."""
LARGE: Final = 500_000
"""Those of so many bytes take as long as all others together."""
BUSY: Final = ("kernel", "memcpy", "memset")
COLUMNS: Final = (
    "compute_ns",
    "exposed_communication_ns",
    "exposed_copy_ns",
    "idle_ns",
    "hidden_communication_ns",
    "hidden_copy_ns",
)


def class_of(row: dict[str, Any]) -> str:
    if row["kind"] == "memcpy":
        return "copy"
    words = (
        "nccl",
        "rccl",
        "hccl",
        "all_reduce",
        "allreduce",
        "reduce_async",
        "cross_device_reduce",
    )
    is_collective = row["kind"] == "kernel" and any(word in row["name"].lower() for word in words)
    return "communication" if is_collective else "compute"


def swept(slices: Iterable[dict[str, Any]], start: int, end: int) -> dict[str, int]:
    """Time of each part of a window, by walking from change to change."""
    changes = []
    for row in slices:
        a, b = max(start, row["start_ns"]), min(end, row["start_ns"] + row["dur_ns"])
        if a < b:
            changes += [(a, class_of(row), 1), (b, class_of(row), -1)]
    found = dict.fromkeys(COLUMNS, 0)
    open_ = {"compute": 0, "communication": 0, "copy": 0}
    last = start
    for at, class_, change in [*sorted(changes), (end, "copy", 0)]:
        compute, communication, copy = (open_[word] > 0 for word in open_)
        for name, counts in (
            ("compute_ns", compute),
            ("exposed_communication_ns", communication and not compute),
            ("exposed_copy_ns", copy and not compute and not communication),
            ("idle_ns", not (compute or communication or copy)),
            ("hidden_communication_ns", communication and compute),
            ("hidden_copy_ns", copy and (compute or communication)),
        ):
            found[name] += (at - last) * counts
        open_[class_] += change
        last = at
    return found


def test_parts_of_the_span(chrome_trace: Path) -> None:
    if chrome_trace.stat().st_size >= LARGE:
        pytest.skip("large")
    with real_trace(chrome_trace).asking() as trace:
        check_parts(trace)


@pytest.mark.long
def test_parts_of_the_span_of_large_traces(chrome_trace: Path) -> None:
    if not LARGE <= chrome_trace.stat().st_size < LARGEST:
        pytest.skip("too large to be swept in plain Python, or not large")
    with real_trace(chrome_trace).asking() as trace:
        check_parts(trace)


def check_parts(trace: profframe.Trace) -> None:
    rows = trace.time_breakdown().to_dicts()
    events = trace.events.select("kind", "name", "start_ns", "dur_ns").drop_nulls()
    slices = events.filter(events["kind"].is_in(BUSY)).to_dicts()
    if not slices:
        assert rows == []
        pytest.skip("no device is in it")
    start = min(row["start_ns"] for row in slices)
    end = max(row["start_ns"] + row["dur_ns"] for row in slices)
    steps = trace.steps().drop_nulls().select("step", "start_ns", "dur_ns").rows()
    windows = [(None, start, end), *((n, a, a + dur) for n, a, dur in steps)]
    assert [(row["step"], row["span_ns"]) for row in rows] == [(n, b - a) for n, a, b in windows]
    for row in rows:
        assert sum(row[column] for column in COLUMNS[:4]) == row["span_ns"]
    types = trace.kernel_types()
    assert types["total_ns"].sum() == rows[0]["span_ns"] - rows[0]["idle_ns"]
    for row, (_, a, b) in zip(rows, windows, strict=True):
        assert {column: row[column] for column in COLUMNS} == swept(slices, a, b)


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
