"""Devices and damage in live profiles, on stand-ins for torch's objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.facts.pipeline import add_facts
from profframe.readers.build.row_tables import Header
from profframe.readers.torch import kineto
from tests import needs
from tests.parity.live_objects import HOST, START_NS, Results, gpu_profile, taken


def rows(trace: profframe.Trace, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of the slices, without the profiler's own."""
    found: list[tuple[Any, ...]] = (
        trace.events.filter(trace.events["kind"] != "profiler").select(columns).rows()
    )
    return found


def test_kernels_belong_to_the_ops_that_launched_them() -> None:
    trace = profframe.load(gpu_profile())
    assert rows(trace, "name", "kind", "device", "stream", "launch_id", "op_id", "device_ns") == [
        ("step", "annotation", None, None, None, None, 430),
        ("aten::mm", "host_op", None, None, None, None, 340),
        ("record_param_comms", "host_op", None, None, None, None, 90),
        ("cudaLaunchKernel", "runtime", None, None, None, None, 0),
        ("cudaMemcpyAsync", "runtime", None, None, None, None, 0),
        ("cudaLaunchKernel", "runtime", None, None, None, None, 0),
        ("sgemm", "kernel", 0, 7, 3, 1, 300),
        ("Memcpy DtoH", "memcpy", 0, 7, 4, 1, 40),
        ("ncclKernel", "kernel", 0, 8, 5, 2, 90),
        ("step", "device_annotation", 0, 7, None, 0, 490),
        ("Stream Sync", "sync", 0, 7, None, None, None),
        ("Activity Buffer Request", "overhead", None, None, None, None, 0),
    ]


def test_a_device_is_told_from_the_host() -> None:
    trace = profframe.load(gpu_profile())
    assert trace.traces["device_type"].to_list() == ["CUDA"]
    lines = trace.threads.select("pid", "tid", "process_labels", "thread_name").rows()
    assert (str(HOST), str(HOST), "CPU", f"thread {HOST}") in lines
    assert ("0", "7", "GPU 0", "stream 7 ") in lines
    assert ("-1", "0", "Overhead", "thread 0") in lines
    assert trace.memory.select("device_type", "device", "bytes").rows() == [("CUDA", 0, 512)]
    assert rows(trace, "device_bytes")[:2] == [(512,), (512,)]


def test_kernels_of_a_collective_say_what_it_is() -> None:
    trace = profframe.load(gpu_profile())
    args = {name: json.loads(text or "{}") for name, text in rows(trace, "name", "args")}
    assert args["ncclKernel"]["Collective name"] == "allreduce"
    assert "Collective name" not in args["sgemm"]


def test_numbers_that_are_not_of_json_become_null_and_are_counted() -> None:
    trace = profframe.load(gpu_profile())
    args = dict(rows(trace, "name", "args"))
    assert json.loads(args["sgemm"])["warps per SM"] is None
    checks = [("non_finite_number", 1), ("collective_without_metadata", 1)]
    assert trace.quality.select("issue", "events").rows() == checks


def test_arguments_that_are_no_json_are_mended() -> None:
    broken = '"Call stack": "f.py(1): say "hi";g.py(2): run", "Module Hierarchy": "C:\\net"'
    trace = profframe.load(
        taken(
            {"name": "first", "at": 0, "lasts": 5, "correlation_id": 1},
            {"name": "second", "at": 6, "lasts": 5, "correlation_id": 2, "metadata_json": broken},
        )
    )
    assert rows(trace, "name", "stack", "external_id") == [
        ("first", None, 1),
        ("second", 'f.py(1): say "hi";g.py(2): run', 2),
    ]
    assert "raw_quote" in trace.quality["issue"].to_list()


def test_arguments_beyond_repair_are_kept_as_text() -> None:
    trace = profframe.load(taken({"at": 0, "lasts": 5, "metadata_json": '"a": 1}, {"b": 2'}))
    ((args,),) = rows(trace, "args")
    assert json.loads(args) == {"args": '{"a": 1}, {"b": 2, "Ev Idx": 0}'}
    assert trace.quality.select("issue", "events").rows() == [("unreadable_arguments", 1)]


def test_a_file_by_torchs_python_exporter_has_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = needs.module("torch.profiler._chrome_trace_export")
    monkeypatch.setattr(exporter, "_trimester_base_ns", lambda: START_NS - 1_000_000)
    results = gpu_profile()
    for activity in results.activities:  # its linked op, and no number that is not of JSON
        activity.fields["linked_activity"] = next(
            (
                op
                for op in results.activities
                if activity.fields["type"] == "kernel"
                and op.fields["type"] == "cpu_op"
                and op.fields["correlation_id"] == activity.fields["linked_correlation_id"]
            ),
            None,
        )
    exporter.export_chrome_trace(results, str(tmp_path / "gpu.json"))
    live, file = profframe.load(results), profframe.load(tmp_path / "gpu.json")
    live_rows, file_rows = live.events.to_dicts(), file.events.to_dicts()
    differ = {
        column
        for mine, its in zip(live_rows, file_rows, strict=True)
        for column in mine
        if mine[column] != its[column] and mine["kind"] != "profiler"
    }
    assert differ <= {"run", "is_async"}
    for table in ("flows", "memory"):
        assert getattr(live, table).drop("run").equals(getattr(file, table).drop("run"))


