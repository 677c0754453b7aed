"""Kernels that the ops of a list name, with their slices in the list or without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import profframe
from tests import needs
from tests.round_trip import differences

torch = needs.torch()
util = torch.autograd.profiler_util
CUDA = torch.autograd.DeviceType.CUDA
TIMES = ("name", "op_id", "device_ns", "self_device_ns")


def op(name: str, start: float, end: float, *kernels: tuple[str, int, float], **more: Any) -> Any:
    """An event of the host in microseconds, and the kernels that it names."""
    given = {"id": 0, "thread": 1, "use_device": "cuda", "input_shapes": [], "stack": []} | more
    made = util.FunctionEvent(name=name, start_us=start, end_us=end, **given)
    for kernel in kernels:
        made.append_kernel(*kernel)
    return made


def piece(name: str, start: float, end: float, device: int = 0, **more: Any) -> Any:
    """A slice on a device."""
    given = {"thread": 7, "device_type": CUDA, "device_index": device}
    return op(name, start, end, **given | more)


def times(events: list[Any], compat: str | None = None) -> list[tuple[Any, ...]]:
    return profframe.load(events, compat=compat).events.select(TIMES).rows()


@pytest.mark.parametrize("compat", [None, "torch"])
def test_a_kernel_that_is_a_slice_is_linked_and_another_counts_beside_it(
    compat: str | None,
) -> None:
    events = [
        op("outer", 0, 100, ("gemm", 0, 30), ("copy", 1, 5.5)),
        op("inner", 10, 90, ("gemm", 0, 20)),
        piece("gemm", 50, 70),
        piece("gemm", 110, 140),
        piece("gemm", 150, 180, device=1),
    ]
    assert times(events, compat) == [
        ("outer", None, 55_500, 35_500),
        ("inner", None, 20_000, 20_000),
        ("gemm", 1, 20_000, 20_000),
        ("gemm", 0, 30_000, 30_000),
        ("gemm", None, 30_000, 30_000),
    ]


def test_kernels_that_are_alike_are_paired_by_time() -> None:
    events = [
        piece("fill", 300, 301),
        op("second", 50, 60, ("fill", 0, 1)),
        op("first", 0, 10, ("fill", 0, 1), ("fill", 0, 1)),
        piece("fill", 100, 101),
        piece("fill", 200, 201),
        op("third", 70, 80, ("fill", 0, 1)),
    ]
    assert times(events) == [
        ("fill", 1, 1000, 1000),
        ("second", None, 1000, 1000),
        ("first", None, 2000, 2000),
        ("fill", 2, 1000, 1000),
        ("fill", 2, 1000, 1000),
        ("third", None, 1000, 1000),
    ]


def test_numbers_go_before_times() -> None:
    if not hasattr(op("f", 0, 1), "linked_correlation_id"):
        needs.another_release("no linked_correlation_id")
    events = [
        op("first", 0, 10, ("k", 0, 1), id=5),
        op("second", 20, 30, ("k", 0, 1), id=6),
        piece("k", 100, 101, id=90, linked_correlation_id=6),
        piece("k", 200, 201, id=91, linked_correlation_id=5),
    ]
    assert [row[1] for row in times(events)[2:]] == [1, 0]


def test_what_a_call_names_is_its_ops() -> None:
    events = [
        op("aten::mm", 0, 50, ("gemm", 0, 40), id=7),
        op("cudaLaunchKernel", 10, 20, id=99),
        op("cudaDeviceSynchronize", 60, 90, ("gemm", 0, 40), id=7),
        op("cudaStreamSynchronize", 95, 99, ("alone", 0, 3), id=8),
        piece("gemm", 30, 70, id=99),
    ]
    trace = profframe.load(events)
    assert trace.events.select("kind", "device_ns", "op_id", "launch_id").rows() == [
        ("host_op", 40_000, None, None),
        ("runtime", 0, None, None),
        ("runtime", 0, None, None),
        ("runtime", 3_000, None, None),
        ("kernel", 40_000, 0, 1),
    ]


def test_a_kernel_of_no_possible_time_is_counted() -> None:
    trace = profframe.load([op("f", 0, 1, ("k", 0, float("nan")), ("k", 0, -1), ("k", 0, 2))])
    assert trace.events["device_ns"].to_list() == [2000]
    assert trace.quality.select("issue", "events").rows() == [("impossible_duration", 2)]


def test_kernels_without_times_are_refused() -> None:
    event = op("f", 0, 1)
    event.kernels = ["gemm"]
    with pytest.raises(
        profframe.ParameterError, match="kernels without times, which torch's own never have"
    ):
        profframe.load([event])


def test_a_written_list_reads_back(tmp_path: Path) -> None:
    events = [
        op("outer", 0, 100, ("gemm", 0, 30), ("copy", 1, 5.5)),
        op("inner", 10, 90, ("gemm", 0, 20)),
        piece("gemm", 50, 70),
        piece("gemm", 110, 140),
    ]
    trace = profframe.load(events)
    trace.export_chrome_trace(tmp_path / "out.json")
    back = profframe.load(tmp_path / "out.json")
    assert differences(trace, back) == []
    back.to_parquet(tmp_path / "store")
    assert profframe.load(tmp_path / "store").events.select(TIMES).rows() == times(events)


def test_typed_metadata_are_arguments() -> None:
    event = op("f", 0, 1)
    event.metadata = {"hsa_queue": 3, "grid": [1, 2], "share": float("inf"), "text": 'a"b'}
    plain = op("g", 2, 3)
    plain.metadata = None
    trace = profframe.load([event, plain])
    assert trace.events["args"].to_list() == [
        '{"hsa_queue": 3, "grid": [1, 2], "share": null, "text": "a\\"b"}',
        None,
    ]
    assert trace.quality.select("issue", "events").rows() == [("non_finite_number", 1)]
    assert trace.sql("SELECT args->>'hsa_queue' AS queue FROM events WHERE name = 'f'").rows() == [
        ("3",)
    ]


def test_memory_of_devices_before_torch_2_4() -> None:
    event = op("f", 0, 1)
    if not hasattr(event, "device_memory_usage"):
        needs.another_release("no device_memory_usage")
    del event.device_memory_usage
    event.cuda_memory_usage, event.privateuse1_memory_usage = 64, -8
    assert profframe.load([event]).events["device_bytes"].to_list() == [56]
