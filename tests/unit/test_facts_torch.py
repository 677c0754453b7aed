"""Facts that make an event what torch's own events have: overloads, scopes, forwards, stacks."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from profframe.facts.fact import Tables
from profframe.facts.pipeline import add_facts
from profframe.facts.torch_compat.overloads import DROPPED_NAMES
from tests.builders import Row, column, event, facts, tables

EVALUATION = "autograd::engine::evaluate_function: "
ARROW = {"category": "fwdbwd", "name": "fwdbwd"}


def frame(name: str, start: int, end: int) -> Row:
    return event(name, start, end, category="python_function")


@pytest.mark.parametrize(
    ("exported", "name", "overload"),
    [
        ("aten::add.Tensor", "aten::add", "Tensor"),
        ("prims::convert_element_type.default", "prims::convert_element_type", "default"),
        ("aten::add", "aten::add", None),
        ("torch.distributed.ddp.reducer::copy_bucket_to_grad", None, None),
        ("nn.Module: Linear.forward", None, None),
        ("c10d::allreduce_.x.y", None, None),
        ("torch::jit::(anonymous namespace)::Graph.forward", None, None),
        ("file.py(3): f::g.h", None, None),
        ("aten::add.", None, None),
        ("autograd::engine::evaluate_function: MulBackward0", None, None),
    ],
)
def test_an_operator_is_split_from_its_overload(
    exported: str, name: str | None, overload: str | None
) -> None:
    got = facts(event(exported, 0, 1))
    assert column(got, "name") == [name or exported]
    assert column(got, "overload_name") == [overload]


def test_only_operators_without_an_overload_are_split() -> None:
    got = facts(
        event("my::region.of_mine", 0, 1, category="user_annotation"),
        event("my::op.of_mine", 0, 1),
        event("aten::add.Tensor", 0, 1, overload_name="given"),
        event(None, 0, 1),
        event("my::op", 0, 1),
    )
    names = ["my::region.of_mine", "my::op", "aten::add.Tensor", None, "my::op"]
    assert column(got, "name") == names
    assert column(got, "overload_name") == [None, "of_mine", "given", None, None]


def test_overloads_of_one_operator_are_duplicates_of_each_other() -> None:
    got = facts(event("aten::add.Tensor", 0, 9), event("aten::add.out", 1, 8))
    assert column(got, "merged_into") == [None, 0]


def test_a_backward_function_is_what_the_engine_has_just_begun_to_evaluate() -> None:
    got = facts(
        event(EVALUATION + "MulBackward0", 0, 100, thread=1),
        event("MulBackward0", 10, 90, thread=1),
        event("aten::mul", 20, 30, thread=1),
        event("MulBackward0", 40, 50, thread=1),
        event(EVALUATION + "AddBackward0", 0, 100, thread=2),
        event("AddBackward0", 10, 90, thread=3),
        event("step", 0, 100, category="user_annotation"),
        frame("f.py(1): f", 0, 100),
        event("sgemm", 0, 100, category="kernel"),
    )
    assert column(got, "scope") == [0, 1, 0, 0, 0, 0, 7, None, None]


def test_a_scope_that_is_given_stays() -> None:
    got = facts(event("forward", 0, 9, scope=2), event("aten::mul", 1, 2))
    assert column(got, "scope") == [2, 0]


def forward(start: int, end: int, number: int, **columns: object) -> Row:
    return event("aten::mul", start, end, sequence_nr=number, fwd_thread=0) | columns


def backward(start: int, end: int, number: int, fwd_thread: int | None = 1, **more: object) -> Row:
    row = event("MulBackward0", start, end, thread=9, fwd_thread=fwd_thread)
    return row | {"sequence_nr": number} | more


def arrow(flow_id: str, phase: str, at: int, thread: int) -> Row:
    return ARROW | {"flow_id": flow_id, "phase": phase, "time_ns": at, "thread": thread}


def test_of_the_ops_of_one_number_the_last_to_start_is_the_forward_op() -> None:
    got = facts(
        forward(0, 100, 5),
        forward(10, 40, 5),
        forward(50, 90, 5),
        forward(300, 400, 5),
        forward(20, 30, 6),
        backward(200, 250, 5),
        backward(200, 250, 6),
        backward(200, 250, 7),
        event("aten::mul", 210, 220, thread=9),
    )
    assert column(got, "fwd_id") == [None] * 5 + [2, 4, None, None]


@pytest.mark.parametrize(("end", "found"), [(99, 0), (100, 0), (101, None)])
def test_a_forward_op_ends_no_later_than_its_backward_op(end: int, found: int | None) -> None:
    """In whole microseconds both often end at once."""
    got = facts(forward(0, end, 5), backward(90, 100, 5))
    assert column(got, "fwd_id") == [None, found]


def test_of_forward_ops_that_start_or_end_together_the_last_one_counts() -> None:
    started = (forward(0, 40, 5), forward(0, 20, 5), forward(0, 30, 5))
    assert column(facts(*started, backward(90, 99, 5)), "fwd_id")[-1] == 0
    assert column(facts(*started, backward(25, 35, 5)), "fwd_id")[-1] == 2
    equal = (forward(0, 40, 5, ev_idx=2), forward(0, 40, 5, ev_idx=1))
    assert column(facts(*equal, backward(90, 99, 5)), "fwd_id")[-1] == 0


def test_a_number_that_two_threads_have_needs_to_know_which() -> None:
    events = (
        forward(0, 10, 5, thread=0),
        forward(20, 30, 5, thread=1),
        forward(20, 30, 6, thread=1),
        backward(100, 110, 5),
        backward(200, 210, 5, 2),
        backward(300, 310, 6, 2),
    )
    named = [{"thread": 0, "tid": "4711"}, {"thread": 1, "tid": "4712"}, {"thread": 9, "tid": "9"}]
    assert column(facts(*events, threads=named), "fwd_id")[3:] == [None, None, 2]
    flows = [arrow("1", "s", 20, 1), arrow("1", "f", 300, 9)]
    got = facts(*events, threads=named, flows=flows)
    assert column(got, "fwd_id")[3:] == [None, 1, 2]
    named = [{"thread": 0, "tid": "1"}, {"thread": 1, "tid": "2"}, {"thread": 9, "tid": "9"}]
    assert column(facts(*events, threads=named), "fwd_id")[3:] == [0, 1, 2]


def test_an_arrow_decides_if_its_ends_have_one_number() -> None:
    events = (
        forward(0, 10, 5),
        forward(20, 30, 5),
        forward(20, 29, 6),
        backward(100, 110, 5),
        backward(200, 210, 5),
    )
    flows = [
        arrow("1", "s", 0, 0),
        arrow("1", "f", 100, 9),
        arrow("2", "s", 999, 0),
        arrow("2", "f", 200, 9),
        {**arrow("3", "s", 0, 0), "category": "ac2g"},
        {**arrow("3", "f", 200, 9), "category": "ac2g"},
        arrow("4", "f", 200, 9),
    ]
    assert column(facts(*events, flows=flows), "fwd_id")[3:] == [0, 1]
    other = [arrow("1", "s", 21, 0), arrow("1", "f", 100, 9)]
    assert column(facts(*events, flows=other), "fwd_id")[3:] == [1, 1]


def test_an_arrow_between_two_numbers_is_none() -> None:
    events = (forward(0, 10, 6), forward(20, 30, 5), backward(100, 110, 5))
    flows = [arrow("1", "s", 0, 0), arrow("1", "f", 100, 9)]
    assert column(facts(*events, flows=flows), "fwd_id") == [None, None, 1]


def test_only_ops_with_a_number_have_a_forward_op_or_are_one() -> None:
    got = facts(
        forward(0, 10, 0),
        forward(20, 30, 5),
        event("region", 40, 50, category="user_annotation", sequence_nr=5),
        event("MulBackward0", 60, 70, thread=9, fwd_thread=1),
        event("MulBackward0", 80, 90, thread=9, fwd_thread=1, sequence_nr=0),
        event("MulBackward0", 100, 110, thread=9, fwd_thread=1, sequence_nr=5),
    )
    assert column(got, "fwd_id") == [None, None, None, None, 0, 1]


def test_an_op_of_the_number_before_is_no_forward_op() -> None:
    got = facts(
        forward(0, 10, 4),
        forward(300, 400, 5),
        backward(200, 250, 5),
        backward(200, 260, 4),
    )
    assert column(got, "fwd_id") == [None, None, None, 0]


def test_a_backward_op_that_an_arrow_decides_is_no_forward_op_of_another() -> None:
    got = facts(
        forward(0, 10, 5),
        backward(100, 200, 5, thread=0),
        backward(210, 220, 5, thread=0),
        threads=[{"thread": 0, "tid": "1"}],
        flows=[arrow("1", "s", 0, 0), arrow("1", "f", 100, 0)],
    )
    assert column(got, "fwd_id") == [None, 0, 0]


def test_a_backward_function_without_a_forward_thread() -> None:
    got = facts(
        event("aten::mul", 0, 10, sequence_nr=5),
        event("aten::mul", 0, 10, sequence_nr=6),
        backward(100, 110, 5, None, scope=1),
        backward(120, 130, 6, None, scope=0),
    )
    assert column(got, "fwd_id") == [None, None, 0, None]


def test_frames_that_say_nothing_are_left_out() -> None:
    inside = "torch/autograd/__init__.py(9): backward"
    got = facts(
        event("a", 0, 1, stack=f"{inside};torch/_tensor.py(5): backward;train.py(3): f"),
        event("b", 1, 2, stack=inside),
        event("c", 2, 3, stack="train.py(3): backward"),
        event("d", 3, 4, stack=""),
        event("e", 4, 5),
    )
    kept = "torch/_tensor.py(5): backward;train.py(3): f"
    assert column(got, "stack") == [kept, None, "train.py(3): backward", None, None]


def stacked(compat: str | None, *more: Row) -> list[object]:
    got = facts(
        forward(0, 100, 5, stack="outer"),
        forward(10, 20, 5, stack="inner"),
        forward(30, 40, 6),
        event("aten::t", 50, 60, stack="first without a number"),
        backward(200, 250, 5, scope=1, stack="its own"),
        event("aten::mul", 210, 220, thread=9, stack="its own"),
        backward(300, 350, 6, scope=1, stack="its own"),
        backward(400, 450, 7, scope=1, stack="its own"),
        *more,
        threads=[{"thread": 0, "tid": "1"}, {"thread": 9, "tid": "9"}],
        compat=compat,
    )
    return column(got, "stack")[4:]


def test_what_is_in_a_backward_function_has_the_first_stack_of_its_number() -> None:
    assert stacked(None) == ["outer", "outer", None, None]


def test_torch_takes_no_number_for_a_number() -> None:
    row = event("AccumulateGrad", 500, 550, thread=9, scope=1, fwd_thread=1, stack="its own")
    assert stacked(None, row) == ["outer", "outer", None, None, None]
    assert stacked("torch", row) == ["outer", "outer", None, None, "first without a number"]


def test_frames_around_a_slice_are_innermost_first() -> None:
    got = facts(
        frame("main", 0, 100),
        frame("train", 10, 90),
        event("aten::linear", 20, 80),
        event("aten::mm", 30, 40),
        frame("hook", 50, 70),
        event("aten::add", 55, 60),
        frame("train", 91, 99),
        event("aten::add", 92, 93),
        event("aten::add", 200, 201),
        event("aten::add", 20, 80, thread=1),
        event("cudaLaunchKernel", 31, 32, category="cuda_runtime"),
        event("sgemm", 31, 32, category="kernel"),
    )
    inner = "train;main"
    assert column(got, "python_stack") == [
        None, None, inner, inner, None, "hook;train;main", None, inner, None, None, inner, None,
    ]  # fmt: skip
    texts = got["events"]["python_stack"].chunk(0).dictionary.to_pylist()
    assert sorted(texts) == ["hook;train;main", "train;main"]


def test_a_deep_recursion_of_frames_has_a_text_for_each_depth_that_is_used() -> None:
    depth = 3000
    calls = [frame("f", i, 2 * depth - i) for i in range(depth)]
    got = facts(*calls, event("aten::add", depth, depth))
    assert column(got, "python_stack")[-1] == ";".join(["f"] * depth)
    assert len(got["events"]["python_stack"].chunk(0).dictionary) == 1


def test_of_too_much_text_the_longest_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["profframe.facts.python_stacks"], "_MOST_BYTES", 10)
    got = facts(
        frame("main", 0, 100),
        event("a", 10, 11),
        frame("main", 20, 90),
        event("b", 30, 31),
        event("c", 32, 33),
        frame("f", 200, 300),
        event("d", 210, 220),
    )
    assert column(got, "python_stack") == [None, "main", None, None, None, None, "f"]
    (note,) = got["quality"].to_pylist()
    assert (note["issue"], note["events"], note["example_event_id"]) == ("long_python_stack", 2, 3)


def test_what_torch_drops_is_nobodys_child() -> None:
    got = facts(
        event("f", 0, 100),
        event("aten::is_leaf", 10, 20),
        event("aten::_version", 30, 90),
        event("f", 40, 80),
        event("aten::_version", 110, 120),
        event("aten::_version", 111, 119),
    )
    assert column(got, "merged_into") == [None, None, None, 0, None, None]


def test_the_query_drops_the_same_names(root: Path) -> None:
    sql = (root / "sql" / "lib" / "key_events.sql").read_text()
    lists = [re.findall(r"'([^']*)'", text) for text in re.findall(r"\(([^()]*)\)", sql)]
    assert [names for names in lists if "aten::is_leaf" in names] == [[*DROPPED_NAMES]]


def given(rows: Tables, **columns: list[int | None]) -> Tables:
    """Tables of a reader that gives what facts would have to compute."""
    events = rows["events"]
    for name, values in columns.items():
        events = events.append_column(name, pa.array(values, pa.int64()))
    return {**rows, "events": events}


def test_device_time_before_kineto_is_of_all_that_is_inside() -> None:
    rows = tables(
        event("outer", 0, 100, is_legacy=True),
        event("not measured", 10, 90),
        event("inner", 20, 80, is_legacy=True),
        event("innermost", 30, 40, is_legacy=True),
        event("launched", 200, 300),
        event("launched", 210, 220),
    )
    got = add_facts(given(rows, kernel_ns=[10, None, 6, 1, 3, 4]))
    assert column(got, "device_ns") == [10, 6, 6, 1, 7, 4]
    assert column(got, "self_device_ns") == [4, 0, 5, 1, 3, 4]


def test_flops_that_the_source_has_counted_stay() -> None:
    rows = tables(event("outer", 0, 100), event("aten::mm", 10, 20))
    got = add_facts(given(rows, torch_flops=[None, 8]))
    assert column(got, "torch_flops") == [None, 8]
