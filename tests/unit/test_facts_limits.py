"""Kernels that were faster than their device can be, and those on devices that nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from profframe.facts.device_catalogue import models
from profframe.facts.device_models import devices
from profframe.facts.impossible_rates import limits
from tests.builders import Row, table

MINE = models(
    {
        "Mine": {
            "match": [{"name": "^Mine$"}],
            "cache_bytes": 100,
            "bandwidth_bytes_per_s": 1e9,
            "dense_flop_per_s": {"fp32": 2e9, "fp64": 1e9, "fp64_tensor": 2e9},
        }
    }
)


def found(*kernels: Row, name: str = "Mine") -> list[tuple[str, int, int, str]]:
    """Check, events, example and detail of what `limits` notes of kernels of 100 ns."""
    rows = [
        {"kind": "kernel", "device": 0, "dur_ns": 100, "work_dtype": "fp32"} | dict(kernel)
        for kernel in kernels
    ]
    events = table("events", rows)
    tables: dict[str, Any] = {"events": events, "quality": table("quality", [])}
    held = {"devices": table("devices", [{"name": name}]).drop_columns(["run", "rank"])}
    tables = {**tables, **devices(held, models=MINE)}
    tables["quality"] = tables["quality"].drop_columns(["run", "rank"])
    after = limits(tables)
    columns = ["issue", "events", "example_event_id", "detail"]
    return [tuple(row[c] for c in columns) for row in after["quality"].to_pylist()]


def checks(*kernels: Row, name: str = "Mine") -> list[tuple[str, int, int]]:
    return [(check, events, example) for check, events, example, _ in found(*kernels, name=name)]


def test_up_to_five_percent_over_a_peak_is_let_pass() -> None:
    assert checks({"flops": 210, "bytes": 105}) == []
    assert checks({"flops": 211, "bytes": 105}) == [("faster_than_peak", 1, 0)]
    assert checks({"flops": 210, "bytes": 106}) == [("faster_than_memory", 1, 0)]


def test_the_example_is_the_fastest_and_the_detail_says_how_fast() -> None:
    notes = found({"bytes": 80, "dur_ns": 10}, {"bytes": 900}, {"bytes": 300}, {"bytes": 1})
    ((check, events, example, detail),) = notes
    assert (check, events, example) == ("faster_than_memory", 3, 1)
    assert "as much as 9 times as fast; the cache is large enough for the data of 1" in detail


def test_work_in_no_time_is_faster_than_anything() -> None:
    ((check, events, example, detail),) = found({"flops": 1, "dur_ns": 0}, {"flops": 999})
    assert (check, events, example) == ("faster_than_peak", 2, 0)
    assert detail.endswith("some in 0 ns")
    assert checks({"flops": 0, "bytes": 0, "dur_ns": 0}) == []


@pytest.mark.parametrize(("dtype", "expected"), [("fp64", []), ("tf32", []), (None, [])])
def test_the_peak_is_that_of_the_data_type(dtype: str | None, expected: list[object]) -> None:
    """fp64 by its matrix units; what has no peak cannot pass it."""
    assert checks({"flops": 205, "work_dtype": dtype}) == expected
    faster = [("faster_than_peak", 1, 0)] if dtype == "fp64" else []
    assert checks({"flops": 999, "work_dtype": dtype}) == faster


def test_an_unknown_device_is_said_to_be_where_its_rates_matter() -> None:
    ((check, events, example, detail),) = found({}, {"flops": 5}, {"bytes": 5}, name="it's\x1b new")
    assert (check, events, example) == ("unknown_device", 2, 1)
    assert "it's" in detail
    assert checks({}, name="new") == []


def test_a_part_of_a_device_is_known_and_has_no_peaks() -> None:
    part = models({"Part": {"match": [{"name": "MIG"}]}})
    events = table("events", [{"kind": "kernel", "device": 0, "dur_ns": 9, "flops": 9}])
    held = {"devices": table("devices", [{"name": "X MIG"}]).drop_columns(["run", "rank"])}
    quality = table("quality", []).drop_columns(["run", "rank"])
    after = limits({"events": events, "quality": quality, **devices(held, models=part)})
    assert after["devices"]["model"].to_pylist() == ["Part"]
    (note,) = after["quality"].to_pylist()
    assert (note["issue"], note["detail"].endswith("devices 'X MIG'")) == ("unknown_device", True)


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "memcpy", "bytes": 10**9},
        {"kind": "host_op", "flops": 10**9, "device": None},
        {"flops": 10**9, "dur_ns": None},
        {"dur_ns": 100},
    ],
)
def test_what_is_no_kernel_of_known_work_and_time_is_passed_by(row: Row) -> None:
    assert checks(row) == []


def test_a_kernel_without_a_device_is_on_none_that_is_known() -> None:
    assert checks({"flops": 10**9, "device": None}) == [("unknown_device", 1, 0)]
    assert checks({"flops": 10**9, "device": 7}) == [("unknown_device", 1, 0)]


def test_nothing_is_nothing() -> None:
    assert found() == []
