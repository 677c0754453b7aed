"""How long steps took on every real trace, against a loop over steps and pieces of work."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

import polars as pl

from profframe import Trace
from tests import needs
from tests.conftest import real_trace
from tests.oracles import completions
from tests.oracles.intervals import Span, merged, shared

LARGE: Final = 150_000
"""Bytes of the compressed files that take longer than all others together."""
PARTS = ("compute_ns", "exposed_communication_ns", "exposed_copy_ns", "idle_ns")


def test_steps(chrome_trace: Path) -> None:
    """One load for all that is to be true of the steps of a trace."""
    trace = real_trace(chrome_trace)
    if not trace.profiler_steps.height and not trace.phase_steps.height:
        needs.another_trace("it has no profiler steps and no phases")
    check_rows(trace)
    check_phases(trace)
    check_sums(trace)
    check_windows_on_the_host(trace)
    check_each_by_itself(trace)
    check_marks_of_devices(trace)


def check_rows(trace: Trace) -> None:
    events = trace.events.select("run", "rank", *completions.COLUMNS)
    for (run, rank), own in events.sort("event_id").group_by("run", "rank"):
        made = trace.profiler_steps.filter(run=run, rank=rank).drop("run", "rank").to_dicts()
        assert made == completions.steps(own.to_dicts())


def check_phases(trace: Trace) -> None:
    if not trace.phase_steps.height:
        return
    events = trace.events.select("run", "rank", *completions.OF_PHASES)
    for (run, rank), own in events.sort("event_id").group_by("run", "rank"):
        made = trace.phase_steps.filter(run=run, rank=rank).drop("run", "rank").to_dicts()
        assert made == completions.phases(own.to_dicts())
    rows = trace.phases(per="occurrence").drop_nulls("step_ns").to_dicts()
    assert all(row["p50_step_ns"] == row["max_step_ns"] == row["step_ns"] for row in rows)
    assert sum(row["step_ns"] for row in rows) == trace.phase_steps["step_ns"].sum()


def check_sums(trace: Trace) -> None:
    keys = ("run", "rank", "pid")
    parts = [trace.profiler_steps.partition_by(keys), trace.phase_steps.partition_by(keys)]
    for steps in chain.from_iterable(parts):
        rows = [row for row in steps.to_dicts() if row["step_ns"] is not None]
        for row in rows:
            if row["compute_ns"] is not None:
                assert sum(row[name] for name in PARTS) == row["step_ns"]
        for one, then in pairwise(rows):
            assert then["began_ns"] >= one["completed_ns"]


def check_each_by_itself(trace: Trace) -> None:
    """No idle time above the work of other steps, and no more compute than time."""
    steps = trace.step_times()
    for row in steps.drop_nulls("step_ns").head(3).to_dicts():
        part = trace.filter(steps=row["step"], runs=row["run"], ranks=row["rank"])
        again = part.step_times().to_dicts()
        assert row | {"is_steady": None} in [own | {"is_steady": None} for own in again]


def check_marks_of_devices(trace: Trace) -> None:
    """The source's own annotation of a step on a device, within the gaps between kernels."""
    events = trace.events.filter(pl.col("kind") == "device_annotation")
    marks = events.filter(pl.col("name").str.contains(r"^ProfilerStep#\d+$"))
    steps = {(row["run"], row["rank"], row["step"]): row for row in trace.profiler_steps.to_dicts()}
    for mark in marks.drop_nulls(["start_ns", "dur_ns"]).to_dicts():
        number = int(mark["name"].partition("#")[2])
        row = steps.get((mark["run"], mark["rank"], number))
        if row is not None and row["device_start_ns"] is not None:
            check_mark(mark, row)


def check_mark(mark: Mapping[str, Any], row: Mapping[str, Any]) -> None:
    window: list[Span] = [
        (row["device_start_ns"], row["device_start_ns"] + row["device_window_ns"])
    ]
    span = merged([(mark["start_ns"], mark["start_ns"] + mark["dur_ns"])])
    assert shared(window, span) >= mark["dur_ns"] - 2  # it is written a nanosecond wider


def check_windows_on_the_host(trace: Trace) -> None:
    """``window="host"`` counts what ran in a slice on the host, whichever step launched it."""
    events = trace.events.drop_nulls(["start_ns", "dur_ns"])
    work = events.filter(pl.col("kind").is_in(["kernel", "memcpy", "memset"]))
    busy = merged(work.select("start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns")).rows())
    for row in trace.step_times("host").drop_nulls(["host_ns", "busy_ns"]).to_dicts():
        window = [(row["start_ns"], row["start_ns"] + row["host_ns"])]
        assert row["busy_ns"] == shared(merged(window), busy)
        assert row["idle_ns"] == row["host_ns"] - row["busy_ns"]
