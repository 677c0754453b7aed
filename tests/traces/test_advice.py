"""Advice on real traces of each kind: what must hold whatever is found."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from profframe import load
from profframe.query.catalogue import advice
from profframe.query.run import findings
from profframe.trace.trace import Trace
from tests.members import few

HTA = "facebookresearch__HolisticTraceAnalysis"
SOURCES = [
    "pytorch__PiPPy/ref.json",
    f"{HTA}/critical_path/alexnet_benchmark_result.json.gz",
    f"{HTA}/amd/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    f"{HTA}/cupti_profiler_benchmark_result.json.gz",
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
    "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank0/trace_view.json.gz",
    "GindaChen__nsys-ai/mock.sqlite",
]


def check_times(trace: Trace, found: pl.DataFrame) -> None:
    """No two findings of a rank are of the same time, and none gains more than all of it."""
    window = trace.sql("SELECT run, rank, window_ns FROM shared_windows(events, profiler_steps)")
    question = advice()
    rows = findings(trace._session.select, question).rows
    claims = (
        pl.DataFrame(rows)
        .filter(pl.col("rule") != "straggler")  # whose time is of the ranks that wait
        .group_by("run", "rank")
        .agg(pl.col("claimed_ns").sum())
        .join(window, on=["run", "rank"], how="left")
    )
    assert (claims["claimed_ns"] <= claims["window_ns"] * (1 + 1e-9)).all()
    gains = found.join(window, on=["run", "rank"], how="left")
    assert (gains["estimated_gain_ns"] <= gains["window_ns"].round()).all()


def check(trace: Trace, found: pl.DataFrame) -> None:
    keys = ["run", "rank", "event_id"]
    shown = found.explode("evidence_events").rename({"evidence_events": "event_id"})
    assert shown.join(trace.events.select(keys), on=keys, how="anti").height == 0
    counts = found["evidence_events"].list.len()
    assert (counts >= 1).all()
    assert (counts == found["events"].clip(None, 100)).all()
    assert found["severity"].is_in(["high", "medium", "low"]).all()
    assert (found["estimated_gain_ns"].drop_nulls() >= 0).all()
    for column in ("finding", "gain_basis", "suggestion", "link"):
        assert found[column].str.len_chars().ge(1).all()


@pytest.mark.parametrize("source", few(SOURCES, 2))
def test_findings_are_shown_by_events_of_the_trace(traces: Path, source: str) -> None:
    trace = load(traces / source)
    found = trace.advice()
    check(trace, found)
    check_times(trace, found)


def test_eight_ranks(traces: Path) -> None:
    trace = load(traces / "facebookresearch__param/dlrm_kineto")
    found = trace.advice()
    check(trace, found)
    check_times(trace, found)
    assert found.filter(rule="straggler")["rank"].to_list() == [7]
