"""Captures of graphs and their replays, as a reader gives them.

>>> from tests.graphs import capture, replay, attributed
>>> attributed(replay(["a", "b"]), capture(["a", "b"]))
['op0', 'op1']
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from profframe import schema
from profframe.facts.fact import Tables
from profframe.facts.graph_captures.attribution import CaptureSource
from profframe.facts.graph_captures.recorded_captures import captures
from profframe.facts.pipeline import add_facts, captured
from profframe.trace.trace import Trace
from tests.builders import Row, event, tables

COPY, FILL = "Memcpy DtoD (Device -> Device)", "Memset (Device)"


@dataclass(frozen=True)
class Call:
    """A captured call: kernel, its op and what that is called with, blocks of the kernel."""

    kernel: str
    op: str
    dims: str = "[[2,2]]"
    types: str | None = None
    label: str | None = None
    grid: str | None = None


def calls(kernels: Sequence[str]) -> list[Call]:
    """Calls of these kernels by ``op0``, ``op1``, ..."""
    return [Call(kernel, f"op{place}") for place, kernel in enumerate(kernels)]


def capture_rows(
    graph: Sequence[Call], start: int, *, has_names: bool = True, label: str | None = None
) -> list[dict[str, Any]]:
    """One capture, from ``start`` on, 10 ns for each call."""
    end = start + 20 + 10 * len(graph)
    rows = [event(label, start, end, category="user_annotation")] if label else []
    rows.append(event("runner.py(1): run", start + 1, end, category="python_function"))
    rows.append(event("hipStreamBeginCapture", start + 2, start + 3, category="cuda_runtime"))
    for place, call in enumerate(graph):
        at = start + 5 + 10 * place
        args = json.dumps({"kernel": call.kernel}) if has_names else "{}"
        name = {COPY: "hipMemcpyAsync", FILL: "hipMemsetAsync"}.get(call.kernel, "hipLaunchKernel")
        module: dict[str, Any] = {"python_module_id": place, "category": "python_function"}
        rows.append(event(f"nn.Module: Layer_{place}", at, at + 9, **module))
        if call.label:
            rows.append(event(call.label, at + 1, at + 8, category="user_annotation"))
        op: dict[str, Any] = {
            "input_dims": call.dims,
            "input_types": call.types,
            "external_id": 1 + place,
        }
        rows.append(event(call.op, at + 2, at + 7, **op))
        rows.append(event(name, at + 3, at + 4, category="cuda_runtime", args=args))
    at = end - 5
    rows.append(event("hipStreamEndCapture", at, at + 1, category="cuda_runtime"))
    return rows


def eager_rows(graph: Sequence[Call], start: int, correlation: int) -> list[dict[str, Any]]:
    """The same calls without a graph: each op launches its kernel."""
    rows = []
    for place, call in enumerate(graph):
        at, number = start + 10 * place, correlation + place
        op: dict[str, Any] = {
            "input_dims": call.dims,
            "input_types": call.types,
            "external_id": 1000 + number,
        }
        launch: dict[str, Any] = {"category": "cuda_runtime", "correlation": number}
        rows.append(event(call.op, at, at + 8, **op))
        rows.append(event("hipLaunchKernel", at + 2, at + 3, **launch))
        grid = {"grid": call.grid, "block": "[64,1,1]"} if call.grid else {}
        rows.append(work_row(call.kernel, at + 4, at + 6, correlation=number, **grid))
    return rows


def replay_rows(
    kernels: Sequence[str | tuple[str, Mapping[str, Any]]],
    start: int,
    correlation: int,
    label: str | None = None,
) -> list[dict[str, Any]]:
    """A launch of a graph, and its kernels, 10 ns each; with other columns of each if given."""
    launch: dict[str, Any] = {"category": "cuda_runtime", "correlation": correlation}
    rows = [event(label, start, start + 5, category="user_annotation")] if label else []
    rows.append(event("hipGraphLaunch", start + 1, start + 4, **launch))
    for place, kernel in enumerate(kernels):
        name, columns = (kernel, {}) if isinstance(kernel, str) else kernel
        at = start + 10 + 10 * place
        rows.append(work_row(name, at, at + 1 + place % 5, correlation=correlation, **columns))
    return rows


def work_row(name: str, start: int, end: int, **columns: Any) -> dict[str, Any]:
    category = {COPY: "gpu_memcpy", FILL: "gpu_memset"}.get(name, "kernel")
    given: dict[str, Any] = {"device": 0, "stream": 7} | columns
    return event(name, start, end, category=category, thread=1, **given)


def chrome(*rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a trace of Kineto's."""
    members = {"correlation": "correlation", "external_id": "External id", "device": "device"}
    members |= {"stream": "stream", "graph_node_id": "graph node id"}
    slices = []
    for row in (row for part in rows for row in part):
        args = json.loads(str(row.get("args", "{}")))
        args |= {member: row[name] for name, member in members.items() if name in row}
        if "input_dims" in row:
            dims = json.loads(str(row["input_dims"]))
            args |= {"Input Dims": dims, "Input type": ["float"] * len(dims)}
        on_device = "device" in row
        slices.append({
            "ph": "X", "name": row["name"], "cat": row["category"], "args": args,
            "pid": 0 if on_device else 1, "tid": row.get("stream", 1) if on_device else 1,
            "ts": row["start_ns"] / 1000, "dur": row["dur_ns"] / 1000,
        })  # fmt: skip
    return json.dumps({"schemaVersion": 1, "traceEvents": slices})


