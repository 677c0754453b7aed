"""Lists of events of several nodes on one thread, through torch's own `EventList` and loaded."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from tests import needs

util = needs.module("torch.autograd.profiler_util")
PLACE = st.integers(0, 15)


class One(NamedTuple):
    name: str
    thread: int
    start_us: int
    end_us: int
    node_id: int


@st.composite
def ones(draw: st.DrawFn) -> One:
    start, end = sorted((draw(PLACE), draw(PLACE)))
    thread, node = draw(st.sampled_from([1, 2])), draw(st.sampled_from([-1, 0, 1]))
    return One(draw(st.sampled_from("fg")), thread, start, end, node)


def by_start(events: list[One]) -> list[One]:
    return sorted(events, key=lambda one: (one.start_us, -one.end_us))


LISTS = st.lists(ones(), min_size=1, max_size=10)
EVENTS = LISTS | LISTS.map(by_start)


def listed(events: list[One]) -> Any:
    made = (
        util.FunctionEvent(number, input_shapes=[], stack=[], **one._asdict())
        for number, one in enumerate(events)
    )
    return util.EventList(made)


def survivor(rows: list[dict[str, Any]], row: int | None) -> int | None:
    while row is not None and rows[row]["merged_into"] is not None:
        row = rows[row]["parent_id"]
    return row


def check(events: list[One]) -> None:
    theirs = listed(events)
    trace = profframe.load(theirs, compat="torch")
    theirs._build_tree()
    rows = trace.events.to_dicts()
    parents = {
        number: survivor(rows, row["parent_id"])
        for number, row in enumerate(rows)
        if row["merged_into"] is None
    }
    assert parents == {one.id: one.cpu_parent and one.cpu_parent.id for one in theirs}
    columns = ("name", "node_id", "calls", "cpu_ns", "self_cpu_ns")
    assert Counter(trace.key_averages(columns=columns).rows()) == Counter(
        (
            row.key,
            row.node_id if row.node_id >= 0 else None,
            row.count,
            round(1000 * row.cpu_time_total),
            round(1000 * row.self_cpu_time_total),
        )
        for row in theirs.key_averages()
    )


@settings(max_examples=max(1, settings().max_examples // 3))
@given(EVENTS)
def test_parents_and_averages_are_torchs(events: list[One]) -> None:
    check(events)


@pytest.mark.long
@settings(max_examples=50)
@given(EVENTS)
def test_many_are_torchs(events: list[One]) -> None:
    check(events)


def test_by_default_a_change_of_the_node_ends_nothing() -> None:
    """The third is inside the first; torch begins anew where the second has another node."""
    events = [One("outer", 1, 0, 10, 0), One("there", 1, 2, 3, 1), One("inner", 1, 4, 5, 0)]
    ours, torchs = (profframe.load(listed(events), compat=compat) for compat in (None, "torch"))
    assert ours.events["parent_id"].to_list() == [None, None, 0]
    assert torchs.events["parent_id"].to_list() == [None, None, None]
