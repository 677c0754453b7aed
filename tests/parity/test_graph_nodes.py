"""Graph nodes as torch maps them: its own function on the same file, and graphs compiled here."""

from __future__ import annotations

import copy
import importlib
import json
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from tests import needs

Found = tuple[str, str | None, str | None]


def by_torch(document: Mapping[str, Any], registry: Mapping[str, Any]) -> list[Found]:
    """What torch's function writes into the slices of a document."""
    known = importlib.import_module("torch.fx.traceback")._FX_METADATA_REGISTRY
    torch_does = importlib.import_module("torch.profiler._utils")
    before, mapped = dict(known), copy.deepcopy(document)
    known.clear()
    known.update(registry)
    try:
        torch_does.map_recorded_events_to_aten_ops_with_stack_trace(mapped)
    finally:
        known.clear()
        known.update(before)
    slices = [one for one in mapped["traceEvents"] if one["ph"] == "X"]
    arguments = [one.get("args", {}) for one in slices]
    return [
        (one["name"], has.get("node_name"), has.get("stack_trace"))
        for one, has in zip(slices, arguments, strict=True)
    ]


def by_us(trace: profframe.Trace) -> list[Found]:
    events = trace.events.sort("event_id")
    return [*events.select("name", "node", "stack_trace").iter_rows()]


def wrong_markers(trace: profframe.Trace) -> list[str]:
    return [check for check in trace.quality["issue"] if "graph" in check]


@pytest.fixture(scope="module", params=[False, True], ids=["ops", "frames"])
def graphs(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[Any, Path, dict[str, Any]]]:
    """A profile of compiled code on two threads, its file, and what torch knows of its nodes."""
    torch = needs.torch()
    config = importlib.import_module("torch.fx.experimental._config")
    if not hasattr(config, "enrich_profiler_metadata"):
        needs.another_release("no marks of the nodes of graphs")

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, tokens: Any) -> Any:
            return torch.relu(self.layer(tokens)) @ tokens.t()

    tokens = torch.randn(3, 8, requires_grad=True)

    class Leaves(torch.fx.Tracer):  # type: ignore[misc, name-defined]
        def is_leaf_module(self, module: Any, name: str) -> bool:
            return isinstance(module, torch.fx.GraphModule) or bool(
                super().is_leaf_module(module, name)
            )

    with config.patch(enrich_profiler_metadata=True):
        model = Model()
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        inner = torch.nn.Sequential(torch.fx.symbolic_trace(model), torch.nn.Tanh())
        nested = torch.fx.GraphModule(inner, Leaves().trace(inner))

        def step() -> None:
            compiled(tokens).sum().backward()
            nested(tokens)

        step()
        everywhere = torch.profiler._ExperimentalConfig(profile_all_threads=True)
        with torch.profiler.profile(
            experimental_config=everywhere, with_stack=request.param
        ) as profiler:
            step()
            thread = threading.Thread(target=step)
            thread.start()
            thread.join()
    path = tmp_path_factory.mktemp("graphs") / "trace.json"
    live = profframe.load(profiler)
    profiler.export_chrome_trace(str(path))
    registry = importlib.import_module("torch.fx.traceback")._FX_METADATA_REGISTRY
    yield live, path, copy.deepcopy(registry)
    torch.compiler.reset()


def test_of_compiled_graphs_as_torch_has_it(graphs: tuple[Any, Path, dict[str, Any]]) -> None:
    _, path, registry = graphs
    trace = profframe.load(path, fx_metadata=registry)
    expected = by_torch(json.loads(path.read_text()), registry)
    assert by_us(trace) == expected
    assert sum(node is not None for _, node, _ in expected) > 50
    assert any(stack and "test_graph_nodes.py" in stack for _, _, stack in expected)
    assert wrong_markers(trace) == []


def test_a_live_profile_brings_what_torch_knows(graphs: tuple[Any, Path, dict[str, Any]]) -> None:
    live, path, registry = graphs
    columns = ("start_ns", "name", "node", "node_index", "node_file", "stack_trace")
    of_file = profframe.load(path, fx_metadata=registry).events
    of_file = of_file.filter(pl.col("kind") != "profiler")
    found = live.events.filter(pl.col("kind") != "profiler")
    assert found.select(columns).sort(columns[:2]).equals(of_file.select(columns).sort(columns[:2]))


def test_each_node_is_found_in_the_registry(graphs: tuple[Any, Path, dict[str, Any]]) -> None:
    live, _, registry = graphs
    found = live.events.filter(pl.col("node").is_not_null())
    assert found["tid"].n_unique() == 2
    for file, index, name in found.select("node_file", "node_index", "node").unique().iter_rows():
        assert registry[file]["node_metadata"][index]["name"] == name


# Documents made up: whatever nests, on threads that run at once


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Well-formed markers and slices in them; every time and every marker of a thread is its own.

    Torch closes a marker of the same name on another thread, too, so no two threads share one.
    """
    clock = iter(range(10**6))
    events: list[dict[str, Any]] = []
    registry: dict[str, Any] = {}
    texts = st.sampled_from(["relu", "a b", "<b>", "'; --"])

    def body(thread: int, depth: int, file: str | None) -> None:
        for _ in range(draw(st.integers(0, 3))):
            kinds = ["op", "frame", "graph"] if file is None else ["op", "frame", "graph", "node"]
            kind = draw(st.sampled_from(kinds))
            number = next(clock)
            inside = file
            if kind == "graph":
                inside = f"graph_{number}.py"
                registry[inside] = {"node_metadata": {}}
                name = f"## {inside} ##"
            elif kind == "node" and file is not None:
                trace = draw(st.sampled_from([None, "", "m.py, line 3\n  relu", "n.py, line 4"]))
                described = {"name": f"{draw(texts)}_{number}", "stack_trace": trace}
                registry[file]["node_metadata"][number] = described
                name = f"## {number} ##"
            else:
                name = kind
            category, start = "python_function" if kind == "frame" else "cpu_op", next(clock)
            place = {"ph": "X", "pid": 1, "tid": thread, "cat": category}
            row: dict[str, Any] = place | {"name": name, "ts": start}
            events.append(row)
            if depth < 5:
                body(thread, depth + 1, inside)
            row["dur"] = next(clock) - start

    for thread in (1, 2):
        body(thread, 0, None)
    shift = draw(st.integers(0, 40))  # so that the threads overlap
    for row in events:
        row["ts"] = 2 * row["ts"] + row["tid"] - (2 * shift if row["tid"] == 2 else 0) + 100
        row["dur"] = 2 * row["dur"]
    return {"traceEvents": events}, registry


@given(documents())
def test_of_documents_made_up_as_torch_has_it(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    needs.torch()
    document, registry = made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(document))
        trace = profframe.load(path, fx_metadata=registry)
    assert by_us(trace) == by_torch(document, registry)
    assert wrong_markers(trace) == []
