"""Nsight Systems exports: small databases of several versions, in part or damaged."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe import NotATraceError, SourceError, Trace
from tests.databases import Row, accounted, columns, found, thread, write
from tests.members import few

Export = Callable[..., Trace]

MAIN: Final = thread(500, 501)
OTHER: Final = thread(500, 502)
SECOND: Final = thread(600, 601)
UTC: Final = 1_700_000_000_000_000_000
PUSHED, STARTED, MARK, THREAD_NAME, DOMAIN = 59, 60, 34, 39, 75

STRINGS: Final = (
    {"id": 1, "value": "cudaLaunchKernel_v7000"},
    {"id": 2, "value": "void gemm<float>(float*)"},
    {"id": 3, "value": "gemm"},
    {"id": 4, "value": "cuLaunchKernel"},
    {"id": 5, "value": "forward"},
    {"id": 6, "value": "worker"},
)


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Load a report of these tables."""
    path = tmp_path / "report.sqlite"
    return lambda **tables: profframe.load(write(path, {"StringIds": STRINGS, **tables}))


def nvtx(start: int, end: int | None, text: str | None, **more: object) -> Row:
    row: dict[str, object] = {"start": start, "end": end, "eventType": PUSHED, "text": text}
    return row | {"globalTid": MAIN, "endGlobalTid": None, "textId": None, "domainId": 0} | more


def call(start: int, end: int, correlation: int, **more: object) -> Row:
    row = {"start": start, "end": end, "eventClass": 0, "globalTid": MAIN}
    return row | {"correlationId": correlation, "nameId": 1, "returnValue": 0} | more


def kernel(start: int, end: int, correlation: int, **more: object) -> Row:
    row = {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7}
    ids = {"correlationId": correlation, "globalPid": thread(500, 0)}
    return row | ids | {"demangledName": 2, "shortName": 3, "gridX": 80} | more


def test_a_kernel_belongs_to_the_range_around_its_launch_on_its_own_thread(export: Export) -> None:
    trace = export(
        NVTX_EVENTS=[
            nvtx(0, 100, "aten::mm, op_id = 3"),
            nvtx(0, 100, "aten::add, op_id = 4", globalTid=OTHER),
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 77)],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(200, 260, 77)],
    )
    assert columns(trace, "kind", "name", "launch_id", "op_id", "device_ns", "tid") == [
        ("host_op", "aten::mm", None, None, 60, "501"),
        ("host_op", "aten::add", None, None, 0, "502"),
        ("runtime", "cudaLaunchKernel_v7000", None, None, 0, "501"),
        ("kernel", "void gemm<float>(float*)", 2, 0, 60, "device 0 stream 7"),
    ]
    assert trace.traces.select("format", "clock", "device_type").row(0) == (
        "nsys",
        "relative",
        "CUDA",
    )
    assert accounted(trace) == {"events": 4, "metadata": 6}


def test_a_range_of_the_user_owns_kernels_where_no_op_is_around(export: Export) -> None:
    trace = export(
        NVTX_EVENTS=[nvtx(0, 100, None, textId=5), nvtx(5, 50, "inner")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 1), call(60, 70, 2)],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(200, 260, 1), kernel(300, 301, 2)],
    )
    assert columns(trace, "kind", "name", "op_id", "device_ns", "self_device_ns")[:2] == [
        ("annotation", "forward", None, 61, 1),
        ("annotation", "inner", None, 60, 60),
    ]
    assert trace.events["op_id"].to_list()[-2:] == [1, 0]


def test_correlations_are_of_a_process(export: Export) -> None:
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 5), call(11, 12, 5, globalTid=SECOND)],
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(30, 40, 5, globalPid=thread(600, 0)),
            kernel(30, 41, 5),
            kernel(30, 42, 5, globalPid=thread(700, 0)),
        ],
    )
    assert columns(trace, "pid", "launch_id")[2:] == [("600", 1), ("500", 0), ("700", None)]


def test_processes_of_two_machines_are_apart(export: Export) -> None:
    elsewhere = thread(500, 501, machine=2)
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 5), call(11, 12, 5, globalTid=elsewhere)],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(30, 40, 5, globalPid=thread(500, 0, machine=2))],
        PROCESSES=[
            {"globalPid": thread(500, 0), "pid": 500, "name": "python"},
            {"globalPid": thread(500, 0, machine=2), "pid": 500, "name": "python"},
        ],
    )
    assert columns(trace, "pid", "launch_id") == [("1:500", None), ("2:500", None), ("2:500", 1)]


