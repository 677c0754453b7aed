from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import schema
from profframe.errors import ParameterError
from profframe.facts.fact import Tables
from profframe.facts.nodes import nodes
from tests.builders import Row, column, event, facts, tables

KNOWN: dict[str, Any] = {
    "a.py": {
        "node_metadata": {
            0: {"name": "x", "op": "placeholder", "stack_trace": None},
            1: {"name": "linear", "op": "call_function", "stack_trace": "model.py, line 3"},
            2: {"name": "relu", "op": "call_function", "stack_trace": "model.py, line 4"},
        },
        "lineno_map": {},
    },
    "b.py": {"node_metadata": {0: {"name": "mm", "stack_trace": "other.py, line 9"}}},
}


def call(start: int, end: int, correlation: int) -> Row:
    return event("launch", start, end, category="cuda_runtime", correlation=correlation)


def kernel(start: int, end: int, correlation: int, **more: Any) -> Row:
    place = {"category": "kernel", "thread": 9, "pid": "0", "device": 0}
    return event("gemm", start, end, correlation=correlation) | place | more


def notes(of: Tables) -> dict[str, tuple[int, int]]:
    rows = of["quality"].to_pylist()
    return {row["issue"]: (row["events"], row["example_event_id"]) for row in rows}


def test_a_slice_belongs_to_the_node_that_it_starts_in() -> None:
    got = facts(
        event("before", 0, 5),
        event("## a.py ##", 10, 100),
        event("## 1 ##", 20, 40),
        event("aten::linear", 21, 39),
        event("aten::addmm", 22, 38),
        event("between", 41, 49),
        event("## 2 ##", 50, 60),
        event("frame", 51, 59, category="python_function"),
        event("after", 100, 110),
        registry=KNOWN,
    )
    assert column(got, "node") == [
        None, None, None, "linear", "linear", None, None, "relu", None,
    ]  # fmt: skip
    assert column(got, "node_index") == [None, None, None, 1, 1, None, None, 2, None]
    files = [None, None, None, "a.py", "a.py", "a.py", None, "a.py", None]
    assert column(got, "node_file") == files
    assert column(got, "stack_trace") == [
        None, None, None, "model.py, line 3", "model.py, line 3", None, None, "model.py, line 4",
        None,
    ]  # fmt: skip
    assert notes(got) == {}


def test_without_metadata_a_node_is_its_number() -> None:
    got = facts(event("## a.py ##", 0, 9), event("## 007 ##", 1, 8), event("op", 2, 3))
    assert column(got, "node")[2] == "7"
    assert column(got, "node_index")[2] == 7
    assert column(got, "node_file")[2] == "a.py"
    assert column(got, "stack_trace")[2] is None
    assert notes(got) == {}


def test_of_nested_graphs_the_inner_one_counts() -> None:
    got = facts(
        event("## a.py ##", 0, 100),
        event("## 1 ##", 10, 90),
        event("## b.py ##", 20, 80),
        event("in no node of b", 22, 25),  # so in that of a
        event("## 0 ##", 30, 40),
        event("in b", 31, 39),
        event("in a again", 82, 88),
        registry=KNOWN,
    )
    assert column(got, "node")[3:] == ["linear", None, "mm", "linear"]
    assert column(got, "node_file")[3:] == ["a.py", None, "b.py", "a.py"]


def test_a_thread_knows_nothing_of_the_markers_of_another() -> None:
    got = facts(
        event("## a.py ##", 0, 100),
        event("## 1 ##", 10, 90),
        event("there", 20, 30, thread=1),
        event("## 2 ##", 40, 50, thread=1),
        event("same number, other process", 20, 30, thread=2, pid="2", tid="0"),
        event("here", 60, 70),
        registry=KNOWN,
    )
    assert column(got, "node") == [None, None, None, None, None, "linear"]
    assert notes(got) == {"node_outside_graph": (1, 3)}


