"""Places and layers of what a graph ran, and what is around each slice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Row, column, event, facts


def launch(start: int, correlation: int, name: str = "cudaGraphLaunch") -> Row:
    return event(name, start, start + 2, category="cuda_runtime", correlation=correlation)


def work(names: str, start: int, correlation: int, stream: int = 7) -> list[Row]:
    """A kernel for each letter, 10 ns apart."""
    on_device: dict[str, Any] = {"thread": stream, "device": 0, "stream": stream}
    return [
        event(n, start + 10 * i, start + 10 * i + 5, category="kernel", correlation=correlation)
        | on_device
        for i, n in enumerate(names)
    ]


def test_places_and_layers_of_each_replay() -> None:
    tables = facts(
        launch(0, 1),
        launch(500, 2),
        launch(900, 3, "cudaLaunchKernel"),
        *work("xabababy", 1000, 2),
        *work("xabababy", 100, 1),
        *work("z", 2000, 3),
    )
    positions, layers = (column(tables, n)[3:] for n in ("graph_position", "graph_layer"))
    assert positions == [*range(8), *range(8), None]
    assert layers == [None, 0, 0, 1, 1, 2, 2, None] * 2 + [None]
    assert set(column(tables, "graph_block")) == {None, 0}


def test_another_stream_is_in_the_layer_that_runs() -> None:
    tables = facts(
        launch(0, 1), *work("ababab", 100, 1), *work("ss", 95, 1, 8), *work("t", 143, 1, 9)
    )
    names, positions, layers = (
        column(tables, n)[1:] for n in ("name", "graph_position", "graph_layer")
    )
    assert [*zip(names, positions, layers, strict=True)][6:] == [
        ("s", 0, None), ("s", 2, 0), ("t", 7, 2),
    ]  # fmt: skip


def test_names_of_graph_launches() -> None:
    for name in ("hipGraphLaunch", "cuGraphLaunch", "cudaGraphLaunch_v10000"):
        tables = facts(launch(0, 1, name), *work("ab", 100, 1))
        assert column(tables, "graph_position") == [None, 0, 1]


def test_equal_starts_go_by_their_order_in_the_source() -> None:
    rows = [{**row, "start_ns": 100} for row in work("abc", 100, 1)]
    assert column(facts(launch(0, 1), *rows), "graph_position") == [None, 0, 1, 2]


def test_annotation_and_frame_around_a_slice_and_its_launch() -> None:
    tables = facts(
        event("outer", 0, 100, category="user_annotation"),
        event("train.py(1): f", 10, 90, category="python_function"),
        event("inner", 20, 80, category="user_annotation"),
        event("aten::mm", 30, 70),
        launch(40, 1),
        *work("a", 200, 1),
        event("alone", 0, 9, thread=3),
    )
    assert column(tables, "annotation_id") == [None, 0, 0, 2, 2, 2, None]
    assert column(tables, "frame_id") == [None, None, 1, 1, 1, 1, None]


def test_replays_with_less_work_than_most_of_their_graph() -> None:
    """Those of another graph say nothing, nor do those of which no graph is known."""
    rows = []
    for n, (names, graph) in enumerate([("abc", 5), ("ab", 5), ("abc", 5), ("a", 6), ("a", None)]):
        rows.append(launch(1_000 * n, n + 1))
        rows += [{**row, "graph_id": graph} for row in work(names, 1_000 * n + 100, n + 1)]
    (note,) = facts(*rows)["quality"].to_pylist()
    assert (note["issue"], note["events"], note["example_event_id"]) == (
        "graph_launch_in_part", 1, 4
    )  # fmt: skip
    assert note["detail"].endswith(": 1 of 4, 1 missing in all")


@pytest.mark.parametrize("graph", [None, 5])
def test_a_replay_of_which_a_part_is_there_has_not_lost_its_work(graph: int | None) -> None:
    """With the number of its graph it is counted; without, nothing shows it."""
    rows = []
    for n, names in enumerate(["abc", "ab", "abc"]):
        rows.append(launch(1_000 * n, n + 1))
        rows += [{**row, "graph_id": graph} for row in work(names, 1_000 * n + 100, n + 1)]
    tables = facts(*rows)
    assert set(column(tables, "lost_start_ns")) == {None}
    counted = tables["quality"]["issue"].to_pylist()
    assert counted == ([] if graph is None else ["graph_launch_in_part"])
