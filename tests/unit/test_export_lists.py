"""The two exports of an `EventList`, on a few events worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import profframe
from profframe.errors import ParameterError, UnknownNameError
from profframe.trace.trace import Trace
from tests.builders import Row, stored


def made_of(events: Sequence[Row], clock: str = "utc", start_ns: int | None = 0) -> Trace:
    head = {"clock": clock, "start_ns": start_ns, "device_type": "CUDA"}
    return stored(events=events, traces=[head])


def slice_of(name: str | None, start_ns: int, end_ns: int, **columns: object) -> Row:
    given = {"kind": "host_op", "tid": "7", "thread": 0, "self_ns": end_ns - start_ns}
    return given | {"name": name, "start_ns": start_ns, "dur_ns": end_ns - start_ns} | columns


def listed(trace: Trace, path: Path) -> list[dict[str, object]]:
    trace.export_chrome_trace(path, legacy=True)
    events: list[dict[str, object]] = json.loads(path.read_text())
    return events


def folded(trace: Trace, path: Path, metric: str = "self_cpu_time_total") -> list[str]:
    trace.export_stacks(path, metric)
    return path.read_text().splitlines()


def test_times_are_microseconds_since_the_profiler_started(tmp_path: Path) -> None:
    trace = made_of(
        [
            slice_of("PyTorch Profiler (0)", 1000, 9000, kind="profiler"),
            slice_of("inner", 3000, 3500),
            slice_of("outer", 2000, 4250),
        ]
    )
    of_thread = {"tid": 7, "pid": "CPU functions", "args": {}}
    assert listed(trace, tmp_path / "out.json") == [
        {"name": "outer", "ph": "X", "ts": 1.0, "dur": 2.25} | of_thread,
        {"name": "inner", "ph": "X", "ts": 2.0, "dur": 0.5} | of_thread,
    ]


@pytest.mark.parametrize(("clock", "origin_ns"), [("utc", 2000), ("relative", 0)])
def test_without_the_profilers_own_slice_the_clock_says_where_it_began(
    clock: str, origin_ns: int, tmp_path: Path
) -> None:
    trace = made_of([slice_of("op", 2500, 2600)], clock, start_ns=2000)
    (event,) = listed(trace, tmp_path / "out.json")
    assert event["ts"] == (2500 - origin_ns) / 1000


def test_an_arrow_starts_at_an_op_for_each_slice_that_it_launched(tmp_path: Path) -> None:
    launched = {"kind": "kernel", "tid": "stream 7", "thread": 1}
    trace = made_of(
        [
            slice_of('a"b', 0, 1000),
            slice_of('a"b', 100, 900, merged_into=0),
            slice_of("later", 2000, 3000),
            slice_of("k", 4000, 5000, op_id=2, **launched),
            slice_of("k", 5000, 6000, op_id=1, **launched),
            slice_of("k", 6000, 7000, op_id=0, **launched),
        ]
    )
    events = listed(trace, tmp_path / "out.json")
    assert [(e["ph"], e["name"], e["ts"], e.get("id")) for e in events] == [
        ("X", 'a"b', 0, None),
        ("s", 'a"b', 0, 0),
        ("s", 'a"b', 0, 1),
        ("X", "later", 2, None),
        ("s", "later", 2, 2),
        ("X", "k", 4, None),
        ("X", "k", 5, None),
        ("X", "k", 6, None),
    ]
    assert {e["cat"] for e in events if e["ph"] == "s"} == {"cpu_to_cuda"}


@pytest.mark.parametrize("tid", ["3", "node_id:1, thread_id:3", " node_id:1, thread_id:3 "])
def test_what_ran_on_another_node_says_so_in_its_thread(tid: str, tmp_path: Path) -> None:
    trace = made_of([slice_of("op", 0, 10, is_remote=True, node_id=1, tid=tid)])
    (event,) = listed(trace, tmp_path / "out.json")
    assert event["tid"] == " node_id:1, thread_id:3 "


def test_a_list_of_before_2021_has_its_kernels_on_their_devices(tmp_path: Path) -> None:
    host: dict[str, object] = {"name": "mm", "pid": "CPU functions", "tid": 1, "args": {}}
    kernel: dict[str, object] = {"name": "sgemm", "pid": "CUDA functions", "tid": 2, "args": {}}
    arrow = {"id": 0, "cat": "cpu_to_cuda"}
    events = [
        host | {"ph": "X", "ts": 10.5, "dur": 4.25},
        host | arrow | {"ph": "s", "ts": 10.5},
        kernel | arrow | {"ph": "f", "ts": 20.0},
        kernel | {"ph": "X", "ts": 20.0, "dur": 1.125},
    ]
    (tmp_path / "list.json").write_text(json.dumps(events))
    trace = profframe.load(tmp_path / "list.json")
    columns = ["name", "kind", "start_ns", "dur_ns", "device", "stream"]
    assert trace.events.select(columns).rows() == [
        ("mm", "host_op", 10_500, 4_250, None, None),
        ("sgemm", "kernel", 20_000, 1_125, 2, None),
    ]
    assert trace.flows.select("phase", "flow_id", "time_ns").rows() == [
        ("s", "0", 10_500),
        ("f", "0", 20_000),
    ]


def test_what_torch_drops_and_what_has_no_end_is_not_listed(tmp_path: Path) -> None:
    rows = [slice_of("aten::is_leaf", 0, 1), slice_of(None, 2, 3), slice_of("open", 4, 5)]
    trace = made_of([*rows[:2], {**rows[2], "dur_ns": None}])
    assert [e["name"] for e in listed(trace, tmp_path / "out.json")] == [""]
    assert listed(made_of([]), tmp_path / "none.json") == []


def test_a_line_has_frames_from_the_outermost_and_whole_microseconds(tmp_path: Path) -> None:
    rows = [
        slice_of("a", 0, 2999, stack="f.py(1): inner;g h.py(2):\touter"),
        slice_of("b", 3000, 3999, stack="f.py(1): inner"),
        slice_of("c", 5000, 6000),
        slice_of("d", 7000, 8000, stack="x"),
        slice_of("e", 9000, 9001, stack="y", self_ns=-5000),
    ]
    assert folded(made_of(rows), tmp_path / "out.txt") == [
        "g_h.py(2):_outer;f.py(1):_inner 2",
        "x 1",
    ]


def test_the_time_of_a_duplicate_is_that_of_its_survivor(tmp_path: Path) -> None:
    rows = [
        slice_of("a", 0, 5000, stack="x", self_ns=600),
        slice_of("a", 0, 4400, stack="x", self_ns=400, merged_into=0),
        slice_of("a", 0, 4000, stack="x", self_ns=4000, merged_into=0),
    ]
    assert folded(made_of(rows), tmp_path / "out.txt") == ["x 5"]


@pytest.mark.parametrize("device", ["cuda", "xpu", "privateuse1"])
def test_time_of_devices_under_each_of_its_names(device: str, tmp_path: Path) -> None:
    trace = made_of([slice_of("a", 0, 10, stack="x", self_device_ns=4000)])
    assert folded(trace, tmp_path / "out.txt", f"self_{device}_time_total") == ["x 4"]


def test_an_unknown_metric_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'self_cpu_time_total'"):
        made_of([]).export_stacks(tmp_path / "out.txt", "self_cpu_time")


def test_a_trace_without_any_stack_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no event has a stack; profile with with_stack=True"):
        made_of([slice_of("a", 0, 1)]).export_stacks(tmp_path / "out.txt")
    assert list(tmp_path.iterdir()) == []
