"""Inputs of public reports with lost, misdated or unnumbered records."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import profframe
from profframe.errors import AnswerError
from profframe.show.device_time import TimeParts
from profframe.trace.trace import Trace
from tests import needs


def load(name: str) -> Trace:
    return profframe.load(needs.case(f"{name}.json"))


def checks(trace: Trace) -> dict[str, tuple[int, str]]:
    rows = trace.quality.select("issue", "events", "detail").rows()
    return {check: (events, detail) for check, events, detail in rows}


def parts(trace: Trace) -> TimeParts:
    made = TimeParts.of(trace.time_breakdown())
    assert made is not None
    return made


def whole(trace: Trace) -> dict[str, Any]:
    return trace.time_breakdown().row(0, named=True)


def test_steps_that_lost_all_kernels_make_no_idle_time() -> None:
    trace = load("01_dropped_kernels")
    events, detail = checks(trace)["launch_without_work"]
    assert events == 40
    assert detail.endswith("40 of 80: 20 in step 0 on stream 7, 20 in step 1 on stream 7")
    steps = trace.step_times()
    assert steps["is_steady"].to_list()[:2] == [False, False]
    assert steps["lack"].to_list() == ["records", "records", None, None]
    made = parts(trace)
    assert (made.rows, made.idle_ns, made.span_ns) == (2, 4_000_000, 20_000_000)
    shown = trace.advice().filter(pl.col("rule").is_in(["low_gpu_use", "unexplained_idle"]))
    assert [
        text for text in shown["finding"] if "2.0 ms of 10.0 ms per step (20 %)" not in text
    ] == []


def test_a_last_step_that_lost_work_is_apart() -> None:
    trace = load("20_last_step_lost")
    events, detail = checks(trace)["launch_without_work"]
    assert (events, detail.rpartition(": ")[2]) == (8, "8 in step 3 on stream 7")
    assert trace.step_times()["lack"].to_list() == [None, None, None, "records"]
    assert parts(trace).idle_ns == 3 * 2_000_000
    assert whole(trace)["unrecorded_ns"] == 0


def test_without_device_records_the_remedy_names_the_devices_in_use() -> None:
    trace = load("10_xpu_host_only")
    assert checks(trace)["launch_without_work"][0] == 6
    assert "ProfilerActivity.XPU]" in str(trace.kernels())


def test_a_time_of_zero_among_absolute_ones_is_none() -> None:
    trace = load("02_zero_ts_kernels")
    assert checks(trace)["impossible_time"][0] == 2
    row = whole(trace)
    assert trace.overview()["span_ns"].to_list() == [9_730_000]
    assert (row["span_ns"], row["compute_ns"]) == (9_700_000, 5_600_000)
    assert row["unrecorded_ns"] == 2_020_000


def test_work_that_overruns_what_ran_behind_it_has_no_duration() -> None:
    trace = load("04_overrun")
    assert checks(trace)["overrun"][0] == 1
    assert whole(trace)["compute_ns"] == 29_700_000
    with pytest.raises(AnswerError, match="the work of 1 call is not in the trace"):
        trace.what_if(host=0)


def test_work_without_a_correlation_is_matched_in_order() -> None:
    trace = load("05_corr_zero")
    assert {check: events for check, (events, _) in checks(trace).items()} == {"launch_by_order": 6}
    kernels = trace.events.filter(kind="kernel")
    calls = trace.events.filter(pl.col("event_id").is_in(kernels["launch_id"].implode()))
    assert kernels["op_id"].null_count() == 0
    assert calls.height == kernels.height == 12
    starts = dict(calls.select("event_id", "start_ns").iter_rows())
    assert all(starts[launch] < at for launch, at in kernels.select("launch_id", "start_ns").rows())