def test_two_threads_run_the_same_graph_at_once() -> None:
    got = facts(
        event("## a.py ##", 0, 50),
        event("## 1 ##", 10, 40),
        event("## a.py ##", 5, 100, thread=1),
        event("## 1 ##", 12, 90, thread=1),
        event("late", 60, 70, thread=1),
        event("late", 45, 48),
        registry=KNOWN,
    )
    assert column(got, "node")[4:] == ["linear", None]


def test_work_of_a_device_belongs_to_the_node_of_its_launch() -> None:
    got = facts(
        event("## a.py ##", 0, 100),
        event("## 1 ##", 10, 40),
        event("aten::addmm", 12, 30),
        call(15, 16, 7),
        call(35, 36, 8),  # in the node, in no op
        kernel(200, 210, 7),
        kernel(220, 230, 8, category="gpu_memcpy"),
        kernel(240, 250, 9, external_id=0),  # launched elsewhere
        registry=KNOWN,
    )
    assert column(got, "node")[3:] == ["linear", "linear", "linear", "linear", None]
    assert column(got, "stack_trace")[5:7] == ["model.py, line 3"] * 2


def test_without_a_launch_it_belongs_to_the_node_of_its_op() -> None:
    got = facts(
        event("## a.py ##", 0, 100),
        event("## 1 ##", 10, 40, external_id=3),
        event("aten::addmm", 12, 30, external_id=4),
        kernel(200, 210, 7, external_id=4),
        kernel(220, 230, 8, external_id=3),
        registry=KNOWN,
    )
    assert column(got, "op_id")[3:] == [2, 1]
    assert column(got, "node")[3:] == ["linear", "linear"]


def test_what_begins_together_with_a_marker_and_ends_later_is_around_it() -> None:
    got = facts(
        event("around", 10, 50),
        event("## a.py ##", 10, 40),
        event("## 1 ##", 10, 40),
        event("inside", 10, 40),
        event("of no length", 40, 40),
        registry=KNOWN,
    )
    assert column(got, "node") == [None, None, None, "linear", None]


def test_wrong_markers_are_counted_and_passed_over() -> None:
    got = facts(
        event("## 1 ##", 0, 5),  # in no graph
        event("## a.py ##", 10, 100),
        event("## 1 ##", 20, 40),
        event("## one ##", 22, 38),  # neither a file nor a number
        event("in one", 23, 24),
        event("## 99 ##", 25, 30),  # not in the metadata
        event("in 99", 26, 27),
        event("## -1 ##", 50, 60),
        event("in -1", 51, 52),
        event("## 2 ##", 70, 110),  # ends behind its graph
        event("at its end", 105, 106),
        event("## c.py ##", 200, 300),  # not in the metadata
        event("## 5 ##", 210, 290),
        event("in c", 220, 230),
        event("## 2 ##", 240, None),  # has no end
        registry=KNOWN,
    )
    names = ["in one", "in 99", "in -1", "at its end", "in c"]
    at = [column(got, "name").index(name) for name in names]
    assert [column(got, "node")[i] for i in at] == ["linear", "linear", None, "relu", None]
    assert [column(got, "node_file")[i] for i in at] == ["a.py"] * 4 + ["c.py"]
    assert column(got, "node")[3] == "linear"  # an ordinary slice
    found = notes(got)
    assert {found.pop("missing_duration", None)} <= {None, (1, 14)}
    assert found == {
        "unreadable_graph_marker": (3, 3),
        "crossing_graph_markers": (1, 9),
        "crossing_slices": (1, 9),
        "node_outside_graph": (1, 0),
        "unknown_graph_node": (1, 5),
        "unknown_graph_file": (1, 11),
    }
    assert set(found) <= set(schema.CHECKS)


def test_markers_are_host_ops_and_nothing_else() -> None:
    got = facts(
        event("## a.py ##", 0, 100, category="user_annotation"),
        event("## forward ##", 10, 90, category="user_annotation"),
        event("op", 20, 30),
    )
    assert "node" not in got["events"].column_names
    assert notes(got) == {}


