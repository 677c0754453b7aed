"""Lines of exports: data that is there before anything is written."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.export import chrome
from profframe.export.lines.batches import single_trace, text_batches
from profframe.export.lines.chrome_events import ChromeEvents, chrome_events
from profframe.export.lines.overlap_lanes import ends_of_slices, lanes_of
from tests.builders import table

EVENT = {"run": "r", "rank": 0, "thread": 0, "pid": "7", "tid": "main", "kind": "host_op"}


def connected(*events: dict[str, object]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, kind in schema.TABLES.items():
        connection.register(name, kind.arrow.empty_table())
    connection.register("traces", table("traces", [{"run": "r", "rank": 0, "format": "chrome"}]))
    connection.register("events", table("events", [EVENT | event for event in events]))
    return connection


def test_lines_are_of_no_more_rows_than_a_batch() -> None:
    relation = duckdb.connect().sql("SELECT concat(',', range) FROM range(200_000)")
    sizes = [len(batch) for batch in text_batches(relation)]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 65_536


def test_events_are_lines_before_they_are_in_a_file() -> None:
    with connected(
        {"event_id": 0, "name": "a", "start_ns": 1500, "dur_ns": 20},
        {"event_id": 1, "name": "b", "start_ns": 1501, "dur_ns": 2, "args": '{"x": 1}'},
    ) as connection:
        events = chrome_events(connection, single_trace(connection), is_whole=True)
        lines = [line for batch in events.lines for line in batch.to_pylist()]
    first, second = (json.loads(line.removeprefix(",")) for line in lines)
    place = {"ph": "X", "pid": 7, "tid": "main"}
    assert first == place | {"name": "a", "ts": 1.5, "dur": 0.02}
    assert second == place | {"name": "b", "ts": 1.501, "dur": 0.002, "args": {"x": 1}}
    assert events.is_whole


def test_a_slice_beside_another_is_named_by_its_own_thread() -> None:
    times = [(0, 0, 9), (1, 0, 10), (1, 5, 10), (2, 0, 9)]
    rows: list[dict[str, object]] = [
        {"event_id": number, "thread": thread, "start_ns": start_ns, "dur_ns": dur_ns}
        for number, (thread, start_ns, dur_ns) in enumerate(times)
    ]
    with connected(*rows) as connection:
        ends = ends_of_slices(
            connection, [{"thread": thread, "pid": "7", "tid": f"t{thread}"} for thread in range(4)]
        )
    assert ends.lanes.starts.rows() == [("7", "t1", 5, 1)]


def test_a_slice_around_an_earlier_one_of_its_own_thread_is_beside_it() -> None:
    """The slice of another thread that begins then, too, is between the two in the file."""
    thread, start, end = (np.array(values) for values in ([0, 1, 0], [0, 0, 0], [5, 9, 9]))
    assert lanes_of(thread, start, end).tolist() == [0, 0, 1]


def test_what_is_added_makes_a_trace_another_one() -> None:
    row = {"time_ns": 1, "dur_ns": None, "line": "l", "name": "l", "args": "{}"}
    tracks = pl.DataFrame([row], schema_overrides={"dur_ns": pl.Int64})
    with connected() as connection:
        trace = single_trace(connection)
        assert not chrome_events(connection, trace, is_whole=True, tracks=tracks).is_whole


def test_a_file_is_what_it_is_given(tmp_path: Path) -> None:
    lines = iter([pa.array([',\n{"ph":"i"}']), pa.array([], pa.string()), pa.array([",\n{}"])])
    threads = [{"thread": 0, "pid": "7", "tid": "8", "name": None, "thread_name": "t"}]
    labels = dict.fromkeys(
        ("process_name", "process_labels", "process_sort_index", "thread_sort_index")
    )
    events = ChromeEvents({"rank": 3}, [row | labels for row in threads], lines, is_whole=True)
    chrome.write(tmp_path / "out.json", events)
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "traceEvents": [
            {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "t"}},
            {"ph": "i"},
            {},
        ],
        "profframe": {"rank": 3, "events": 3},
    }
