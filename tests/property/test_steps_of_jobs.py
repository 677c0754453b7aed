"""Paths and predictions of a step of several ranks are of its interval, as `runs` has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import Trace
from tests import step_jobs
from tests.builders import event, loaded, together
from tests.oracles.steps_of_jobs import intervals
from tests.property.test_step_times import Program, call_of, scaled, work


def on_one_clock(trace: Trace) -> list[dict[str, Any]]:
    """Rows of steps with times on the clock of the job."""
    ahead = dict(trace.clock_skew().select("rank", "offset_ns").rows())
    moved = []
    for row in trace.profiler_steps.to_dicts():
        by = ahead[row["rank"]] or 0
        names = ("start_ns", "began_ns", "completed_ns")
        moved.append(row | {n: row[n] if row[n] is None else row[n] - by for n in names})
    return moved


def check(trace: Trace, expected: Sequence[tuple[int, int, int]]) -> None:
    for step, began, completed in expected:
        path = trace.critical_path(step, across_ranks=True)
        assert (path.start_ns, path.end_ns) == (began, completed)
        events = path.events
        assert path.length_ns == events["dur_ns"].sum()
        assert (events["start_ns"] + events["dur_ns"])[:-1].equals(events["start_ns"][1:])
        prediction = trace.what_if(step, host=0.5)
        assert prediction["now_ns"].to_list() == [completed - began] * 2
        assert prediction["predicted_ns"][0] == completed - began


def in_runs(trace: Trace) -> list[tuple[int, int]]:
    return sorted(trace.sql("SELECT step, step_ns FROM job_steps(profiler_steps)").rows())


def lengths(expected: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return sorted((step, end - start) for step, start, end in expected)


def ranks(seed: int) -> Trace:
    made = [scaled(Program(3 * seed + rank).run()) for rank in range(3)]
    return together(
        *(loaded(*rows, rank=n, header={"clock": "utc"}) for n, rows in enumerate(made))
    )


@pytest.mark.parametrize("seeds", [range(at, at + 3) for at in range(0, 12, 3)])
def test_drawn_jobs(seeds: Sequence[int]) -> None:
    for seed in seeds:
        trace = ranks(seed)
        assert in_runs(trace) == lengths(intervals(trace.profiler_steps.to_dicts()))
        expected = intervals(on_one_clock(trace))
        once = trace.profiler_steps.group_by("step").agg(pl.col("rank").sort())
        of_all = once.filter(pl.col("rank") == [0, 1, 2])["step"].to_list()
        check(trace, [row for row in expected if row[1] < row[2] and row[0] in of_all][:3])


def test_a_rank_that_began_early_is_no_part_of_a_step() -> None:
    """Rank 0 is a step ahead: at 250 rank 1 completes step 0, and step 1 at 500."""

    def rank(length: int) -> list[Any]:
        rows = []
        for step in (0, 1):
            start, done = 100 * step, step * length
            rows += [
                event(f"ProfilerStep#{step}", start, start + 100, category="user_annotation"),
                call_of("cudaLaunchKernel", start + 5, start + 8, step + 1),
                work("mm", max(done, start + 8), done + length, 7, step + 1),
            ]
        return rows

    trace = together(*(loaded(*rank(length), rank=n) for n, length in enumerate((100, 250))))
    assert in_runs(trace) == [(0, 250), (1, 250)]
    check(trace, [(0, 0, 250), (1, 250, 500)])


def test_late_ranks() -> None:
    trace = step_jobs.job(ranks=3, late={(2, 1): 500_000, (3, 0): 300_000})
    expected = intervals(on_one_clock(trace))
    assert in_runs(trace) == lengths(expected)
    check(trace, expected[2:4])
    assert "all ranks: " in trace.critical_path(2, across_ranks=True).headline


def test_a_real_job(traces: Path) -> None:
    trace = profframe.load(traces / "facebookresearch__param/dlrm_kineto")
    expected = intervals(on_one_clock(trace))
    check(trace, expected[-1:])
    step, *_ = expected[-1]
    assert "all ranks on one clock: " in trace.critical_path(step, across_ranks=True).headline