def test_the_machine_is_named_only_where_there_are_several(export: Export) -> None:
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(10, 20, 5), call(30, 40, 6, globalTid=SECOND)],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(50, 60, 5)],
        PROCESSES=[
            {"globalPid": thread(500, 0), "pid": 500, "name": "python"},
            {"globalPid": thread(600, 0), "pid": 600, "name": "python"},
        ],
        ThreadNames=[{"nameId": 6, "priority": 0, "globalTid": MAIN}],
    )
    assert columns(trace, "pid", "launch_id") == [("500", None), ("600", None), ("500", 0)]


def test_of_nested_calls_the_innermost_launched(export: Export) -> None:
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(10, 40, 9, eventClass=67),
            call(11, 39, 9),
            call(12, 30, 9, eventClass=1, nameId=4),
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(50, 60, 9)],
    )
    assert trace.events["kind"].to_list() == ["runtime", "runtime", "driver", "kernel"]
    assert trace.events["launch_id"].to_list() == [None, None, None, 2]


def test_names_of_emit_nvtx_are_split(export: Export) -> None:
    parts = "seq = 12, op_id = 8, sizes = [[4], [2, 3], []], input_op_ids = [(5,0), (0,-1)]"
    trace = export(
        NVTX_EVENTS=[
            nvtx(0, 10, f"aten::addmm, {parts}"),
            nvtx(20, 30, "aten::addmm, seq = 13"),
            nvtx(40, 50, "AddmmBackward, stashed seq = 12"),
            nvtx(60, 70, "aten::detach"),
            nvtx(80, 90, "Optimizer.step#SGD.step, op_id = 40"),
            nvtx(91, 99, "aten::t, seq = -1"),
        ],
    )
    wanted = ("kind", "name", "sequence_nr", "external_id", "input_dims", "scope", "fwd_id")
    assert columns(trace, *wanted) == [
        ("host_op", "aten::addmm", 12, 8, "[[4],[2,3],[]]", 0, None),
        ("host_op", "aten::addmm", 13, None, None, 0, None),
        ("host_op", "AddmmBackward", 12, None, None, 1, 0),
        ("host_op", "aten::detach", None, None, None, 0, None),
        ("annotation", "Optimizer.step#SGD.step", None, 40, None, 7, None),
        ("host_op", "aten::t", None, None, None, 0, None),
    ]
    assert json.loads(trace.events["args"][0]) == {"input_op_ids": "[(5,0), (0,-1)]"}
    averages = dict(trace.key_averages().select("name", "calls").rows())
    assert averages["aten::addmm"] == 2


@pytest.mark.parametrize(
    ("name", "kind"),
    {
        "aten::add, op_id = 3": "host_op",
        "c10d::allreduce_, op_id = 3": "host_op",
        "torch::autograd::AccumulateGrad, op_id = 3": "host_op",
        "mine::op.out, op_id = 3": "host_op",
        "FSDP::pre_forward (encoder.blocks.0), op_id = 3": "annotation",
        "FSDP::root_pre_forward, op_id = 3": "annotation",
        "my step::one, op_id = 3": "annotation",
        "FSDP::pre_forward (a), seq = 4, op_id = 3": "annotation",
    }.items(),
)
def test_a_region_of_torch_or_the_user_is_no_op(export: Export, name: str, kind: str) -> None:
    trace = export(NVTX_EVENTS=[nvtx(0, 100, name)])
    assert trace.events["kind"].to_list() == [kind]


def test_a_backward_op_of_todays_pytorch_finds_its_forward_op(export: Export) -> None:
    trace = export(
        NVTX_EVENTS=[
            nvtx(0, 10, "aten::addmm, seq = 12, op_id = 8"),
            nvtx(
                20,
                40,
                "autograd::engine::evaluate_function: AddmmBackward0, seq = 12, op_id = 30",
                globalTid=OTHER,
            ),
            nvtx(21, 39, "AddmmBackward0, seq = 12, op_id = 31", globalTid=OTHER),
            nvtx(22, 30, "aten::mm, op_id = 32", globalTid=OTHER),
        ],
    )
    assert columns(trace, "scope", "fwd_id", "parent_id") == [
        (0, None, None),
        (0, None, None),
        (1, 0, 1),
        (0, None, 2),
    ]


