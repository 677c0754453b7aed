from __future__ import annotations

from typing import Any

import pytest

from profframe.facts.fact import Tables
from tests.builders import Row, column, event, facts


def call(start: int, end: int, correlation: int, **more: Any) -> Row:
    own = {"category": "cuda_runtime", "correlation": correlation}
    return event("cudaLaunchKernel", start, end) | own | more


def kernel(start: int, end: int, correlation: int | None, **more: Any) -> Row:
    own = {"category": "kernel", "thread": 9, "pid": "0", "device": 0, "correlation": correlation}
    return event("sgemm", start, end) | own | more


def notes(of: Tables) -> dict[str, int]:
    return {row["issue"]: row["events"] for row in of["quality"].to_pylist()}


def test_a_kernel_belongs_to_the_op_around_its_launch() -> None:
    got = facts(
        event("aten::linear", 0, 100),
        event("aten::addmm", 10, 90),
        call(20, 30, 7),
        kernel(50, 250, 7),
    )
    assert column(got, "launch_id") == [None, None, None, 2]
    assert column(got, "op_id") == [None, None, None, 1]
    assert column(got, "device_ns") == [200, 200, 0, 200]
    assert column(got, "self_device_ns") == [0, 200, 0, 200]


def test_a_graph_launch_has_many_kernels() -> None:
    got = facts(call(0, 10, 7), kernel(20, 30, 7), kernel(25, 45, 7), kernel(50, 51, 7))
    assert column(got, "launch_id") == [None, 0, 0, 0]
    assert column(got, "device_ns") == [31, 10, 20, 1]


def test_of_nested_calls_the_inner_one_launched() -> None:
    got = facts(call(0, 10, 7), call(2, 8, 7), kernel(20, 30, 7))
    assert column(got, "launch_id")[2] == 1
    assert column(got, "self_device_ns") == [0, 10, 10]
    assert column(got, "device_ns") == [10, 10, 10]


@pytest.mark.parametrize(
    ("first", "second", "inner"),
    [
        (call(0, 10, 7), call(0, 8, 7), 1),
        (call(0, 8, 7), call(0, 10, 7), 0),
        (call(0, 10, 7), call(0, 10, 7), 1),
        (call(0, 10, 7, ev_idx=2), call(0, 10, 7, ev_idx=1), 0),
        (call(3, 10, 7), call(0, 20, 7), 0),
        (call(0, 10, 7), call(0, 8, 7, category="cuda_driver"), 1),
    ],
)
def test_of_calls_that_start_together_the_inner_one_launched(
    first: Row, second: Row, inner: int
) -> None:
    got = facts(first, second, kernel(20, 30, 7), kernel(30, 35, 7))
    assert column(got, "parent_id")[inner] == 1 - inner
    assert column(got, "launch_id") == [None, None, inner, inner]
    assert column(got, "device_ns") == [15, 15, 10, 5]
    assert column(got, "self_device_ns")[inner] == 15


def test_of_calls_on_two_threads_the_one_that_started_last_launched() -> None:
    got = facts(call(50, 60, 7), call(0, 90, 7, thread=1), kernel(95, 96, 7))
    assert column(got, "launch_id")[2] == 0


def test_rows_may_come_in_any_order() -> None:
    got = facts(
        call(20, 30, 7),
        kernel(50, 60, 7),
        event("aten::addmm", 10, 90),
        event("aten::linear", 0, 100),
    )
    assert column(got, "launch_id") == [None, 0, None, None]
    assert column(got, "op_id") == [None, 2, None, None]
    assert column(got, "self_device_ns") == [0, 10, 10, 0]


@pytest.mark.parametrize(("numbered", "op"), [({}, 1), ({"external_id": 5}, None)])
def test_an_annotation_launches_only_where_the_source_numbers_no_ops(
    numbered: dict[str, Any], op: int | None
) -> None:
    """Its ranges are then all that says on whose behalf; an op inside goes before."""
    got = facts(
        call(12, 13, 8),
        event("region", 0, 20, category="user_annotation"),
        event("aten::mm", 1, 9),
        call(2, 3, 7),
        kernel(50, 60, 7),
        kernel(60, 70, 8, **numbered),
    )
    assert column(got, "op_id")[4:] == [2, op]


