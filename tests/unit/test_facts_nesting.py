from __future__ import annotations

from profframe.facts.pipeline import add_facts
from tests.builders import column, event, facts, tables


def test_an_op_around_two_on_one_thread() -> None:
    got = facts(
        event("aten::linear", 0, 100),
        event("aten::t", 10, 20),
        event("aten::addmm", 30, 90),
        event("aten::add", 0, 100, thread=1),
    )
    assert column(got, "parent_id") == [None, 0, 0, None]
    assert column(got, "depth") == [0, 1, 1, 0]
    assert column(got, "root_id") == [0, 0, 0, 3]
    assert column(got, "preorder") == [0, 1, 2, 3]
    assert column(got, "last_descendant_id") == [2, 1, 2, 3]
    assert column(got, "self_ns") == [30, 10, 60, 100]


def test_only_synchronous_timed_host_slices_nest() -> None:
    got = facts(
        event("outer", 0, 100),
        event("async", 10, 20, is_async=True),
        event("never ended", 10, None),
        event("no time", None, None),
        event("kernel", 10, 20, category="kernel"),
        event("span", 0, 200, category="Trace"),
        event("wait", 20, 30, category="cuda_sync"),
        event("on device", 20, 30, category="gpu_user_annotation"),
    )
    assert column(got, "parent_id") == [None] * 8
    assert column(got, "depth") == [0, *[None] * 7]
    assert column(got, "preorder") == [0, *[None] * 7]
    assert column(got, "self_ns") == [100, None, None, None, 10, None, None, None]


def test_equal_slices_nest_in_the_profilers_order_then_the_sources() -> None:
    got = facts(
        event("c", 0, 9), event("b", 0, 9, ev_idx=4), event("a", 0, 9, ev_idx=3), event("d", 0, 9)
    )
    assert column(got, "parent_id") == [1, 2, None, 0]


def test_threads_of_two_nodes_nest_apart() -> None:
    got = facts(
        event("a", 0, 100, node_id=0),
        event("b", 10, 90, node_id=1),
        event("c", 20, 80, node_id=0),
        event("d", 30, 70, node_id=1),
        event("e", 40, 60),
        event("f", 20, 80, node_id=1, thread=1),
    )
    assert column(got, "parent_id") == [None, None, 0, 1, None, None]


def test_with_torchs_rules_a_call_is_on_the_thread_of_its_op() -> None:
    source = tables(
        event("aten::mm", 0, 100, external_id=1),
        event("cudaLaunchKernel", 10, 20, category="cuda_runtime", thread=1, external_id=1),
    )
    assert column(add_facts(source), "parent_id") == [None, None]
    assert column(add_facts(source, compat="torch"), "parent_id") == [None, 0]


def test_what_never_ended_has_no_time_of_its_own() -> None:
    got = facts(
        event("k", 10, None, category="kernel"),
        event("k", 10, 15, category="kernel"),
        event("k", 10, 10, category="kernel"),
        event("a", 10, None),
    )
    assert column(got, "self_ns") == [None, 5, 0, None]


def test_slices_that_touch_do_not_cross() -> None:
    got = facts(event("a", 0, 10), event("b", 10, 20), event("c", 5, 15, thread=1))
    assert got["quality"].num_rows == 0


def test_crossing_slices_are_counted() -> None:
    got = facts(event("a", 0, 10), event("b", 5, 15), event("c", 20, 30))
    (note,) = got["quality"].to_pylist()
    assert (note["issue"], note["events"], note["example_event_id"]) == ("crossing_slices", 1, 1)
    assert column(got, "self_ns") == [10, 10, 10]


def test_a_trace_without_events() -> None:
    got = facts()
    assert got["events"].num_rows == 0
    assert got["quality"].num_rows == 0


def test_the_argument_stays_as_it_was() -> None:
    source = tables(event("a", 0, 10))
    names = source["events"].column_names
    add_facts(source)
    assert source["events"].column_names == names


def test_a_run_of_one_name_is_merged_into_the_outermost() -> None:
    got = facts(
        event("aten::contiguous", 0, 100),
        event("aten::contiguous", 10, 90),
        event("aten::contiguous", 20, 80),
        event("aten::clone", 30, 70),
    )
    assert column(got, "merged_into") == [None, 0, 0, None]


def test_a_slice_with_a_sibling_is_no_duplicate() -> None:
    got = facts(event("f", 0, 100), event("f", 10, 20), event("f", 30, 40))
    assert column(got, "merged_into") == [None, None, None]


def test_profiler_steps_have_one_name() -> None:
    got = facts(event("ProfilerStep#1", 0, 100), event("ProfilerStep#2", 10, 90))
    assert column(got, "merged_into") == [None, 0]


def test_slices_without_a_name_are_no_duplicates() -> None:
    assert column(facts(event(None, 0, 9), event(None, 1, 8)), "merged_into") == [None, None]
