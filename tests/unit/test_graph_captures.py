"""Replays of graphs get the ops of the calls that were captured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from profframe.facts.pipeline import add_facts
from tests.builders import event, tables
from tests.graphs import (
    COPY,
    FILL,
    Call,
    attributed,
    calls,
    capture,
    capture_rows,
    checks,
    eager_rows,
    events,
    replay,
    replay_rows,
    source,
    trace,
    with_facts,
    work_row,
)

NAMES = ["gemm", "norm", "gemm", "act"]


def test_the_same_names() -> None:
    rows = replay(NAMES, NAMES)
    assert attributed(rows, capture(NAMES)) == ["op0", "op1", "op2", "op3"] * 2
    assert checks(rows, capture(NAMES)) == {}


def test_white_space_in_names_does_not_matter() -> None:
    assert attributed(replay(["f<a, b>"]), capture(["f<a,b >"])) == ["op0"]


def test_without_captures_nothing_is_noted() -> None:
    rows = replay(NAMES)
    assert attributed(rows) == [None] * 4
    assert checks(rows) == {}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(["gemm", "norm", "act"], id="one left out"),
        pytest.param(["gemm", "gemm", "norm", "act"], id="two swapped"),
        pytest.param(["gemm", "norm", "gemm", "relu"], id="one of another name"),
        pytest.param(["gemm", "norm", "gemm", "act", "act"], id="one more of few"),
        pytest.param(["conv"], id="another model"),
    ],
)
def test_another_capture_is_refused(other: list[str]) -> None:
    rows = replay(NAMES)
    assert attributed(rows, capture(other)) == [None] * 4
    assert checks(rows, capture(other)) == {"other_capture": 4}


def test_the_refusal_names_the_file_and_the_difference() -> None:
    quality = with_facts(replay(NAMES), capture(["gemm", "norm", "gemm", "relu"]))["quality"]
    details = dict(zip(quality["issue"].to_pylist(), quality["detail"].to_pylist(), strict=True))
    assert details["other_capture"].endswith(
        "piece 3 is act in the replay, relu in the capture, capture 1 of capture.json (1 launches)"
    )


def test_a_replay_whose_last_kernel_was_not_recorded() -> None:
    names = [f"k{n}" for n in range(40)]
    rows = replay(names[:-1])
    assert attributed(rows, capture(names)) == [f"op{n}" for n in range(39)]
    assert checks(rows, capture(names)) == {"lost_replay_work": 1}


def test_a_replay_that_begins_with_its_capture_has_lost_nothing_before() -> None:
    """Its first call has the name of the last one, which was not recorded."""
    names = ["gemm", *(f"k{n}" for n in range(1, 19)), "gemm"]
    assert attributed(replay(names[:-1]), capture(names)) == [f"op{n}" for n in range(19)]


@pytest.mark.parametrize("lost", [0, -1])
def test_which_of_equal_calls_at_an_end_was_lost_is_not_known(lost: int) -> None:
    """One of ten gemms at the beginning, or one of ten acts at the end."""
    names = ["gemm"] * 10 + ["act"] * 10
    ran = names[1:] if lost == 0 else names[:-1]
    gemms, acts = [f"op{n}" for n in range(10)], [f"op{n}" for n in range(10, 20)]
    expected = [None] * 9 + acts if lost == 0 else gemms + [None] * 9
    assert attributed(replay(ran), capture(names)) == expected


def test_a_block_that_fits_in_two_places_stays_unknown() -> None:
    layers = ["gemm", "act"] * 30
    rows = replay(layers[:-2])
    assert attributed(rows, capture(layers)) == [None] * 58
    assert checks(rows, capture(layers)) == {"other_capture": 58}


def test_equal_graphs_are_told_apart_by_their_order() -> None:
    layers = [["first"], ["mm", "act"], ["mm", "act"], ["mm", "act"], ["mm"]]
    graphs, start = [], 0
    for number, layer in enumerate(layers):
        graphs += capture_rows([Call(k, f"{k}{number}") for k in layer], start)
        start += 1000
    ops = [f"{k}{number}" for number, layer in enumerate(layers) for k in layer]
    whole = replay(*layers, *layers)
    assert attributed(whole, source(graphs)) == ops * 2
    cut = replay(*layers[2:], *layers)  # the trace begins within a pass
    assert attributed(cut, source(graphs)) == ops[3:] + ops
    ways = events(whole, source(graphs))["attributed_by"].to_pylist()
    assert {way for way in ways if way} == {"graph_name", "graph_order"}


def test_equal_graphs_whose_order_is_not_known_stay_unknown() -> None:
    layer = ["mm", "act"]
    other = [Call("mm", "op0", dims="[[3,3]]"), Call("act", "op1")]
    graphs = [*capture_rows(calls(layer), 0), *capture_rows(other, 1000)]
    rows = replay(layer, layer, layer)
    assert attributed(rows, source(graphs)) == [None] * 6
    assert checks(rows, source(graphs)) == {"ambiguous_capture": 6}
    assert attributed(in_one_step(layer, 100_000), source(graphs)) == ["op0", "op1"] * 2


def test_four_captures_that_fit_are_named() -> None:
    graphs = [capture_rows([Call("mm", "op0", dims=f"[[{n},{n}]]")], 1000 * n) for n in range(5)]
    quality = pl.DataFrame(with_facts(replay(["mm"]), source(*graphs))["quality"])
    (detail,) = quality.filter(issue="ambiguous_capture")["detail"]
    places = ", ".join(f"capture {n} of capture.json" for n in range(1, 5))
    assert detail.endswith(f": 5 fit, of {places} (1 launches)")


def test_the_same_captured_twice_is_one_graph() -> None:
    graphs = [*capture_rows(calls(NAMES), 0), *capture_rows(calls(NAMES), 1000)]
    assert attributed(replay(NAMES), source(graphs)) == ["op0", "op1", "op2", "op3"]
    assert checks(replay(NAMES), source(graphs)) == {}


def test_captures_of_several_ranks_whose_shapes_differ() -> None:
    ranks = [
        replace(source(capture_rows([Call("mm", f"of_{n}")], 0), file=f"{n}.json"), rank=n)
        for n in range(3)
    ]
    for rank, op in ((1, "of_1"), (2, "of_2"), (7, None), (None, None)):
        table = add_facts(tables(*replay(["mm"])), captures=ranks, rank=rank)["events"]
        names = table["name"].to_pylist()
        [row] = [row for row in table["op_id"].to_pylist() if row is not None] or [None]
        assert (None if row is None else names[row]) == op


def test_annotations_nested_deeply_around_a_capture() -> None:
    rows = [event(f"a{n}", n, 9000 - n, category="user_annotation") for n in range(1500)]
    rows += capture_rows(calls(NAMES), 2000)
    assert attributed(replay(NAMES), source(rows)) == ["op0", "op1", "op2", "op3"]


def test_a_step_of_one_and_a_half_passes_may_begin_with_either_graph() -> None:
    layer = ["mm", "act"]
    other = [Call("mm", "op2"), Call("act", "op3")]
    graphs = source(capture_rows(calls(layer), 0), capture_rows(other, 1000))
    assert attributed(in_one_step(layer, 100_000, launches=3), graphs) == [None] * 6
    whole = in_one_step(layer, 100_000, launches=4)
    assert attributed(whole, graphs) == ["op0", "op1", "op2", "op3"] * 2


def test_a_step_that_begins_with_no_first_graph_may_begin_with_any_other() -> None:
    """Two layers of two graphs each, of which it begins with the second: that of either layer."""
    layers = [Call("mm", "op0"), Call("act", "op1"), Call("mm", "op2"), Call("act", "op3")]
    graphs = source(*(capture_rows([call], 1000 * n) for n, call in enumerate(layers)))
    step = event("step", 100_000, 109_000, category="user_annotation")
    rows = [step, *replay(["act"], ["mm"], ["act"], ["mm"])]
    assert attributed(rows, graphs) == [None] * 4


def test_launches_in_no_annotation_are_no_whole_pass() -> None:
    """The trace may begin in one, so that the first launch may be of the second graph."""
    graphs = source(capture_rows([Call("mm", "op0")], 0), capture_rows([Call("mm", "op1")], 1000))
    rows = replay(["mm"], ["mm"])
    assert attributed(rows, graphs) == [None, None]
    step = event("step", 100_000, 109_000, category="user_annotation")
    assert attributed([step, *rows], graphs) == ["op0", "op1"]


def test_each_thread_has_passes_of_its_own() -> None:
    """Two threads launch the same three graphs in turns."""
    layers = [Call("first", "op0"), Call("mm", "op1"), Call("mm", "op2")]
    graphs = source(*(capture_rows([call], 1000 * n) for n, call in enumerate(layers)))
    rows = replay(*([kernel] for kernel in ("first", "first", "mm", "mm", "mm", "mm")))
    turns = [row | {"thread": 5} if row.get("correlation", 0) % 2 and "device" not in row else row
             for row in rows]  # fmt: skip
    assert attributed(turns, graphs) == ["op0", "op0", "op1", "op1", "op2", "op2"]
    assert attributed(rows, graphs) == ["op0", "op0", None, None, None, None]


def test_each_step_is_a_pass_of_its_own() -> None:
    """A whole pass in the first step, and a half of one in the second."""
    graphs = source(capture_rows([Call("mm", "op0")], 0), capture_rows([Call("mm", "op1")], 1000))
    steps = [
        event(f"step {at}", at, at + 5_000, category="user_annotation") for at in (90_000, 102_000)
    ]
    rows = replay(["mm"], ["mm"], ["mm"])
    assert [row["start_ns"] for row in rows[::2]] == [100_001, 101_011, 102_021]
    steps[0]["dur_ns"] = 12_000
    assert attributed([*steps, *rows], graphs) == ["op0", "op1", None]


def test_a_graph_is_not_launched_while_its_last_call_is_captured() -> None:
    """Another thread launches at 118, and the last call begins then; only later is it complete."""
    graph = capture_rows(calls(["mm", "act"]), 100)
    launched = replay_rows(["mm", "act"], 117, 501)
    beside = [row | {"thread": 5} if "device" not in row else row for row in launched]
    assert graph[-2]["start_ns"] == beside[0]["start_ns"] == 118
    assert attributed([*graph, *beside]) == [None, None]
    assert attributed([*graph, *replay(["mm", "act"])]) == ["op0", "op1"]


def in_one_step(layer: list[str], start: int, launches: int = 2) -> list[dict[str, Any]]:
    """Some launches in one annotation."""
    rows = [event("step", start, start + 900, category="user_annotation")]
    for number in range(1, launches + 1):
        rows += replay_rows(layer, start + 100 * number, 500 + number)
    return rows


@pytest.mark.parametrize(
    ("label", "op"),
    [
        ("execute_32_context_0(sq0)_generation_32(sq32)", "large"),
        ("execute_context_0(0)_generation_7(7)", "small"),
        ("execute_context_1(20)_generation_8(8)", "large"),
        ("DECODE bs=8", "small"),
        ("decode[bs=16 tok=32 d=16]", "large"),
        ("decode[bs=30/32 tok=30 d=30]", "large"),
        ("execute_context_0(0)_generation_7(7_49)", "small"),
        ("execute_context_0(0)_generation_64(64)", None),
        ("execute_context_0(0)_generation_2(2)", None),
    ],
)
def test_of_equal_graphs_the_smallest_that_is_large_enough(label: str, op: str | None) -> None:
    graphs = [
        *capture_rows([Call("mm", "small")], 0, label="capture_8_FULL"),
        *capture_rows([Call("mm", "large")], 1000, label="capture_32_FULL"),
    ]
    assert attributed(replay_rows(["mm"], 100_000, 500, label), source(graphs)) == [op]


@pytest.mark.parametrize(("tokens", "op"), [(5, "op"), (4, None)])
def test_a_graph_for_twice_the_tokens_is_another_one(tokens: int, op: str | None) -> None:
    graph = source(capture_rows([Call("mm", "op")], 0, label="capture_8_FULL"))
    rows = replay_rows(["mm"], 100_000, 500, f"DECODE bs={tokens}")
    assert attributed(rows, graph) == [op]


def test_copies_and_fills() -> None:
    names = ["mm", COPY, FILL, "mm"]
    assert attributed(replay(names), capture(names)) == ["op0", "op1", "op2", "op3"]
    assert attributed(replay(["mm", "mm"]), capture(names)) == ["op0", "op3"]  # copies not recorded
    assert attributed(replay(["mm", FILL, COPY, "mm"]), capture(names)) == [None] * 4


def test_several_streams() -> None:
    graph = ["a", "b", "c", "a", "b"]
    on: list[tuple[str, dict[str, Any]]] = [
        ("a", {}),
        ("b", {"stream": 8}),
        ("c", {}),
        ("a", {}),
        ("b", {"stream": 8}),
    ]
    assert attributed(replay_rows(on, 100_000, 501), capture(graph)) == [f"op{n}" for n in range(5)]
    later = [on[0], on[2], on[3], on[1], on[4]]  # the second stream ran behind the first
    ops = ["op0", "op2", "op3", "op1", "op4"]
    assert attributed(replay_rows(later, 100_000, 501), capture(graph)) == ops


def test_one_name_on_two_streams_is_ambiguous() -> None:
    graph = ["x", "a", "a", "y"]
    on: list[tuple[str, dict[str, Any]]] = [("x", {}), ("a", {}), ("a", {"stream": 8}), ("y", {})]
    rows = replay_rows(on, 100_000, 501)
    assert attributed(rows, capture(graph)) == ["op0", None, None, "op3"]
    assert checks(rows, capture(graph)) == {"ambiguous_capture": 2}


def test_work_of_two_streams_is_not_of_one_call() -> None:
    """Both ran ``a`` before what is called in between, and the second ``a`` was called after."""
    other: dict[str, Any] = {"stream": 8}
    on: list[tuple[str, dict[str, Any]]] = [
        ("x", {}), ("a", {}), ("y", {}), ("a", other), ("z", other)]  # fmt: skip
    rows = replay_rows(on, 100_000, 501)
    assert attributed(rows, capture(["x", "a", "y", "z", "a"])) == [None] * 5
    assert checks(rows, capture(["x", "a", "y", "z", "a"])) == {"other_capture": 5}


def test_streams_in_another_order_are_another_graph() -> None:
    on: list[tuple[str, dict[str, Any]]] = [("b", {}), ("a", {}), ("c", {"stream": 8})]
    assert attributed(replay_rows(on, 100_000, 501), capture(["a", "b", "c"])) == [None] * 3


def test_a_stream_that_ran_out_of_calls_is_of_another_graph() -> None:
    """Behind its ``b`` no ``a`` was called."""
    on: list[tuple[str, dict[str, Any]]] = [
        ("b", {}), ("a", {}), ("a", {"stream": 8}), ("b", {"stream": 8})]  # fmt: skip
    rows = replay_rows(on, 100_000, 501)
    assert attributed(rows, capture(["a", "a", "b", "b"])) == [None] * 4
    assert checks(rows, capture(["a", "a", "b", "b"])) == {"other_capture": 4}


def test_nodes_give_the_order_on_several_streams() -> None:
    on = [("a", 3, 8), ("a", 1, 7), ("b", 2, 7)]
    rows = [(k, {"graph_node_id": (5 << 32) + n, "graph_id": 5, "stream": s}) for k, n, s in on]
    assert attributed(replay_rows(rows, 100_000, 501), capture(["a", "b", "a"])) == [
        "op2", "op0", "op1",
    ]  # fmt: skip


def test_nodes_of_each_of_two_launches() -> None:
    on = [("b", 2), ("a", 1)]
    rows = [(kernel, {"graph_node_id": (5 << 32) + node, "graph_id": 5}) for kernel, node in on]
    launches = replay_rows(rows, 100_000, 501) + replay_rows(rows, 200_000, 502)
    assert attributed(launches, capture(["a", "b"])) == ["op1", "op0"] * 2


def test_captures_of_two_threads_at_once() -> None:
    one = capture_rows(calls(["a", "b"]), 0)
    other = [{**row, "thread": 2} for row in capture_rows(calls(["c", "d"]), 3)]
    assert [graph.names for graph in source(one, other).captures] == [["a", "b"], ["c", "d"]]


class TestWithoutNames:
    """Launch calls of CUDA do not say which kernel they launch."""

    graph = (Call("mm_k", "mm"), Call("act_k", "act"), Call(COPY, "copy"), Call("mm_k", "mm"))
    kernels = ("mm_k", "act_k", COPY, "mm_k")

    def test_an_eager_run_confirms_the_order(self) -> None:
        rows = capture_rows(self.graph, 5000, has_names=False)
        confirmed = source([*eager_rows(self.graph[:2], 0, 10), *rows])
        assert attributed(replay(self.kernels), confirmed) == ["mm", "act", "copy", "mm"]
        ways = events(replay(self.kernels), confirmed)["attributed_by"].to_pylist()
        assert {way for way in ways if way} == {"graph_order"}

    def test_an_eager_run_of_other_kernels_refuses(self) -> None:
        rows = capture_rows(self.graph, 5000, has_names=False)
        other = [Call("mm_of_another_size", "mm")]
        refused = source([*eager_rows(other, 0, 10), *rows])
        assert attributed(replay(self.kernels), refused) == [None] * 4
        assert checks(replay(self.kernels), refused) == {"other_capture": 4}

    def test_an_eager_run_in_the_trace_of_the_replays(self) -> None:
        rows = capture_rows(self.graph, 5000, has_names=False)
        ran = [*eager_rows(self.graph[:1], 0, 10), *replay(self.kernels)]
        assert attributed(ran, source(rows)) == ["mm", "act", "copy", "mm"]

    @pytest.mark.parametrize(
        ("grids", "is_of_it"),
        [((8, 8, 8, 8), True), ((8, 8, 16, 8), True), ((8, 16, 16, 8), False), ((), True)],
        ids=["as there", "one differs", "another batch size", "not recorded"],
    )
    def test_grids_tell_another_batch_size(self, grids: tuple[int, ...], is_of_it: bool) -> None:
        graph = [Call(f"k{n}", f"op{n}", grid="[8,1,1]") for n in range(4)]
        rows = [*eager_rows(graph, 0, 10), *capture_rows(graph, 5000, has_names=False)]
        ran = [
            (f"k{n}", {"grid": f"[{grids[n]},1,1]", "block": "[64,1,1]"} if grids else {})
            for n in range(4)
        ]
        replayed = replay_rows(ran, 100_000, 501)
        expected = [call.op if is_of_it else None for call in graph]
        assert attributed(replayed, source(rows)) == expected
        if not is_of_it:
            detail = with_facts(replayed, source(rows))["quality"]["detail"].to_pylist()
            assert any("has the grid [8,1,1] of [64,1,1] elsewhere" in text for text in detail)

    def test_few_ops_that_ran_elsewhere_confirm_nothing(self) -> None:
        graph = [Call(f"k{n}", f"op{n}") for n in range(5)]
        few, half = (
            source([*eager_rows(graph[:n], 0, 10), *capture_rows(graph, 5000, has_names=False)])
            for n in (2, 3)
        )
        kernels = [call.kernel for call in graph]
        assert attributed(replay(kernels), few) == [None] * 5
        assert checks(replay(kernels), few) == {"other_capture": 5}
        assert attributed(replay(kernels), half) == [call.op for call in graph]

    def test_half_of_the_kernels_confirm_the_others(self) -> None:
        graph = [Call(f"k{n}", f"op{n}") for n in range(4)]
        for ran, is_of_it in ((1, False), (2, True)):
            rows = [*eager_rows(graph[:ran], 0, 10), *capture_rows(graph, 5000, has_names=False)]
            found = attributed(replay([call.kernel for call in graph]), source(rows))
            assert found == [call.op if is_of_it else None for call in graph]

    def test_nothing_confirms_the_order(self) -> None:
        rows = capture_rows(self.graph, 5000, has_names=False)
        assert attributed(replay(self.kernels), source(rows)) == [None] * 4
        assert checks(replay(self.kernels), source(rows)) == {"other_capture": 4}

    def test_the_trace_of_the_capture_itself(self) -> None:
        rows = capture_rows(self.graph, 5000, has_names=False)
        assert attributed([*rows, *replay(self.kernels)]) == ["mm", "act", "copy", "mm"]

    def test_copies_elsewhere_refuse(self) -> None:
        rows = capture_rows(self.graph, 5000, has_names=False)
        swapped = (COPY, "mm_k", "act_k", "mm_k")
        assert attributed([*rows, *replay(swapped)]) == [None] * 4

    def test_annotations_of_nodes_confirm_the_order(self) -> None:
        graph = [Call("a", "mm", label="attention"), Call("b", "act", label="mlp")]
        rows = source(capture_rows(graph, 0, has_names=False))
        right = replay_rows([labelled("a", 1, "attention"), labelled("b", 2, "mlp")], 100_000, 501)
        assert attributed(right, rows) == ["mm", "act"]
        ways = events(right, rows)["attributed_by"].to_pylist()
        assert {way for way in ways if way} == {"annotation"}
        wrong = replay_rows([labelled("a", 1, "mlp"), labelled("b", 2, "attention")], 100_000, 501)
        assert attributed(wrong, rows)[0] != "mm"

    def test_nodes_on_both_sides(self) -> None:
        rows = capture_rows([Call("a", "mm"), Call("b", "act")], 0, has_names=False)
        numbered = [
            {**row, "graph_node_id": (9 << 32) + node}
            for row, node in zip(
                [row for row in rows if row["name"] == "hipLaunchKernel"], (4, 6), strict=True
            )
        ]
        others = iter(numbered)
        rows = [next(others) if row["name"] == "hipLaunchKernel" else row for row in rows]
        on: list[tuple[str, dict[str, Any]]] = [
            ("b", {"graph_node_id": (7 << 32) + 6}),
            ("a", {"graph_node_id": (7 << 32) + 4}),
        ]
        assert attributed(replay_rows(on, 100_000, 501), source(rows)) == ["act", "mm"]


def labelled(kernel: str, node: int, label: str) -> tuple[str, dict[str, Any]]:
    """A kernel as torch writes it with ``cuda_graph_annotations``."""
    return kernel, {"graph_node_id": (3 << 32) + node, "args": f'{{"name": "{label}"}}'}


def test_annotations_of_nodes_without_a_capture() -> None:
    rows = replay_rows([labelled("a", 1, "attention"), labelled("b", 2, "mlp")], 100_000, 501)
    assert attributed(rows) == ["attention", "mlp"]


def test_captured_ops_took_no_time_on_the_host() -> None:
    table = events(replay(NAMES, NAMES), capture(NAMES))
    rows = [row for row in table.to_pylist() if row["replays"] is not None]
    ops = {row["name"]: row for row in rows if row["kind"] == "host_op"}
    assert {row["replays"] for row in rows} == {2}
    for column in ("start_ns", "dur_ns", "self_ns", "idle_ns", "queue_depth", "step"):
        assert {row[column] for row in rows} == {None}, column
    assert {name: row["self_device_ns"] for name, row in ops.items()} == {
        "op0": 2, "op1": 4, "op2": 6, "op3": 8,
    }  # fmt: skip
    modules = [row for row in rows if row["python_module_id"] is not None]
    assert [row["device_ns"] for row in modules] == [2, 4, 6, 8]
    assert "runner.py(1): run" not in {row["name"] for row in rows}  # around the launch, too


def test_the_tree_has_captured_slices_without_times() -> None:
    made = trace(replay(["a", "b"]), capture(["a", "b"]))
    lines = str(made.tree()).splitlines()
    op = next(line for line in lines if line.endswith("op0"))
    assert op.split() == ["0.001", "us", "4", "op0"], "device time, event, name"
    assert lines.index(op) > next(n for n, line in enumerate(lines) if "hipGraphLaunch" in line)


def test_device_time_is_what_it_was() -> None:
    rows = replay(NAMES, NAMES)
    without, given = (events(rows, *sources) for sources in ((), (capture(NAMES),)))
    sums = []
    for table in (without, given):
        hosts = [row for row in table.to_pylist() if row["kind"] not in {"kernel", "memcpy"}]
        sums.append(sum(row["self_device_ns"] or 0 for row in hosts))
    assert sums == [20, 20]


def test_a_captured_call_of_another_thread() -> None:
    rows = capture_rows(calls(NAMES), 0)
    moved = [
        {**row, "thread": 5}
        if row["name"] in {"op3", "nn.Module: Layer_3"} or row.get("args") == '{"kernel": "act"}'
        else row
        for row in rows
    ]  # as autograd's, which captures nothing itself
    assert attributed(replay(NAMES), source(moved)) == ["op0", "op1", "op2", "op3"]


def test_what_ran_during_a_capture_was_not_captured() -> None:
    rows = capture_rows(calls(NAMES), 0)
    ran: dict[str, Any] = {
        "category": "cuda_runtime",
        "correlation": 77,
        "args": '{"kernel": "other"}',
    }
    rows += [event("hipLaunchKernel", 16, 17, thread=3, **ran)]
    rows += [work_row("other", 30, 40, correlation=77)]
    assert attributed(replay(NAMES), source(rows)) == ["op0", "op1", "op2", "op3"]


def test_the_python_stack_goes_on_outside_of_the_capture() -> None:
    rows = events(replay(NAMES), capture(NAMES)).to_pylist()
    [stack] = [row["python_stack"] for row in rows if row["name"] == "op1"]
    assert stack == "nn.Module: Layer_1;runner.py(1): run"


def test_each_replay_does_the_work_of_its_op() -> None:
    mm = Call("mm_k", "aten::mm", dims="[[4,8],[8,2]]")
    rows = capture_rows([mm, mm], 0)
    kernels = events(replay(["mm_k", "mm_k"]) + more(), source(rows)).to_pylist()
    work = [row["flops"] for row in kernels if row["kind"] == "kernel"]
    assert work == [2 * 4 * 8 * 2] * 4
    ops = [row for row in kernels if row["replays"] == 2 and row["name"] == "aten::mm"]
    assert [row["flops"] for row in ops] == [128, 128]


def more() -> list[dict[str, Any]]:
    return replay_rows(["mm_k", "mm_k"], 200_000, 900)


def test_answers_count_replays_as_calls() -> None:
    mm = Call("mm_k", "aten::mm", dims="[[4,8],[8,2]]")
    whole = trace(replay(["mm_k", "mm_k"]) + more(), source(capture_rows([mm, mm], 0)))
    averages = whole.key_averages().filter(name="aten::mm")
    assert averages.select("calls", "cpu_ns", "self_device_ns").rows() == [(4, 0, 6)]
    [row] = whole.roofline(per="op").filter(name="aten::mm").to_dicts()
    assert (row["calls"], row["kernels"], row["flops"]) == (4, 4, 512)
    [row] = whole.op_kernels().filter(name="aten::mm").to_dicts()
    assert (row["calls"], row["device_ns"], row["total_ns"]) == (4, 6, None)
    assert whole.self_times().filter(name="aten::mm").height == 0
    modules = whole.modules().select("name", "calls", "host_ns", "device_ns").rows()
    assert modules == [("nn.Module: Layer_1", 2, None, 4), ("nn.Module: Layer_0", 2, None, 2)]
    cut = whole.filter(end_ns=150_000)
    assert cut.key_averages().filter(name="aten::mm")["calls"].to_list() == [2]
    assert cut.modules().select("calls", "device_ns").rows() == [(1, 2), (1, 1)]


def test_captures_of_other_ranks_are_the_same_graph() -> None:
    layers = [["first"], ["mm", "act"], ["mm", "act"]]
    graphs = []
    for number, layer in enumerate(layers):
        graphs += capture_rows([Call(k, f"{k}{number}") for k in layer], 1000 * number)
    ranks = [source(graphs, file=f"rank{rank}.json") for rank in range(3)]
    ops = ["first0", "mm1", "act1", "mm2", "act2"]
    assert attributed(replay(*layers), *ranks) == ops
    other = capture_rows([Call("first", "another")], 0)
    assert attributed(replay(["first"]), ranks[0], source(other, file="b.json")) == [None]
