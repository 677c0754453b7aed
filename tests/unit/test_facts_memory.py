from __future__ import annotations

import pyarrow as pa

from profframe.facts.pipeline import add_facts
from tests.builders import Row, column, event, facts, tables


def record(time: int, size: int | None, device_type: str = "CPU", thread: int = 0) -> Row:
    return {"time_ns": time, "bytes": size, "device_type": device_type, "thread": thread}


def test_a_slice_counts_what_lies_in_it_and_what_is_its_own() -> None:
    got = facts(
        event("outer", 0, 100),
        event("inner", 10, 50),
        memory=[record(5, 1), record(10, 20), record(50, 300), record(51, -4000)],
    )
    assert column(got, "cpu_bytes") == [1 + 20 + 300 - 4000, 320]
    assert column(got, "self_cpu_bytes") == [1 - 4000, 320]
    assert column(got, "device_bytes") == [0, 0]


def test_records_of_any_thread_count_and_two_devices_are_told_apart() -> None:
    got = facts(
        event("a", 0, 100),
        memory=[
            record(5, 1, thread=3),
            record(6, 2, "IDEEP"),
            record(7, 4, "CUDA", 3),
            record(8, 8, "XPU"),
            record(9, 16, "MPS"),
            record(9, None),
        ],
    )
    assert column(got, "cpu_bytes") == [3]
    assert column(got, "device_bytes") == [12]


def test_async_slices_count_but_own_nothing_and_device_slices_have_no_bytes() -> None:
    got = facts(
        event("a", 0, 100, is_async=True),
        event("k", 0, 100, category="kernel"),
        event("never ended", 0, None),
        memory=[record(5, 7)],
    )
    assert column(got, "cpu_bytes") == [7, None, None]
    assert column(got, "self_cpu_bytes") == [0, None, None]


def test_what_the_source_has_counted_itself_stays() -> None:
    source = tables(
        event("outer", 0, 100),
        event("inner", 10, 50),
        event("untold", 60, 70),
        event("k", 0, 100, category="kernel"),
        memory=[record(20, 1000), record(20, 2000, "CUDA")],
    )
    given = pa.array([50, 20, None, 9], pa.int64())
    got = add_facts({**source, "events": source["events"].append_column("cpu_bytes", given)})
    assert column(got, "cpu_bytes") == [50, 20, None, None]
    assert column(got, "self_cpu_bytes") == [30, 20, None, None]
    assert column(got, "device_bytes") == [2000, 2000, 0, None]
    assert column(got, "self_device_bytes") == [0, 2000, 0, None]


def test_no_records_no_bytes() -> None:
    got = facts(event("a", 0, 100), memory=[])
    for name in ("cpu_bytes", "self_cpu_bytes", "device_bytes", "self_device_bytes"):
        assert column(got, name) == [None]


def test_the_op_of_a_record_is_looked_for_ever_further_out() -> None:
    got = facts(
        event("aten::empty", 0, 10),
        event("frame", 2, 8, category="python_function"),
        event("frame", 20, 30, category="python_function"),
        event("early", 40, 60, thread=1),
        event("late", 45, 60, thread=2, category="user_annotation"),
        memory=[record(at, 1) for at in (5, 10, 25, 50, 35)],
    )
    assert column(got, "op_id", "memory") == [0, 0, 2, 4, None]


def test_what_is_on_the_records_own_thread_goes_before_what_started_later_elsewhere() -> None:
    got = facts(
        event("cudaMalloc", 20, 30, category="cuda_runtime"),
        event("aten::mm", 22, 30, thread=1),
        event("frame", 40, 60, category="python_function"),
        event("inner", 45, 55, category="python_function"),
        event("frame", 44, 60, category="python_function", thread=1),
        event("aten::add", 46, 60, thread=2),
        memory=[record(25, 1), record(25, 1, thread=1), record(50, 1), record(50, 1, thread=1)],
    )
    assert column(got, "op_id", "memory") == [0, 1, 3, 4]


def test_a_record_at_the_very_ends_of_a_slice_is_in_it() -> None:
    got = facts(
        event("aten::empty", 10, 20),
        event("aten::free", 20, 20),
        event("frame", 30, 40, category="python_function"),
        memory=[record(at, 1) for at in (9, 10, 20, 21, 29, 30, 40, 41)],
    )
    assert column(got, "op_id", "memory") == [None, 0, 1, None, None, 2, 2, None]
    assert column(got, "cpu_bytes") == [2, 1, 2]


def test_a_record_without_a_time_is_in_nothing() -> None:
    got = facts(event("a", 0, 100), memory=[{**record(5, 7), "time_ns": None}])
    assert column(got, "cpu_bytes") == [0]
    assert column(got, "op_id", "memory") == [None]
