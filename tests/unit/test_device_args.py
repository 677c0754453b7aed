"""What slices on a device say of their work: bytes, collectives, what they wait for."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe.readers.build.row_tables import typed
from profframe.schema import NAME

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


ROCM = {
    "__amd_rocclr_copyBuffer.kd": 30.0,
    "__amd_rocclr_fillBufferAligned": 20.0,
    "MEMORY_COPY_HOST_TO_DEVICE": 10.0,
    "elementwise_kernel": 5.0,
}


def test_copies_that_rocm_writes_as_kernels_are_copies_of_unknown_size(tmp_path: Path) -> None:
    """All four inside one addition of 100 floats: the kernel alone has its 1,200 bytes."""
    inputs = {"Input Dims": [[100], [100], []], "Input type": ["float", "float", "Scalar"]}
    host = {"ph": "X", "pid": 1, "tid": 1}
    events = [
        host | {"cat": "cpu_op", "name": "aten::add", "ts": 0, "dur": 90}
        | {"args": inputs | {"External id": 7}}
    ]  # fmt: skip
    for number, (name, dur) in enumerate(ROCM.items(), 1):
        call = {"cat": "cuda_runtime", "name": "hipLaunchKernel", "ts": 10 * number, "dur": 1}
        device = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 0}
        events += [
            host | call | {"args": {"correlation": number}},
            device | {"ts": 100 * number, "dur": dur}
            | {"args": {"device": 0, "stream": 0, "correlation": number}},
        ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = profframe.load(path)
    work = trace.events.filter(trace.events["device"].is_not_null())
    assert work.select("kind", "category", "bytes", "flops", "work_id").rows() == [
        ("memcpy", "kernel", None, None, None),
        ("memset", "kernel", None, None, None),
        ("memcpy", "kernel", None, None, None),
        ("kernel", "kernel", 1200, 100, 0),
    ]
    assert trace.events["device_ns"][0] == 65_000
    assert trace.time_breakdown(per="combination").select("classes", "total_ns").rows() == [
        ("copy", 40_000), ("compute", 25_000)
    ]  # fmt: skip
    assert trace.kernels()["name"].to_list() == ["elementwise_kernel"]
    sizes = trace.memory_bandwidth().select("kind", "calls", "unsized_calls", "bytes").rows()
    assert sorted(sizes) == [("memcpy", 1, 1, None), ("memcpy", 1, 1, None), ("memset", 1, 1, None)]
    trace.export_chrome_trace(tmp_path / "again.json")
    assert profframe.load(tmp_path / "again.json").events["kind"].to_list() == (
        trace.events["kind"].to_list()
    )


COLLECTIVE = (
    "collective", "process_group", "group_size", "group_ranks", "collective_seq", "collective_id",
    "element_type", "in_elements", "out_elements", "in_splits", "out_splits", "peer_rank",
)  # fmt: skip
WHOLE = {
    "Collective name": "all_to_allv",
    "In msg nelems": 5,
    "Out msg nelems": 7,
    "Group size": 2,
    "dtype": "Float8_e4m3fn",
    "In split size": "[2, 3]",
    "Out split size": "[3, 4]",
    "Process Group Name": "ep",
    "Process Group Ranks": "[0, 4]",
    "Seq": 31,
    "Comms Id": 18446744073709551615,
}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            WHOLE,
            {
                "collective": "all_to_allv",
                "process_group": "ep",
                "group_size": 2,
                "group_ranks": "[0,4]",
                "collective_seq": 31,
                "collective_id": "18446744073709551615",
                "element_type": "Float8_e4m3fn",
                "in_elements": 5,
                "out_elements": 7,
                "in_splits": "[2,3]",
                "out_splits": "[3,4]",
            },
        ),
        (
            {"Collective name": "send", "Group size": 3, "Dst Rank": 2, "Seq": -1, "Comms Id": ""}
            | {"Global rank start": 1, "Global rank stride": 4},
            {"collective": "send", "group_size": 3, "group_ranks": "[1,5,9]", "peer_rank": 2},
        ),
        ({"Collective name": "recv", "Src Rank": 0}, {"collective": "recv", "peer_rank": 0}),
        (
            {"Process Group Name": "dp", "Process Group Ranks": "[0, 1, ...]", "Group size": 40}
            | {"Global rank start": 0, "Global rank stride": 0, "In split size": "[]"},
            {"process_group": "dp", "group_size": 40},
        ),
        ({"Seq": 2, "In msg nelems": -1, "Group size": 0}, {"collective_seq": 2}),
        ({"Seq": "no number", "Process Group Ranks": "not a list"}, {}),
    ],
)
@pytest.mark.parametrize(
    ("category", "name"), [("kernel", "ncclDevKernel"), ("cpu_op", "record_param_comms")]
)
def test_what_a_collective_says(
    tmp_path: Path, category: str, name: str, args: dict[str, Any], expected: dict[str, object]
) -> None:
    slice_ = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [slice_ | {"args": {"device": 0, **args}}]}))
    [row] = profframe.load(path).events.select(COLLECTIVE).to_dicts()
    assert row == dict.fromkeys(COLLECTIVE) | expected


def test_what_a_collective_of_ascend_says(tmp_path: Path) -> None:
    args = {"model id": 1, "data_type": "FP16", "alg_type": "RING", "count": 640}
    slice_ = {"ph": "X", "name": "hcom_allReduce__538_0_1", "pid": 9, "tid": 2, "ts": 1, "dur": 2}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([slice_ | {"args": args}]))
    [row] = profframe.load(path).events.select(COLLECTIVE).to_dicts()
    expected = {"collective": "allReduce", "process_group": "538", "element_type": "FP16"}
    assert row == dict.fromkeys(COLLECTIVE) | expected | {"in_elements": 640}


@pytest.mark.parametrize("wide", [pa.large_string(), pa.string_view()])
def test_texts_are_of_one_type_whoever_made_them(wide: pa.DataType) -> None:
    assert typed(pa.array(["a", None], wide), NAME).type == NAME


@given(
    kind=st.sampled_from(["amd:{}", "cuda:{}", "GPU {}", "xpu:{}", "{}", "npu {}", "gfx942:{}"]),
    numbers=st.lists(st.integers(0, 130), min_size=1, max_size=4),
)
def test_a_device_may_be_named_by_a_text(kind: str, numbers: list[int]) -> None:
    """Beside numbers, and where neither is there, the process tells."""
    own: list[dict[str, Any]] = [{"device": kind.format(number)} for number in numbers]
    own += [{"device": 5}, {"device": "cuda"}, {"name": "cuda:3"}]
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 17, "tid": 9, "ts": at, "dur": 1}
        | {"args": args | {"correlation": at, "stream": 7}}
        for at, args in enumerate(own)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "a.json")
        file.write_text(json.dumps(events))
        rows = profframe.load(file).scan("events").collect()
    assert rows["device"].to_list() == [*numbers, 5, 17, 17]
    assert rows["stream"].to_list() == [7] * len(own)
    assert rows["correlation"].to_list() == list(range(len(own)))