def test_a_range_that_ends_elsewhere_or_never_is_asynchronous(export: Export) -> None:
    trace = export(
        NVTX_EVENTS=[
            nvtx(0, 100, "moves", eventType=STARTED, endGlobalTid=OTHER),
            nvtx(10, 20, "stays", eventType=STARTED, endGlobalTid=MAIN),
            nvtx(30, 40, "pushed"),
            nvtx(50, None, "open"),
        ],
    )
    assert columns(trace, "name", "is_async", "dur_ns", "parent_id", "self_ns") == [
        ("moves", True, 100, None, None),
        ("stays", False, 10, None, 10),
        ("pushed", False, 10, None, 10),
        ("open", True, None, None, None),
    ]
    assert found(trace) == {"missing_duration": 1}


def test_marks_names_and_domains(export: Export) -> None:
    trace = export(
        NVTX_EVENTS=[
            nvtx(0, None, "NCCL", eventType=DOMAIN, domainId=3),
            nvtx(1, 9, "ncclAllReduce", domainId=3),
            nvtx(4, None, "epoch", eventType=MARK),
            nvtx(5, None, "loader", eventType=THREAD_NAME, globalTid=OTHER),
            nvtx(6, None, "a category", eventType=33),
        ],
        PROCESSES=[{"globalPid": thread(500, 0), "pid": 500, "name": "python"}],
        ThreadNames=[{"nameId": 6, "priority": 20, "globalTid": MAIN}],
    )
    assert columns(trace, "name", "args") == [("ncclAllReduce", '{"domain":"NCCL","domainId":3}')]
    assert trace.instants.select("name", "time_ns", "tid").rows() == [("epoch", 4, "501")]
    names = {tid: (process, name) for tid, process, name in trace.threads.select(
        "tid", "process_name", "thread_name").rows()}  # fmt: skip
    assert names == {"501": ("python", "worker"), "502": ("python", "loader")}
    assert accounted(trace) == {"events": 1, "instants": 1, "metadata": 6 + 1 + 1 + 3}


def test_copies_sets_syncs_and_graphs_have_names_and_kinds(export: Export) -> None:
    device = {"deviceId": 1, "contextId": 1, "streamId": 13, "correlationId": 4}
    copy = device | {"bytes": 64}
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(0, 5, 4)],
        CUPTI_ACTIVITY_KIND_MEMCPY=[
            copy | {"start": 10, "end": 20, "copyKind": 1, "srcKind": 1, "dstKind": 2},
            copy | {"start": 20, "end": 21, "copyKind": 10, "srcKind": 2, "dstKind": 2},
            copy | {"start": 21, "end": 22, "copyKind": None, "srcKind": None, "dstKind": 99},
        ],
        CUPTI_ACTIVITY_KIND_MEMSET=[device | {"start": 22, "end": 25, "bytes": 9, "memKind": 2}],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
            device | {"start": 25, "end": 30, "syncType": 3, "streamId": 4294967295},
        ],
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[device | {"start": 40, "end": 90, "graphId": 2}],
        CUPTI_ACTIVITY_KIND_OVERHEAD=[
            {"start": 1, "end": 2, "globalTid": MAIN, "correlationId": 4, "nameId": 3}
        ],
    )  # fmt: skip
    assert columns(trace, "kind", "name", "device", "stream", "launch_id") == [
        ("runtime", "cudaLaunchKernel_v7000", None, None, None),
        ("overhead", "gemm", None, None, None),
        ("memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 13, 0),
        ("memcpy", "Memcpy PtoP (Device -> Device)", 1, 13, 0),
        ("memcpy", "Memcpy unknown (Unknown -> Unknown)", 1, 13, 0),
        ("memset", "Memset (Device)", 1, 13, 0),
        ("sync", "Stream Sync", 1, None, 0),
        ("kernel", "graph 2", 1, 13, 0),
    ]
    assert json.loads(trace.events["args"][2])["bytes"] == 64


def test_all_nodes_of_a_graph_belong_to_its_launch(export: Export) -> None:
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(0, 5, 4)],
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(10 * n, 10 * n + 5, 4, graphNodeId=100 + n) for n in range(1, 4)
        ],
    )
    assert trace.events["launch_id"].to_list() == [None, 0, 0, 0]
    assert trace.events["device_ns"][0] == 15


