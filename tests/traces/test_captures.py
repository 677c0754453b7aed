"""Real pairs of capture and replay: sums are what they were, and all work has its op."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe.trace.trace import Trace
from tests.members import few

FOLDER = Path("AMD-AGI__TraceLens/inference")
PAIRS = {
    "sglang_Qwen3-8B_decode": "sglang_decode_capture_bs_32_rank0",
    "vllm_piecewise_graph_execution": "vllm_piecewise_graph_capture",
    "xdit_flux_aiter_sage_graph_execution": "xdit_flux_aiter_sage_graph_capture",
}
REPLAYED = {
    "sglang_Qwen3-8B_decode": 544,
    "vllm_piecewise_graph_execution": 361,
    "xdit_flux_aiter_sage_graph_execution": 4 * 1566,
}
WORK = pl.col("kind").is_in(["kernel", "memcpy", "memset"])


@cache
def load(traces: Path, name: str, capture: str | None) -> Trace:
    captures = None if capture is None else traces / FOLDER / f"{capture}.json.gz"
    return profframe.load(traces / FOLDER / f"{name}.json.gz", captures=captures)


def in_graphs(trace: Trace) -> pl.DataFrame:
    events = trace.events
    launches = events.filter(pl.col("name").str.contains("GraphLaunch"))
    work = events.filter(WORK).join(
        launches.select(launch_id="event_id"), on="launch_id", how="semi"
    )
    ops = events.select(op_id="event_id", op="name", dims="input_dims", op_kind="kind")
    return work.join(ops, on="op_id", how="left")


@pytest.mark.parametrize("name", few(PAIRS, 1))
def test_all_work_in_graphs_has_its_op(name: str, traces: Path) -> None:
    work = in_graphs(load(traces, name, PAIRS[name]))
    assert work.height == REPLAYED[name]
    assert set(work["op_kind"]) == {"host_op"}
    assert work["dims"].null_count() == 0
    assert set(work["attributed_by"]) <= {"graph_name", "graph_order"}


@pytest.mark.parametrize("name", few(PAIRS, 1))
def test_the_ops_are_of_their_kernels(name: str, traces: Path) -> None:
    """By names that both have: Triton's kernels are called as their ops; matrix products by mm."""
    work = in_graphs(load(traces, name, PAIRS[name]))
    triton = work.filter(pl.col("op").str.starts_with("triton_"))
    assert triton.filter(pl.col("op") != pl.col("name")).height == 0
    products = work.filter(pl.col("name").str.starts_with("Cijk_"))
    assert set(products["op"]) <= {"aten::mm", "aten::addmm"}
    assert products.height > 0


@pytest.mark.parametrize("name", few(PAIRS, 1))
def test_sums_are_what_they_were(name: str, traces: Path) -> None:
    sums = []
    for capture in (None, PAIRS[name]):
        trace = load(traces, name, capture)
        averages = trace.key_averages()
        on_host = averages.filter(~pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
        host = on_host.filter(pl.col("kind") != "device_annotation")
        sums.append((
            host["self_device_ns"].sum(), host["self_cpu_ns"].sum(),
            trace.self_times()["self_ns"].sum(), trace.kernels()["total_ns"].sum(),
            trace.time_breakdown().rows(), trace.events.filter(WORK)["device_ns"].sum(),
        ))  # fmt: skip
    assert sums[0] == sums[1]


def test_a_capture_of_another_model_is_refused(traces: Path) -> None:
    name = "vllm_piecewise_graph_execution"
    trace = load(traces, name, "sglang_decode_capture_bs_32_rank0")
    assert trace.events["replays"].null_count() == trace.events.height
    checks = trace.quality.filter(issue="other_capture")
    assert checks["events"].sum() == REPLAYED[name]
    assert checks["detail"].str.contains("sglang_decode_capture_bs_32_rank0.json.gz").all()


def test_all_captures_in_one_folder(traces: Path) -> None:
    """Each replay finds its own among captures of other models, and traces without any."""
    name = "sglang_Qwen3-8B_decode"
    files = [traces / FOLDER / f"{capture}.json.gz" for capture in PAIRS.values()]
    trace = profframe.load(traces / FOLDER / f"{name}.json.gz", captures=files)
    one = load(traces, name, PAIRS[name])
    assert trace.events.equals(one.events)


def test_a_capture_in_the_trace_of_its_replay(traces: Path) -> None:
    trace = load(traces, "xdit_flux_aiter_sage_graph_capture", None)
    work = in_graphs(trace)
    assert work.height == 1566
    assert set(work["op_kind"]) == {"host_op"}


def test_a_store_keeps_it(traces: Path, tmp_path: Path) -> None:
    name = "sglang_Qwen3-8B_decode"
    trace = load(traces, name, PAIRS[name])
    files = [traces / FOLDER / f"{part}.json.gz" for part in (name, PAIRS[name])]
    rows = profframe.convert(files[0], tmp_path / "store", captures=files[1])
    assert rows["status"].to_list() == ["written"]
    stored = profframe.load(tmp_path / "store")
    assert stored.key_averages().drop("run").equals(trace.key_averages().drop("run"))
    again = profframe.convert(files[0], tmp_path / "store", captures=files[1])
    assert again["status"].to_list() == ["unchanged"]
    without = profframe.convert(files[0], tmp_path / "store")
    assert without["status"].to_list() == ["written"]
