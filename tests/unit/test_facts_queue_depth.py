from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.fact import Tables
from tests.builders import Row, event, facts
from tests.oracles import waiting as oracle


def call(start: int, end: int, correlation: int, name: str = "cudaLaunchKernel") -> Row:
    return event(name, start, end, category="cuda_runtime", correlation=correlation)


def kernel(
    start: int, end: int | None, correlation: int | None, category: str = "kernel", **more: object
) -> Row:
    line = {"pid": "0", "thread": 9, "device": 0, "stream": 7}
    return event("k", start, end, category=category, correlation=correlation) | line | more


def column(of: Tables, name: str) -> list[object]:
    """Values of a column; one that no fact adds will be NULL."""
    events = of["events"]
    found = name in events.column_names
    values: list[object] = events[name].to_pylist() if found else [None] * events.num_rows
    return values


def test_a_launch_counts_its_own_and_a_kernel_no_longer_itself() -> None:
    got = facts(call(0, 5, 1), call(10, 15, 2), kernel(20, 30, 1), kernel(30, 40, 2))
    assert column(got, "queue_depth") == [1, 2, 1, 0]


def test_streams_and_kinds_of_work_are_one_queue() -> None:
    got = facts(
        call(0, 1, 1),
        call(2, 3, 2, "cudaMemcpyAsync"),
        call(4, 5, 3, "hipMemsetAsync"),
        kernel(50, 60, 1, stream=1),
        kernel(20, 30, 2, "gpu_memcpy", stream=2),
        kernel(40, 41, 3, "gpu_memset", device=1),
        event("aten::mm", 19, 55, thread=1),
        event("aten::mm", 20, 21, thread=2),
    )
    assert column(got, "queue_depth") == [1, 2, 3, 0, 2, 1, 3, 2]


def test_a_graph_launch_launches_all_its_kernels() -> None:
    graph = call(0, 5, 1, "cudaGraphLaunch")
    got = facts(graph, *(kernel(at, at + 5, 1) for at in (10, 20, 30)))
    assert column(got, "queue_depth") == [3, 2, 1, 0]


def test_work_without_a_call_waits_for_nobody() -> None:
    got = facts(call(0, 5, 1), kernel(10, 20, 1), kernel(12, 20, 7), kernel(12, 20, None))
    assert column(got, "queue_depth") == [1, 0, 0, 0]


def test_work_that_begins_before_its_call_never_waits() -> None:
    got = facts(event("aten::mm", 0, 30), call(10, 20, 1), kernel(8, 20, 1))
    assert column(got, "queue_depth") == [0, 0, 0]


def test_what_never_ended_was_launched_but_kept_nothing_busy() -> None:
    got = facts(event("aten::mm", 0, 30), call(10, 20, 1), kernel(15, None, 1))
    assert column(got, "queue_depth") == [0, 1, 0]
    assert column(got, "idle_ns") == [None, None, None]


def test_a_slice_idles_while_no_device_is_busy() -> None:
    got = facts(
        event("all", 0, 100),
        event("before", 0, 10),
        event("amid", 25, 35),
        event("after", 70, 80),
        event("empty", 30, 30),
        kernel(10, 30, None),
        kernel(20, 25, None),
        kernel(28, 40, None, device=1),
        kernel(50, 50, None),
        kernel(60, 70, None),
    )
    assert column(got, "idle_ns") == [60, 10, 0, 10, 0, None, None, None, None, None]
    assert column(got, "queue_depth") == [None] * 10


def test_waiting_is_no_work() -> None:
    sync = event("Stream Sync", 0, 50, category="cuda_sync", device=0, stream=7, thread=9)
    assert column(facts(event("aten::mm", 0, 50), sync), "idle_ns") == [None, None]
    got = facts(event("aten::mm", 0, 50), sync, kernel(10, 20, None))
    assert column(got, "idle_ns") == [40, None, None]


def test_a_slice_that_does_not_nest_has_neither() -> None:
    got = facts(
        call(0, 5, 1),
        kernel(10, 20, 1),
        event("async", 0, 9, is_async=True),
        event("never ended", 0, None),
        event("region", 0, 9, category="gpu_user_annotation", thread=9),
    )
    assert column(got, "queue_depth")[2:] == [None, None, None]
    assert column(got, "idle_ns") == [5, None, None, None, None]


def test_without_a_device_there_is_nothing() -> None:
    got = facts(event("aten::mm", 0, 50), call(10, 20, 1))
    assert column(got, "queue_depth") == [None, None]
    assert column(got, "idle_ns") == [None, None]
    assert column(facts(), "idle_ns") == []


PLACE = st.integers(0, 25)


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, end = sorted((draw(PLACE), draw(PLACE)))
    category = draw(
        st.sampled_from(["cpu_op", "cuda_runtime", "cuda_driver", "kernel", "kernel", "gpu_memcpy"])
    )
    return event(
        "f",
        draw(st.sampled_from([start, start, start, None])) if category == "kernel" else start,
        draw(st.sampled_from([end, end, end, None])),
        category=category,
        thread=draw(st.integers(0, 1)),
        correlation=draw(st.none() | st.integers(0, 4)),
        device=0 if category in {"kernel", "gpu_memcpy"} else None,
    )


@given(st.lists(slices(), max_size=25))
def test_both_are_those_of_a_look_at_every_moment(events: list[Row]) -> None:
    got = facts(*events)
    rows = got["events"].to_pylist()
    assert column(got, "queue_depth") == oracle.queue_depths(rows)
    assert column(got, "idle_ns") == oracle.idle_times(rows)
