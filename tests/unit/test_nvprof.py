"""Databases of nvprof: small ones of several schema versions, in part or damaged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe import NotATraceError, SourceError, Trace
from tests.databases import Row, accounted, columns, found, object_id, write
from tests.members import few

Load = Callable[..., Trace]

PID: Final = 29051
MAIN: Final = 1290573632
OTHER: Final = -704661760
"""Threads as runtime rows have them: signed numbers of 32 bits."""
INSTANT, START, END = 1, 2, 4
PROCESS, THREAD, STREAM = 1, 2, 5
NO_NAME: Final = 0

STRINGS: Final = (
    "-- null --",
    "mul, seq = 116",
    "MulBackward, stashed seq = 116",
    "my region",
    "_Z3addPfi",
    "Tesla V100",
    "train.py",
    "aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]]",
    "ncclDomain",
)
MUL, BACKWARD, REGION, ADD, V100, SCRIPT, MM, DOMAIN = range(1, 9)


def database(path: Path, **tables: Sequence[Row]) -> Path:
    strings = [{"_id_": number, "value": text} for number, text in enumerate(STRINGS)]
    kinds = {f"CUPTI_ACTIVITY_KIND_{name}": rows for name, rows in tables.items()}
    return write(
        path / "prof.nvvp", {"StringTable": strings, "Version": [{"version": 12}], **kinds}
    )


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a database of these activities."""
    return lambda **tables: profframe.load_nvprof(database(tmp_path, **tables))


def marker(flags: int, time: int, id_: int, name: int = NO_NAME, thread: int = MAIN) -> Row:
    row = {"flags": flags, "timestamp": time, "id": id_, "objectKind": THREAD}
    return row | {"objectId": object_id(PID, thread), "name": name, "domain": 0}


def ranges(id_: int, start: int, end: int, name: int, thread: int = MAIN) -> list[Row]:
    return [marker(START, start, id_, name, thread), marker(END, end, id_, NO_NAME, thread)]


def call(start: int, end: int, correlation: int, cbid: int = 211, thread: int = MAIN) -> Row:
    row = {"_id_": correlation, "cbid": cbid, "start": start, "end": end, "processId": PID}
    return row | {"threadId": thread, "correlationId": correlation, "returnValue": 0}


def kernel(start: int, end: int, correlation: int, **more: object) -> Row:
    row = {"_id_": correlation, "start": start, "end": end, "deviceId": 0, "contextId": 1}
    return row | {"streamId": 7, "correlationId": correlation, "name": ADD, "gridX": 80} | more


def test_a_kernel_belongs_to_the_marker_around_its_launch_on_its_own_thread(load: Load) -> None:
    trace = load(
        MARKER=[*ranges(1, 0, 100, MM), *ranges(2, 0, 100, MUL, thread=OTHER)],
        RUNTIME=[call(10, 20, 5), call(30, 40, 6, thread=OTHER)],
        CONCURRENT_KERNEL=[kernel(200, 260, 5), kernel(300, 307, 6)],
    )
    assert columns(trace, "kind", "name", "launch_id", "op_id", "device_ns") == [
        ("host_op", "aten::mm", None, None, 60),
        ("host_op", "mul", None, None, 7),
        ("runtime", "cudaLaunchKernel", None, None, 0),
        ("runtime", "cudaLaunchKernel", None, None, 0),
        ("kernel", "add(float*, int)", 2, 0, 60),
        ("kernel", "add(float*, int)", 3, 1, 7),
    ]
    assert trace.events["tid"].to_list()[:4] == ["1290573632", "3590305536"] * 2
    assert set(trace.events["pid"]) == {str(PID)}
    assert trace.traces.select("format", "clock", "device_type").row(0) == (
        "nvprof",
        "relative",
        "CUDA",
    )
    assert json.loads(trace.traces["metadata"][0]) == {"version": 12}
    assert accounted(trace) == {"events": 4 + 2 + 2, "metadata": 9 + 1}


@pytest.mark.parametrize("table", ["RUNTIME", "DRIVER"])
def test_of_several_processes_a_kernel_has_none(load: Load, table: str) -> None:
    """Rows of devices do not say of which one they are."""
    calls = [call(10, 20, 5), call(30, 40, 6) | {"processId": 7}]
    kernels = [kernel(50, 60, 5), kernel(70, 80, 6)]
    trace = load(**{table: calls, "CONCURRENT_KERNEL": kernels})
    assert columns(trace, "pid", "launch_id") == [
        (str(PID), None),
        ("7", None),
        (None, 0),
        (None, 1),
    ]


