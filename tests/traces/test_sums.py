"""Sums that hold for every real trace: idle time by owner, and backward work of modules."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl
import pytest

import profframe

SMALL: Final = (
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
    "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank0/trace_view.json.gz",
    "facebookresearch__HolisticTraceAnalysis/amd/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
)


@pytest.mark.parametrize("name", SMALL, ids=range(len(SMALL)))
def test_owners_add_up_to_the_idle_time(traces: Path, name: str) -> None:
    with profframe.load(traces / name).asking() as trace:
        for per in ("device", "stream"):
            idle = trace.idle(per=per)["idle_ns"].sum()
            for by in ("line", "module", "op", "annotation"):
                owners = trace.idle_owners(by=by, per=per)
                assert owners["idle_ns"].sum() == idle
                assert not owners.filter(pl.col("max_ns") > pl.col("idle_ns")).height


def test_backward_of_a_module_is_that_of_those_inside_it(traces: Path) -> None:
    rows = profframe.load(traces / SMALL[1]).modules(per="run")
    outermost = rows.filter(pl.col("name").str.contains("DistributedDataParallel"))
    inside = rows.filter(~pl.col("name").str.contains("Loss"))
    assert outermost["backward_device_ns"].sum() == inside["self_backward_device_ns"].sum() > 0
    ordered = rows["total_device_ns"].to_list()
    assert ordered == sorted(ordered, reverse=True)
