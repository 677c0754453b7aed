"""Chrome JSON as the CUPTI-based profiler of torch 2.15 writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.trace.trace import Trace

FIRST = 1 << 40


def on(  # noqa: PLR0917
    pid: object, tid: object, cat: str, name: str, ts: float, dur: float, **args: Any
) -> dict[str, Any]:
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return event | {"args": args}


def arrow(ph: str, id_: int, pid: int, tid: int, ts: float) -> dict[str, Any]:
    event = {"ph": ph, "id": id_, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g"}
    return event | ({"bp": "e"} if ph == "f" else {})


def counter(name: str, pid: object, value: float) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": pid, "ts": 1, "args": {"": value}}


def loaded(folder: Path, *events: dict[str, Any]) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    return profframe.load(path)


def node(number: int, **args: Any) -> dict[str, Any]:
    return {"device": 0, "correlation": 7, "graph id": 3, "graph node id": number, **args}


@pytest.fixture
def replay(tmp_path: Path) -> Trace:
    """A replay of a root, a node on another lane, an event, and a function of the host."""
    of_host = node(3, stream=31) | {"correlation": 0, "host fn": "wait_for_data"}
    return loaded(
        tmp_path,
        on(50, 50, "cpu_op", "replay", 0, 10, **{"External id": 1}),
        on(50, 50, "cuda_runtime", "cudaGraphLaunch", 1, 2, correlation=7, cbid=311),
        arrow("s", 7, 50, 50, 1),
        on(0, 200, "kernel", "root", 20, 10, **node(0, stream=200, original_stream=30)),
        arrow("f", 7, 0, 200, 20),
        on(0, 201, "kernel", "second", 30, 5, **node(1, stream=201, original_stream=31)),
        on(0, 31, "graph_event_node", "EventRecord", 35, 0, **node(2, stream=31)),
        on(0, 31, "graph_host_node", "HostNode: wait_for_data", 36, 4, **of_host),
        arrow("s", FIRST, 0, 200, 30),
        arrow("f", FIRST, 0, 201, 30),
        arrow("s", FIRST + 1, 0, 201, 35),
        arrow("f", FIRST + 1, 0, 31, 35),
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 200, "args": {"name": "compute"}},
    )  # fmt: skip


def test_work_moved_to_a_lane_keeps_its_stream_and_its_thread_is_the_lane(replay: Trace) -> None:
    columns = ("name", "kind", "tid", "stream", "graph_node_id", "launch_id", "op_id", "self_ns")
    assert replay.events.filter(device=0).select(columns).rows() == [
        ("root", "kernel", "200", 30, 0, 1, 0, 10_000),
        ("second", "kernel", "201", 31, 1, 1, 0, 5_000),
        ("EventRecord", "graph_node", "31", 31, 2, 1, 0, None),
        ("HostNode: wait_for_data", "graph_node", "31", 31, 3, None, None, None),
    ]
    assert replay.threads.filter(tid="200")["thread_name"].to_list() == ["compute"]


def test_dependencies_are_no_launches_and_lead_from_node_to_node(replay: Trace) -> None:
    rows = replay.sql("""
        SELECT flows.category, source.name AS source, target.name AS target
        FROM flows
        JOIN flows AS ends ON flows.flow_id = ends.flow_id AND ends.phase = 'f'
        JOIN events AS source ON flows.event_id = source.event_id
        JOIN events AS target ON ends.event_id = target.event_id
        WHERE flows.phase = 's' ORDER BY flows.time_ns""").rows()
    assert rows == [
        ("ac2g", "cudaGraphLaunch", "root"),
        ("graph_dependency", "root", "second"),
        ("graph_dependency", "second", "EventRecord"),
    ]


def test_a_launch_arrow_that_dependencies_replace_is_no_missing_launch(replay: Trace) -> None:
    assert replay.quality["issue"].to_list() == []


def test_nodes_that_keep_no_device_busy_are_no_device_time(replay: Trace) -> None:
    assert replay.events["device_ns"][0] == 15_000
    nodes = replay.events.filter(kind="graph_node")
    assert nodes["device_ns"].to_list() == [None, None]


def test_a_dependency_ends_at_its_node_though_its_time_was_rounded(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        on(0, 7, "kernel", "a", 20.001, 10.002, **node(1, stream=7)),
        on(0, 8, "kernel", "b", 31, 1, **node(2, stream=8)),
        arrow("s", FIRST, 0, 7, 30.004),
        arrow("f", FIRST, 0, 8, 31.001),
    )
    assert trace.flows["event_id"].to_list() == [0, 1]


def test_ids_of_other_arrows_are_left_alone(tmp_path: Path) -> None:
    large = arrow("s", FIRST, 50, 50, 1) | {"cat": "mine"}
    trace = loaded(tmp_path, large, arrow("s", FIRST - 1, 50, 50, 1), arrow("s", 3, 50, 50, 1))
    assert trace.flows["category"].to_list() == ["mine", "ac2g", "ac2g"]


def test_counters_have_their_device_and_unit(tmp_path: Path) -> None:
    of = "GPU 1 Counters"
    trace = loaded(
        tmp_path,
        counter("Power (W)", of, 350.5),
        counter("Cycles (Current Kernel)", of, 10),
        counter("sm__throughput.avg.pct_of_peak_sustained_elapsed", of, 12.5),
        counter("NVLink RX", of, 3),
        counter("Memory Clock (MHz)", 0, 1),
    )
    assert trace.counters.select("name", "series", "value", "unit", "device").rows() == [
        ("Power (W)", "Power (W)", 350.5, "W", 1),
        ("Cycles (Current Kernel)", "Cycles (Current Kernel)", 10.0, "cycles", 1),
        (
            "sm__throughput.avg.pct_of_peak_sustained_elapsed",
            "sm__throughput.avg.pct_of_peak_sustained_elapsed",
            12.5,
            "%",
            1,
        ),
        ("NVLink RX", "NVLink RX", 3.0, None, 1),
        ("Memory Clock (MHz)", "Memory Clock (MHz)", 1.0, "MHz", None),
    ]


def test_a_graph_node_has_number_0_only_in_a_graph(tmp_path: Path) -> None:
    eager = {"device": 0, "stream": 7, "graph id": 0, "graph node id": 0}
    trace = loaded(
        tmp_path,
        on(0, 7, "kernel", "eager", 1, 1, **eager),
        on(0, 7, "kernel", "first", 3, 1, **eager | {"graph id": 5}),
    )
    assert trace.events.select("graph_id", "graph_node_id").rows() == [(None, None), (5, 0)]


def test_moved_work_keeps_its_stream_in_a_store_and_in_an_exported_trace(
    replay: Trace, tmp_path: Path
) -> None:
    replay.to_parquet(tmp_path / "store")
    replay.export_chrome_trace(tmp_path / "again.json")
    columns = ("name", "kind", "tid", "stream", "graph_node_id", "launch_id")
    for again in (profframe.load(tmp_path / "store"), profframe.load(tmp_path / "again.json")):
        assert again.events.select(columns).rows() == replay.events.select(columns).rows()
        assert again.flows["event_id"].to_list() == replay.flows["event_id"].to_list()
        assert again.flows["category"].to_list() == replay.flows["category"].to_list()