def test_one_process_may_make_calls_of_both_kinds(load: Load) -> None:
    rows = {"RUNTIME": [call(10, 20, 5)], "DRIVER": [call(12, 18, 5)]}
    trace = load(**rows, CONCURRENT_KERNEL=[kernel(50, 60, 5)])
    assert columns(trace, "pid", "launch_id") == [(str(PID), None), (str(PID), None), (str(PID), 1)]


@pytest.mark.parametrize("cbid", few([13, 211, 214, 269, 272, 311, 999], 3))
def test_any_call_may_launch(load: Load, cbid: int) -> None:
    trace = load(RUNTIME=[call(10, 20, 5, cbid)], CONCURRENT_KERNEL=[kernel(30, 40, 5)])
    assert trace.events["launch_id"].to_list() == [None, 0]
    assert trace.events["name"][0] == {
        13: "cudaLaunch",
        211: "cudaLaunchKernel",
        214: "cudaLaunchKernel_ptsz",
        269: "cudaLaunchCooperativeKernel",
        272: "cudaLaunchCooperativeKernelMultiDevice",
        311: "cudaGraphLaunch",
        999: "runtime call 999",
    }[cbid]  # fmt: skip


def test_what_a_call_gave_back_is_kept_where_it_failed(load: Load) -> None:
    rows = [call(0, 1, 1), call(2, 3, 2) | {"returnValue": 700}]
    trace = load(RUNTIME=rows)
    args = [json.loads(text) for text in trace.events["args"]]
    assert args == [{"cbid": 211}, {"cbid": 211, "returnValue": 700}]


def test_names_of_emit_nvtx_are_split_and_backward_ops_find_their_forward(load: Load) -> None:
    trace = load(
        MARKER=[*ranges(1, 0, 10, MUL), *ranges(2, 20, 30, BACKWARD), *ranges(3, 40, 50, REGION),
                *ranges(4, 60, 70, MM)],
    )  # fmt: skip
    wanted = ("kind", "name", "sequence_nr", "scope", "fwd_id", "external_id", "input_dims")
    assert columns(trace, *wanted) == [
        ("host_op", "mul", 116, 0, None, None, None),
        ("host_op", "MulBackward", 116, 1, 0, None, None),
        ("annotation", "my region", None, 7, None, None, None),
        ("host_op", "aten::mm", None, 0, None, 7, "[[2,3],[3,4]]"),
    ]


def test_markers_are_paired_by_their_id_wherever_they_end(load: Load) -> None:
    trace = load(
        MARKER=[
            marker(START, 0, 1, MUL),
            marker(START, 1, 2, REGION),
            marker(END, 5, 1),
            marker(END, 9, 2, thread=OTHER),
            marker(START, 20, 1, REGION),
            marker(END, 22, 1),
        ],
    )
    assert columns(trace, "name", "start_ns", "dur_ns", "is_async", "self_ns") == [
        ("mul", 0, 5, False, 5),
        ("my region", 1, 8, True, None),
        ("my region", 20, 2, False, 2),
    ]
    assert accounted(trace)["events"] == 6


def test_markers_of_a_process_ignore_what_follows_its_id(load: Load) -> None:
    start = marker(START, 0, 1, REGION) | {"objectKind": PROCESS, "objectId": object_id(PID, 5)}
    end = marker(END, 4, 1) | {"objectKind": PROCESS, "objectId": object_id(PID, 9)}
    trace = load(MARKER=[start, end])
    assert columns(trace, "pid", "tid", "is_async", "self_ns") == [(str(PID), None, False, 4)]


def test_markers_without_their_other_half_are_kept(load: Load) -> None:
    trace = load(
        MARKER=[marker(START, 3, 1, MUL), marker(END, 5, 9), marker(INSTANT, 7, 4, REGION)],
    )
    assert columns(trace, "name", "start_ns", "dur_ns", "is_async") == [("mul", 3, None, True)]
    assert trace.instants.select("name", "phase", "time_ns").rows() == [
        (None, "E", 5),
        ("my region", "i", 7),
    ]
    assert found(trace) == {"unmatched_end": 1, "missing_duration": 1}
    assert accounted(trace) == {"events": 1, "instants": 2, "metadata": 10}


def test_a_range_without_a_name_has_none(load: Load) -> None:
    trace = load(MARKER=ranges(1, 0, 4, NO_NAME))
    assert columns(trace, "kind", "name", "dur_ns") == [("annotation", None, 4)]


def test_a_domain_is_an_argument(load: Load) -> None:
    rows = [row | {"domain": DOMAIN} for row in ranges(1, 0, 4, REGION)]
    trace = load(MARKER=rows)
    assert trace.events["args"].to_list() == ['{"domain": "ncclDomain"}']


