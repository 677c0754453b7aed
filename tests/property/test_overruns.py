"""Work that ends after what ran behind it on its stream, and times that cannot be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from tests.builders import Row, column, event, facts

DAY_US = 86_400_000_000
NOW_US = 1_700_000_000_000_000


def work(start: int, end: int, stream: int | None, number: int, pid: str) -> Row:
    return event(
        "k", start, end, category="kernel", thread=9, pid=pid, device=0, stream=stream,
        correlation=number,
    )  # fmt: skip


@st.composite
def pieces(draw: st.DrawFn) -> Row:
    start = draw(st.integers(0, 20))
    return work(
        start, start + draw(st.integers(0, 12)), draw(st.sampled_from([7, 7, 8, None])),
        draw(st.integers(1, 4)), draw(st.sampled_from(["1", "1", "2"])),
    )  # fmt: skip


def over(rows: Sequence[Row], least: int, by: int = 0) -> list[int]:
    """Numbers of pieces that end later than so many behind them on their stream, by how much.

    Of calls other than those of the next two, or of the one that ends first.
    """
    numbered: list[dict[str, Any]] = [
        {**row, "n": n, "end": row["start_ns"] + row["dur_ns"]}  # type: ignore[operator]
        for n, row in enumerate(rows)
    ]
    made: list[int] = []
    for piece in numbered:
        own = [r for r in numbered if (r["pid"], r["stream"]) == (piece["pid"], piece["stream"])]
        own.sort(key=lambda r: (r["start_ns"], -r["dur_ns"], r["n"]))
        own = [r for r in own if r["dur_ns"]]
        behind = own[own.index(piece) + 1 :] if piece in own else []
        earlier = [r for r in behind if r["end"] + by < piece["end"]]
        if piece["stream"] is None or len(earlier) < least:
            continue
        first = min(behind, key=lambda r: (r["end"], behind.index(r)))
        if all(
            r["correlation"] != piece["correlation"] for r in (behind[:2] if least > 1 else [first])
        ):
            made.append(piece["n"])
    return made


@given(st.lists(pieces(), max_size=12))
def test_any_pieces(rows: list[Row]) -> None:
    rows = [{**row, **{name: row[name] * 500 for name in ("start_ns", "dur_ns")}} for row in rows]  # type: ignore[operator]
    made = facts(*rows)
    gone = over(rows, 2)
    wanted = [None if n in gone else row["dur_ns"] for n, row in enumerate(rows)]
    assert column(made, "dur_ns") == wanted
    assert column(made, "self_ns") == wanted
    counts = dict(zip(*(made["quality"][n].to_pylist() for n in ("issue", "events")), strict=True))
    assert counts.get("overrun", 0) == wanted.count(None)
    assert counts.get("doubtful_overrun", 0) == len({*over(rows, 1, by=2_000)} - {*gone})


@pytest.mark.parametrize(("end", "is_over"), [(12, False), (13, True)])
def test_it_ends_after_the_next_two(end: int, is_over: bool) -> None:
    rows = [work(0, end, 7, 1, "1"), work(4, 12, 7, 2, "1"), work(6, 12, 7, 3, "1")]
    assert column(facts(*rows), "dur_ns") == [None if is_over else end, 8, 6]


@pytest.mark.parametrize(("end", "is_doubtful"), [(7_000, False), (7_001, True)])
@pytest.mark.parametrize("behind", [(), (work(9_000, 9_500, 7, 3, "1"),)])
def test_it_ends_after_one_only(end: int, behind: tuple[Row, ...], *, is_doubtful: bool) -> None:
    """Nothing says which of the two times is wrong."""
    made = facts(work(0, end, 7, 1, "1"), work(4_000, 5_000, 7, 2, "1"), *behind)
    assert column(made, "dur_ns")[:2] == [end, 1_000]
    notes = made["quality"].select(["issue", "events", "example_event_id"]).to_pylist()
    told = {"issue": "doubtful_overrun", "events": 1, "example_event_id": 0}
    assert [row for row in notes if "overrun" in row["issue"]] == [told] * is_doubtful


def test_parts_of_one_graph_launch_may_be_on_branches() -> None:
    made = facts(work(0, 9_000, 7, 1, "1"), work(4_000, 5_000, 7, 1, "1"))
    assert not any("overrun" in check for check in made["quality"]["issue"].to_pylist())


def test_several_that_end_at_once() -> None:
    """As where a profiler closes at its own end what it has no end of."""
    ends = [1_000, 1_000, 60, 80, 100, 2_000]
    rows = [work(20 * n, end, 7, n + 1, "1") for n, end in enumerate(ends)]
    assert column(facts(*rows), "dur_ns") == [None, None, 20, 20, 20, 1_900]


def test_what_takes_no_time_is_not_behind_another_piece() -> None:
    fills = [work(at, at, 7, at, "1") for at in (10, 20, 30)]
    assert column(facts(work(0, 50, 7, 1, "1"), *fills), "dur_ns") == [50, 0, 0, 0]


def loaded(tmp_path: Path, times: Sequence[int]) -> profframe.trace.trace.Trace:
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at, "dur": 10}
        for at in times
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}), encoding="utf-8")
    return profframe.load(path)


@pytest.mark.parametrize(
    ("times", "without"),
    [
        ([NOW_US, NOW_US + 50, 0], [2]),
        ([NOW_US, NOW_US + 50, NOW_US + 31 * DAY_US], [2]),
        ([NOW_US, NOW_US + 50, NOW_US - 31 * DAY_US], [2]),
        ([NOW_US, NOW_US + 50, NOW_US + 29 * DAY_US], []),
        ([0, 50, 90], []),
        ([0, 50, 3_600_000_000], []),
        ([0, 2 * DAY_US, 2 * DAY_US + 50], [0]),
        ([NOW_US, NOW_US + 3 * DAY_US], []),
        ([0], []),
        ([0, 0, 0, NOW_US, NOW_US + 5, NOW_US + 9, NOW_US + 12], [0, 1, 2]),
    ],
)
def test_times_that_cannot_be(tmp_path: Path, times: list[int], without: list[int]) -> None:
    trace = loaded(tmp_path, times)
    is_null = trace.events["start_ns"].is_null().to_list()
    assert [n for n, null in enumerate(is_null) if null] == without
    counts = dict(trace.quality.select("issue", "events").iter_rows())
    assert counts.get("impossible_time", 0) == len(without)
    assert trace.events["dur_ns"].to_list() == [10_000] * len(times)


@pytest.mark.parametrize("row", ["memory", "counters"])
def test_a_record_at_zero_among_absolute_times(tmp_path: Path, row: str) -> None:
    made: dict[str, dict[str, object]] = {
        "memory": {
            "ph": "i", "name": "[memory]", "args": {"Bytes": 512, "Device Id": 0, "Device Type": 1}
        },
        "counters": {"ph": "C", "name": "use", "args": {"of": 5}},
    }  # fmt: skip
    op = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 1,
        "tid": 1,
        "ts": NOW_US,
        "dur": 9,
    }
    rows = [op, *({**made[row], "pid": 1, "tid": 1, "ts": at} for at in (0, NOW_US + 3))]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}), encoding="utf-8")
    trace = profframe.load(path)
    assert trace.tables[row]["time_ns"].is_null().to_pylist() == [True, False]
    assert trace.quality.select("issue", "events", "detail").rows() == [
        ("impossible_time", 1, trace.quality["detail"][0])
    ]


@pytest.mark.parametrize(("days", "is_known"), [(29, True), (31, False), (18_600, False)])
def test_a_duration_that_ends_a_month_after_all_others_begin(
    tmp_path: Path, days: int, *, is_known: bool
) -> None:
    rows = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": at, "dur": dur}
        for at, dur in ((NOW_US, 10), (NOW_US + 20, days * DAY_US), (NOW_US + 40, 10))
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}), encoding="utf-8")
    trace = profframe.load(path)
    assert (trace.events["dur_ns"][1] is not None) == is_known
    counts = dict(trace.quality.select("issue", "events").iter_rows())
    assert counts.get("impossible_duration", 0) == (not is_known)