def test_a_mangled_name_is_taken_where_there_is_no_other(tmp_path: Path) -> None:
    strings = [{"id": 1, "value": "_Z3addPfi"}, {"id": 2, "value": "_Znonsense"}]
    rows = [
        {"start": 0, "end": 1, "deviceId": 0, "streamId": 7, "mangledName": name}
        for name in (1, 2, 9)
    ]
    path = write(tmp_path / "r.sqlite", {"StringIds": strings, "CUPTI_ACTIVITY_KIND_KERNEL": rows})
    names = profframe.load(path).events["name"].to_list()
    assert names == ["add(float*, int)", "_Znonsense", None]


def test_times_are_utc_where_the_session_says_when_it_began(export: Export) -> None:
    session = {"utcEpochNs": UTC, "utcTime": "2023-11-14T22:13:20", "systemClockNs": 35}
    shift = [{"name": "EXPORT_PARAM_TIME_SHIFT", "value": "1000"}]
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(1007, 1009, 1)],
        TARGET_INFO_SESSION_START_TIME=[session],
        META_DATA_EXPORT=shift,
    )
    assert columns(trace, "start_ns", "dur_ns") == [(UTC + 7, 2)]
    assert trace.traces.select("clock", "base_ns").row(0) == ("utc", UTC - 1000)


def test_times_that_were_normalised_to_utc_stay(export: Export) -> None:
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(UTC + 1, UTC + 3, 1)],
        TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": UTC}],
    )
    assert columns(trace, "start_ns") == [(UTC + 1,)]
    assert trace.traces.select("clock", "base_ns").row(0) == ("utc", None)


def test_devices_have_the_properties_that_kineto_gives(export: Export) -> None:
    trace = export(
        TARGET_INFO_GPU=[
            {"id": 4, "name": "NVIDIA A100", "totalMemory": 42, "smCount": 108, "cuDevice": 0,
             "computeMajor": 8, "computeMinor": 0, "threadsPerWarp": 32, "chipName": "GA100"},
        ],
    )  # fmt: skip
    (device,) = json.loads(trace.traces["device_properties"][0])
    assert device == {
        "id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42, "computeMajor": 8, "computeMinor": 0,
        "warpSize": 32, "numSms": 108, "chipName": "GA100",
    }  # fmt: skip


def test_what_is_not_loaded_is_counted_by_name(export: Export) -> None:
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(0, 1, 1)],
        OSRT_API=[{"start": 0, "end": 9}, {"start": 3, "end": 4}],
        A_TABLE_OF_TOMORROW=[{"x": 1}],
        ENUM_OPENACC_DEVICE=[{"id": 1}],
    )
    assert accounted(trace) == {"events": 1, "metadata": 7, "OSRT_API": 2, "A_TABLE_OF_TOMORROW": 1}
    note, lost = trace.quality.rows(named=True)
    assert (note["issue"], note["events"]) == ("rows_not_loaded", 3)
    assert (lost["issue"], lost["events"]) == ("launch_without_work", 1)
    assert note["detail"].endswith(": A_TABLE_OF_TOMORROW 1, OSRT_API 2")


PLAIN: Final = {
    "NVTX_EVENTS": [nvtx(0, 100, "aten::mm, op_id = 3")],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [call(10, 20, 77)],
    "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(200, 260, 77)],
    "ThreadNames": [{"globalTid": MAIN, "nameId": 6}],
}
ROWS: Final = ("kind", "name", "launch_id", "op_id", "device_ns", "tid")