def test_copies_sets_syncs_overhead_and_names(load: Load) -> None:
    device = {"contextId": 2, "streamId": 13, "correlationId": 4}
    trace = load(
        CONTEXT=[{"contextId": 2, "deviceId": 1}],
        DRIVER=[call(0, 5, 4, cbid=307), call(6, 7, 8, cbid=1)],
        MEMCPY=[device | {"start": 10, "end": 20, "bytes": 64, "copyKind": 2, "srcKind": 3,
                          "dstKind": 2}],
        MEMSET=[device | {"start": 22, "end": 25, "memoryKind": 3}],
        SYNCHRONIZATION=[device | {"start": 25, "end": 30, "type": 4, "streamId": -1}],
        OVERHEAD=[
            {"overheadKind": 131072, "objectKind": THREAD, "objectId": object_id(PID, MAIN),
             "start": 1, "end": 2},
            {"overheadKind": 1, "objectKind": PROCESS, "objectId": object_id(PID), "start": 3,
             "end": 4},
        ],
        NAME=[
            {"objectKind": PROCESS, "objectId": object_id(PID, 77), "name": SCRIPT},
            {"objectKind": THREAD, "objectId": object_id(PID, MAIN), "name": REGION},
            {"objectKind": STREAM, "objectId": object_id(13), "name": REGION},
        ],
    )  # fmt: skip
    assert columns(trace, "kind", "name", "tid", "device", "stream", "launch_id") == [
        ("driver", "cuLaunchKernel", str(MAIN), None, None, None),
        ("driver", "driver call 1", str(MAIN), None, None, None),
        ("overhead", "Instrumentation", str(MAIN), None, None, None),
        ("overhead", "Driver Compiler", None, None, None, None),
        ("memcpy", "Memcpy DtoH (Device -> Pinned)", "device 1 stream 13", 1, 13, 0),
        ("memset", "Memset (Device)", "device 1 stream 13", 1, 13, 0),
        ("sync", "Context Sync", "device 1", 1, None, 0),
    ]
    names = {
        tid: (process, thread)
        for tid, process, thread in trace.threads.select(
            "tid", "process_name", "thread_name"
        ).rows()
    }
    assert names[str(MAIN)] == ("train.py", "my region")
    assert names["device 1"] == ("train.py", None)
    assert json.loads(trace.events["args"][4])["bytes"] == 64
    assert accounted(trace) == {"events": 7, "metadata": 10 + 1 + 3}


def test_times_that_nobody_measured_are_unknown(load: Load) -> None:
    utc = 1_583_975_499_355_129_131
    trace = load(
        RUNTIME=[call(utc, utc + 9, 1)],
        CONCURRENT_KERNEL=[kernel(0, 0, 1), kernel(utc + 2, utc + 5, 1)],
    )
    assert columns(trace, "start_ns", "dur_ns") == [(utc, 9), (None, None), (utc + 2, 3)]
    assert trace.traces.select("clock", "start_ns").row(0) == ("utc", utc)
    assert found(trace) == {"missing_time": 1, "missing_duration": 1}


def test_devices_have_the_properties_that_kineto_gives(load: Load) -> None:
    trace = load(
        DEVICE=[{"_id_": 1, "id": 0, "name": V100, "globalMemorySize": 42, "numMultiprocessors": 80,
                 "computeCapabilityMajor": 7, "computeCapabilityMinor": 0, "uuid": b"\x91\xff"}],
    )  # fmt: skip
    assert json.loads(trace.traces["device_properties"][0]) == [
        {"id": 0, "name": "Tesla V100", "totalGlobalMem": 42, "numSms": 80, "computeMajor": 7,
         "computeMinor": 0, "uuid": "91FF"},
    ]  # fmt: skip


def test_kernels_of_every_table_load(load: Load) -> None:
    trace = load(
        RUNTIME=[call(0, 1, 1)],
        CONCURRENT_KERNEL=[kernel(2, 3, 1)],
        KERNEL=[kernel(4, 5, 1)],
        CDP_KERNEL=[kernel(6, 7, 1)],
        MEMCPY2=[kernel(8, 9, 1) | {"copyKind": 10, "srcKind": 3, "dstKind": 3}],
    )
    assert trace.events["kind"].to_list() == ["runtime", *["kernel"] * 3, "memcpy"]
    assert trace.events["launch_id"].to_list() == [None, 0, 0, 0, 0]


def test_an_old_kernel_has_the_correlation_of_its_runtime_call(load: Load) -> None:
    row = {n: value for n, value in kernel(5, 9, 1).items() if n != "correlationId"}
    row["runtimeCorrelationId"] = 33
    trace = load(RUNTIME=[call(0, 1, 33)], CONCURRENT_KERNEL=[row])
    assert trace.events["launch_id"].to_list() == [None, 0]


