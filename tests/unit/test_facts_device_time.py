"""Time of devices: where it counts by default, and where torch counts it."""

from __future__ import annotations

from typing import Any

import pytest

from profframe.facts import add_facts
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
    made = add_facts(tables(*events, header={"device_type": device_type}), compat=compat)["events"]
    return [made[name].to_pylist() for name in ("device_ns", "self_device_ns")]


def test_a_kernel_counts_at_the_op_that_launched_it() -> None:
    assert times(*SOURCE) == [[10, 10, 0, 10, None], [0, 10, 0, 10, None]]


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
