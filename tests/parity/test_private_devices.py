"""Devices of a renamed backend have its name: live, in lists, from files, in torch's table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe.workers.inline import InlineExecutor
from tests import needs
from tests.parity.live_objects import START_NS, Results, taken

torch = needs.torch()

BLOCK = '"Bytes": 512, "Total Allocated": 512, "Device Id": 0, "Device Type": 20, "Addr": 64'


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `rename_privateuse1_backend` does it, which a process cannot take back."""
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "npu")


def profile() -> Results:
    """An op that allocates and launches a kernel on such a device."""
    linked = {"correlation_id": 9, "linked_correlation_id": 2}
    return taken(
        {"at": 0, "lasts": 100, "correlation_id": 2},
        {"name": "[memory]", "type": "cpu_instant_event", "at": 5, "metadata_json": BLOCK},
        {"name": "launch", "type": "privateuse1_runtime", "at": 10, "lasts": 10, **linked,
         "metadata_json": '"correlation": 9'},
        {"name": "gemm", "type": "kernel", "at": 50, "lasts": 40, "device_id": 0, "resource_id": 7,
         **linked, "metadata_json": '"device": 0, "stream": 7, "correlation": 9'},
    )  # fmt: skip


def exported(path: Path, monkeypatch: pytest.MonkeyPatch, label: str = "GPU 0") -> Path:
    exporter = needs.module("torch.profiler._chrome_trace_export")
    monkeypatch.setattr(exporter, "_trimester_base_ns", lambda: START_NS - 1_000_000)
    results = profile()
    exporter.export_chrome_trace(results, str(path))
    document = json.loads(path.read_text())
    for event in document["traceEvents"]:
        if event.get("args", {}).get("labels") == "GPU 0":
            event["args"]["labels"] = label
    path.write_text(json.dumps(document))
    return path


def is_called(trace: profframe.Trace, name: str) -> None:
    assert trace.traces["device_type"].to_list() == [name]
    assert trace.memory["device_type"].to_list() == [name]
    types = dict(trace.key_averages().select("name", "device_type").rows())
    assert types == {"aten::mm": "CPU", "launch": "CPU", "gemm": name}
    head = trace.table().splitlines()[1]
    assert all(
        f"{title} {name}" in head or f"{name} {title}" in head for title in ("Self", "total", "Mem")
    )
    op = trace.events.filter(trace.events["name"] == "aten::mm")
    assert op.select("device_ns", "device_bytes").rows() == [(40, 512)]
    assert trace.memory_peak()["device_type"].to_list() == [name]


@pytest.mark.usefixtures("renamed")
def test_live_and_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_called(profframe.load(profile()), "NPU")
    is_called(profframe.load(exported(tmp_path / "t.json", monkeypatch)), "NPU")


def test_nobody_has_named_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_called(profframe.load(profile()), "PRIVATEUSEONE")
    is_called(profframe.load(exported(tmp_path / "t.json", monkeypatch)), "PRIVATEUSEONE")


def test_a_label_in_the_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_called(profframe.load(exported(tmp_path / "t.json", monkeypatch, "NPU 0")), "NPU")


def test_the_name_goes_through_exports_and_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = profframe.load(exported(tmp_path / "t.json", monkeypatch, "NPU 0"))
    trace.export_chrome_trace(tmp_path / "again.json")
    trace.to_parquet(tmp_path / "store")
    profframe.convert(tmp_path / "t.json", tmp_path / "converted", executor=InlineExecutor())
    is_called(profframe.load(tmp_path / "again.json"), "NPU")
    is_called(profframe.load(tmp_path / "store"), "NPU")
    is_called(profframe.load(tmp_path / "converted"), "NPU")
    records = [
        event["args"]["Device Type"]
        for event in json.loads((tmp_path / "again.json").read_text())["traceEvents"]
        if event.get("name") == "[memory]"
    ]
    assert records == [20]


@pytest.mark.usefixtures("renamed")
def test_memory_outside_of_all_slices_counts_as_the_devices() -> None:
    block = {"name": "[memory]", "type": "cpu_instant_event", "at": 900, "metadata_json": BLOCK}
    trace = profframe.load(taken({"at": 0, "lasts": 100, "correlation_id": 2}, block))
    assert trace.memory["device_type"].to_list() == ["NPU"]
    rows = dict(trace.key_averages().select("name", "device_bytes").rows())
    assert rows["[memory]"] == 512


def events(**more: Any) -> list[Any]:
    from torch.autograd import DeviceType
    from torch.autograd.profiler_util import FunctionEvent

    op = FunctionEvent(
        id=1, node_id=-1, name="aten::mm", trace_name="aten::mm", thread=1, start_us=0, end_us=10,
        **more,
    )  # fmt: skip
    kernel = FunctionEvent(
        id=2, node_id=-1, name="gemm", thread=7, start_us=2, end_us=5, device_index=0,
        device_type=DeviceType.PrivateUse1, linked_correlation_id=1, **more,
    )  # fmt: skip
    return [op, kernel]


def test_lists_say_it_themselves(tmp_path: Path) -> None:
    from torch.autograd.profiler_util import EventList

    named = events(use_device="npu")
    assert profframe.load(named).traces["device_type"].to_list() == ["NPU"]
    listed = EventList(events(), use_device="npu")
    assert profframe.load(listed).traces["device_type"].to_list() == ["NPU"]
    assert profframe.load(events()).traces["device_type"].to_list() == ["PRIVATEUSEONE"]
    named[0].append_kernel("gemm", 0, 3)
    EventList(named[:1], use_device="npu").export_chrome_trace(str(tmp_path / "list.json"))
    assert profframe.load(tmp_path / "list.json").traces["device_type"].to_list() == ["NPU"]


@pytest.mark.usefixtures("renamed")
def test_a_profile_of_the_host_has_no_such_device() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        torch.ones(2)
    assert profframe.load(prof).traces["device_type"].to_list() == [None]