class TestVersions:
    """Tables whose names have the number of a version."""

    @pytest.mark.parametrize("name", PLAIN)
    @pytest.mark.parametrize("is_there", [False, True])
    def test_a_version_is_read_where_the_table_has_no_rows(
        self, export: Export, tmp_path: Path, name: str, is_there: bool
    ) -> None:
        plain = profframe.load(write(tmp_path / "plain.sqlite", {"StringIds": STRINGS, **PLAIN}))
        others = {other: rows for other, rows in PLAIN.items() if other != name}
        empty: dict[str, list[Row]] = {name: []} if is_there else {}
        trace = export(**others, **empty, **{f"{name}_V2": PLAIN[name]})
        assert columns(trace, *ROWS) == columns(plain, *ROWS)
        assert accounted(trace) == accounted(plain)
        assert found(trace) == found(plain) == {}
        assert (
            trace.threads.rows()
            == plain.threads.drop("run")
            .with_columns(run=trace.threads["run"])
            .select(trace.threads.columns)
            .rows()
        )

    def test_the_newest_is_read_and_the_others_are_named(self, export: Export) -> None:
        trace = export(
            CUPTI_ACTIVITY_KIND_KERNEL_V2=[kernel(1, 2, 1)],
            CUPTI_ACTIVITY_KIND_KERNEL_V10=[kernel(5, 9, 2)],
            CUPTI_ACTIVITY_KIND_KERNEL_V9=[kernel(3, 4, 3), kernel(3, 5, 3)],
        )
        assert columns(trace, "start_ns") == [(5,)]
        note = trace.quality.filter(issue="unknown_table").row(0, named=True)
        assert note["events"] == 3
        assert note["detail"].endswith(
            ": CUPTI_ACTIVITY_KIND_KERNEL_V2 1, CUPTI_ACTIVITY_KIND_KERNEL_V9 2"
        )
        assert accounted(trace)["CUPTI_ACTIVITY_KIND_KERNEL_V9"] == 2

    @pytest.mark.parametrize("name", ["NVTX_EVENTS_COPY", "NVTX_EVENTS_V2", "NVTX_EVENTS_V2_OLD"])
    def test_beside_the_table_itself_it_is_told(self, export: Export, name: str) -> None:
        trace = export(**PLAIN, **{name: [nvtx(1, 2, "copy")] * 2})
        assert found(trace) == {"unknown_table": 2}
        assert columns(trace, "name")[0] == ("aten::mm",)


@pytest.mark.parametrize(
    "missing", few(["globalPid", "contextId", "demangledName", "shortName", "end"], 3)
)
def test_columns_may_be_missing(export: Export, missing: str) -> None:
    row = {name: value for name, value in kernel(5, 9, 1).items() if name != missing}
    trace = export(CUPTI_ACTIVITY_KIND_RUNTIME=[call(0, 1, 1)], CUPTI_ACTIVITY_KIND_KERNEL=[row])
    events = trace.events.rows(named=True)
    assert (events[1]["kind"], events[1]["start_ns"], events[1]["launch_id"]) == ("kernel", 5, 0)


def test_a_table_may_have_many_columns(export: Export) -> None:
    more = {f"column{n}": n if n % 2 else None for n in range(140)}
    trace = export(CUPTI_ACTIVITY_KIND_KERNEL=[kernel(0, 1, 1, **more)])
    args = json.loads(trace.events["args"][0])
    kept = {name: n for name, n in args.items() if name.startswith("column")}
    assert kept == {f"column{n}": n for n in range(1, 140, 2)}


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"])
def test_tables_of_texts_may_be_missing(tmp_path: Path, table: str) -> None:
    row = {"NVTX_EVENTS": nvtx(0, 4, "aten::mm"), "CUPTI_ACTIVITY_KIND_RUNTIME": call(0, 4, 1)}[
        table
    ]
    trace = profframe.load(write(tmp_path / "r.sqlite", {table: [row]}))
    assert trace.traces["format"].to_list() == ["nsys"]
    assert columns(trace, "dur_ns", "tid") == [(4, "501")]


def test_progress_ends_with_the_whole_file(tmp_path: Path) -> None:
    path = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "OSRT_API": [{"start": 0}] * 9})
    calls: list[tuple[int, int]] = []
    profframe.load(path, progress=lambda done, size: calls.append((done, size)))
    size = path.stat().st_size
    assert calls[-1] == (size, size)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_an_export_without_events_loads(tmp_path: Path) -> None:
    path = write(tmp_path / "r.sqlite", {"StringIds": [], "META_DATA_EXPORT": []})
    trace = profframe.load(path)
    assert trace.events.height == 0
    assert found(trace) == {"no_events": 0}


def test_a_range_without_a_name_has_none(export: Export) -> None:
    trace = export(NVTX_EVENTS=[nvtx(0, 4, None), nvtx(5, 6, "", textId=400)])
    assert columns(trace, "kind", "name") == [("annotation", None), ("annotation", "")]