def test_with_torchs_rules_the_op_is_that_of_the_external_id() -> None:
    events = (
        event("aten::mm", 0, 50, external_id=1),
        event("aten::add", 60, 90, external_id=2),
        call(10, 20, 7, external_id=1),
        kernel(30, 40, 7, external_id=2),
    )
    assert column(facts(*events), "op_id")[3] == 0
    assert column(facts(*events, compat="torch"), "op_id") == [None, None, None, 1]
    plain = [{**row, "external_id": None} for row in events]
    assert column(facts(*plain, compat="torch"), "op_id")[3] == 0


def test_an_op_around_the_call_is_found_through_python_frames() -> None:
    got = facts(
        event("aten::foo", 0, 100),
        event("frame", 5, 95, category="python_function"),
        call(10, 20, 7),
        kernel(50, 60, 7),
    )
    assert column(got, "op_id")[3] == 0


def test_zero_and_missing_correlations_join_nothing() -> None:
    got = facts(call(0, 10, 0), kernel(20, 30, 0), kernel(20, 30, None))
    assert column(got, "launch_id") == [None, None, None]
    assert notes(got) == {}


def test_slices_without_a_correlation_are_counted_beside_calls_that_have_one() -> None:
    """But what another id links to an op lacks nothing; nor is anything lacking without calls."""
    unnumbered = kernel(20, 30, None)
    op = event("aten::mm", 0, 15, external_id=3)
    got = facts(op, call(1, 10, 7), kernel(20, 30, 7), unnumbered, {**unnumbered, "external_id": 3})
    assert column(got, "op_id")[2:] == [0, None, 0]
    assert notes(got) == {"kernel_without_correlation": 1}
    assert notes(facts(op, unnumbered)) == {}


def test_a_kernel_whose_launch_was_cut_off_is_kept_and_counted() -> None:
    got = facts(kernel(20, 30, 7))
    assert column(got, "launch_id") == [None]
    assert column(got, "device_ns") == [10]
    assert notes(got) == {"kernel_without_launch": 1}


def test_notes_on_work_without_a_launch_say_how_long_it_took() -> None:
    cut = (kernel(0, 2_000_000, 7), kernel(5_000_000, 6_500_000, 8))
    (row,) = facts(*cut)["quality"].to_pylist()
    assert row["detail"].endswith(": 3.500 ms")
    unnumbered = kernel(20, 1_020, None)
    (row,) = facts(call(1, 10, 7), kernel(20, 30, 7), unnumbered)["quality"].to_pylist()
    assert (row["issue"], row["detail"][-8:]) == ("kernel_without_correlation", "0.001 ms")


def test_processes_with_the_same_correlations_are_joined_apart() -> None:
    got = facts(
        call(0, 10, 7, pid="100"),
        call(5, 15, 7, pid="200", thread=1),
        call(5, 15, 8, pid="200", thread=1),
        kernel(20, 30, 7, pid="100"),
        kernel(20, 30, 7, pid="200"),
        kernel(20, 30, 8, pid="100"),
        kernel(20, 30, 8, pid="0"),
    )
    assert column(got, "launch_id")[3:] == [0, 1, None, 2]


@pytest.mark.parametrize("python", ["0", "1", "3", "4711"])
def test_the_index_of_a_device_is_no_process(python: str) -> None:
    """Python has any number, in a container 1: kernels are on lines 0 to 3, by their devices."""
    got = facts(
        *(call(10 * n, 10 * n + 5, 7 + n, pid=python) for n in range(4)),
        *(kernel(50, 60, 7 + n, pid=str(n), device=n, thread=9 + n) for n in range(4)),
    )
    assert column(got, "launch_id")[4:] == [0, 1, 2, 3]
    assert column(got, "device_ns") == [10] * 8
    assert notes(got) == {}


def test_the_index_of_a_device_is_no_process_of_another_either() -> None:
    got = facts(
        call(0, 10, 7, pid="1"),
        call(20, 30, 8, pid="4711", thread=1),
        kernel(50, 60, 8, pid="1", device=1),
    )
    assert column(got, "launch_id")[2] == 1