def test_only_the_live_object_knows() -> None:
    told: dict[str, dict[str, Any]] = {
        "aten::add.Tensor": {"name": "aten::add", "overload_name": "Tensor", "flops": 8},
        "region": {"end_thread_id": 2, "duration_ns": 80, "scope": 7},
        "script": {"scope": 2},
    }
    trace = profframe.load(
        taken(
            {"name": "aten::add.Tensor", "at": 0, "lasts": 50, "correlation_id": 1},
            {"name": "region", "type": "user_annotation", "at": 10, "lasts": 90},
            {"name": "script", "at": 60, "lasts": 5, "correlation_id": 3},
            **told,
        )
    )
    assert rows(
        trace, "name", "overload_name", "torch_flops", "is_async", "scope", "dur_ns", "self_ns"
    ) == [
        ("aten::add", "Tensor", 8, False, 0, 50, 50),
        ("region", None, None, True, 7, 80, None),
        ("script", None, None, False, 2, 5, 5),
    ]


def test_events_of_one_time_keep_the_profilers_order() -> None:
    results = taken(
        {"name": "outer", "at": 0, "lasts": 10, "correlation_id": 1},
        {"name": "inner", "at": 0, "lasts": 10, "correlation_id": 2},
        outer={"scope": 3},
        inner={"scope": 4},
    )
    results.activities.reverse()  # the order of the file is another
    trace = profframe.load(results)
    assert rows(trace, "name", "scope", "depth") == [("inner", 4, 1), ("outer", 3, 0)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda results: results.torch_events.pop(),
        lambda results: results.torch_events[0].fields.update(start_ns=START_NS - 5),
    ],
)
def test_events_that_fit_no_activities_are_left_out(spoil: Callable[[Results], object]) -> None:
    results = gpu_profile()
    spoil(results)
    trace = profframe.load(results)
    assert set(trace.events["is_async"]) == {None}
    assert "unmatched_live_events" in trace.quality["issue"].to_list()
    assert rows(trace, "name")[0] == ("step",)


def test_a_profile_that_was_only_traced_has_what_its_file_has() -> None:
    results = gpu_profile()
    results.torch_events.clear()
    trace = profframe.load(results)
    assert len(rows(trace, "name")) == 12
    assert set(trace.events["is_async"]) == {None}
    assert "unmatched_live_events" not in trace.quality["issue"].to_list()


def test_text_that_is_no_unicode_is_replaced() -> None:
    results = taken({"at": 0, "lasts": 5, "correlation_id": 1})

    class Broken(type(results.activities[0])):  # type: ignore[misc]
        def name(self) -> str:
            return b"caf\xe9".decode()

    results.activities[0].__class__ = Broken
    trace = profframe.load(results)
    assert rows(trace, "name") == [("caf\N{REPLACEMENT CHARACTER}",)]
    assert trace.quality.select("issue", "events").rows() == [("invalid_utf8", 1)]


def test_the_exporter_is_left_to_the_user() -> None:
    results = gpu_profile()
    first, again = profframe.load(results), profframe.load(results)
    assert all(first.tables[name].equals(again.tables[name]) for name in first.tables)
    assert results.read == 2


@pytest.mark.parametrize("size", [1, 2, 5])
def test_parts_make_no_difference(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = profframe.load(gpu_profile())
    monkeypatch.setattr(kineto, "_ROWS", size)
    parts = profframe.load(gpu_profile())
    for name in whole.tables:
        assert parts.tables[name].to_pylist() == whole.tables[name].to_pylist()


def test_device_time_that_torch_measured_itself() -> None:
    told = {"outer": {"cuda_elapsed_us": 90}, "inner": {"cuda_elapsed_us": 35}}
    results = taken(
        {"name": "outer", "at": 0, "lasts": 50, "correlation_id": 1},
        {"name": "inner", "at": 10, "lasts": 20, "correlation_id": 2},
        {"name": "second", "at": 40, "lasts": 5, "correlation_id": 3},
        **told,
    )
    raw = kineto.read(
        results, kineto.ProfilerSettings(Header("torch", "utc"), elapsed="cuda_elapsed_us")
    )
    events = add_facts(raw.tables)["events"].slice(0, 3)
    assert events["is_legacy"].to_pylist() == [True, True, False]
    assert events["device_ns"].to_pylist() == [90_000, 35_000, 0]
    assert events["self_device_ns"].to_pylist() == [55_000, 35_000, 0]


def test_arguments_keep_the_text_of_their_numbers() -> None:
    said = '"a": 1.10, "stream": 7, "b": [1e5, -0, "x: 1.10"], "c": 0.12345678901234567'
    trace = profframe.load(
        taken({"name": "k", "type": "kernel", "at": 0, "lasts": 5, "metadata_json": said})
    )
    assert rows(trace, "stream", "args") == [
        (7, '{"a":1.10,"stream":7,"b":[1e5,-0,"x: 1.10"],"c":0.12345678901234567}')
    ]
