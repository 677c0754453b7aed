"""Kernels of compiled graphs against loops over the files' JSON and the slices."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.pipeline import add_facts
from profframe.readers.provenance import CompiledGraph
from profframe.readers.provenance.reading import read
from tests.builders import Row, event, tables
from tests.oracles.compiled_kernels import Links, kernels_of, parsed

NAMES = ("triton_a_0", "triton_b_1", "cpp_c_2", "extern_kernels.mm", "torch.ops.aten.mm.default")
SLICES = (
    *("triton_a_0", "triton_b_1", "graph_0_cpp_c_2", "cpp_c_2", "aten::mm", "aten::mm", "other"),
    *("## Call CompiledFxGraph fa ##", "## Call CompiledFxGraph fb ##"),
    *("## Call CompiledFxGraph None ##", "## Call CompiledFxGraph fa ##"),
)
KEYS = (None, None, "fa", "fb", "fc")
PLACE = st.integers(0, 30)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
    has_handles = draw(st.sampled_from([True, True, False]))
    keys = [f"{name}:{n}" for n, name in enumerate(names, 1)] if has_handles else [*set(names)]
    code = (
        keys[draw(st.integers(0, len(keys) - 1)) :] if has_handles and draw(st.booleans()) else []
    )
    return {
        "mappings": {key: [f"node{n}"] for n, key in enumerate(keys)},
        "stacks": {key: [f'  File "m.py", line {n}, in f\n    x\n'] for n, key in enumerate(keys)},
        "code": code,
        "key": draw(st.sampled_from(KEYS)),
    }


@st.composite
def slices(draw: st.DrawFn) -> Row:
    start, end = sorted((draw(PLACE), draw(PLACE)))
    name = draw(st.sampled_from(SLICES))
    correlation = draw(st.integers(0, 3))
    if draw(st.integers(0, 3)) == 0:
        place: dict[str, Any] = {"thread": 5, "pid": "0", "device": 0}
        return event(name, start, end, category="kernel", correlation=correlation, **place)
    category = draw(st.sampled_from(["cpu_op", "cpu_op", "user_annotation", "cuda_runtime"]))
    return event(
        name,
        start,
        end,
        category=category,
        thread=draw(st.integers(0, 1)),
        correlation=correlation if category == "cuda_runtime" else None,
    )


def written(folder: Path, drawn: list[dict[str, Any]]) -> list[CompiledGraph]:
    """The graphs of the files that torch and tlparse write of some graphs."""
    paths = []
    for number, graph in enumerate(drawn):
        own = folder / f"g{number}"
        own.mkdir()
        mappings = {"cppCodeToPost": graph["mappings"], "postToPre": {}, "version": 2.0}
        files = {
            "inductor_output_code_cabc_1.html": "".join(
                f"# [Provenance debug handles] {key}\n" for key in graph["code"]
            ),
            "inductor_provenance_tracking_node_mappings_2.json": json.dumps(mappings),
            "inductor_provenance_tracking_kernel_stack_traces_3.json": json.dumps(graph["stacks"]),
            "fx_graph_cache_miss_4.json": json.dumps({"key": graph["key"]}),
        }
        for name, text in files.items():
            (own / name).write_text(text)
            paths.append(own / name)
        graph["name"] = own.name
    return read(paths).graphs


@given(st.lists(graphs(), min_size=1, max_size=3), st.lists(slices(), max_size=25))
def test_links_are_those_of_loops(drawn: list[dict[str, Any]], rows: list[Row]) -> None:
    drawn = _different(drawn)
    with tempfile.TemporaryDirectory() as folder:
        given_graphs = written(Path(folder), drawn)
    got = add_facts(tables(*rows), provenance=given_graphs)
    events = got["events"].to_pylist()
    kernels = got["compiled_kernels"].to_pylist()
    numbered = [{**row, "event_id": n} for n, row in enumerate(events)]
    answers, doubtful = Links(numbered, drawn).answers()
    columns = ("graph", "name", "handle")
    linked = [
        None if number is None else (*(kernels[number][name] for name in columns), way)
        for number, way in ((row["compiled_kernel_id"], row["compiled_by"]) for row in events)
    ]
    assert linked == answers
    counts = {row["issue"]: row["events"] for row in got["quality"].to_pylist()}
    assert counts.get("ambiguous_compiled_kernel", 0) == doubtful


def _different(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Graphs of which several files say the same once: those with code and key are preferred."""
    with_code = {graph["key"] for graph in drawn if graph["code"]}
    kept: list[dict[str, Any]] = []
    for graph in sorted(drawn, key=lambda graph: graph["key"] is None):
        is_worse = graph["key"] in with_code and graph["key"] is not None and not graph["code"]
        others = [other for other in kept if _content(other) == _content(graph)]
        is_same = any(graph["key"] in {None, other["key"]} for other in others)
        if not is_worse and not is_same:
            kept.append(graph)
    return kept


def _content(graph: dict[str, Any]) -> list[Any]:
    texts = {parsed(key): nodes for key, nodes in graph["mappings"].items()}
    return [(key, texts.get(key)) for key in kernels_of(graph)]
