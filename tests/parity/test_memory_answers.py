"""Bandwidth, memory over time, unfreed blocks and counters, against loops over plain rows.

``hta_series`` is what HolisticTraceAnalysis makes of copies. ``DEV-14`` names where it differs: it
describes the points of a series, so that a copy of a microsecond weighs as much as one of a second.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe import schema
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import Row, table
from tests.conftest import TRACES, real_trace
from tests.members import few
from tests.oracles.intervals import length, when

Rows = Sequence[Mapping[str, Any]]
BILLION = 10**9
LARGEST = 450_000
"""Bytes of a compressed trace from which on it is not read here."""


def trace_of(**rows: Iterable[Row]) -> Trace:
    given_rows: dict[str, Iterable[Row]] = {"traces": [{}], **rows}
    return Trace.from_tables({n: table(n, given_rows.get(n, ())) for n in schema.TABLES})


def approximately(found: float | None, expected: Fraction | None) -> bool:
    if found is None or expected is None:
        return found is None and expected is None
    return math.isclose(found, float(expected), rel_tol=1e-12, abs_tol=1e-12)


def real_traces(feature: Callable[[str], bool]) -> list[str]:
    """Small Chrome traces of the index that have a feature."""
    if not (TRACES / "index.csv").is_file():
        return []
    with (TRACES / "index.csv").open(newline="") as index:
        rows = list(csv.DictReader(index))
    return [
        row["path"]
        for row in rows
        if row["kind"].startswith("chrome-trace-json")
        and feature(row["features"])
        and not re.search(r"worker[1-7]_step", row["path"])  # their worker 0 will do
        and (TRACES / row["path"]).stat().st_size < LARGEST
    ]


def few_real(feature: Callable[[str], bool], number: int) -> list[Any]:
    """Parameters of a test: so many of them in every run."""
    return needs.members(few(real_traces(feature), number))


# Bandwidth of copies.


def in_64_bits(total: int) -> int | None:
    """A sum as a column has it: NULL where 64 bits cannot hold it."""
    return total if total < 1 << 63 else None


def bandwidth(events: Rows) -> dict[tuple[object, ...], dict[str, Any]]:
    """Every column of `memory_bandwidth`, by rank, device, kind and name."""
    groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = defaultdict(list)
    busy_kinds = {"kernel", "memcpy", "memset"}
    spans: dict[int, list[int]] = defaultdict(list)
    for row in events:
        if row["kind"] in busy_kinds and None not in (row["start_ns"], row["dur_ns"]):
            spans[row["rank"]] += [row["start_ns"], row["start_ns"] + row["dur_ns"]]
        if row["kind"] in busy_kinds - {"kernel"}:
            name = row["name"] and row["name"].split("(")[0].rstrip()
            groups[row["rank"], row["device"], row["kind"], name].append(row)
    found = {}
    for key, rows in groups.items():
        of_rank = spans[key[0]]  # type: ignore[index]
        span = max(of_rank) - min(of_rank) if of_rank else 0
        sized = [row for row in rows if row["bytes"] is not None]
        timed = [row for row in sized if row["dur_ns"] is not None]
        moved = sum(row["bytes"] for row in timed)
        rates = [Fraction(BILLION * row["bytes"], row["dur_ns"]) for row in timed if row["dur_ns"]]
        durations = [row["dur_ns"] for row in rows if row["dur_ns"] is not None]
        busy, sized_busy = running(rows), running(sized)
        found[key] = {
            "calls": len(rows),
            "unsized_calls": len(rows) - len(sized),
            "bytes": in_64_bits(sum(row["bytes"] for row in sized)) if sized else None,
            "total_ns": sum(durations) if durations else None,
            "busy_ns": busy,
            "bytes_per_s": ratio(moved, sum(row["dur_ns"] for row in timed)),
            "busy_bytes_per_s": ratio(moved, sized_busy),
            "min_bytes_per_s": min(rates, default=None),
            "max_bytes_per_s": max(rates, default=None),
            "busy_share": Fraction(busy, span) if span else None,
        }
    return found


def running(rows: Rows) -> int:
    """Nanoseconds in which at least one runs."""
    return length(when(row) for row in rows if None not in (row["start_ns"], row["dur_ns"]))


def ratio(moved: int, ns: int) -> Fraction | None:
    return Fraction(BILLION * moved, ns) if ns else None


def check_bandwidth(trace: Trace, expected: dict[tuple[object, ...], dict[str, Any]]) -> None:
    found = trace.memory_bandwidth().to_dicts()
    assert {(r["rank"], r["device"], r["kind"], r["name"]) for r in found} == set(expected)
    for row in found:
        for column, value in expected[row["rank"], row["device"], row["kind"], row["name"]].items():
            if column.endswith(("_per_s", "share")):
                assert approximately(row[column], value), column
            else:
                assert row[column] == value, column
    totals = [-1 if row["total_ns"] is None else row["total_ns"] for row in found]
    assert totals == sorted(totals, reverse=True)


COPIES = st.fixed_dictionaries(
    {
        "rank": st.integers(0, 1),
        "kind": st.sampled_from(["memcpy", "memcpy", "memset", "kernel", "sync"]),
        "name": st.sampled_from(
            ["Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)", "Memset", None]
        ),
        "device": st.sampled_from([None, 0, 1]),
        "stream": st.sampled_from([None, 7]),
        "start_ns": st.none() | st.integers(0, 30),
        "dur_ns": st.none() | st.integers(0, 9),
        "bytes": st.none() | st.integers(0, 2**62),
    }
)


@given(st.lists(COPIES, max_size=14))
def test_bandwidth_is_that_of_a_loop(events: list[Row]) -> None:
    check_bandwidth(trace_of(events=events), bandwidth(events))


def hta_series(copies: list[tuple[int, int, int]]) -> list[tuple[int, float]]:
    """d.8 for one kind: (start, duration, bytes) in us -> time and summed GB/s after each change.

    A duration of 0 becomes 1; Kineto's own figure of a copy is its bytes by its nanoseconds.
    """
    changes = []
    for start, dur, size in copies:
        rate = size / (1000 * (dur or 1))
        changes += [(start, rate), (start + (dur or 1), -rate)]
    changes.sort(key=lambda change: change[0])
    series, total = [], 0.0
    for time, change in changes:
        total += change
        series.append((time, total))
    return series


def bandwidth_row(copies: list[tuple[int, int, int]]) -> dict[str, Any]:
    events = [
        {"kind": "memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "device": 0, "bytes": size}
        | {"start_ns": 1000 * start, "dur_ns": 1000 * dur}
        for start, dur, size in copies
    ]
    (row,) = trace_of(events=events).memory_bandwidth().to_dicts()
    return row


def above_zero(series: list[tuple[int, float]]) -> list[float]:
    return [rate for _, rate in series if rate > 1e-9]


def test_bandwidth_is_that_of_hta_where_copies_are_alike() -> None:
    copies = [(0, 10, 40_000), (20, 10, 120_000), (50, 10, 20_000)]
    row, points = bandwidth_row(copies), above_zero(hta_series(copies))
    assert row["min_bytes_per_s"] == pytest.approx(min(points) * BILLION)
    assert row["max_bytes_per_s"] == pytest.approx(max(points) * BILLION)
    assert row["bytes_per_s"] == pytest.approx(mean(points) * BILLION)


def test_dev_14_points_are_not_weighted_by_time() -> None:
    copies = [(0, 1, 10_000), (10, 99, 99_000)]
    row, points = bandwidth_row(copies), above_zero(hta_series(copies))
    assert mean(points) == pytest.approx(5.5)  # DEV-14: 10 GB/s for 1 us is half of it
    assert row["bytes_per_s"] == pytest.approx(1.09 * BILLION)


WHOLE_US = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 9), st.integers(1, 10**6)), min_size=1, max_size=8
)


@given(WHOLE_US)
def test_busy_rate_is_the_time_weighted_mean_of_htas_series(
    copies: list[tuple[int, int, int]],
) -> None:
    series = hta_series(copies)
    held = [(later - time, rate) for (time, rate), (later, _) in pairwise(series) if rate > 1e-9]
    weighted = sum(us * rate for us, rate in held) / sum(us for us, _ in held)
    row = bandwidth_row(copies)
    assert row["busy_bytes_per_s"] == pytest.approx(weighted * BILLION)
    assert row["busy_ns"] == 1000 * sum(us for us, _ in held)


@pytest.mark.parametrize("path", few_real(lambda f: "gpu_memcpy" in f or "MTIA" in f, 9))
def test_bandwidth_of_real_traces(path: str, traces: Path) -> None:
    with real_trace(traces / path).session() as trace:
        check_real_bandwidth(trace)


def check_real_bandwidth(trace: Trace) -> None:
    rows = trace.sql(
        "SELECT rank, kind, name, device, bytes, dur_ns, args FROM events"
        " WHERE kind IN ('memcpy', 'memset')"
    ).to_dicts()
    whole = next((r for r in trace.time_breakdown().to_dicts() if r["step"] is None), None)
    for found in trace.memory_bandwidth(per="name").to_dicts():
        mine = [r for r in rows if all(r[k] == found[k] for k in ("device", "kind", "name"))]
        assert found["calls"] == len(mine)
        assert found["total_ns"] == sum(r["dur_ns"] for r in mine)
        assert found["busy_ns"] <= found["total_ns"]
        assert whole is not None
        assert found["busy_share"] == pytest.approx(found["busy_ns"] / whole["span_ns"])
        sized = [r for r in mine if r["bytes"] is not None]
        assert found["unsized_calls"] == len(mine) - len(sized)
        if any(r["dur_ns"] for r in sized):
            assert found["bytes"] == sum(r["bytes"] for r in sized)
            assert found["busy_bytes_per_s"] >= found["bytes_per_s"] * (1 - 1e-12)
            check_kineto(found, sized)


def check_kineto(found: Mapping[str, Any], copies: Rows) -> None:
    """Kineto's own figures are ours, but for a factor.

    They are of nanoseconds also where the durations are whole us, so those are left out; and some
    versions divide by ticks of another clock, which is the factor.
    """
    if not any(row["dur_ns"] % 1000 for row in copies):
        return
    said = [json.loads(row["args"]).get("memory bandwidth (GB/s)") for row in copies]
    if all(said):
        factors = [
            rate * row["dur_ns"] / row["bytes"] for rate, row in zip(said, copies, strict=True)
        ]
        assert max(factors) == pytest.approx(min(factors), rel=0.01)
        factor = BILLION / factors[0]
        assert found["max_bytes_per_s"] == pytest.approx(max(said) * factor, rel=0.01)
        assert found["min_bytes_per_s"] == pytest.approx(min(said) * factor, rel=0.01)


# Memory over time.

Device = tuple[int, str | None, int | None]


def device_of(row: Mapping[str, Any]) -> Device:
    return row["rank"], row["device_type"], row["device"]


def by_device(rows: Rows) -> dict[Device, list[Mapping[str, Any]]]:
    found: dict[Device, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[device_of(row)].append(row)
    return found


def allocated(row: Mapping[str, Any], of_device: Rows) -> int | None:
    """The total after a record; without one the bytes of all records up to its instant."""
    if row["total_allocated_bytes"] is not None:
        return int(row["total_allocated_bytes"])
    time = math.inf if row["time_ns"] is None else row["time_ns"]
    before = [r for r in of_device if (math.inf if r["time_ns"] is None else r["time_ns"]) <= time]
    known = [r["bytes"] for r in before if r["bytes"] is not None]
    return sum(known) if known else None


def unfreed(records: Rows) -> list[tuple[Device, int, int, int]]:
    """Device, address, bytes and time of what is allocated in the end, instant by instant."""
    live: dict[tuple[Device, int], tuple[int, int]] = {}
    usable = [
        r for r in records if r["bytes"] and r["address"] is not None and r["time_ns"] is not None
    ]
    for time in sorted({r["time_ns"] for r in usable}):
        now = [r for r in usable if r["time_ns"] == time]
        for key in {(device_of(r), r["address"]) for r in now}:
            here = [r["bytes"] for r in now if (device_of(r), r["address"]) == key]
            sizes = [size for size in here if size > 0]
            balance = len(sizes) - sum(size < 0 for size in here)
            if balance < 0 or (balance == 0 and key not in live):
                live.pop(key, None)
            elif sizes:
                live[key] = max(sizes), time
    return [(device, address, size, time) for (device, address), (size, time) in live.items()]


def annotation_at(record: Mapping[str, Any], events: Rows) -> int | None:
    """The innermost annotation around a record: on its thread, else the one that started last."""
    if record["time_ns"] is None:
        return None
    around = [
        e
        for e in events
        if e["kind"] == "annotation"
        and e["rank"] == record["rank"]
        and None not in (e["start_ns"], e["dur_ns"])
        and e["start_ns"] <= record["time_ns"] <= e["start_ns"] + e["dur_ns"]
    ]
    own = [e for e in around if e["thread"] == record["thread"]] or around
    best = max(
        own,
        key=lambda e: (e["start_ns"], -1 if e["depth"] is None else e["depth"], e["event_id"]),
        default=None,
    )
    return None if best is None else int(best["event_id"])


def check_memory(trace: Trace, records: Rows, events: Rows) -> None:
    groups = by_device(records)
    whole = trace.memory_timeline(points=0).to_dicts()
    assert sorted(map(timeline_key, whole)) == sorted(
        (repr(device), row["time_ns"], repr(row["bytes"]), repr(allocated(row, rows)))
        for device, rows in groups.items()
        for row in rows
        if row["time_ns"] is not None
    )
    left = unfreed(records)
    for peak in trace.memory_peak().to_dicts():
        rows = groups.pop(device_of(peak))
        known = [r for r in rows if r["total_allocated_bytes"] is not None] or rows
        totals = [total for r in known if (total := allocated(r, rows)) is not None]
        assert peak["allocated_bytes"] == max(totals, default=None)
        mine = [size for device, _, size, _ in left if device == device_of(peak)]
        has_addresses = any(r["address"] is not None for r in rows)
        assert peak["unfreed_blocks"] == (len(mine) if has_addresses else None)
        assert peak["unfreed_bytes"] == (sum(mine) if has_addresses else None)
        holders = [
            r
            for r in known
            if r["time_ns"] == peak["time_ns"] and allocated(r, rows) == peak["allocated_bytes"]
        ]
        assert peak["annotation_id"] in {annotation_at(r, events) for r in holders}
    assert not groups
    blocks = trace.memory_peak(per="block", top=0).to_dicts()
    assert sorted((repr(device_of(b)), b["address"], b["bytes"], b["time_ns"]) for b in blocks) == (
        sorted((repr(device), *block) for device, *block in left)
    )
    assert [b["bytes"] for b in blocks] == sorted((b["bytes"] for b in blocks), reverse=True)
    for block in blocks:
        makers = [
            r
            for r in records
            if all(r[k] == block[k] for k in ("rank", "address", "bytes", "time_ns", "op_id"))
        ]
        assert block["annotation_id"] in {annotation_at(r, events) for r in makers}


def timeline_key(row: Mapping[str, Any]) -> tuple[object, ...]:
    return repr(device_of(row)), row["time_ns"], repr(row["bytes"]), repr(row["allocated_bytes"])


RECORDS = st.fixed_dictionaries(
    {
        "rank": st.integers(0, 1),
        "time_ns": st.none() | st.integers(0, 12),
        "address": st.sampled_from([None, 1, 1, 2]),
        "bytes": st.sampled_from([None, 0, 5, 5, 7, -5, -5, -7]),
        "device_type": st.sampled_from(["CPU", "CUDA", None]),
        "device": st.sampled_from([None, 0]),
        "total_allocated_bytes": st.none() | st.integers(0, 9),
        "thread": st.integers(0, 1),
        "op_id": st.sampled_from([None, 0]),
    }
)
ANNOTATIONS = st.fixed_dictionaries(
    {
        "rank": st.integers(0, 1),
        "kind": st.sampled_from(["annotation", "annotation", "host_op"]),
        "name": st.sampled_from(["a", None]),
        "thread": st.integers(0, 1),
        "start_ns": st.none() | st.integers(0, 10),
        "dur_ns": st.none() | st.integers(0, 8),
        "depth": st.none() | st.integers(0, 2),
    }
)


@given(st.lists(RECORDS, max_size=12), st.lists(ANNOTATIONS, max_size=5))
def test_memory_is_that_of_a_loop(records: list[Row], slices: list[Row]) -> None:
    events = [{"event_id": i} | dict(row) for i, row in enumerate(slices)]
    with trace_of(memory=records, events=events).session() as trace:
        check_memory(trace, records, events)


@given(st.lists(RECORDS, max_size=14), st.integers(1, 4))
def test_points_keep_the_peak_of_each_part(records: list[Row], points: int) -> None:
    trace = trace_of(memory=records)
    kept = by_device(trace.memory_timeline(points=points).to_dicts())
    for device, rows in by_device(trace.memory_timeline(points=0).to_dicts()).items():
        first, last = rows[0]["time_ns"], rows[-1]["time_ns"]

        def part(row: Mapping[str, Any], first: int = first, last: int = last) -> int:
            return int((row["time_ns"] - first) * points // (last - first + 1))

        def best(several: Rows) -> tuple[float, int]:
            return max(
                (-math.inf if r["allocated_bytes"] is None else r["allocated_bytes"], -r["time_ns"])
                for r in several
            )

        expected = {p: best([r for r in rows if part(r) == p]) for p in map(part, rows)}
        if len(rows) <= points:
            assert kept[device] == rows
        else:
            assert {part(r): best([r]) for r in kept[device]} == expected
            assert len(kept[device]) == len(expected) <= points


@pytest.mark.parametrize("path", few_real(lambda features: "memory-instant" in features, 5))
def test_memory_of_real_traces(path: str, traces: Path) -> None:
    with real_trace(traces / path).session() as trace:
        check_real_memory(trace)


def check_real_memory(trace: Trace) -> None:
    records = trace.memory.sort("time_ns", maintain_order=True).to_dicts()
    whole = trace.memory_timeline(points=0)
    assert whole.height == len(records)
    few = by_device(trace.memory_timeline(points=50).to_dicts())
    blocks = by_device(trace.memory_peak(per="block", top=0).to_dicts())
    for peak in trace.memory_peak().to_dicts():
        rows = by_device(records)[device_of(peak)]
        assert peak["allocated_bytes"] == max(r["total_allocated_bytes"] for r in rows)
        assert peak["allocated_bytes"] == max(r["allocated_bytes"] for r in few[device_of(peak)])
        assert len(few[device_of(peak)]) <= 50
        live: dict[int, int] = {}
        from_before = 0
        for row in rows:
            if row["bytes"] > 0:
                live[row["address"]] = row["bytes"]
            elif live.pop(row["address"], None) is None:
                from_before -= row["bytes"]
        mine = blocks.get(device_of(peak), [])
        assert {b["address"]: b["bytes"] for b in mine} == live
        assert (peak["unfreed_blocks"], peak["unfreed_bytes"]) == (len(live), sum(live.values()))
        assert sum(r["bytes"] for r in rows) == sum(live.values()) - from_before


# Counters.


def check_counters(trace: Trace, rows: Rows) -> None:
    keys = ("rank", "name", "series", "pid", "counter_id", "device", "unit")
    groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[k] for k in keys)].append(row)
    series = trace.counter_series().to_dicts()
    assert len(series) == len(rows)
    seen = list(dict.fromkeys(tuple(row[k] for k in keys) for row in series))
    assert set(seen) == set(groups)
    found = trace.counter_series(per="counter").to_dicts()
    assert [tuple(row[k] for k in keys) for row in found] == seen
    for summary in found:
        key = tuple(summary[k] for k in keys)
        mine = [row for row in series if tuple(row[k] for k in keys) == key]
        times = [row["time_ns"] for row in mine if row["time_ns"] is not None]
        assert times == sorted(times)
        values = [row["value"] for row in groups[key] if row["value"] is not None]
        assert summary["samples"] == len(mine)
        assert summary["min_value"] == min(values, default=None)
        assert summary["max_value"] == max(values, default=None)
        assert summary["span_ns"] == (max(times) - min(times) if times else None)
        per_ns = [held_at(mine, at) for at in range(min(times), max(times))] if times else []
        held = [value for value in per_ns if value is not None]
        if held:
            assert summary["mean_value"] == pytest.approx(mean(held))
        else:
            assert summary["mean_value"] is None


def held_at(rows: Rows, moment: int) -> float | None:
    """The value of the last instant up to a moment: of several the largest."""
    before = [r for r in rows if r["time_ns"] is not None and r["time_ns"] <= moment]
    last = [r["value"] for r in before if r["time_ns"] == max(b["time_ns"] for b in before)]
    return max((value for value in last if value is not None), default=None)


SAMPLES = st.fixed_dictionaries(
    {
        "rank": st.integers(0, 1),
        "name": st.sampled_from(["GPU %", "HBM", None]),
        "series": st.sampled_from(["a", None]),
        "pid": st.sampled_from(["1", None]),
        "counter_id": st.sampled_from(["x", None]),
        "device": st.sampled_from([0, 1, None]),
        "unit": st.sampled_from(["W", None]),
        "time_ns": st.none() | st.integers(0, 15),
        "value": st.none() | st.integers(-5, 5).map(float),
    }
)


@given(st.lists(SAMPLES, max_size=12), st.text("GPU %HBM_", max_size=3))
def test_counters_are_those_of_a_loop(rows: list[Row], text: str) -> None:
    wanted = [row for row in rows if not text or text in str(row["name"] or "")]
    with trace_of(counters=rows).session() as trace:
        check_counters(trace, rows)
        assert trace.counter_series(text).height == len(wanted)


@pytest.mark.parametrize(
    "path", needs.members(real_traces(lambda features: "counters-C" in features))
)
def test_counters_of_real_traces(path: str, traces: Path) -> None:
    trace = real_trace(traces / path)
    series = trace.counter_series()
    assert series.height == trace.counters.height > 0
    assert trace.counter_series(per="counter")["samples"].sum() == series.height
    for row in trace.counter_series(per="counter").drop_nulls("mean_value").to_dicts():
        assert row["min_value"] <= row["mean_value"] * (1 + 1e-9)
        assert row["mean_value"] <= row["max_value"] * (1 + 1e-9)
