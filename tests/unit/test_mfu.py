"""Utilization of a part of a trace: what was filtered out must not look like a slow device."""

from __future__ import annotations

from pathlib import Path

import pytest

import profframe
from profframe.trace.trace import Trace


@pytest.fixture(scope="module")
def trace(root: Path) -> Trace:
    return profframe.load(root / "examples" / "gpu_training.json.gz")


def by_step(trace: Trace) -> dict[int, float | None]:
    return dict(trace.mfu(per="step").select("step", "mfu").iter_rows())


def test_a_step_that_a_period_cuts_has_none(trace: Trace) -> None:
    whole = by_step(trace)
    steps = trace.profiler_steps.sort("step")
    end = steps["device_start_ns"][2] + steps["device_window_ns"][2] // 2
    cut = trace.filter(end_ns=end)
    assert by_step(cut) == {1: whole[1], 2: whole[2], 3: None}
    (note,) = cut.mfu(per="step").filter(step=3)["note"]
    assert "unknown_step" in note.split()
    (row,) = cut.mfu().to_dicts()
    (of_two,) = trace.filter(steps=[1, 2]).mfu().to_dicts()
    assert row == of_two
    assert row["steps"] == 2


def test_a_period_within_one_step_has_none(trace: Trace) -> None:
    step = trace.profiler_steps.sort("step").row(1, named=True)
    middle = step["device_start_ns"] + step["device_window_ns"] // 2
    (row,) = trace.filter(start_ns=step["start_ns"], end_ns=middle).mfu().to_dicts()
    assert (row["mfu"], row["hfu"]) == (None, None)
    assert "unknown_step" in row["note"].split()


def test_given_flops_that_are_no_number_of_operations(trace: Trace) -> None:
    counted = trace.mfu()
    assert trace.mfu(model_flops_per_step=0).equals(counted)
    given = trace.mfu(model_flops_per_step=1e12)
    assert given["model_flops"].to_list() == [3e12]
    assert given["hfu"].equals(counted["hfu"])
