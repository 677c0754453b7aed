"""Execution traces: nodes, tensors, links to slices, and who reads what whom wrote."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import load
from profframe.cli import run as command_line
from profframe.errors import NotATraceError, ParameterError
from profframe.facts.execution_traces.data_dependencies import dependencies as data_dependencies
from profframe.readers.json import stream
from profframe.readers.reading import read
from profframe.store import maintenance
from profframe.trace.trace import Trace
from tests import needs
from tests.members import few

ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
VIEW = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
CAT = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"

Tensor = list[Any]


def tensor(storage: int, offset: int = 0, elements: int = 4, number: int | None = None) -> Tensor:
    """A tensor of four-byte elements as nodes have it."""
    return [storage + 100 if number is None else number, storage, offset, elements, 4, "cpu"]


def values(items: Sequence[Any]) -> dict[str, Any]:
    def kind(item: Any) -> str:
        if isinstance(item, list) and item and isinstance(item[0], list):
            return f"GenericList[{','.join(map(kind, item))}]"
        return "Tensor(float)" if isinstance(item, list) else "Int"

    def shape(item: Any) -> Any:
        if isinstance(item, list) and item and isinstance(item[0], list):
            return [shape(part) for part in item]
        return [item[3]] if isinstance(item, list) else []

    return {"values": list(items), "shapes": [*map(shape, items)], "types": [*map(kind, items)]}


def node(
    number: int,
    name: str,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    parent: int = 1,
    schema: str = "",
    tid: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """A node as torch 2.5 and later write it; its number of the call is ten more."""
    own = {"rf_id": number + 10, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": tid, "fw_tid": 0}
    attributes = {**own, "op_schema": schema, **more}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": values(inputs),
        "outputs": values(outputs),
        "attrs": [{"name": n, "type": "", "value": v} for n, v in attributes.items()],
    }


def old(new: dict[str, Any]) -> dict[str, Any]:
    """The same node as version 1.0.1 has it."""
    flat = {a["name"]: a["value"] for a in new["attrs"]}
    sides = {
        f"{side}{'s' if part == 'values' else f'_{part}'}": new[f"{side}s"][part]
        for side in ("input", "output")
        for part in ("values", "shapes", "types")
    }
    return {"name": new["name"], "id": new["id"], "parent": new["ctrl_deps"], **flat, **sides}


def written(
    path: Path, nodes: Iterable[dict[str, Any]], version: str = "1.1.1-chakra.0.0.4"
) -> Path:
    document = {"schema": version, "pid": 7, "time": "", "start_ts": 5, "nodes": [*nodes]}
    path.write_text(json.dumps(document))
    return path


ROOTS = [
    node(1, "[pytorch|profiler|execution_trace|process]"),
    node(2, "[pytorch|profiler|execution_trace|thread]"),
]
AS_VIEW = tensor(12, number=500)
PART_OF = tensor(12, 2, 2)
OPS = [
    node(3, "aten::mm", [tensor(10), tensor(11)], [tensor(12)], parent=2, schema=MM),
    node(4, "aten::view", [tensor(12), 2], [AS_VIEW], parent=2, schema=VIEW),
    node(5, "aten::add_", [tensor(10), AS_VIEW, 1], [tensor(10)], parent=2, schema=ADD_),
    node(6, "aten::cat", [[tensor(10), PART_OF], 0], [tensor(13, 0, 6)], parent=2, schema=CAT),
]
DEPENDENCIES = {(3, 4), (3, 5), (3, 6), (5, 6)}


def events(nodes: Iterable[dict[str, Any]], key: str, shift: int = 0) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "cat": "cpu_op", "name": n["name"], "pid": 7, "tid": 70, "ts": 10 * n["id"],
         "dur": 5, "args": {key: n["id"] + shift}}
        for n in nodes
    ]  # fmt: skip


def trace_file(path: Path, slices: Sequence[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*slices]}))
    return path


def dependencies(trace: Trace) -> set[tuple[int, int]]:
    """Nodes that wrote and read, by the flows' own arguments."""
    flows = trace.flows.filter(pl.col("category") == "data")
    assert flows.group_by("flow_id").len()["len"].unique().to_list() in ([2], [])
    pairs = [json.loads(args) for args in flows.filter(pl.col("phase") == "s")["args"]]
    return {(pair["source_node"], pair["target_node"]) for pair in pairs}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("version", "form"),
    [("1.0.1", old), ("1.0.2-chakra.0.0.4", dict), ("1.1.1-chakra.0.0.4", dict)],
)
def test_nodes_and_tensors_of_each_version(
    version: str, form: Any, compressed: bool, tmp_path: Path
) -> None:
    path = written(tmp_path / "et.json", map(form, [*ROOTS, *OPS]), version)
    if compressed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    trace = load(path)
    assert trace.quality.height == trace.events.height == 0
    assert trace.traces["format"].to_list() == ["execution_trace"]
    assert trace.traces["source_events"].to_list() == [6]
    assert json.loads(trace.traces["accounted"][0]) == {"nodes": 6}
    columns = [
        "node_id",
        "name",
        "parent_id",
        "record_function_id",
        "sequence_nr",
        "tid",
        "op_schema",
    ]
    assert trace.nodes.select(columns).rows()[2] == (3, "aten::mm", 2, 13, None, 1, MM)
    columns = ["node_id", "direction", "position", "list_position", "tensor_id", "storage_id",
               "offset_elements", "elements", "element_bytes", "dtype", "shape",
               "is_written"]  # fmt: skip
    assert trace.tensors.select(columns).rows() == [
        (3, "in", 0, None, 110, 10, 0, 4, 4, "float", "[4]", False),
        (3, "in", 1, None, 111, 11, 0, 4, 4, "float", "[4]", False),
        (3, "out", 0, None, 112, 12, 0, 4, 4, "float", "[4]", True),
        (4, "in", 0, None, 112, 12, 0, 4, 4, "float", "[4]", False),
        (4, "out", 0, None, 500, 12, 0, 4, 4, "float", "[4]", False),
        (5, "in", 0, None, 110, 10, 0, 4, 4, "float", "[4]", True),
        (5, "in", 1, None, 500, 12, 0, 4, 4, "float", "[4]", False),
        (5, "out", 0, None, 110, 10, 0, 4, 4, "float", "[4]", True),
        (6, "in", 0, 0, 110, 10, 0, 4, 4, "float", "[4]", False),
        (6, "in", 0, 1, 112, 12, 2, 2, 4, "float", "[2]", False),
        (6, "out", 0, None, 113, 13, 0, 6, 4, "float", "[6]", True),
    ]
    assert dependencies(trace) == DEPENDENCIES
    assert trace.flows["event_id"].null_count() == trace.flows.height
    assert trace.threads.select("pid", "tid").rows() == [("7", "1")]


