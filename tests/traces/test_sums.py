"""Sums that hold for every real trace: idle time by owner, and backward work of modules."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl
import pytest

from tests.conftest import real_trace
from tests.members import few

SMALL: Final = (
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
    "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank0/trace_view.json.gz",
    "facebookresearch__HolisticTraceAnalysis/amd/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
)


@pytest.mark.parametrize("name", few(SMALL, 2), ids=range(len(SMALL)))
def test_owners_add_up_to_the_idle_time(traces: Path, name: str) -> None:
    with real_trace(traces / name).session() as trace:
        for per in ("device", "stream"):
            idle = trace.idle(per=per)["idle_ns"].sum()
            for by in ("line", "module", "op", "annotation"):
                owners = trace.idle(by=by, per=per)
                assert owners["idle_ns"].sum() == idle
                assert not owners.filter(pl.col("max_ns") > pl.col("idle_ns")).height


def test_backward_of_a_module_is_that_of_those_inside_it(traces: Path) -> None:
    rows = real_trace(traces / SMALL[1]).modules(per="run")
    outermost = rows.filter(pl.col("name").str.contains("DistributedDataParallel"))
    inside = rows.filter(~pl.col("name").str.contains("Loss"))
    assert outermost["backward_device_ns"].sum() == inside["self_backward_device_ns"].sum() > 0
    ordered = rows["total_device_ns"].to_list()
    assert ordered == sorted(ordered, reverse=True)


INFERENCE: Final = (
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_prefilldecode.json.gz",
    "AMD-AGI__TraceLens/inference/vllm_piecewise_graph_execution.json.gz",
)


@pytest.mark.parametrize("name", INFERENCE, ids=range(len(INFERENCE)))
def test_phases_have_all_work_that_was_launched_in_them(traces: Path, name: str) -> None:
    trace = real_trace(traces / name)
    work = "kind IN ('kernel', 'memcpy', 'memset') AND phase_id IS NOT NULL"
    launched = trace.sql(f"SELECT sum(dur_ns) AS ns FROM events WHERE {work}")
    phases = trace.phases()
    assert phases["device_ns"].sum() == launched["ns"][0] > 0
    assert (phases["busy_ns"] + phases["idle_ns"] <= phases["span_ns"]).all()
    for phase in phases["phase"]:
        assert trace.filter(phases=phase).phases().height >= 1


@pytest.mark.parametrize("name", few([*SMALL, *INFERENCE], 3), ids=range(6))
def test_lines_have_all_work_and_no_time_twice(traces: Path, name: str) -> None:
    trace = real_trace(traces / name)
    lines = trace.python_lines()
    if lines.is_empty():
        return
    work = trace.filter(kinds=("kernel", "memcpy", "memset")).events["dur_ns"].sum()
    columns = ("self_device_ns", "self_backward_device_ns")
    assert lines.select(pl.sum_horizontal(pl.col(columns).sum())).item() == work
    timed = lines.drop_nulls("self_ns")
    assert (timed["idle_ns"] <= timed["self_ns"]).all()
    assert (timed["self_ns"] <= timed["total_ns"]).all()


def test_layers_of_a_model_are_as_many_as_it_has(traces: Path) -> None:
    (row,) = real_trace(traces / INFERENCE[0]).graph_layers().to_dicts()
    assert row["layers"] == 36
    assert row["before"] + row["layers"] * row["layer_kernels"] + row["after"] == row["kernels"]
    assert row["phase"] == "decode"