def source(*rows: Sequence[Row], file: str = "capture.json") -> CaptureSource:
    """A trace of captures."""
    built = captured(tables(*(row for part in rows for row in part)))
    return CaptureSource(file, built, captures(built))


def capture(kernels: Sequence[str], **options: Any) -> CaptureSource:
    """A trace with one capture."""
    return source(capture_rows(calls(kernels), 0, **options))


def replay(*launches: Sequence[str]) -> list[dict[str, Any]]:
    """Launches of graphs, one after the other."""
    start = 100_000
    rows: list[dict[str, Any]] = []
    for number, kernels in enumerate(launches, 1):
        rows += replay_rows(kernels, start, 500 + number)
        start += 1000 + 10 * len(kernels)
    return rows


def events(rows: Sequence[Row], *sources: CaptureSource) -> pa.Table:
    """The events of a trace of replays, with all facts."""
    return with_facts(rows, *sources)["events"]


def trace(rows: Sequence[Row], *sources: CaptureSource) -> Trace:
    """The trace of replays."""
    made = with_facts(rows, *sources).items()
    return Trace.from_tables({name: schema.conform(name, part, "r", 0) for name, part in made})


def with_facts(rows: Sequence[Row], *sources: CaptureSource) -> Tables:
    """The tables of a trace of replays, with all facts."""
    return add_facts(tables(*rows), captures=sources)


def attributed(rows: Sequence[Row], *sources: CaptureSource) -> list[str | None]:
    """Name of the op of each piece of work in graphs, in the order of ``rows``."""
    table = events(rows, *sources)
    names, ops = table["name"].to_pylist(), table["op_id"].to_pylist()
    ways = table["attributed_by"].to_pylist()
    kinds = table["kind"].to_pylist()
    launches = table["launch_id"].to_pylist()
    return [
        names[op] if op is not None and way not in {"launch", "source"} else None
        for kind, op, way, launch in zip(kinds, ops, ways, launches, strict=True)
        if kind in {"kernel", "memcpy", "memset"}
        and launch is not None
        and "GraphLaunch" in names[launch]
    ]


def checks(rows: Sequence[Row], *sources: CaptureSource) -> dict[str, int]:
    """Counts of the checks about graphs."""
    quality = with_facts(rows, *sources)["quality"]
    counts: dict[str, int] = {}
    for name, count in zip(
        quality["issue"].to_pylist(), quality["events"].to_pylist(), strict=True
    ):
        if name in {"other_capture", "ambiguous_capture", "lost_replay_work"}:
            counts[name] = counts.get(name, 0) + count
    return counts
