"""Every real Chrome trace, row by row against a reader that takes no short cut."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import profframe
from profframe import schema
from tests.conftest import real_trace
from tests.oracles import chrome
from tests.round_trip import content

LARGE: Final = 150_000
"""Bytes of the compressed files that take longer than all others together."""
BIG: Final = 10_000
"""Rows from which on only a sample of the arguments is compared."""
SAMPLE: Final = 53

CERTAIN: Final = {
    "collective_without_metadata",
    "end_of_another_name",
    "kernel_before_launch",
    "kernel_during_sync",
    "repeated_sequence_number",
    "wait_for_unknown_event",
    "crossing_slices",
    "cut_frame",
    "frame_of_another_thread",
    "external_id_mismatch",
    "fill_without_work",
    "faster_than_memory",
    "faster_than_peak",
    "kernel_without_correlation",
    "kernel_without_launch",
    "sub_nanosecond_time",
    "unmatched_begin",
    "unmatched_end",
    "missing_time",
    "outside_steps",
    "cut_step",
    "host_ahead",
    "incomplete_step",
    "unawaited_work",
    "unknown_start_of_step",
    "several_models",
    "unknown_device",
    "unnamed_device",
    "work_needs_lengths",
    "uneven_attention",
}
"""Notes that do not say that an event was dropped or changed."""


def test_every_row_is_as_a_plain_reader_has_it(chrome_trace: Path) -> None:
    plain = chrome.read(content(chrome_trace))
    trace = real_trace(chrome_trace)
    tables, as_torch = trace.tables, real_trace(chrome_trace, "torch").tables

    sample = SAMPLE if plain.source_events > BIG else 1
    assert not chrome.differences(as_torch, plain, sample)
    check_accounts(tables, plain)
    check_labels(tables["threads"], plain)
    check_nesting(as_torch["events"], plain)
    check_frames(tables["events"])


def check_accounts(tables: Mapping[str, pa.Table], plain: chrome.Plain) -> None:
    (row,) = tables["traces"].to_pylist()
    assert row["source_events"] == plain.source_events
    assert json.loads(row["accounted"]) == plain.accounted
    assert sum(plain.accounted.values()) == plain.source_events
    found = dict(zip(*(tables["quality"][c].to_pylist() for c in ("issue", "events")), strict=True))
    assert found.keys() <= CERTAIN
    assert {check: n for check, n in found.items() if check in plain.found} == plain.found


def check_labels(threads: pa.Table, plain: chrome.Plain) -> None:
    columns = schema.THREADS.names[5:]
    for row in threads.to_pylist():
        of_thread = plain.threads.get((row["pid"], row["tid"]), {})
        labels = plain.processes.get(row["pid"], {}) | of_thread
        assert {c: row[c] for c in columns if row[c] is not None} == labels


def check_frames(events: pa.Table) -> None:
    """No time is below zero, and a Python frame is in the one that called it, on its thread."""
    columns = ("kind", "thread", "self_ns", "parent_id", "python_id", "python_parent_id")
    kinds, threads, own, parents, ids, callers = (chrome.values(events[c]) for c in columns)
    assert min((each for each in own if each is not None), default=0) >= 0
    of = {(t, i): row for row, (t, i) in enumerate(zip(threads, ids, strict=True)) if i is not None}
    for row, (kind, thread, caller) in enumerate(zip(kinds, threads, callers, strict=True)):
        calling = of.get((thread, caller)) if kind == "python" else None
        if calling is not None and calling != row:
            around = parents[row]
            while around is not None and ids[around] is None:
                around = parents[around]
            assert around == calling


def check_nesting(events: pa.Table, plain: chrome.Plain) -> None:
    kinds = chrome.values(events["kind"])
    nesting = chrome.nest(
        row
        for row, kind in zip(plain.events, kinds, strict=True)
        if kind in schema.HOST_KINDS and row["dur_ns"] is not None and not row["is_async"]
    )
    rows: list[dict[str, Any]] = [
        nesting.get(i, {"self_ns": row["dur_ns"] if kind in schema.DEVICE_KINDS else None})
        for i, (row, kind) in enumerate(zip(plain.events, kinds, strict=True))
    ]
    for column in ("parent_id", "depth", "root_id", "self_ns"):
        assert chrome.values(events[column]) == [row.get(column) for row in rows], column
    check_sums(rows, plain)
    check_preorder(events, nesting)


def check_sums(rows: list[dict[str, Any]], plain: chrome.Plain) -> None:
    """On each thread the self times add up to the roots."""
    balance: dict[object, int] = {}
    for i, row in enumerate(rows):
        if "root_id" in row:
            thread = plain.events[i]["pid"], plain.events[i]["tid"]
            of_root = plain.events[i]["dur_ns"] if row["parent_id"] is None else 0
            balance[thread] = balance.get(thread, 0) + row["self_ns"] - of_root
    assert not any(balance.values())


def check_preorder(events: pa.Table, nesting: Mapping[int, Mapping[str, Any]]) -> None:
    """A subtree is the rows from its root to its last descendant in preorder."""
    preorder, last = chrome.values(events["preorder"]), chrome.values(events["last_descendant_id"])
    assert sorted(preorder[i] for i in nesting) == list(range(len(nesting)))
    size = dict.fromkeys(nesting, 1)
    for i in sorted(nesting, key=lambda i: -preorder[i]):
        parent = nesting[i]["parent_id"]
        assert preorder[last[i]] == preorder[i] + size[i] - 1
        if parent is not None:
            assert preorder[parent] < preorder[i]
            size[parent] += size[i]


def test_times_of_nineteen_digits_keep_every_digit(traces: Path) -> None:
    (path,) = traces.rglob("ns_resolution_rank-0*")
    events = json.loads(content(path), parse_float=str, parse_int=str)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert max(len(event["ts"].replace(".", "")) for event in slices) == 19
    loaded = profframe.load(path).events
    assert loaded["start_ns"].cast(str).to_list() == [without_point(e["ts"]) for e in slices]
    assert loaded["dur_ns"].to_list() == [int(Decimal(e["dur"]) * 1000) for e in slices]


def test_times_that_are_text_keep_every_digit(traces: Path) -> None:
    path = min(traces.rglob("*Ascend*/**/trace_view.json.gz"))
    slices = [event for event in json.loads(content(path)) if event["ph"] == "X"]
    assert {type(event["ts"]) for event in slices} == {str}
    loaded = profframe.load(path).events
    assert loaded["start_ns"].cast(str).to_list() == [without_point(e["ts"]) for e in slices]


def without_point(microseconds: str) -> str:
    """Text of the nanoseconds, by moving characters alone."""
    whole, _, decimals = microseconds.partition(".")
    return whole + decimals.ljust(3, "0")
