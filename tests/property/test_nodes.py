"""Graph nodes against a stack in plain Python, markers right and wrong."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.fact import Tables
from profframe.facts.pipeline import add_facts
from tests.builders import Row, event, tables
from tests.oracles.nodes import nodes

PLACE = st.integers(0, 25)
NAMES = ("## a.py ##", "## b.py ##", "## 0 ##", "## 1 ##", "## 7 ##", "## x ##", "## ##", "f", "g")
CATEGORIES = ("cpu_op", "cpu_op", "cpu_op", "user_annotation", "python_function", "cuda_runtime")
DEVICE = ("kernel", "gpu_memcpy", "cuda_sync")
KNOWN: dict[str, dict[int, tuple[str | None, str | None]]] = {
    "a.py": {0: ("relu", "model.py, line 3"), 1: (None, None)}
}
CHECKS = {
    "unreadable_graph_marker",
    "crossing_graph_markers",
    "node_outside_graph",
    "unknown_graph_node",
    "unknown_graph_file",
}


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, end = sorted((draw(PLACE), draw(PLACE)))
    name = draw(st.sampled_from(NAMES))
    place: dict[str, Any] = {"thread": draw(st.integers(0, 1))}
    if draw(st.integers(0, 5)) == 0:
        place = {"thread": 5, "pid": "0", "device": 0, "correlation": draw(st.integers(0, 3))}
        return event(name, start, end, category=draw(st.sampled_from(DEVICE)), **place)
    return event(
        name,
        start,
        draw(st.sampled_from([end, end, end, None])),
        category=draw(st.sampled_from(CATEGORIES)),
        correlation=draw(st.none() | st.integers(0, 3)),
        external_id=draw(st.none() | st.integers(0, 3)),
        is_async=draw(st.sampled_from([None, None, False, True])),
        ev_idx=draw(st.none() | st.integers(0, 3)),
        **place,
    )


def registry(known: dict[str, dict[int, tuple[str | None, str | None]]]) -> Any:
    return {
        file: {"node_metadata": {n: {"name": a, "stack_trace": b} for n, (a, b) in of_file.items()}}
        for file, of_file in known.items()
    }


def columns(of: Tables, name: str) -> list[object]:
    events = of["events"]
    if name not in events.column_names:
        return [None] * events.num_rows
    values: list[object] = events[name].to_pylist()
    return values


@given(st.lists(slices(), max_size=30), st.sampled_from([None, KNOWN]))
def test_nodes_are_those_of_a_stack(
    source: list[Row], known: dict[str, dict[int, tuple[str | None, str | None]]] | None
) -> None:
    got = add_facts(tables(*source), registry=None if known is None else registry(known))
    expected, wrong = nodes(got["events"].to_pylist(), known)
    names = ("node", "node_index", "node_file", "stack_trace")
    assert list(zip(*(columns(got, name) for name in names), strict=True)) == expected
    notes = {row["issue"]: row["events"] for row in got["quality"].to_pylist()}
    assert {check: count for check, count in notes.items() if check in CHECKS} == wrong