@pytest.mark.parametrize(
    ("key", "shift", "how"),
    [
        ("Record function id", 10, "record_function"),
        ("External id", 10, "external_id"),
        ("External id", 0, "external_id"),
        ("External id", 77, "order"),
        ("Ev Idx", 0, "order"),
    ],
)
def test_nodes_are_linked_to_slices(key: str, shift: int, how: str, tmp_path: Path) -> None:
    more = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::ones", "pid": 7, "tid": 70, "ts": 1, "dur": 2}
    ]
    source = trace_file(tmp_path / "t.json", [*more, *events(OPS, key, shift)])
    trace = load(source, execution_trace=written(tmp_path / "et.json", [*ROOTS, *OPS]))
    links = [
        (n, event, way)
        for n, event, way in trace.nodes.select("node_id", "event_id", "linked_by").rows()
    ]
    assert links == [(1, None, None), (2, None, None), *((n, n - 2, how) for n in (3, 4, 5, 6))]
    assert trace.tensors["event_id"].to_list() == [n - 2 for n in trace.tensors["node_id"]]
    assert dependencies(trace) == DEPENDENCIES
    ends = trace.flows.select("phase", "event_id", "time_ns").rows()
    assert [e for e, _ in zip(ends, range(2), strict=False)] == [("s", 1, 30_000), ("f", 2, 40_000)]
    checks = trace.quality["issue"].to_list()
    assert checks == (["nodes_linked_by_order"] if how == "order" else [])


