"""Random events through torch's own `EventList` and through the facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.pipeline import add_facts
from tests import needs
from tests.builders import Row, event, tables

util = needs.module("torch.autograd.profiler_util")

PLACE = st.integers(0, 15)
THREADS = (1, 2)
NAMES = ("f", "g", "ProfilerStep#1", "ProfilerStep#2")
FUNCTION, BACKWARD_FUNCTION = 0, 1


@dataclass(frozen=True)
class One:
    """An event, and the durations of the kernels that it launched."""

    name: str
    start: int
    end: int
    thread: int
    is_async: bool
    scope: int
    sequence_nr: int
    fwd_thread: int
    stack: str
    kernels: tuple[int, ...]


@st.composite
def ones(draw: st.DrawFn) -> One:
    start, end = sorted((draw(PLACE), draw(PLACE)))
    return One(
        name=draw(st.sampled_from(NAMES)),
        start=start,
        end=end,
        thread=draw(st.sampled_from(THREADS)),
        is_async=draw(st.sampled_from((False, False, False, True))),
        scope=draw(st.sampled_from((FUNCTION, FUNCTION, BACKWARD_FUNCTION))),
        sequence_nr=draw(st.integers(-1, 2)),
        fwd_thread=draw(st.sampled_from(THREADS)),
        stack=draw(st.sampled_from(("", "a", "b", "c"))),
        kernels=tuple(draw(st.lists(st.integers(1, 9), max_size=2))),
    )


EVENTS = st.lists(ones(), max_size=14)


def by_torch(events: list[One]) -> dict[int, Any]:
    """What torch keeps of them, by their numbers; a list of torch's is in order of start."""
    made = [
        util.FunctionEvent(
            number,
            "ProfilerStep*" if one.name.startswith("ProfilerStep") else one.name,
            one.thread,
            one.start,
            one.end,
            is_async=one.is_async,
            scope=one.scope,
            sequence_nr=one.sequence_nr,
            fwd_thread=one.fwd_thread,
            stack=[one.stack] if one.stack else [],
            use_device="cuda",
        )
        for number, one in enumerate(events)
    ]
    for one, function_event in zip(events, made, strict=True):
        for duration in () if one.is_async else one.kernels:
            function_event.append_kernel("k", 0, duration)
    made.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
    listed = util.EventList(made, use_device="cuda")
    listed._build_tree()
    return {function_event.id: function_event for function_event in listed}


def by_facts(events: list[One], compat: str | None) -> list[dict[str, Any]]:
    rows: list[Row] = [
        event(
            one.name,
            one.start,
            one.end,
            thread=one.thread,
            is_async=one.is_async,
            scope=one.scope,
            sequence_nr=None if one.sequence_nr < 0 else one.sequence_nr,
            fwd_thread=one.fwd_thread if one.scope == BACKWARD_FUNCTION else None,
            stack=one.stack or None,
            external_id=number + 1,
        )
        for number, one in enumerate(events)
    ]
    kernels: list[Row] = [
        event("k", 0, dur, category="kernel", thread=9, external_id=number + 1, device=0)
        for number, one in enumerate(events)
        for dur in one.kernels
    ]
    lines = [{"thread": thread, "tid": str(thread)} for thread in THREADS]
    got = add_facts(tables(*rows, *kernels, threads=lines), compat=compat)
    found: list[dict[str, Any]] = got["events"].to_pylist()[: len(events)]
    return found


def survivor(rows: list[dict[str, Any]], row: int | None) -> int | None:
    while row is not None and rows[row]["merged_into"] is not None:
        row = rows[row]["parent_id"]
    return row


def own(rows: list[dict[str, Any]], number: int, column: str) -> int:
    """Of a slice and of the duplicates that it has taken over."""
    return sum(
        row[column] or 0
        for i, row in enumerate(rows)
        if i == number or row["merged_into"] == number
    )


@given(EVENTS)
def test_parents_self_times_and_duplicates_are_torchs(events: list[One]) -> None:
    theirs, rows = by_torch(events), by_facts(events, None)
    assert {i for i, row in enumerate(rows) if row["merged_into"] is None} == {*theirs}
    for number, its in theirs.items():
        parent = None if its.cpu_parent is None else its.cpu_parent.id
        assert survivor(rows, rows[number]["parent_id"]) == parent
        assert own(rows, number, "self_ns") == its.self_cpu_time_total


@given(EVENTS)
def test_device_times_and_all_stacks_are_torchs_in_its_way(events: list[One]) -> None:
    theirs, rows = by_torch(events), by_facts(events, "torch")
    for number, its in theirs.items():
        row = rows[number]
        assert (row["device_ns"] or 0) == its.device_time_total
        assert own(rows, number, "self_device_ns") == its.self_device_time_total
        assert (row["stack"] or "") == "".join(its.stack)


@given(EVENTS)
def test_stacks_are_torchs_where_there_is_a_number(events: list[One]) -> None:
    theirs, rows = by_torch(events), by_facts(events, None)
    for number, its in theirs.items():
        above = its
        while above is not None and above.scope != BACKWARD_FUNCTION:
            above = above.cpu_parent
        if above is None or above.sequence_nr >= 0:
            assert (rows[number]["stack"] or "") == "".join(its.stack)
        else:
            assert rows[number]["stack"] is None


@given(EVENTS)
def test_device_times_lose_nothing_by_default(events: list[One]) -> None:
    rows = by_facts(events, None)
    busy = sum(sum(one.kernels) for one in events)
    assert sum(row["self_device_ns"] or 0 for row in rows) == busy
