"""Arrows of the lists that torch's ``EventList.export_chrome_trace`` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import profframe

Json = dict[str, Any]


def host(name: str, ts: float, dur: float, tid: int = 1) -> Json:
    where = {"pid": "CPU functions", "tid": tid, "args": {}}
    return where | {"name": name, "ph": "X", "ts": ts, "dur": dur}


def start(name: str, ts: float, number: int, device: str = "cuda", tid: int = 1) -> Json:
    arrow = {"ph": "s", "id": number, "cat": f"cpu_to_{device}", "args": {}}
    return arrow | {"name": name, "ts": ts, "pid": "CPU functions", "tid": tid}


def end(name: str, ts: float, number: int, tid: int = 0) -> Json:
    arrow = {"ph": "f", "id": number, "cat": "cpu_to_cuda", "args": {}}
    return arrow | {"name": name, "ts": ts, "pid": "CUDA functions", "tid": tid}


def kernel(name: str, ts: float, dur: float, tid: int = 0) -> Json:
    return host(name, ts, dur, tid) | {"pid": "CUDA functions"}


def loaded(folder: Path, *events: Json, compat: str | None = None) -> profframe.Trace:
    (folder / "list.json").write_text(json.dumps(events))
    return profframe.load(folder / "list.json", compat=compat)


@pytest.mark.parametrize("compat", [None, "torch"])
def test_arrows_give_ops_and_device_times(compat: str | None, tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        host("mm", 10.5, 40),
        start("mm", 10.5, 0), end("gemm", 60, 0), kernel("gemm", 60, 8),
        start("mm", 10.5, 1), end("gemm", 70, 1), kernel("gemm", 70, 4),
        host("inside", 10.5, 20),
        start("inside", 10.5, 2), end("copy", 60, 2), kernel("copy", 60, 2),
        host("mm", 10.5, 40, tid=2),
        start("mm", 10.5, 3, tid=2), end("gemm", 60, 3, tid=1), kernel("gemm", 60, 16, tid=1),
        compat=compat,
    )  # fmt: skip
    assert trace.events.select("name", "device", "op_id", "device_ns", "self_device_ns").rows() == [
        ("mm", None, None, 14_000, 12_000),
        ("gemm", 0, 0, 8_000, 8_000),
        ("gemm", 0, 0, 4_000, 4_000),
        ("inside", None, None, 2_000, 2_000),
        ("copy", 0, 3, 2_000, 2_000),
        ("mm", None, None, 16_000, 16_000),
        ("gemm", 1, 5, 16_000, 16_000),
    ]
    assert trace.traces["device_type"].to_list() == ["CUDA"]
    assert trace.quality.height == 0


def test_an_arrow_from_a_call_gives_the_call(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        host("mm", 10, 40),
        host("cudaLaunchKernel", 20, 5),
        start("cudaLaunchKernel", 20, 0), end("gemm", 60, 0), kernel("gemm", 60, 8),
    )  # fmt: skip
    assert trace.events.select("launch_id", "op_id", "device_ns").rows() == [
        (None, None, 8_000),
        (None, None, 0),
        (1, 0, 8_000),
    ]


def test_slices_of_one_name_and_time_have_an_arrow_each(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        host("a", 0, 5), start("a", 0, 0), end("k", 60, 0), kernel("k", 60, 0),
        host("b", 9, 5), start("b", 9, 1), end("k", 60, 1), kernel("k", 60, 3),
    )  # fmt: skip
    assert trace.events["op_id"].to_list() == [None, 0, None, 2]


def test_arrows_that_lead_nowhere_are_counted(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        host("mm", 10, 40), start("mm", 10, 0), start("mm", 10, 1),
        end("gemm", 60, 2), kernel("gemm", 60, 8),
        start("mm", 10, 3), end("gemm", 61, 3),
        start("mm", 11, 4, device="xpu"),
    )  # fmt: skip
    details = trace.quality.filter(trace.quality["issue"] == "broken_launch_arrow")
    assert [(row["events"], row["detail"].split(": ")[1]) for row in details.to_dicts()] == [
        (2, "cpu_to_cuda, without an end"),
        (1, "cpu_to_cuda, without a start"),
        (1, "cpu_to_cuda, no slice begins where it does"),
        (1, "cpu_to_xpu, without an end"),
    ]
    assert trace.events["op_id"].to_list() == [None, None]
    assert trace.events["device_ns"].to_list() == [0, 8_000]
