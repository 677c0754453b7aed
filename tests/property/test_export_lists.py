"""Lists of events (``legacy=True``) read back: kernels keep their ops, against what was drawn."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe

Member = dict[str, Any]
SPAN = 1000
"""Microseconds from op to op; calls and kernels have ten each."""


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Member], dict[str, str | None]]:
    """Chrome's events of some ops with kernels, and the op that has launched each kernel."""
    events: list[Member] = []
    owner: dict[str, str | None] = {}
    for number in range(draw(st.integers(1, 5))):
        line = {"pid": 9, "tid": draw(st.sampled_from([5, 7]))}
        at, name = number * SPAN, f"op {number}"
        depth = draw(st.integers(not number, 2))  # of ops with one name only the outer is listed
        events += [
            line | {"cat": "cpu_op", "name": name, "ts": at + level, "dur": 900 - 2 * level}
            | {"args": {"External id": 10 * number + level + 1}}
            for level in range(depth)
        ]  # fmt: skip
        for call in range(draw(st.integers(0, 3))):
            kernel = f"kernel {number} {call}"
            linked, start = draw(st.sampled_from(["call", "id", "none"])), at + 10 + 20 * call
            args: Member = {"device": draw(st.integers(0, 1)), "stream": 7}
            if linked == "call":
                args["correlation"] = 100 * number + call + 1
                events.append(
                    line | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": start}
                    | {"dur": 5, "args": {"correlation": args["correlation"]}}
                )  # fmt: skip
            if linked == "id" and depth:
                args["External id"] = 10 * number + draw(st.integers(1, depth))
            owner[kernel] = name if depth and linked != "none" else None
            events.append(
                {"cat": "kernel", "name": kernel, "ts": start + 8, "dur": 3 + call, "args": args}
                | {"pid": args["device"], "tid": 7}
            )
    return [{"ph": "X"} | event for event in events], owner


def check(program: tuple[list[Member], dict[str, str | None]]) -> None:
    events, owner = program
    with TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "trace.json").write_text(json.dumps({"traceEvents": events}))
        profframe.load(path / "trace.json").export_chrome_trace(path / "list.json", legacy=True)
        again = profframe.load(path / "list.json")
    rows, names = again.events, again.events["name"].to_list()
    kernels = rows.filter(rows["kind"] == "kernel")
    ops = {
        kernel: None if op is None else names[op]
        for kernel, op in kernels.select("name", "op_id").iter_rows()
    }
    assert ops == owner
    device = dict(kernels.select("name", "device").iter_rows())
    assert device == {e["name"]: e["args"]["device"] for e in events if e["cat"] == "kernel"}
    times = {e["name"]: 1000 * e["dur"] for e in events if e["cat"] == "kernel"}
    host = rows.filter(pl.col("kind") == "host_op")
    assert dict(host.select("name", "device_ns").iter_rows()) == {
        name: sum(times[kernel] for kernel, op in owner.items() if op == name)
        for name in host["name"]
    }


@settings(max_examples=max(1, settings().max_examples // 4))
@given(programs())
def test_kernels_keep_their_ops(program: tuple[list[Member], dict[str, str | None]]) -> None:
    check(program)


@pytest.mark.long
@settings(max_examples=50)
@given(programs())
def test_kernels_of_many_keep_their_ops(
    program: tuple[list[Member], dict[str, str | None]],
) -> None:
    check(program)