def test_ids_of_another_recording_are_not_taken(tmp_path: Path) -> None:
    """Ids that some nodes share by chance with slices of their name do not link."""
    again = [*OPS[1:], *OPS]  # the recording began within the program
    slices = [
        {"ph": "X", "cat": "cpu_op", "name": n["name"], "pid": 7, "tid": 70, "ts": 10 * i, "dur": 5,
         "args": {"External id": 13 + i}}
        for i, n in enumerate(again)
    ]  # fmt: skip
    source = trace_file(tmp_path / "t.json", slices)
    trace = load(source, execution_trace=written(tmp_path / "et.json", [*ROOTS, *OPS]))
    assert trace.nodes["event_id"].to_list()[2:] == [3, 4, 5, 6]
    assert set(trace.nodes["linked_by"][2:]) == {"order"}


def test_processes_that_were_forked_write_into_the_same_file(tmp_path: Path) -> None:
    """Workers of a DataLoader go on with the ids of their parent, which has the trace."""
    forked = [
        node(number, name, parent=2)
        for number, name in (
            (3, "aten::ones"),
            (4, "aten::view"),
            (5, "aten::to"),
            (6, "aten::mul"),
        )
    ]
    source = trace_file(tmp_path / "t.json", events(OPS, "Record function id", 10))
    path = written(tmp_path / "et.json", [*ROOTS, *OPS, *forked, *forked])
    trace = load(source, execution_trace=path)
    # Which of three nodes the view is, nothing says.
    linked = trace.nodes.filter(pl.col("event_id").is_not_null())
    assert linked.select("name", "event_id").rows() == [
        ("aten::mm", 0), ("aten::add_", 2), ("aten::cat", 3),
    ]  # fmt: skip
    noted = dict(trace.quality.select("issue", "events").rows())
    assert (noted["repeated_node_id"], noted["node_without_event"]) == (8, 9)


