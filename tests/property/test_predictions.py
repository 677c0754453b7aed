"""What holds of any path and any prediction, on drawn programs: no work and no time is lost."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe.trace.trace import Trace
from tests.builders import Row, loaded
from tests.members import few
from tests.oracles import exposure
from tests.property.test_step_times import program

COLUMNS = ("event_id", "kind", "name", "start_ns", "dur_ns", "launch_id", "kernel_category")


def check(trace: Trace, names: list[str], **window: Any) -> None:
    """The path of a window, and what each kernel of these names saves if it takes no time."""
    rows = trace.events.select(COLUMNS).to_dicts()
    path = trace.critical_path(**window)
    if not path.length_ns:
        return
    bounds = dict(path.bounds.select("bound", "total_ns").iter_rows())
    unoccupied = exposure.unoccupied(rows, path.start_ns, path.end_ns)
    assert bounds["idle"] <= unoccupied + bounds["sync"]
    present = {row["name"] for row in exposure.works(rows)} - {None}
    if not present:
        return
    unchanged, most = trace.what_if(kernels={"*": 0.0}, **window).to_dicts()
    assert unchanged["predicted_ns"] == unchanged["now_ns"] == path.length_ns
    for name in names:
        if name in present:
            (_, row) = trace.what_if(kernels={name: 0.0}, **window).to_dicts()
            alone = exposure.exposed_alone(
                rows, partial(is_called, name), path.start_ns, path.end_ns
            )
            check_range(row, alone, most["saved_ns"])


def is_called(name: str, work: exposure.Row) -> bool:
    return bool(work["name"] == name)


def check_range(row: dict[str, Any], alone: int, most: int) -> None:
    low, high = row["now_ns"] - row["high_ns"], row["now_ns"] - row["low_ns"]
    assert low <= row["saved_ns"] <= high <= most
    assert high >= min(alone, most)


def overlapped(rows: Iterable[Mapping[str, Any]], draw: random.Random) -> list[Row]:
    """Some work begins before the work before it on its stream has ended."""
    found: list[Row] = []
    for row in rows:
        by = draw.choice((0, 0, 1, 9)) if row.get("category") in {"kernel", "gpu_memcpy"} else 0
        longer = {"start_ns": row["start_ns"] - by, "dur_ns": row["dur_ns"] + by} if by else {}
        found.append({**row, **longer})
    return found


def check_program(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 -- not a secret
    rows = program(seed)
    trace = loaded(*(overlapped(rows, draw) if draw.random() < 0.5 else rows))
    names = ["mm", "ncclDevKernel_AllReduce", "copy"]
    check(trace, names)
    steps = trace.profiler_steps["step"].drop_nulls().to_list()
    for step in steps[-1:]:
        check(trace, names, step=step)


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_predictions_of_programs(seed: int) -> None:
    check_program(seed)


@settings(max_examples=max(1, settings().max_examples // 2))
@given(st.integers(0, 2**32))
def test_predictions_of_any_program(seed: int) -> None:
    check_program(seed)