def test_odd_values_are_counted(export: Export) -> None:
    trace = export(
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(0, 1, 1),
            {**call(2, 3, 2), "start": "soon", "nameId": b"x"},
        ],
        NVTX_EVENTS=[nvtx(4, 5, "ok"), {**nvtx(6, 7, None), "text": 12.5}],
    )
    assert columns(trace, "name", "start_ns", "dur_ns") == [
        ("ok", 4, 1),
        ("12.5", 6, 1),
        ("cudaLaunchKernel_v7000", 0, 1),
        (None, None, None),
    ]
    assert found(trace)["odd_value"] == 2


@pytest.mark.parametrize(
    "name",
    ['say "hi"', "<b>&amp;</b>", "nul\0 inside", "line\nbreak", "ünïcödé 🦄", "a, seq = b", ""],
)
def test_names_are_kept_as_they_are(export: Export, name: str) -> None:
    trace = export(NVTX_EVENTS=[nvtx(0, 1, name), nvtx(2, 3, name, eventType=MARK)])
    assert trace.events["name"].to_list() == [name]
    assert trace.instants["name"].to_list() == [name]


def test_bytes_that_are_no_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": [nvtx(0, 1, "x")]})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE NVTX_EVENTS SET text = CAST(x'61ff62' AS TEXT)")
    trace = profframe.load(path)
    assert trace.events["name"].to_list() == ["a\ufffdb"]
    assert found(trace) == {"invalid_utf8": 1}


def test_a_database_is_not_changed_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": [nvtx(0, 1, "x")]})
    before = path.read_bytes()
    path.chmod(0o444)
    profframe.load(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.sqlite"]


def test_a_locked_database_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": [nvtx(0, 1, "x")]})
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert profframe.load(path).events.height == 1


def test_what_a_writer_left_beside_the_database_is_read_too(tmp_path: Path) -> None:
    path = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": [nvtx(0, 1, "x")]})
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text) VALUES (5, 6, 59, 'y')"
        )
        names = sorted(p.name for p in tmp_path.iterdir())
        assert "r.sqlite-wal" in names
        assert profframe.load(path).events["name"].to_list() == ["x", "y"]
        assert sorted(p.name for p in tmp_path.iterdir()) == names


# What is no export


def refused(path: Path, error: type[SourceError] = NotATraceError) -> str:
    with pytest.raises(error) as caught:
        profframe.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_a_report_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"\x05\x00binary\x00" * 100)
    assert "nsys export --type sqlite run.nsys-rep" in refused(path)


@pytest.mark.parametrize("name", ["session.nvvp", "session.xml"])
def test_an_xml_session_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b'<?xml version="1.0" encoding="UTF-8"?>\n<session/>')
    assert "nvprof -o" in refused(path)


@pytest.mark.parametrize(
    "tables",
    [{"users": [{"id": 1}]}, {}, {"CpuSamples": [{"timestamp": 5}]}, {"StringIds": STRINGS}],
)
def test_another_database_is_refused(tmp_path: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    path = tmp_path / "x.db"
    write(path, tables)
    if not tables:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("VACUUM")
    message = refused(path)
    assert all(name in message for name in tables)
    assert "not a trace" in message


def test_a_compressed_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    database = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": []})
    path = tmp_path / "r.sqlite.gz"
    path.write_bytes(gzip.compress(database.read_bytes()))
    assert "decompress it" in refused(path)


def test_a_file_that_only_begins_as_a_database_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    assert "but is not one" in refused(path)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.6, 0.9, 0.999])
def test_a_cut_database_is_an_error_that_names_file_and_table(tmp_path: Path, part: float) -> None:
    rows = [nvtx(n, n + 1, f"range {n}") for n in range(2000)]
    path = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": rows})
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    message = refused(path, SourceError)
    assert "table" in message
    assert "export or copy it again" in message


def test_a_damaged_page_is_an_error_that_names_the_table(tmp_path: Path) -> None:
    rows = [nvtx(n, n + 1, f"range {n}") for n in range(2000)]
    path = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": rows})
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    assert "table 'NVTX_EVENTS'" in refused(path, SourceError)


def test_a_database_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": []})
    path.chmod(0)
    try:
        path.open("rb").close()
    except PermissionError:
        assert "cannot be read" in refused(path, SourceError)
    finally:
        path.chmod(0o644)


def test_paths_with_odd_characters_open(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%20é"
    folder.mkdir()
    path = write(folder / "r.sqlite", {"StringIds": STRINGS, "NVTX_EVENTS": [nvtx(0, 1, "x")]})
    assert profframe.load(path).events.height == 1
