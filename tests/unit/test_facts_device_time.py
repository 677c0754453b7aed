"""Time of devices: where it counts by default, and where torch counts it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from profframe.facts.pipeline import add_facts
from tests.builders import Row, event, tables

SOURCE: tuple[Row, ...] = (
    event("aten::linear", 0, 100, external_id=1),
    event("aten::mm", 10, 50, external_id=2),
    event("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=7, external_id=2),
    event("sgemm", 60, 70, category="kernel", thread=9, correlation=7, external_id=2),
    event("Stream Sync", 70, 73, category="cuda_sync", thread=9, correlation=8, external_id=2),
)


def times(*events: Row, device_type: str | None = "CUDA", compat: str | None = None) -> Any:
    """``device_ns`` and ``self_device_ns`` of each row."""
    source = tables(*events, header={"device_type": device_type})
    made = add_facts(source, compat=compat)["events"]
    return [made[name].to_pylist() for name in ("device_ns", "self_device_ns")]


def test_a_kernel_counts_at_the_op_that_launched_it() -> None:
    assert times(*SOURCE) == [[10, 10, 0, 10, None], [0, 10, 0, 10, None]]


def test_it_counts_at_all_that_is_around_the_launch() -> None:
    """Of a frame between op and call, too; the last row has nothing of a kernel without an op."""
    found = times(
        event("aten::mm", 0, 100),
        event("frame", 10, 90, category="python_function"),
        event("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=7),
        event("sgemm", 60, 70, category="kernel", thread=9, correlation=7),
        event("sgemm", 70, 75, category="kernel", thread=9, correlation=8),
        event("aten::add", 110, 120),
    )
    assert found == [[10, 10, 0, 10, 5, 0], [10, 0, 0, 10, 5, 0]]


def test_a_call_in_the_first_row_has_what_it_launched() -> None:
    found = times(
        event("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=7),
        event("frame", 10, 90, category="python_function"),
        event("aten::mm", 0, 100),
        event("sgemm", 60, 70, category="kernel", thread=9, correlation=7),
    )
    assert found == [[0, 10, 10, 10], [0, 0, 10, 10]]


def test_a_kernel_may_have_no_length_or_no_end() -> None:
    """An asynchronous op has the time of its kernels, also where that is 0."""
    found = times(
        event("aten::a", 0, 100, is_async=True, external_id=1),
        event("aten::b", 0, 100, is_async=True, external_id=2),
        event("aten::c", 0, 100, is_async=True, external_id=3),
        event("aten::d", 0, 100, is_async=True, external_id=4),
        event("sgemm", 60, 60, category="kernel", thread=9, external_id=1),
        event("sgemm", 60, None, category="kernel", thread=9, external_id=2),
        event("sgemm", 60, 67, category="kernel", thread=9, external_id=3),
        event("region", 60, None, category="gpu_user_annotation", thread=9),
    )
    own = [0, None, 7, None, 0, None, 7, None]
    assert found == [own, own]


def test_without_numbers_torchs_rules_are_not_asked() -> None:
    plain = [{**row, "external_id": None} for row in SOURCE]
    assert times(*plain, compat="torch") == times(*plain) == times(*SOURCE)


def test_what_the_old_profiler_has_measured_is_of_all_that_is_inside() -> None:
    source = tables(
        event("aten::linear", 0, 100, is_legacy=True),
        event("region", 5, 95),
        event("aten::mm", 10, 50, is_legacy=True),
        event("aten::t", 60, 70),
        event("aten::add", 200, 210, is_legacy=True),
    )
    given = pa.array([30, None, 10, None, 4], pa.int64())
    source = {**source, "events": source["events"].append_column("kernel_ns", given)}
    made = add_facts(source)["events"]
    assert made["device_ns"].to_pylist() == [30, 10, 10, 0, 4]
    assert made["self_device_ns"].to_pylist() == [20, 0, 10, 0, 4]


@pytest.mark.parametrize("device_type", ["CUDA", "XPU", "PRIVATEUSEONE", None])
def test_as_torch_has_it_a_sync_counts_too(device_type: str | None) -> None:
    found = times(*SOURCE, device_type=device_type, compat="torch")
    assert found == [[13, 13, 0, 10, 3], [0, 13, 0, 10, 3]]


@pytest.mark.parametrize("device_type", ["MTIA", "HPU"])
def test_torch_gives_the_work_of_some_devices_to_no_op(device_type: str) -> None:
    found = times(*SOURCE, device_type=device_type, compat="torch")
    assert found == [[0, 0, 0, 10, 3], [0, 0, 0, 10, 3]]
    assert times(*SOURCE, device_type=device_type) == times(*SOURCE)


def test_as_torch_has_it_an_op_that_takes_over_duplicates_has_what_the_innermost_launched() -> None:
    """Also where that launched nothing: what is further out is lost."""
    ops = [event("aten::mm", n, 100 - n, external_id=1 + n) for n in range(3)]

    def launched(*numbers: int) -> list[Row]:
        more: dict[str, Any] = {"category": "kernel", "thread": 9}
        return [event("sgemm", 200, 200 + 10**n, external_id=1 + n, **more) for n in numbers]

    own = [times(*ops, *launched(*n), compat="torch")[1][:3] for n in ((0, 1, 2), (0, 1), (2,))]
    assert own == [[100, 0, 0], [0, 0, 0], [100, 0, 0]]
