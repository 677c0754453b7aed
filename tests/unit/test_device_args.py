"""What slices on a device say of their work: bytes, collectives, what they wait for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import profframe

COLUMNS = ("bytes", "collective", "process_group", "wait_on_stream", "wait_on_correlation")


def found(tmp_path: Path, category: str, name: str, args: dict[str, Any]) -> tuple[object, ...]:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9}
        | {"args": {"bytes": 5, "Collective name": "no"}},
        {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 2}
        | {"args": args},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    rows = profframe.load(path).events.select(COLUMNS).rows()
    assert rows[0] == (None,) * 5, "what is no work of a device says nothing of it"
    return rows[1]


@pytest.mark.parametrize(
    ("category", "name", "args", "expected"),
    [
        ("gpu_memcpy", "Memcpy HtoD", {"bytes": 4096}, (4096, None, None, None, None)),
        ("gpu_memset", "Memset", {"bytes": "512"}, (512, None, None, None, None)),
        ("gpu_memcpy", "Memcpy HtoD", {"bytes": -1}, (None,) * 5),
        ("gpu_memcpy", "Memcpy HtoD", {"bytes": 1 << 63}, (None,) * 5),
        (
            "kernel",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            {"Collective name": "allreduce", "Process Group Name": "7", "dtype": "Float"},
            (None, "allreduce", "7", None, None),
        ),
        (
            "kernel",
            "ncclDevKernel",
            {"Collective name": "", "Process Group Name": "", "Process Group Description": "dp"},
            (None, None, "dp", None, None),
        ),
        (
            "cuda_sync",
            "Stream Wait Event",
            {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 31},
            (None, None, None, 7, 31),
        ),
        (
            "cuda_sync",
            "Context Sync",
            {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": 0},
            (None,) * 5,
        ),
        ("cuda_sync", "Event Sync", {"wait_on_cuda_event_record_corr_id": -1}, (None,) * 5),
    ],
)
def test_columns(
    tmp_path: Path, category: str, name: str, args: dict[str, Any], expected: tuple[object, ...]
) -> None:
    args = {"device": 0, "stream": 7, "correlation": 3, **args}
    assert found(tmp_path, category, name, args) == expected


def test_the_op_that_records_a_collective_names_it(tmp_path: Path) -> None:
    args = {"Collective name": "broadcast", "Process Group Name": "0"}
    expected = (None, "broadcast", "0", None, None)
    assert found(tmp_path, "cpu_op", "record_param_comms", args) == expected