def test_a_slice_of_a_process_without_calls_has_no_launch_if_it_is_on_a_device() -> None:
    """And where some process made calls; else the number alone counts."""
    got = facts(
        call(0, 10, 7, pid="100"),
        kernel(20, 30, 7, pid="100", device=0),
        kernel(20, 30, 7, pid="200", device=0),
        kernel(20, 30, 7, pid="200", device=None),
        kernel(20, 30, 7, pid=None, device=0),
        kernel(20, 30, 7, pid="a text", device=0),
        kernel(20, 30, 7, pid="1234567890", device=1234567890),
        kernel(20, 30, 7, pid="123456789", device=123456789),
    )
    assert column(got, "launch_id")[1:] == [0, None, 0, 0, None, None, 0]
    assert notes(got) == {"kernel_without_launch": 3, "unnamed_device": 1}
    alone = facts(call(0, 10, 7, pid="100"), kernel(20, 30, 7, pid="200", device=0))
    assert column(alone, "launch_id") == [None, 0]


def test_external_id_counts_only_without_a_launch() -> None:
    got = facts(
        event("aten::mm", 0, 50, external_id=1),
        event("aten::add", 60, 90, external_id=2),
        call(10, 20, 7),
        kernel(30, 40, 7, external_id=2),
        kernel(30, 40, 8, external_id=2),
    )
    assert column(got, "op_id")[3:] == [0, 1]
    assert notes(got) == {"external_id_mismatch": 1, "kernel_without_launch": 1}


def test_only_ids_that_differ_are_a_mismatch() -> None:
    """A slice or an op without one says nothing, and 0 is none; a sync's is its correlation."""
    got = facts(
        event("aten::a", 0, 10),
        call(1, 2, 1),
        event("aten::b", 20, 30, external_id=0),
        call(21, 22, 2),
        event("aten::c", 40, 50, external_id=3),
        call(41, 42, 3),
        kernel(60, 61, 1, external_id=5),
        kernel(61, 62, 2, external_id=5),
        kernel(62, 63, 3, external_id=3),
        kernel(63, 64, 3, external_id=None),
        kernel(64, 65, 3, external_id=0),
        event("Stream Sync", 60, 61, category="cuda_sync", correlation=3, external_id=9),
        call(70, 71, 4),
        kernel(72, 73, 4, external_id=7),
        event("aten::d", 80, 81, external_id=8),
    )
    assert column(got, "op_id")[6:] == [0, 2, 4, 4, 4, 4, None, None, None]
    assert notes(got) == {}


def test_the_first_row_may_be_a_call_and_mismatch() -> None:
    got = facts(
        call(10, 20, 7, external_id=1),
        event("aten::mm", 0, 50, external_id=1),
        event("aten::add", 60, 90, external_id=2),
        kernel(30, 40, 7, external_id=2),
    )
    assert column(got, "op_id")[3] == 1
    assert notes(got) == {"external_id_mismatch": 1}


def test_the_first_mismatch_is_named_and_all_are_counted() -> None:
    got = facts(
        event("aten::mm", 0, 50, external_id=1),
        call(10, 20, 7),
        kernel(30, 40, 7, external_id=1),
        kernel(40, 50, 7, external_id=2),
        kernel(50, 60, 7, category="gpu_memcpy", external_id=3),
    )
    (note,) = got["quality"].to_pylist()
    assert (note["issue"], note["events"]) == ("external_id_mismatch", 2)
    assert note["example_event_id"] == 3


def test_an_external_id_is_of_an_op_then_of_an_annotation_and_never_shared() -> None:
    got = facts(
        event("aten::mm", 0, 50, external_id=1),
        event("region", 0, 60, category="user_annotation", external_id=1),
        event("region", 60, 70, category="user_annotation", external_id=2),
        event("aten::a", 70, 80, external_id=3),
        event("aten::b", 80, 90, external_id=3),
        kernel(0, 1, None, external_id=1),
        kernel(0, 1, None, external_id=2),
        kernel(0, 1, None, external_id=3),
        event("Stream Sync", 0, 1, category="cuda_sync", external_id=1),
        event("region", 0, 1, category="gpu_user_annotation", external_id=2),
    )
    assert column(got, "op_id")[5:] == [0, 2, None, None, 2]