@pytest.mark.parametrize(
    "missing", ["domain", "objectKind", "objectId", "name", "timestamp", "id", "flags"]
)
def test_columns_of_markers_may_be_missing(load: Load, missing: str) -> None:
    rows = [
        {column: value for column, value in row.items() if column != missing}
        for row in ranges(1, 0, 4, REGION)
    ]
    trace = load(MARKER=rows)
    assert accounted(trace) == {
        "flags": {"instants": 2, "metadata": 10},
        "id": {"events": 1, "instants": 1, "metadata": 10},
    }.get(missing, {"events": 2, "metadata": 10})
    if missing == "objectKind":
        assert columns(trace, "pid", "tid") == [(str(PID), str(MAIN))]


@pytest.mark.parametrize("missing", few(["cbid", "threadId", "processId", "end", "returnValue"], 3))
def test_columns_of_calls_may_be_missing(load: Load, missing: str) -> None:
    row = {column: value for column, value in call(0, 4, 1).items() if column != missing}
    trace = load(RUNTIME=[row], CONCURRENT_KERNEL=[kernel(5, 9, 1)])
    assert columns(trace, "kind", "launch_id") == [("runtime", None), ("kernel", 0)]


def test_strings_may_be_missing_or_lack_what_is_asked_for(tmp_path: Path) -> None:
    rows = {"CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": [kernel(0, 1, 1, name=400)]}
    path = write(tmp_path / "a.nvvp", {"StringTable": [], **rows})
    assert profframe.load(path).events["name"].to_list() == [None]


def test_the_table_of_strings_may_be_missing(tmp_path: Path) -> None:
    rows = {"CUPTI_ACTIVITY_KIND_MARKER": ranges(1, 0, 4, REGION)}
    trace = profframe.load_nvprof(write(tmp_path / "a.nvvp", rows))
    assert columns(trace, "name", "dur_ns") == [(None, 4)]


def test_ids_that_are_too_short_are_unknown(load: Load) -> None:
    rows = [row | {"objectId": b"\x01"} for row in ranges(1, 0, 4, REGION)]
    trace = load(MARKER=rows)
    assert columns(trace, "pid", "tid", "dur_ns", "is_async") == [(None, None, 4, False)]


def test_what_is_not_loaded_is_counted_by_name(load: Load) -> None:
    trace = load(
        RUNTIME=[call(0, 1, 1)],
        CUDA_EVENT=[{"correlationId": 1}],
        ENVIRONMENT=[{"timestamp": 1}, {"timestamp": 2}],
        STREAM=[{"streamId": 7}],
    )
    assert accounted(trace) == {
        "events": 1,
        "metadata": 11,
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": 1,
        "CUPTI_ACTIVITY_KIND_ENVIRONMENT": 2,
    }
    assert found(trace) == {"rows_not_loaded": 3, "launch_without_work": 1}


def test_a_database_without_activities_loads_empty(load: Load) -> None:
    trace = load(RUNTIME=[], MARKER=[])
    assert trace.events.height == 0
    assert trace.self_times().height == 0


@pytest.mark.parametrize("name", few(['say "hi"', "<b>", "nul\0 inside", "line\nbreak", "🦄"], 3))
def test_names_are_kept_as_they_are(tmp_path: Path, name: str) -> None:
    strings = [{"_id_": 1, "value": name}]
    rows = {"CUPTI_ACTIVITY_KIND_MARKER": ranges(1, 0, 4, 1)}
    path = write(tmp_path / "a.nvvp", {"StringTable": strings, **rows})
    assert profframe.load(path).events["name"].to_list() == [name]


def test_load_nvprof_refuses_other_traces(tmp_path: Path, example: Path) -> None:
    nsys = write(tmp_path / "r.sqlite", {"StringIds": [], "NVTX_EVENTS": []})
    for path, format_ in ((nsys, "nsys"), (example, "kineto")):
        with pytest.raises(NotATraceError, match=f"of format '{format_}', not of nvprof"):
            profframe.load_nvprof(path)


def test_a_database_of_cpu_samples_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "cpu.nvvp", {"StringTable": [], "Version": [{"version": 1}]})
    with pytest.raises(NotATraceError, match="CPU samples are not a trace"):
        profframe.load_nvprof(path)


def test_a_cut_database_is_an_error(tmp_path: Path) -> None:
    path = database(tmp_path, RUNTIME=[call(n, n + 1, n) for n in range(1, 3000)])
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(SourceError, match="cannot be read") as caught:
        profframe.load_nvprof(path)
    assert str(path) in str(caught.value)
