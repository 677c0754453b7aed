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


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"kernel_flop": 4096000, "kernel_num_gb": 0.000000017}, (4096000, 17)),
        ({"kernel_flop": 4.096e6}, (4096000, None)),
        ({"kernel_num_gb": "1.5"}, (None, 1_500_000_000)),
        ({"kernel_flop": 4611686018427387903}, (4611686018427387903, None)),
        ({"kernel_flop": 0, "kernel_num_gb": 0.0}, (None, None)),
        ({"kernel_flop": -1, "kernel_num_gb": -0.5}, (None, None)),
        ({"kernel_flop": 1 << 62, "kernel_num_gb": 1e300}, (None, None)),
        ({"kernel_flop": "many", "kernel_num_gb": {"a": 1}}, (None, None)),
        ({"said": '"kernel_flop": 7'}, (None, None)),
    ],
)
@pytest.mark.parametrize(("category", "row"), [("cpu_op", 0), ("kernel", 1)])
def test_work_that_the_source_says(
    tmp_path: Path, category: str, row: int, args: dict[str, Any], expected: tuple[object, object]
) -> None:
    """Compiled code says it of the op that launches its kernel."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": cat, "name": "triton_poi", "pid": 1, "tid": 1, "ts": 0, "dur": 9}
        | {"args": args if cat == category else {}}
        for cat in ("cpu_op", "kernel")
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    rows = profframe.load(path).events.select("flops", "bytes").rows()
    assert rows[row] == expected
    assert rows[1 - row] == (None, None)