def arrow(number: str, thread: int, time: int, phase: str) -> Row:
    fields = {"category": "async_npu", "phase": phase, "pid": "1", "tid": str(thread)}
    return {"flow_id": number, "thread": thread, "time_ns": time, **fields}


def test_an_arrow_leads_to_the_op_where_there_are_no_correlations() -> None:
    flows = [
        arrow("1", 0, 10, "s"),
        arrow("1", 9, 120, "f"),
        arrow("2", 0, 60, "s"),
        arrow("2", 9, 150, "f"),
        arrow("3", 0, 500, "s"),
        arrow("3", 9, 170, "f"),
        arrow("4", 0, 60, "s"),
        arrow("4", 9, 199, "f"),
    ]
    slices = (
        event("ProfilerStep#3", 0, 100),
        event("aten::linear", 5, 90),
        event("aten::mm", 10, 50),
        kernel(120, 130, None),
        kernel(150, 160, None),
        kernel(170, 180, None),
        kernel(190, 195, None),
    )
    got = facts(*slices, flows=flows)
    assert column(got, "op_id")[3:] == [2, 1, None, None]
    assert column(got, "launch_id")[3:] == [None] * 4
    assert column(got, "step")[3:] == [3, 3, None, None]
    assert column(got, "device_ns")[1:3] == [20, 10]

    with_numbers = facts(*slices, call(300, 301, 7), flows=flows)
    assert column(with_numbers, "op_id")[3:7] == [None] * 4


def test_an_arrow_says_nothing_of_what_is_known_or_is_on_no_device() -> None:
    flows = [
        arrow("1", 0, 20, "s"),
        arrow("1", 9, 120, "f"),
        arrow("2", 0, 20, "s"),
        arrow("2", 0, 70, "f"),
        arrow("3", 0, 65, "s"),
        arrow("3", 9, 150, "f"),
        arrow("4", 0, 95, "s"),
        arrow("4", 9, 170, "f"),
        arrow("5", 0, 2, "s"),
        arrow("5", 9, 190, "f"),
        arrow("6", 0, 20, "s"),
        arrow("6", 9, 120, "f"),
    ]
    slices = (
        event("aten::first", 0, 4, external_id=1),
        kernel(190, 195, None, external_id=6),
        event("aten::mm", 10, 50, external_id=2),
        kernel(120, 130, None, external_id=1),
        event("enqueue", 60, 80, category="python_function"),
        event("aten::inner", 70, 75),
        kernel(150, 160, None),
        event("aten::async", 90, 99, is_async=True),
        kernel(170, 180, None),
    )
    got = facts(*slices, flows=flows)
    assert column(got, "op_id") == [None, 0, None, 0, None, None, None, None, None]
    assert notes(got) == {}
    first = facts(kernel(190, 195, None), event("aten::first", 0, 4), flows=flows[8:10])
    assert column(first, "op_id") == [1, None]


def test_syncs_and_device_annotations_cost_their_call_no_device_time() -> None:
    got = facts(
        call(0, 10, 7),
        event("Stream Sync", 0, 9, category="cuda_sync", correlation=7),
        event("region", 0, 9, category="gpu_user_annotation", correlation=7),
    )
    assert column(got, "launch_id") == [None, 0, 0]
    assert column(got, "device_ns") == [0, None, 9]


def step_marks() -> list[Row]:
    return [
        event("ProfilerStep#3", 0, 100, category="user_annotation"),
        event("ProfilerStep#4", 100, 200, category="user_annotation"),
    ]


def test_a_host_slice_is_in_the_step_that_it_starts_in() -> None:
    got = facts(
        *step_marks(),
        event("a", 99, 150),
        event("b", 100, 110, thread=5),
        event("c", 200, 210),
        event("d", 50, 60, thread=6, pid="2"),
        event("never ended", 50, None),
    )
    assert column(got, "step") == [3, 4, 3, 4, None, None, 3]


def test_a_device_slice_is_in_the_step_of_its_launch() -> None:
    got = facts(*step_marks(), call(90, 95, 7), kernel(150, 160, 7), kernel(150, 160, 8))
    assert column(got, "step")[2:] == [3, 3, None]