def test_a_trace_without_markers_is_left_as_it_is() -> None:
    source = tables(event("op", 0, 9), event("##", 1, 2), event(None, 3, 4))
    assert nodes(source, registry=KNOWN) is source
    empty = tables()
    assert nodes(empty) is empty


def test_names_may_be_anything() -> None:
    hostile = "'; DROP TABLE events; --\x07<b>\"##.py"
    known = {hostile: {"node_metadata": {3: {"name": hostile, "stack_trace": "\udce9.py"}}}}
    got = facts(
        event(f"## {hostile} ##", 0, 9),
        event("## 3 ##", 1, 8),
        event("op", 2, 3),
        event(None, 4, 5),
        event("## 99999999999999999999999 ##", 6, 7),
        event("##", 6, 7),
        event("## ##", 6, 7),
        registry=known,
    )
    assert column(got, "node")[2:4] == [hostile, hostile]
    assert column(got, "stack_trace")[2] == "?.py"
    assert notes(got) == {"unreadable_graph_marker": (2, 4)}


def document(path: Path) -> Path:
    slices = [("## a.py ##", 0, 9), ("## 1 ##", 1, 8), ("op", 2, 3)]
    line = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
    events = [line | {"name": name, "ts": ts, "dur": dur} for name, ts, dur in slices]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def node_of(trace: profframe.Trace) -> tuple[object, ...]:
    op = trace.events.filter(pl.col("name") == "op")
    return op.select("node", "node_index", "node_file", "stack_trace").row(0)


LINEAR = ("linear", 1, "a.py", "model.py, line 3")


def test_metadata_is_given_to_load(tmp_path: Path) -> None:
    source = document(tmp_path / "trace.json")
    assert node_of(profframe.load(source)) == ("1", 1, "a.py", None)
    assert node_of(profframe.load(source, fx_metadata=KNOWN)) == LINEAR
    through_json = json.loads(json.dumps(KNOWN))  # its numbers are text
    assert node_of(profframe.load(source, fx_metadata=through_json)) == LINEAR
    assert profframe.load(source, fx_metadata={}).quality["issue"].to_list() == [
        "unknown_graph_file"
    ]


def test_a_cache_keeps_apart_what_was_loaded_with_other_metadata(tmp_path: Path) -> None:
    source, cache = document(tmp_path / "trace.json"), tmp_path / "cache"
    renamed = {"a.py": {"node_metadata": {1: {"name": "other"}}}}
    given: tuple[Mapping[str, Any] | None, ...] = (None, KNOWN, renamed, {}, KNOWN)
    found = [node_of(profframe.load(source, cache=cache, fx_metadata=known)) for known in given]
    unnamed, unknown = ("1", 1, "a.py", None), (None, None, "a.py", None)
    assert found == [unnamed, LINEAR, ("other", 1, "a.py", None), unknown, LINEAR]
    assert len(list(cache.glob("store-*"))) == 4


def test_a_store_has_the_nodes_already(tmp_path: Path) -> None:
    store = tmp_path / "store"
    profframe.load(document(tmp_path / "trace.json"), fx_metadata=KNOWN).to_parquet(store)
    assert node_of(profframe.load(store)) == LINEAR
    with pytest.raises(ParameterError, match="fx_metadata names the nodes of graphs when"):
        profframe.load(store, fx_metadata=KNOWN)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("registry.json", "not str"),
        ({"a.py": {1: {"name": "x"}}}, "'a.py' has no node_metadata"),
        ({"a.py": {"node_metadata": {"one": {}}}}, "'a.py' has 'one'"),
        ({"a.py": {"node_metadata": {1: "linear"}}}, "'a.py' has 1: 'linear'"),
    ],
)
def test_metadata_of_another_form_is_refused(tmp_path: Path, given: Any, why: str) -> None:
    with pytest.raises(ParameterError, match="_FX_METADATA_REGISTRY") as error:
        profframe.load(document(tmp_path / "trace.json"), fx_metadata=given)
    assert why in str(error.value)
