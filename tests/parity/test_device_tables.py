"""Averages and tables of real traces of GPUs against torch's own, fed with stand-ins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profframe import Trace
from tests import needs
from tests.conftest import real_trace
from tests.members import few
from tests.parity import stand_in
from tests.parity.stand_in import gpu_traces
from tests.parity.test_key_averages import SUMS, sums_of, torchs
from tests.parity.test_key_averages import ours as our_rows

PATHS = needs.members(few(gpu_traces()[:-10:2], 8))
STYLES = (
    {"row_limit": -1},
    {"sort_by": "cuda_time_total", "time_unit": "us", "top_level_events_only": True},
    {"sort_by": "self_cuda_time_total", "row_limit": 7, "header": "Devices"},
)


@pytest.fixture(scope="module", params=PATHS, ids=[str(n) for n in range(len(PATHS))])
def both(request: pytest.FixtureRequest) -> tuple[Trace, Any]:
    """A trace, and torch's events of it, with what stand-ins cannot know set by hand."""
    needs.torch()
    events, base = stand_in.slices(request.param)
    if stand_in.categories(events) - stand_in.KNOWN - stand_in.NOT_EVENTS:
        needs.another_trace("it has categories that are not Kineto's")
    trace = real_trace(request.param, "torch")
    return trace, torch_events(stand_in.stand_ins(events, base), trace)


def torch_events(made: list[stand_in.StandIn], trace: Trace) -> Any:
    from torch.autograd import profiler, profiler_util

    spans = trace.events.filter(trace.events["kind"] == "profiler")["start_ns"]
    start = spans.min() if spans.len() else trace.events["start_ns"].min()
    results = SimpleNamespace(events=lambda: made, trace_start_ns=lambda: start)
    use_device = SimpleNamespace(use_device="cuda")
    parsed = profiler.profile._parse_kineto_results(use_device, results)
    flops = trace.events["torch_flops"].to_list()
    for event in parsed:
        event.flops = flops[stand_in.row_of(event)] if stand_in.row_of(event) >= 0 else 0
        event.flops = event.flops or 0
    found = profiler_util.EventList(
        parsed,
        use_device="cuda",
        profile_memory=trace.memory.height > 0 or '"profile_memory"' in flags(trace),
        with_flops=True,
    )
    found._build_tree()
    return found


def flags(trace: Trace) -> str:
    return trace.traces["profiler_flags"].to_list()[0] or ""


def test_rows(both: tuple[Trace, Any]) -> None:
    trace, events = both
    assert our_rows(trace, {}) == torchs(events.key_averages())
    ((total,)) = trace.total_average().to_dicts()
    assert {name: total[name] or 0 for name in SUMS} == sums_of(events.total_average())


def test_text(both: tuple[Trace, Any], request: pytest.FixtureRequest) -> None:
    """Each trace in one style, in turn: what a style does hangs on no trace."""
    trace, events = both
    style = STYLES[request.node.callspec.indices["both"] % len(STYLES)]
    assert trace.table(**style, compat="torch") == events.key_averages().table(**style)


def test_there_are_some(traces: Path) -> None:
    assert len(PATHS) > 10, traces