def test_where_calls_are_known_an_op_gives_no_step() -> None:
    """One rule for a source: that of its launches, or of its ops, never both."""
    found_by_number: list[Row] = [
        event("aten::mm", 10, 20, external_id=1),
        kernel(150, 160, None, external_id=1),
    ]
    launched: list[Row] = [call(110, 120, 7), kernel(300, 310, 7)]
    assert column(facts(*step_marks(), *found_by_number), "step")[2:] == [3, 3]
    got = facts(*step_marks(), *found_by_number, *launched)
    assert column(got, "op_id")[3] == 2
    assert column(got, "step")[2:] == [3, None, 4, 4]


def test_a_device_annotation_is_in_the_step_of_the_slice_that_it_shows() -> None:
    got = facts(
        *step_marks(),
        event("region", 90, 99, category="user_annotation", external_id=5),
        call(110, 120, 7),
        kernel(300, 310, 7),
        event("region", 300, 310, category="gpu_user_annotation", external_id=5, device=0),
    )
    assert column(got, "step")[2:] == [3, 4, 4, 3]


def test_one_of_no_known_slice_is_in_the_step_of_the_first_work_in_it() -> None:
    region: dict[str, Any] = {"category": "gpu_user_annotation", "device": 0}
    got = facts(
        *step_marks(),
        *[call(start, start + 1, number) for start, number in ((90, 7), (110, 8), (120, 9))],
        kernel(320, 330, 9, device=0, stream=1),
        kernel(310, 320, 8, device=0, stream=1),
        kernel(300, 310, 7, device=0, stream=2),
        event("of stream 1", 305, 340, stream=1, **region),
        event("of stream 2", 300, 340, stream=2, **region),
        event("behind", 331, 340, stream=1, **region),
        event("ends as it begins", 305, 310, stream=1, **region),
    )
    assert column(got, "step")[5:] == [4, 4, 3, 4, 3, None, None]


def test_work_of_devices_in_no_step_is_counted_where_there_are_steps() -> None:
    work = [call(10, 20, 7), call(210, 220, 8), kernel(30, 40, 7), kernel(230, 250, 8)]
    unlaunched = kernel(300, 300_280, 9)
    got = facts(*step_marks(), *work, unlaunched)
    rows = {row["issue"]: row for row in got["quality"].to_pylist()}
    assert rows["outside_steps"]["events"] == 2
    assert rows["outside_steps"]["example_event_id"] == 5
    assert rows["outside_steps"]["detail"].endswith("0.300 ms; the launch of 1 is not in the trace")
    assert "outside_steps" not in notes(facts(*work, unlaunched))


def test_of_overlapping_steps_the_one_that_started_last_counts() -> None:
    got = facts(
        event("ProfilerStep#1", 0, 100),
        event("ProfilerStep#2", 90, 200),
        event("a", 95, 96, thread=1),
    )
    assert column(got, "step") == [1, 2, 2]


def test_the_first_step_may_be_0_and_the_first_row_a_call() -> None:
    first = event("ProfilerStep#0", 0, 100, category="user_annotation")
    got = facts(call(10, 20, 7), kernel(150, 160, 7), first, *step_marks()[1:])
    assert column(got, "step") == [0, 0, 0, 4]


def test_a_device_slice_is_in_no_step_by_its_time() -> None:
    unlaunched = kernel(50, 60, None, pid="1")
    got = facts(*step_marks(), call(10, 20, 7), kernel(110, 120, 7, pid="1"), unlaunched)
    assert column(got, "step")[2:] == [3, 3, None]
    assert column(facts(*step_marks(), unlaunched), "step")[2] is None


def test_a_step_without_an_end_or_a_length_holds_nothing() -> None:
    got = facts(
        event("ProfilerStep#1", 0, None),
        event("ProfilerStep#2", 10, 10),
        event("ProfilerStep#3", None, None, dur_ns=50),
        event("a", 10, 20, thread=1),
        event("b", None, None),
    )
    assert column(got, "step") == [None] * 5
    assert column(facts(event("ProfilerStep#4", 0, 9), event("b", None, None)), "step") == [4, None]


def test_what_only_looks_like_a_step_is_none() -> None:
    got = facts(
        event("ProfilerStep#x", 0, 100),
        event("ProfilerStep#5", 0, 100, category="gpu_user_annotation"),
        event("a", 10, 20),
    )
    assert column(got, "step") == [None, None, None]
