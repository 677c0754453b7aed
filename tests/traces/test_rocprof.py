"""rocprofv3's JSON as a public trace has it, against plain Python: kernels of a training run."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import profframe

NAME = "AMD-AGI__TraceLens/rocprof_908_results.json.gz"


@pytest.fixture(scope="module")
def source(traces: Path) -> Path:
    return traces / NAME


def test_every_kernel_is_a_slice(source: Path) -> None:
    (process,) = json.loads(gzip.decompress(source.read_bytes()))["rocprofiler-sdk-tool"]
    names = {row["kernel_id"]: row["formatted_kernel_name"] for row in process["kernel_symbols"]}
    agents = {row["id"]["handle"]: row for row in process["agents"]}
    expected = Counter[tuple[object, ...]]()
    for row in process["buffer_records"]["kernel_dispatch"]:
        work = row["dispatch_info"]
        block = [work["workgroup_size"][axis] for axis in "xyz"]
        grid = [
            -(-work["grid_size"][axis] // size) for axis, size in zip("xyz", block, strict=True)
        ]
        expected[
            row["start_timestamp"],
            row["end_timestamp"] - row["start_timestamp"],
            names[work["kernel_id"]],
            agents[work["agent_id"]["handle"]]["logical_node_id"],
            row["stream_id"]["handle"],
            row["correlation_id"]["internal"],
            *(json.dumps(of, separators=(",", ":")) for of in (block, grid)),
        ] += 1
    trace = profframe.load(source)
    columns = ("start_ns", "dur_ns", "name", "device", "stream", "correlation", "block", "grid")
    assert Counter(trace.events.select(columns).iter_rows()) == expected
    totals = trace.kernels().select(pl.col("calls").sum(), pl.col("total_ns").sum()).row(0)
    of_kernels = [one for one in expected.elements() if not str(one[2]).startswith("__amd_rocclr_")]
    assert totals == (len(of_kernels), sum(int(str(one[1])) for one in of_kernels))
    assert trace.quality.select("issue", "events").rows() == [
        ("kernel_without_launch", expected.total())
    ]
    gpus = [row for row in agents.values() if row["type"] == 2]
    assert trace.devices.select("device", "name").rows() == [
        (row["logical_node_id"], row["product_name"]) for row in gpus
    ]
