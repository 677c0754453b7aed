"""Where Python frames end, and which are around them."""

from __future__ import annotations

from typing import Any

from profframe.facts.fact import Tables
from tests.builders import column, event, facts


def frame(number: int | None, start: int, end: int, caller: int | None, **more: Any) -> Any:
    return event(
        f"f{number}", start, end,
        category="python_function", python_id=number, python_parent_id=caller, **more,
    )  # fmt: skip


def notes(of: Tables) -> dict[str, tuple[int, int]]:
    rows = of["quality"].to_pylist()
    return {row["issue"]: (row["events"], row["example_event_id"]) for row in rows}


def test_a_frame_ends_with_its_caller_and_so_does_what_it_called() -> None:
    lost = (
        frame(1, 0, 1000, None),
        frame(2, 100, 300, 1),
        frame(3, 150, 1000, 2),
        frame(4, 200, 900, 3),
        event("aten::mm", 210, 220),
        event("aten::add", 500, 550),
    )
    got = facts(*lost)
    assert column(got, "dur_ns") == [1000, 200, 150, 100, 10, 50]
    assert column(got, "parent_id") == [None, 0, 1, 2, 3, 0]
    assert column(got, "self_ns") == [750, 50, 50, 90, 10, 50]
    assert notes(got) == {"cut_frame": (2, 2)}
    of_torch = facts(*lost, compat="torch")
    assert column(of_torch, "dur_ns") == [1000, 200, 850, 700, 10, 50]
    assert notes(of_torch) == {"crossing_slices": (1, 2)}


def test_a_frame_is_in_its_caller_although_another_is_around_it() -> None:
    got = facts(
        frame(1, 0, 100, None),
        frame(2, 10, 90, 1),
        event("region", 15, 85, category="user_annotation"),
        frame(3, 20, 80, 2),
        event("aten::mm", 30, 50),
        frame(4, 40, 45, 2),
        frame(5, 42, 44, 4),
        frame(6, 60, 70, 3),
    )
    assert column(got, "parent_id") == [None, 0, 1, 2, 3, 2, 5, 3]
    assert column(got, "depth") == [0, 1, 2, 3, 4, 3, 4, 4]
    assert column(got, "preorder") == [0, 1, 2, 3, 4, 6, 7, 5]
    assert column(got, "last_descendant_id") == [6, 6, 6, 7, 4, 6, 6, 7]
    assert column(got, "root_id") == [0] * 8
    assert column(got, "self_ns") == [20, 10, 10, 30, 20, 3, 2, 10]
    assert notes(got) == {"crossing_slices": (1, 5)}


def test_a_region_that_begins_in_one_frame_and_ends_in_another() -> None:
    with_record_function = (
        frame(1, 0, 100, None),
        frame(2, 10, 30, 1),  # record_function.__enter__
        event("region", 20, 80, category="user_annotation"),
        frame(3, 22, 25, 2),
        frame(4, 40, 50, 1),
        frame(5, 70, 90, 1),  # record_function.__exit__
    )
    got = facts(*with_record_function)
    assert column(got, "parent_id") == [None, 0, 0, 1, 2, 0]
    assert column(got, "self_ns") == [20, 17, 30, 3, 10, 20]
    assert column(got, "shared_ns") == [None, None, 20, None, None, None]
    of_torch = facts(*with_record_function, compat="torch")
    assert column(of_torch, "parent_id") == [None, 0, 0, 2, 2, 0]
    assert column(of_torch, "self_ns") == [0, 20, 47, 3, 10, 20]
    assert set(column(of_torch, "shared_ns")) == {None}


def test_a_frame_without_length_at_the_end_of_its_caller() -> None:
    got = facts(frame(1, 0, 9, None), frame(2, 3, 5, 1), frame(3, 5, 5, 2), frame(4, 5, 8, 1))
    assert column(got, "parent_id") == [None, 0, 1, 0]
    assert column(got, "self_ns") == [4, 2, 0, 3]


def test_equal_frames_are_in_the_order_of_their_numbers() -> None:
    got = facts(frame(2, 0, 9, 1, ev_idx=2), frame(1, 0, 9, None, ev_idx=1))
    assert column(got, "parent_id") == [1, None]
    swapped = facts(frame(2, 0, 9, 1, ev_idx=1), frame(1, 0, 9, None, ev_idx=2))
    assert sorted(map(str, column(swapped, "parent_id"))) == ["0", "None"]


def test_a_caller_on_another_thread_is_counted() -> None:
    got = facts(
        frame(1, 0, 100, None),
        frame(2, 10, 20, 1, thread=1),
        frame(3, 12, 15, 2, thread=1),
        frame(9, 30, 40, 8),
        frame(4, 200, 210, 1),
    )
    assert column(got, "parent_id") == [None, None, 1, 0, None]
    assert column(got, "dur_ns") == [100, 10, 3, 10, 10]
    assert notes(got) == {"frame_of_another_thread": (2, 1)}


def test_a_number_that_comes_again_is_that_of_the_last_before() -> None:
    got = facts(
        frame(1, 0, 10, None), frame(2, 2, 15, 1), frame(1, 20, 30, None), frame(2, 22, 35, 1)
    )
    assert column(got, "dur_ns") == [10, 8, 10, 8]
    assert column(got, "parent_id") == [None, 0, None, 2]


def test_numbers_that_call_each_other_or_themselves() -> None:
    got = facts(frame(1, 0, 9, 2), frame(2, 0, 9, 1), frame(3, 2, 4, 3))
    assert column(got, "parent_id") == [None, 0, 1]
    assert notes(got) == {"frame_of_another_thread": (1, 0)}