@pytest.mark.parametrize("form", few(["as torch", "old", "sorted", "indented"], 2))
def test_long_files_are_cut_between_nodes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of attributes looks like a row of nodes; nothing of a sound file is repaired."""
    monkeypatch.setattr(stream.ArrayReader, "_repair", None)
    count = 1500
    nodes = [
        node(n, 'aten::"},{"mm', [tensor(n)], [tensor(n + 1)], parent=2, schema=MM, doc=" " * 50)
        for n in range(3, 3 + count)
    ]
    path = written(
        tmp_path / "et.json",
        [old(n) if form == "old" else n for n in [*ROOTS, *nodes]],
        "1.0.1" if form == "old" else "1.1.1-chakra.0.0.4",
    )
    document = json.loads(path.read_text())
    indent = 2 if form == "indented" else None
    path.write_text(json.dumps(document, indent=indent, sort_keys=form == "sorted"))
    assert path.stat().st_size > 5 * stream.PIECE
    raw = read(path)
    assert raw.tables["nodes"]["node_id"].to_pylist() == [*range(1, 3 + count)]
    assert raw.tables["tensors"].num_rows == 2 * count
    assert raw.tables["quality"].num_rows == 0


@pytest.mark.parametrize("is_first", [False, True])
def test_tensors_of_forked_processes_stay_apart(is_first: bool, tmp_path: Path) -> None:
    """Numbers of nodes and of storages are those of other nodes in another process."""
    forked = [
        node(4, "aten::empty", [], [tensor(10)], parent=3),
        node(3, "aten::ones", [], [tensor(10)], parent=2),
        node(5, "aten::neg", [tensor(10)], [tensor(12)], parent=2),
        node(6, "aten::mul", [tensor(12)], [tensor(13)], parent=2),
    ]
    parts = [forked, OPS] if is_first else [OPS, forked]
    path = written(tmp_path / "et.json", [*ROOTS, *parts[0], *parts[1]])
    source = trace_file(tmp_path / "t.json", events(OPS, "Record function id", 10))
    trace = load(source, execution_trace=path)
    assert trace.nodes["node_id"].n_unique() == trace.nodes.height == 10
    linked = trace.nodes.drop_nulls("event_id").sort("event_id")
    assert linked["name"].to_list() == [n["name"] for n in OPS]
    alone = load(written(tmp_path / "own.json", [*ROOTS, *OPS]))
    tensors = trace.tensors.drop_nulls("event_id").sort("event_id", maintain_order=True)
    others = ["run", "node_id", "event_id"]
    assert tensors.drop(others).rows() == alone.tensors.drop(others).rows()
    number = {old: new for new, old in zip(linked["node_id"], (3, 4, 5, 6), strict=True)}
    assert dependencies(trace) == {(number[a], number[b]) for a, b in DEPENDENCIES}
    empty, ones = (trace.nodes.filter(name=f"aten::{name}") for name in ("empty", "ones"))
    assert empty["parent_id"].item() == ones["node_id"].item()
    assert dict(trace.quality.select("issue", "events").rows())["repeated_node_id"] == 4
    assert not dependencies(load(path))


def test_what_does_not_link_is_counted(tmp_path: Path) -> None:
    source = trace_file(tmp_path / "t.json", events(OPS[1:], "Record function id", 10))
    trace = load(source, execution_trace=written(tmp_path / "et.json", [*ROOTS, *OPS]))
    assert dict(trace.quality.select("issue", "events").rows()) == {
        "node_without_event": 1,
        "dependency_without_event": 3,
    }
    assert dependencies(trace) == {(5, 6)}


def test_of_nodes_inside_one_another_the_outermost_has_written(tmp_path: Path) -> None:
    nodes = [
        node(3, "aten::linear", [tensor(10)], [tensor(12)], parent=2),
        node(4, "aten::mm", [tensor(10)], [tensor(11)], parent=3),
        node(5, "aten::add", [tensor(11)], [tensor(12)], parent=3),
        node(6, "aten::relu", [tensor(12)], [tensor(13)], parent=2),
    ]
    assert dependencies(load(written(tmp_path / "et.json", [*ROOTS, *nodes]))) == {(4, 5), (3, 6)}


def test_what_is_overwritten_is_not_read(tmp_path: Path) -> None:
    copy = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
    nodes = [
        node(3, "aten::mm", [tensor(10)], [tensor(12)], parent=2),
        node(4, "aten::mm", [tensor(10)], [tensor(13)], parent=2),
        node(5, "aten::copy_", [tensor(12), tensor(13)], [tensor(12)], parent=2, schema=copy),
        node(6, "aten::relu", [tensor(12)], [tensor(14)], parent=2),
    ]
    trace = load(written(tmp_path / "et.json", [*ROOTS, *nodes]))
    assert dependencies(trace) == {(4, 5), (5, 6)}
    rows = {row["name"]: row for row in trace.tensor_traffic().to_dicts()}
    assert rows["aten::copy_"]["read_bytes"] == rows["aten::copy_"]["written_bytes"]


def test_process_groups(tmp_path: Path) -> None:
    listing = json.dumps([{"pg_name": "3", "ranks": [1, 5], "group_size": 2}])
    group: dict[str, Any] = {
        "collective_name": "allreduce",
        "pg_size": 2,
        "dtype": "Float",
        "in_msg_nelems": 8,
    }
    spaced: dict[str, Any] = {"global_rank_start": 2, "global_rank_stride": 4}
    nodes = [
        node(3, "## process_group:init ##", [listing]),
        node(4, "record_param_comms", **group, pg_name="3", pg_desc="data"),
        node(5, "record_param_comms", **group, pg_name="4", **spaced),
    ]
    trace = load(written(tmp_path / "et.json", nodes))
    columns = ["collective", "process_group", "process_group_description", "group_size",
               "group_ranks", "element_type", "in_elements", "out_elements"]  # fmt: skip
    assert trace.nodes.select(columns).rows()[1:] == [
        ("allreduce", "3", "data", 2, "[1,5]", "Float", 8, None),
        ("allreduce", "4", None, 2, "[2,6]", "Float", 8, None),
    ]


def test_several_ranks_get_the_one_of_their_process(tmp_path: Path) -> None:
    et = written(tmp_path / "et.json", [*ROOTS, *OPS])
    slices = events(OPS, "Record function id", 10)
    paths = [trace_file(tmp_path / "rank0.json", slices)]
    paths.append(trace_file(tmp_path / "rank1.json", [{**e, "pid": 8} for e in slices]))
    trace = load(paths, execution_trace=et)
    assert trace.nodes["rank"].unique().to_list() == [0]
    others = [paths[1].rename(tmp_path / "rank2.json")]
    others.append(trace_file(tmp_path / "rank3.json", [{**e, "pid": 9} for e in slices]))
    with pytest.raises(ParameterError, match="belongs to none of the processes and ranks"):
        load(others, execution_trace=et)
    by_rank = et.rename(tmp_path / "et_rank2.json")
    both = load(others, execution_trace=by_rank)
    assert both.nodes["rank"].unique().to_list() == [2]


def test_stores_convert_cache_filter_and_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    et = written(tmp_path / "et.json", [*ROOTS, *OPS])
    source = trace_file(tmp_path / "t.json", events(OPS, "Record function id", 10))
    trace = load(source, execution_trace=et)
    trace.to_parquet(tmp_path / "own")
    for _ in range(2):
        cached = load(source, cache=tmp_path / "cache", execution_trace=et)
    assert load(source, cache=tmp_path / "cache").nodes.height == 0
    convert = ["convert", str(source), "-o", str(tmp_path / "s"), "--execution-trace", str(et)]
    assert command_line(convert) == 0
    again = profframe.convert(source, tmp_path / "s", execution_trace=et)
    assert again["status"].to_list() == ["unchanged"]
    assert profframe.convert(source, tmp_path / "s")["status"].to_list() == ["written"]
    assert profframe.convert(source, tmp_path / "s", execution_trace=et)["status"].to_list() == [
        "written"
    ]
    alone = profframe.convert(et, tmp_path / "s", run="alone")
    assert alone["error"].to_list() == [None]
    stores = [load(tmp_path / "own"), cached, load(tmp_path / "s").filter(runs=["t"])]
    for stored in stores:
        for name in ("nodes", "tensors", "flows"):
            assert getattr(stored, name).rows() == getattr(trace, name).rows()
    assert load(tmp_path / "s", runs="alone").nodes.height == 6
    assert trace.filter(ranks=0).nodes.height == 6
    maintenance.compact(tmp_path / "s")
    assert load(tmp_path / "s").nodes.height == 12
    capsys.readouterr()
    sql = "SELECT count(*) AS n FROM tensors JOIN events USING (run, rank, event_id)"
    words = ["sql", str(source), sql, "--execution-trace", str(et), "--format", "csv"]
    assert command_line(words) == 0
    assert capsys.readouterr().out.split() == ["n", "11"]
    assert command_line(["info", str(et)]) == 0
    assert "tensors" in capsys.readouterr().out
    assert command_line([str(et)]) == 0
    with pytest.raises(ParameterError, match="execution_trace is joined when"):
        load(tmp_path / "own", execution_trace=et)


def test_bad_files_end_in_one_error_or_a_note(tmp_path: Path) -> None:
    et = written(tmp_path / "et.json", [*ROOTS, *OPS])
    source = trace_file(tmp_path / "t.json", events(OPS, "Record function id", 10))
    with pytest.raises(NotATraceError, match="not an execution trace"):
        load(et, execution_trace=source)
    folder = load(tmp_path, execution_trace=et)
    assert folder.traces["source"].to_list() == [str(source)]
    assert folder.nodes["event_id"].null_count() == 2
    text = et.read_text()
    et.write_text(text[: text.index('"aten::cat"')])
    cut = load(et)
    assert cut.nodes["node_id"].to_list() == [1, 2, 3, 4, 5]
    assert cut.quality["issue"].to_list() == ["truncated"]
    et.write_text(
        text.replace('"ctrl_deps": 2', '"ctrl_deps": 1e99').replace("[110, 10, 0, 4, 4", "[[1], 10")
    )
    odd = load(et)
    assert odd.nodes["parent_id"].null_count() == 4
    assert dict(odd.quality.select("issue", "events").rows()) == {"unread_tensor": 4}
    et.write_text(text.replace('"id": 6', '"id": 5'))
    assert dict(load(et).quality.select("issue", "events").rows()) == {"repeated_node_id": 1}
    et.write_text('{"schema": "1.1.1", "pid": 1, "start_ts": 1, "nodes": 3}')
    with pytest.raises(NotATraceError, match="its 'nodes' is not an array"):
        load(et)


def test_parents_in_a_cycle_end(tmp_path: Path) -> None:
    nodes = [node(3, "a", [tensor(1)], [tensor(2)], parent=4), node(4, "b", [tensor(2)], parent=3)]
    assert dependencies(load(written(tmp_path / "et.json", nodes))) == {(3, 4)}


def writers_of(
    ops: Sequence[tuple[tuple[int, int, int], tuple[int, int, int] | None]],
) -> set[tuple[int, int]]:
    """Last writers, by every byte, of ops one after another: (what it reads, what it writes)."""
    last: dict[tuple[int, int], int] = {}
    pairs = set()
    for place, (taken, write) in enumerate(ops, 3):
        storage, offset, count = taken
        pairs |= {
            (last[storage, i], place) for i in range(offset, offset + count) if (storage, i) in last
        }
        if write is not None:
            storage, offset, count = write
            last |= dict.fromkeys(((storage, i) for i in range(offset, offset + count)), place)
    return pairs


PART = st.tuples(st.integers(1, 3), st.sampled_from((0, 4)), st.sampled_from((4, 8)))


@given(st.lists(st.tuples(PART, st.none() | PART), max_size=12))
def test_dependencies_are_those_of_a_plain_loop(
    tmp_path_factory: pytest.TempPathFactory,
    ops: list[tuple[tuple[int, int, int], tuple[int, int, int] | None]],
) -> None:
    out = "f(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
    nodes = [
        node(n, f"op{n}", [tensor(*read), *([tensor(*write)] if write else [])], schema=out)
        for n, (read, write) in enumerate(ops, 3)
    ]
    path = tmp_path_factory.mktemp("et") / "et.json"
    raw = read(written(path, [*ROOTS, *nodes]))
    sources, targets, _ = data_dependencies(raw.tables["nodes"], raw.tables["tensors"])
    pairs = {(int(a) + 1, int(b) + 1) for a, b in zip(sources, targets, strict=True)}
    assert all(source < target for source, target in pairs)
    assert pairs == writers_of(ops)


@pytest.mark.parametrize(
    ("execution_trace", "trace", "how"),
    [
        ("facebookresearch__param/linear_et", "facebookresearch__param/linear_kineto", "order"),
        (
            "facebookresearch__HolisticTraceAnalysis/execution_trace/benchmark_simple_add_et",
            "facebookresearch__HolisticTraceAnalysis/execution_trace/benchmark_simple_add_trace",
            "external_id",
        ),
    ],
)
def test_real_pairs_link(traces: Path, execution_trace: str, trace: str, how: str) -> None:
    pair = load(traces / f"{trace}.json.gz", execution_trace=traces / f"{execution_trace}.json.gz")
    ops = pair.nodes.filter(~pl.col("name").str.starts_with("[pytorch|"))
    assert ops["event_id"].is_not_null().sum() >= 0.95 * ops.height
    assert set(ops["linked_by"].drop_nulls()) == {how}
    same = pair.sql(
        "SELECT bool_and(n.name = e.name) FROM nodes n JOIN events e USING (run, rank, event_id)"
    )
    assert same.item()
    assert_acyclic(pair)
    late = pair.sql(
        "SELECT count(*) FROM flows a JOIN flows b USING (run, rank, flow_id)"
        " JOIN events s ON s.event_id = a.event_id JOIN events r ON r.event_id = b.event_id"
        " WHERE a.category = 'data' AND a.phase = 's' AND b.category = 'data' AND b.phase = 'f'"
        " AND s.start_ns + s.dur_ns > r.start_ns + 1000"
    )
    assert late.item() == 0


def assert_acyclic(trace: Trace) -> None:
    pairs = dependencies(trace)
    assert pairs
    waiting = {target: 0 for pair in pairs for target in pair}
    readers: dict[int, list[int]] = {}
    for source, target in pairs:
        waiting[target] += 1
        readers.setdefault(source, []).append(target)
    ready = [n for n, count in waiting.items() if not count]
    done = 0
    while ready:
        done += 1
        for target in readers.get(ready.pop(), ()):
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    assert done == len(waiting)


def test_a_real_one_alone(traces: Path) -> None:
    trace = load(traces / "facebookresearch__param/resnet_2gpu_et_1.1.0.json.gz")
    assert trace.nodes.height == 14_392
    assert trace.nodes["collective"].is_not_null().sum() == 27
    assert_acyclic(trace)


def test_what_torch_writes_now(tmp_path: Path) -> None:
    torch = needs.torch()
    path = tmp_path / "et.json"
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(
        activities=activities, execution_trace_observer=observer
    ) as profile:
        first = torch.ones(2, 2) + 1
        torch.mm(first, first).relu()
    profile.export_chrome_trace(str(tmp_path / "t.json"))
    for source in (tmp_path / "t.json", profile):
        trace = load(source, execution_trace=path)
        ops = trace.nodes.filter(~pl.col("name").str.starts_with("[pytorch|"))
        assert ops["event_id"].null_count() == 0
        names = dict(ops.select("node_id", "name").rows())
        pairs = {(names[a], names[b]) for a, b in dependencies(trace)}
        assert {("aten::add", "aten::mm"), ("aten::mm", "aten::relu")} <= pairs
    assert all(a <= b for a, b in pairwise(sorted(names)))


@pytest.mark.parametrize("element", [7, "x", None, [], [1]])
def test_what_is_no_object_is_no_node_and_counted(element: Any, tmp_path: Path) -> None:
    trace = load(written(tmp_path / "et.json", [*ROOTS, element, *OPS]))
    assert trace.nodes["node_id"].to_list() == [1, 2, 3, 4, 5, 6]
    assert trace.quality.select("issue", "events").rows() == [("not_an_event", 1)]


def test_an_object_that_says_nothing_is_a_node(tmp_path: Path) -> None:
    trace = load(written(tmp_path / "et.json", [*ROOTS, {}, {"a": 1}, *OPS]))
    assert trace.nodes["node_id"].to_list() == [1, 2, None, None, 3, 4, 5, 6]


class TestGroups:
    """The text of ranks is in proportion to what the file says, however large a group is."""

    def test_a_file_without_nodes(self, tmp_path: Path) -> None:
        assert load(written(tmp_path / "et.json", [])).nodes.height == 0

    def test_groups_of_any_size_take_no_memory(self, tmp_path: Path) -> None:
        named = [{"pg_name": str(n), "group_size": 10**12} for n in range(1000)]
        init = node(2, "## process_group:init ##", [json.dumps(named)])
        comms = [
            node(3 + n, "record_param_comms", pg_name=f"{n}", pg_size=1_000_000,
                 global_rank_start=n)
            for n in range(1000)
        ]  # fmt: skip
        groups = load(written(tmp_path / "et.json", [ROOTS[0], init, *comms])).nodes["group_ranks"]
        assert groups.str.len_bytes().sum() < 10_000_000

    def test_a_long_list_is_there_once(self, tmp_path: Path) -> None:
        comms = [
            node(3 + n, "record_param_comms", pg_name="a", pg_size=500_000, global_rank_start=0)
            for n in range(1000)
        ]
        trace = load(written(tmp_path / "et.json", [*ROOTS, *comms]))
        assert trace.tables["nodes"]["group_ranks"].nbytes < 20_000_000
