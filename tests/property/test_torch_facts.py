from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.fact import Tables
from profframe.facts.pipeline import add_facts
from profframe.facts.torch_compat.overloads import DROPPED_NAMES
from tests.builders import Row, event, tables
from tests.oracles import facts, torch_facts
from tests.oracles.torch_facts import EVALUATION, LEFT_OUT

PLACE = st.integers(0, 20)
NAMES = ("f", "g", EVALUATION + "f", EVALUATION + "g", "aten::is_leaf", "aten::_version")
CATEGORIES = ("cpu_op", "cpu_op", "cpu_op", "user_annotation", "python_function", "cuda_runtime")
FRAMES = ("train.py(1): f", "torch/nn.py(2): g", *(f"{a}.py(1): {b}" for a, b in LEFT_OUT[:3]))
LINES = {"1": 1, "2": 2}


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, end = sorted((draw(PLACE), draw(PLACE)))
    return event(
        draw(st.sampled_from(NAMES)),
        start,
        end,
        category=draw(st.sampled_from(CATEGORIES)),
        thread=draw(st.integers(0, 2)),
        is_async=draw(st.sampled_from([None, None, None, True])),
        scope=draw(st.sampled_from([None, None, 0, 1, 2])),
        sequence_nr=draw(st.none() | st.integers(0, 2)),
        fwd_thread=draw(st.sampled_from([None, 0, 1, 2, 3])),
        ev_idx=draw(st.none() | st.integers(0, 3)),
    )


EVENTS = st.lists(slices(), max_size=14)


def loaded(events: list[Row]) -> Tables:
    lines = [{"thread": thread, "tid": tid} for tid, thread in LINES.items()]
    lines.append({"thread": 0, "tid": "main"})
    return add_facts(tables(*events, threads=lines))


def rows_of(trace: Tables) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = trace["events"].to_pylist()
    return rows


@given(EVENTS)
def test_scopes_are_those_of_a_walk_along_each_thread(events: list[Row]) -> None:
    rows = rows_of(loaded(events))
    given_scopes = [row | {"scope": own["scope"]} for row, own in zip(rows, events, strict=True)]
    assert [row["scope"] for row in rows] == torch_facts.scopes(given_scopes)


@given(EVENTS)
def test_forward_ops_are_those_of_a_search_of_all(events: list[Row]) -> None:
    rows = rows_of(loaded(events))
    expected = [torch_facts.forward(row, rows, LINES) for row in rows]
    assert [row["fwd_id"] for row in rows] == expected


@given(EVENTS)
def test_frames_around_are_those_of_a_walk_up(events: list[Row]) -> None:
    rows = rows_of(loaded(events))
    expected = [torch_facts.python_stack(row, rows) for row in rows]
    assert [row["python_stack"] for row in rows] == expected


@given(EVENTS)
def test_what_is_dropped_is_no_one_in_the_test_for_duplicates(events: list[Row]) -> None:
    rows = rows_of(loaded(events))
    kept = [row for row in rows if row["name"] not in DROPPED_NAMES]
    place = {row["event_id"]: i for i, row in enumerate(kept)}
    parents = []
    for row in kept:
        outer = (r for r in torch_facts.around(row, rows) if r["name"] not in DROPPED_NAMES)
        parent = next(outer, None)
        parents.append(-1 if parent is None else place[parent["event_id"]])
    expected = facts.duplicates(parents, [str(row["name"]) for row in kept])
    for row, into in zip(kept, expected, strict=True):
        assert row["merged_into"] == (None if into is None else kept[into]["event_id"])
    assert all(row["merged_into"] is None for row in rows if row["name"] in DROPPED_NAMES)


@given(st.lists(st.lists(st.sampled_from(FRAMES), max_size=4), max_size=6))
def test_frames_that_are_shown_are_those_of_a_look_at_each(found: list[list[str]]) -> None:
    texts = [";".join(frames) for frames in found]
    rows = rows_of(loaded([event("f", i, i + 1, stack=text) for i, text in enumerate(texts)]))
    assert [row["stack"] for row in rows] == [torch_facts.stack(text) for text in texts]
