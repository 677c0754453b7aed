"""Whatever was captured, and whatever of it was lost: no work gets the op of another call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.graphs import Call, attributed, calls, capture_rows, replay, replay_rows, source

KERNELS = st.sampled_from("abc")


@st.composite
def graphs(draw: st.DrawFn) -> list[Call]:
    """Kernels with repeated blocks, as layers are."""
    block = draw(st.lists(KERNELS, min_size=1, max_size=4))
    before, after = (draw(st.lists(KERNELS, max_size=4)) for _ in range(2))
    return calls([*before, *(block * draw(st.integers(1, 12))), *after])


def same(_: st.DataObject, graph: list[Call]) -> list[Call]:
    return graph


def one_left_out(data: st.DataObject, graph: list[Call]) -> list[Call]:
    place = data.draw(st.integers(0, len(graph) - 1))
    return graph[:place] + graph[place + 1 :]


def a_block_left_out(data: st.DataObject, graph: list[Call]) -> list[Call]:
    first, last = sorted(data.draw(st.integers(0, len(graph))) for _ in range(2))
    return graph[:first] + graph[last:]


def two_swapped(data: st.DataObject, graph: list[Call]) -> list[Call]:
    first, last = (data.draw(st.integers(0, len(graph) - 1)) for _ in range(2))
    swapped = [*graph]
    if graph[first].kernel != graph[last].kernel:
        swapped[first], swapped[last] = graph[last], graph[first]
    return swapped


def another(data: st.DataObject, graph: list[Call]) -> list[Call]:
    names = data.draw(st.lists(KERNELS, min_size=1, max_size=40))
    is_same = names == [call.kernel for call in graph]
    return graph if is_same else [Call(name, "another") for name in names]


CHANGES: Sequence[Callable[[st.DataObject, list[Call]], list[Call]]] = (
    same, one_left_out, a_block_left_out, two_swapped, another,
)  # fmt: skip


@given(st.data())
def test_what_a_capture_lost_or_swapped_gives_no_wrong_op(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    change = data.draw(st.sampled_from(CHANGES))
    captured = change(data, graph)
    if not captured:
        return
    rows = replay([call.kernel for call in graph], [call.kernel for call in graph])
    ops = attributed(rows, source(capture_rows(captured, 0)))
    truth = [call.op for call in graph] * 2
    is_sound = [op in {None, right} for op, right in zip(ops, truth, strict=True)]
    assert all(is_sound), (captured, ops)
    if captured == graph:
        assert ops == truth


@given(st.data())
def test_what_a_replay_lost_gives_no_wrong_op(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    change = data.draw(st.sampled_from([same, one_left_out]))
    ran = change(data, graph)
    if ran:
        ops = attributed(replay([call.kernel for call in ran]), source(capture_rows(graph, 0)))
        is_sound = [op in {None, call.op} for op, call in zip(ops, ran, strict=True)]
        assert all(is_sound), (graph, ran, ops)


@given(st.data())
def test_streams_give_no_wrong_op(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    streams = [data.draw(st.integers(7, 8)) for _ in graph]
    order = data.draw(st.permutations(range(len(graph))))
    # Each stream keeps its order, and the streams may run at any time.
    of_stream = {s: iter([n for n, t in enumerate(streams) if t == s]) for s in (7, 8)}
    places = [next(of_stream[streams[n]]) for n in order]
    rows = replay_rows([(graph[n].kernel, {"stream": streams[n]}) for n in places], 100_000, 501)
    ops = attributed(rows, source(capture_rows(graph, 0)))
    is_sound = [op in {None, graph[n].op} for op, n in zip(ops, places, strict=True)]
    assert all(is_sound), (streams, places, ops)


@given(st.data())
def test_graphs_in_order_are_told_apart(data: st.DataObject) -> None:
    layers = [
        [Call(call.kernel, f"{call.op}_{n}") for call in data.draw(graphs())]
        for n in range(data.draw(st.integers(1, 4)))
    ]
    repeats = data.draw(st.integers(1, 3))
    captured = [row for n, layer in enumerate(layers) for row in capture_rows(layer, 1000 * n)]
    first = data.draw(st.integers(0, len(layers) - 1))
    launched = (layers * repeats)[first:]
    rows = replay(*([call.kernel for call in layer] for layer in launched))
    ops = attributed(rows, source(captured))
    truth = [call.op for layer in launched for call in layer]
    assert all(op in {None, right} for op, right in zip(ops, truth, strict=True)), (layers, ops)
