"""What holds of any path and any prediction, on every real trace, each rank and a step of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from profframe import Trace
from tests import needs
from tests.conftest import real_trace
from tests.property.test_predictions import check

LARGEST: Final = 2
"""Kernels that are taken away, each by itself."""
LARGE: Final = 100_000
"""Bytes of the compressed files that take longer than all others together."""


def test_paths_and_predictions(chrome_trace: Path) -> None:
    trace = real_trace(chrome_trace)
    names = largest(trace)
    if not names:
        needs.another_trace("no device did anything")
    for run, rank in trace.traces.select("run", "rank").iter_rows():
        one = trace.filter(runs=run, ranks=rank)
        check(one, names)
        steps = one.profiler_steps.drop_nulls("step_ns")["step"].unique().sort()
        for step in steps[-1:]:
            check(one, names, step=step)


def largest(trace: Trace) -> list[str]:
    """Names of the kernels that take the most time, which are no patterns."""
    names = trace.kernels()["name"].unique(maintain_order=True).to_list()
    return [name for name in names if not {*"*?["} & {*name}][:LARGEST]
