from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.readers.build.begin_end import match_begin_end, match_named
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.reading import read

Row = tuple[int, int, str]
"""Thread, time and phase."""


def matched(*rows: Row) -> list[tuple[int, int]]:
    thread = np.array([row[0] for row in rows], np.int32)
    time = np.array([row[1] for row in rows], np.int64)
    phase = np.array([row[2] for row in rows])
    begin, end = match_begin_end(thread, time, phase == "B", phase == "E")
    return sorted(zip(begin.tolist(), end.tolist(), strict=True))


def by_stack(*rows: Row) -> list[tuple[int, int]]:
    found = []
    stacks: dict[int, list[int]] = {}
    for row in sorted(range(len(rows)), key=lambda i: rows[i][1]):
        thread, _, phase = rows[row]
        stack = stacks.setdefault(thread, [])
        if phase == "B":
            stack.append(row)
        elif phase == "E" and stack:
            found.append((stack.pop(), row))
    return sorted(found)


@pytest.mark.parametrize(
    ("rows", "pairs"),
    [
        ([], []),
        ([(0, 1, "B")], []),
        ([(0, 1, "E")], []),
        ([(0, 1, "B"), (0, 5, "E")], [(0, 1)]),
        ([(0, 1, "B"), (1, 5, "E")], []),
        ([(0, 1, "B"), (0, 2, "B"), (0, 3, "E"), (0, 4, "E")], [(0, 3), (1, 2)]),
        ([(0, 1, "B"), (0, 2, "E"), (0, 3, "E"), (0, 4, "B"), (0, 5, "E")], [(0, 1), (3, 4)]),
        ([(0, 5, "E"), (0, 1, "B")], [(1, 0)]),
        ([(0, 1, "E"), (0, 1, "B"), (0, 1, "E")], [(1, 2)]),
        ([(0, 1, "B"), (0, 2, "X"), (1, 2, "B"), (1, 3, "E"), (0, 9, "E")], [(0, 4), (2, 3)]),
        ([(1, 1, "E"), (0, 1, "B"), (2, 1, "E"), (0, 2, "E")], [(1, 3)]),
        ([(0, -9, "B"), (0, -3, "E")], [(0, 1)]),
    ],
)
def test_an_end_closes_the_last_open_begin_of_its_thread(
    rows: list[Row], pairs: list[tuple[int, int]]
) -> None:
    assert matched(*rows) == pairs == by_stack(*rows)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 12), st.sampled_from("BEX")), max_size=40)
)
def test_pairs_are_those_of_a_stack(rows: list[Row]) -> None:
    assert matched(*rows) == by_stack(*rows)


def test_pairs_come_in_the_order_of_their_ends() -> None:
    begins = np.array([True, True, False, False])
    begin, end = match_begin_end(np.zeros(4, np.int32), np.arange(4), begins, ~begins)
    assert (begin.tolist(), end.tolist()) == ([1, 0], [2, 3])


def event(ph: str, ts: object = None, **keys: object) -> dict[str, object]:
    given = {"ph": ph, "pid": 1, "tid": 1, "ts": ts} | keys
    return {key: value for key, value in given.items() if value is not None}


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def load(*events: dict[str, object]) -> RawTrace:
        (tmp_path / "t.json").write_text(json.dumps(events))
        return read(tmp_path / "t.json")

    return load


def quality(trace: RawTrace) -> dict[str, int]:
    columns = (trace.tables["quality"][name].to_pylist() for name in ("issue", "events"))
    return dict(zip(*columns, strict=True))


def test_a_pair_is_a_slice_with_the_name_of_its_begin(load: Any) -> None:
    trace = load(
        event("B", 10, name="outer", cat="PERF"),
        event("X", 11, name="between", dur=1),
        event("B", 12.5, name="inner"),
        event("E", 14, name="any name"),
        event("E", 20.001),
    )
    events = trace.tables["events"].select(["event_id", "name", "category", "start_ns", "dur_ns"])
    assert [tuple(row.values()) for row in events.to_pylist()] == [
        (0, "outer", "PERF", 10_000, 10_001),
        (1, "between", None, 11_000, 1_000),
        (2, "inner", None, 12_500, 1_500),
    ]
    assert json.loads(trace.tables["traces"]["accounted"][0].as_py()) == {"events": 5}
    assert quality(trace) == {"end_of_another_name": 1}


@pytest.mark.parametrize(
    ("first", "last", "joined"),
    [
        (None, None, None),
        ({"a": 1}, None, {"a": 1}),
        (None, {"b": 2}, {"b": 2}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"b": 2}, {"b": 2}),
        ({"a": 1}, {"b": [2]}, {"a": 1, "b": [2]}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, [2], [{"a": 1}, [2]]),
        ("x", {"b": 2}, ["x", {"b": 2}]),
    ],
)
def test_a_pair_has_the_arguments_of_both(
    load: Any, first: object, last: object, joined: object
) -> None:
    trace = load(event("B", 1, args=first), event("E", 2, args=last))
    text = trace.tables["events"]["args"][0].as_py()
    assert (text if text is None else json.loads(text)) == joined


