"""Device time of ops on the first screen: that of `key_averages`, the most first."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import polars as pl

from profframe import load
from profframe.show import units
from tests.conftest import Run

TITLE: Final = "Device time of ops"
NOTE: Final = (
    "self device %: of the time of all kernels, copies and fills; "
    "total device: with what the op calls"
)
GPU: Final = "examples/gpu_training.json.gz"
JOB: Final = "examples/job"


def table(printed: str) -> list[list[str]]:
    """Cells of the table, below its title; nothing without it."""
    part = next((p for p in printed.split("\n\n") if p.startswith(TITLE)), "")
    return [re.split(r"\s{2,}", line.strip()) for line in part.splitlines()]


def written(path: Path, *, kernels: bool = True) -> Path:
    """Two calls of linear, each of which calls addmm and copies: 30 us, 10 us; 20 us of no op."""
    slices: list[tuple[str, str, int, int, int, dict[str, Any]]] = []
    for number, at in ((1, 0), (3, 200)):
        slices += [
            ("cpu_op", "aten::linear", 1, at, 100, {}),
            ("cpu_op", "aten::addmm", 1, at + 10, 20, {}),
            ("cuda_runtime", "cudaLaunchKernel", 1, at + 15, 5, {"correlation": number}),
            ("cuda_runtime", "cudaMemcpyAsync", 1, at + 50, 5, {"correlation": number + 1}),
        ]
        if kernels:
            slices += [
                ("kernel", "sgemm", 7, at + 20, 30, {"correlation": number}),
                ("gpu_memcpy", "Memcpy DtoD", 7, at + 60, 10, {"correlation": number + 1}),
            ]
    if kernels:
        slices.append(("kernel", "of_no_op", 7, 400, 20, {"correlation": 9}))
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
        | {"args": args | ({"device": 0, "stream": tid} if tid > 1 else {})}
        for category, name, tid, ts, dur, args in slices
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_ops_have_the_time_of_what_they_launch_themselves(tmp_path: Path, run: Run) -> None:
    code, printed, _ = run(written(tmp_path / "trace.json"))
    assert code == 0
    assert table(printed) == [
        [TITLE],
        ["name", "calls", "self device", "self device %", "total device"],
        ["aten::addmm", "2", "60.000 us", "60.0 %", "60.000 us"],
        ["aten::linear", "2", "20.000 us", "20.0 %", "80.000 us"],
        [NOTE],
    ]


def test_there_is_none_without_work_of_devices_or_ops(tmp_path: Path, run: Run) -> None:
    assert table(run(written(tmp_path / "trace.json", kernels=False))[1]) == []
    assert table(run("examples/rocprof.db")[1]) == []


def test_the_first_rows_are_the_largest_of_the_answer(run: Run) -> None:
    (title,), _, *rows, _ = table(run("show", GPU, "--top", "3")[1])
    of = load(GPU).key_averages().filter(pl.col("kind") == "host_op", pl.col("self_device_ns") > 0)
    most = of.sort("self_device_ns", descending=True).head(3)
    assert title == f"{TITLE} (top 3 of {of.height})"
    assert [(row[0], row[2]) for row in rows] == [
        (name, units.duration(ns)) for name, ns in most.select("name", "self_device_ns").iter_rows()
    ]


def test_several_ranks_have_their_mean_and_the_share_of_all(run: Run) -> None:
    (title,), headings, first, *_ = table(run(JOB)[1])
    trace = load(JOB)
    rows = trace.key_averages().filter(pl.col("name") == "aten::mm")
    mm = rows["self_device_ns"].to_list()
    assert title == f"{TITLE}, mean of 4 ranks"
    shown = dict(zip(headings, first, strict=True))
    assert shown["self device"] == units.duration(round(sum(mm) / 4))
    assert shown["worst self device"] == units.duration(max(mm))
    whole = sum(trace.kernel_categories()["total_ns"].to_list())
    assert shown["self device %"] == units.share(sum(mm) / whole)
    (of_each,), headings, *_ = table(run("show", JOB, "--per", "rank")[1])
    assert ("mean" not in of_each, headings[0]) == (True, "rank")