def test_a_begin_without_an_end_is_a_slice_without_a_duration(load: Any) -> None:
    trace = load(event("B", 1, name="open"), event("B", 2, name="closed"), event("E", 3))
    assert trace.tables["events"]["name"].to_pylist() == ["open", "closed"]
    assert trace.tables["events"]["dur_ns"].to_pylist() == [None, 1_000]
    assert quality(trace) == {"unmatched_begin": 1}


def test_an_end_without_a_begin_is_kept_in_instants(load: Any) -> None:
    trace = load(
        event("i", 0, name="mark", s="t"),
        event("E", 3, name="lost", args={"why": "cut"}),
        event("X", 5, dur=1, name="slice"),
    )
    assert trace.tables["events"]["name"].to_pylist() == ["slice"]
    columns = ["phase", "name", "time_ns", "pid", "tid", "thread", "args"]
    assert [tuple(r.values()) for r in trace.tables["instants"].select(columns).to_pylist()] == [
        ("i", "mark", 0, "1", "1", 0, None),
        ("E", "lost", 3_000, "1", "1", 0, '{"why":"cut"}'),
    ]
    accounted = json.loads(trace.tables["traces"]["accounted"][0].as_py())
    assert accounted == {"events": 1, "instants": 2}
    assert quality(trace) == {"unmatched_end": 1}


def test_what_has_no_time_is_paired_with_nothing(load: Any) -> None:
    trace = load(event("B", name="untimed"), event("B", 5, name="timed"), event("E"), event("E", 7))
    assert trace.tables["events"]["name"].to_pylist() == ["untimed", "timed"]
    assert trace.tables["events"]["dur_ns"].to_pylist() == [None, 2_000]
    assert trace.tables["instants"]["phase"].to_pylist() == ["E"]
    assert quality(trace) == {"missing_time": 2, "unmatched_begin": 1, "unmatched_end": 1}


def test_a_duration_of_a_begin_event_is_its_pairs(load: Any) -> None:
    trace = load(event("B", 1, dur=99), event("E", 3, dur=99), event("B", 4, dur=99))
    assert trace.tables["events"]["dur_ns"].to_pylist() == [2_000, None]


Named = tuple[int, int, str, int]
"""Thread, time, phase and name, of which 0 is none."""


def by_names(rows: list[Named]) -> list[tuple[int, int]]:
    """Pairs as they come: an end closes the last open begin of its name, without one of any."""
    found = []
    open_rows: list[int] = []
    for row in sorted(range(len(rows)), key=lambda i: rows[i][1]):
        thread, _, phase, name = rows[row]
        if phase == "B":
            open_rows.append(row)
            continue
        same = [i for i in open_rows if rows[i][0] == thread and name in {0, rows[i][3]}]
        if same:
            open_rows.remove(same[-1])
            found.append((same[-1], row))
    return sorted(found)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 12), st.sampled_from("BE"), st.integers(0, 3)),
        max_size=30,
    )
)
def test_ends_with_names_close_what_has_them(rows: list[Named]) -> None:
    thread, time, name = (np.array([row[i] for row in rows], np.int64) for i in (0, 1, 3))
    begins = np.array([row[2] == "B" for row in rows], np.bool_)
    begin, end = match_named(thread, time, begins, ~begins, name)
    assert sorted(zip(begin.tolist(), end.tolist(), strict=True)) == by_names(rows)


def test_crossing_slices_are_closed_by_their_names(load: Any) -> None:
    trace = load(
        event("B", 0, name="a"),
        event("B", 10, name="b"),
        event("E", 30, name="a"),
        event("E", 40, name="b"),
        event("B", 50, name="c"),
        event("B", 60, name="d"),
        event("E", 70, name="a"),
        event("E", 80),
        event("B", 1, name="e", tid=2),
        event("B", 2, name="f", tid=2),
        event("E", 3, tid=2),
        event("E", 4, name="f", tid=2),
        event("E", 5, name="e", tid=2),
    )
    slices = trace.tables["events"].select(["name", "dur_ns"]).to_pylist()
    assert [tuple(row.values()) for row in slices] == [
        ("a", 30_000),
        ("b", 30_000),
        ("c", None),
        ("d", 20_000),
        ("e", 4_000),
        ("f", 1_000),
    ]
    assert quality(trace) == {"unmatched_begin": 1, "unmatched_end": 2}
