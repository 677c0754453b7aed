"""Critical paths: typed by hand, and against a longest path through an explicit graph.

Moments are nanoseconds, typed by hand. The loops are in ``tests/oracles/critical_path.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from profframe import schema
from profframe.analysis.critical_path import BOUNDS, CriticalPath
from profframe.errors import ParameterError, UnknownNameError
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import Row, event, loaded
from tests.conftest import real_trace
from tests.members import few
from tests.oracles import exposure
from tests.oracles.critical_path import HOST, Oracle, helpers, merged

EXAMPLES: Final = settings().max_examples
"""A path asks nine questions: a few long lists show what many short ones do, for less."""


def trace_of(*lanes: str | Row, run: str = "run", rank: int = 0) -> Trace:
    """Lanes as `slices_of` takes them, or rows, loaded."""
    rows = (slices_of(lane) if isinstance(lane, str) else [lane] for lane in lanes)
    return loaded(*chain.from_iterable(rows), run=run, rank=rank)


def slices_of(lane: str) -> list[Row]:
    """Slices of ``thread 0: ProfilerStep#1 0-100, cudaLaunchKernel/1 20-30`` or ``stream 7: ...``.

    A number after a slash is the correlation. The category follows from the name.
    """
    kind, number, slices_ = re.fullmatch(r"(thread|stream) (\d+): (.*)", lane, re.DOTALL).groups()  # type: ignore[union-attr]
    rows: list[Row] = []
    for text in re.split(r",\s+", slices_):
        name, link, *ends = re.fullmatch(r"(.*?)(?:/(\d+))? (\d+)-(\d+)", text).groups()  # type: ignore[union-attr]
        start, end = map(int, ends)
        correlation = int(link) if link else None
        if kind == "stream":
            category = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
            rows.append(kernel(name, start, end, correlation, int(number), category=category))
        elif re.match("(cu|cuda|hip)[A-Z]", name):
            rows.append(call(name, start, end, correlation, int(number)))
        else:
            is_mark = name.startswith(("ProfilerStep#", "phase"))
            category = "user_annotation" if is_mark else "cpu_op"
            rows.append(event(name, start, end, category=category, thread=int(number)))
    return rows


def call(name: str, start: int, end: int, number: int | None = None, thread: int = 0) -> Row:
    return event(name, start, end, category="cuda_runtime", correlation=number, thread=thread)


def kernel(
    name: str, start: int, end: int, number: int | None = None, stream: int = 7, **more: object
) -> Row:
    given_ = {"category": "kernel", "thread": 100 + stream, "device": 0, "stream": stream}
    return event(name, start, end, **{**given_, "correlation": number, **more})  # type: ignore[arg-type]


def sync(name: str, start: int, end: int, number: int | None, **more: object) -> Row:
    given_ = {"category": "cuda_sync", "thread": 200, "device": 0}
    return event(name, start, end, **{**given_, "correlation": number, **more})  # type: ignore[arg-type]


def timeline(path: CriticalPath, last: int = 0) -> str:
    """When each part begins, its edge and its slice; then the end. All parts, or the last few."""
    check_shape(path)
    parts = path.events.select("start_ns", "edge", "name").rows()[-last:]
    return ", ".join([*(" ".join(map(str, part)) for part in parts), str(path.end_ns)])


def bounds(path: CriticalPath) -> dict[str, int]:
    return {bound: total for bound, total, _ in path.bounds.iter_rows() if total}


def test_launch_bound() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-100, aten::add 10-40, cudaLaunchKernel/1 20-30,"
        " aten::mul 50-90, cudaLaunchKernel/2 60-70",
        "stream 7: add/1 35-40, mul/2 80-120",
    )
    path = trace.critical_path(1)
    assert timeline(path) == (
        "0 slice ProfilerStep#1, 10 slice aten::add, 20 slice cudaLaunchKernel, 30 slice aten::add,"
        " 40 slice ProfilerStep#1, 50 slice aten::mul, 60 launch cudaLaunchKernel, 80 work mul, 120"
    )
    assert bounds(path) == {"host": 60, "launch": 20, "compute": 40}
    assert path.length_ns == 120


def test_compute_bound() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-100, cudaLaunchKernel/1 10-20, cudaLaunchKernel/2 30-40,"
        " cudaLaunchKernel/3 50-60",
        "stream 7: a/1 25-125, b/2 127-200, c/3 200-260",
    )
    path = trace.critical_path(1)
    assert timeline(path) == (
        "0 slice ProfilerStep#1, 10 launch cudaLaunchKernel, 25 work a, 125 queue b, 127 work b,"
        " 200 work c, 260"
    )
    assert bounds(path) == {"host": 10, "launch": 15, "compute": 233, "idle": 2}


def test_work_that_begins_as_its_launch_returns_waited_for_that() -> None:
    """Not for the work before it on the stream, which ended while the call was still on."""
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-60, cudaLaunchKernel/1 10-20, cudaLaunchKernel/2 30-50",
        "stream 7: a/1 20-45, b/2 50-80",
    )
    assert timeline(trace.critical_path(1)) == (
        "0 slice ProfilerStep#1, 10 slice cudaLaunchKernel, 20 slice ProfilerStep#1,"
        " 30 launch cudaLaunchKernel, 50 work b, 80"
    )


def test_work_whose_launch_returns_as_the_work_before_it_ends_waited_for_the_launch() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-60, cudaLaunchKernel/1 10-20, cudaLaunchKernel/2 30-45",
        "stream 7: a/1 20-45, b/2 50-80",
    )
    assert timeline(trace.critical_path(1), last=2) == "30 launch cudaLaunchKernel, 50 work b, 80"


@pytest.mark.parametrize("told", ["sync", "call", "unknown record"])
def test_two_streams_with_an_event(told: str) -> None:
    """A kernel waits for one of another stream: a sync tells for what, or the call alone."""
    on = {"stream": 9, "wait_on_stream": 7}
    waits: dict[str, list[Row]] = {
        "sync": [sync("Stream Wait Event", 35, 38, 4, **on, wait_on_correlation=3)],
        "unknown record": [sync("Stream Wait Event", 35, 38, 4, **on)],
        "call": [],
    }
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-60, cudaLaunchKernel/1 10-20, cudaEventRecord/3 22-25,"
        " cudaStreamWaitEvent/4 35-38, cudaLaunchKernel/5 40-50",
        *waits[told],
        "stream 7: a/1 30-130",
        "stream 9: ncclDevKernel_AllReduce/5 133-200",
    )
    path = trace.critical_path(1)
    assert timeline(path, last=4) == (
        "10 launch cudaLaunchKernel, 30 work a,"
        " 130 wait ncclDevKernel_AllReduce, 133 work ncclDevKernel_AllReduce, 200"
    )
    expected = {"host": 10, "launch": 20, "compute": 100, "communication": 67, "idle": 3}
    assert bounds(path) == expected


def test_what_was_put_on_a_stream_after_the_record_is_not_waited_for() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-100, cudaLaunchKernel/1 10-20, cudaEventRecord/3 22-25,"
        " cudaLaunchKernel/2 26-30, cudaStreamWaitEvent/4 35-38, cudaLaunchKernel/5 40-50",
        sync("Stream Wait Event", 35, 38, 4, stream=9, wait_on_stream=7, wait_on_correlation=3),
        "stream 7: a/1 25-70, later/2 70-90",
        "stream 9: b/5 95-140",
    )
    path = trace.critical_path(1)
    assert timeline(path, last=4) == "25 work a, 70 wait b, 90 wait b, 95 work b, 140"
    assert bounds(path)["sync"] == 20  # until the other work is done, too


SYNCS: Mapping[str, Row | None] = {
    "cudaDeviceSynchronize": sync("Context Sync", 40, 118, 9),
    "cudaStreamSynchronize": sync("Stream Sync", 40, 118, 9, stream=7),
    "cudaEventSynchronize": sync("Event Sync", 40, 118, 9, wait_on_stream=7, wait_on_correlation=3),
    "hipDeviceSynchronize": None,
    "hipStreamSynchronize": None,
    "cuStreamSynchronize": None,
}


def synchronised(name: str, end: int, work_end: int) -> CriticalPath:
    """Of a call that lasts from 40 until an end, and work that does from 30 on."""
    row = SYNCS[name]
    return trace_of(
        "thread 0: ProfilerStep#1 0-150, cudaLaunchKernel/1 10-20, cudaEventRecord/3 22-25,"
        f" {name}/9 40-{end}",
        *([] if row is None else [row]),
        f"stream 7: a/1 30-{work_end}",
    ).critical_path(1)


@pytest.mark.parametrize("name", SYNCS)
def test_sync_bound(name: str) -> None:
    path = synchronised(name, end=120, work_end=115)
    assert timeline(path) == (
        "0 slice ProfilerStep#1, 10 launch cudaLaunchKernel, 30 work a,"
        f" 115 sync {name}, 120 slice ProfilerStep#1, 150"
    )
    assert bounds(path) == {"host": 40, "launch": 20, "compute": 85, "sync": 5}


@pytest.mark.parametrize("name", SYNCS)
def test_a_call_that_returns_as_the_work_ends_has_waited_for_it(name: str) -> None:
    assert timeline(synchronised(name, end=118, work_end=118)) == (
        "0 slice ProfilerStep#1, 10 launch cudaLaunchKernel, 30 work a,"
        " 118 slice ProfilerStep#1, 150"
    )


@pytest.mark.parametrize("name", SYNCS)
@pytest.mark.parametrize("end", [40, 119])
def test_a_call_has_not_waited_for_what_ends_as_it_begins_or_after_it(name: str, end: int) -> None:
    assert bounds(synchronised(name, end=118, work_end=end)) == {"host": 150}


def test_of_works_that_a_call_waited_for_the_last_to_end_counts() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-150, cudaLaunchKernel/1 10-20, cudaLaunchKernel/2 22-25,"
        " cudaLaunchKernel/3 26-28, hipDeviceSynchronize/9 40-118",
        "stream 7: a/1 30-100",
        "stream 8: b/2 31-118",
        "stream 9: c/3 32-110",
    )
    assert timeline(trace.critical_path(1), last=3) == (
        "22 launch cudaLaunchKernel, 31 work b, 118 slice ProfilerStep#1, 150"
    )


def test_a_call_that_does_not_synchronise_waits_for_no_work() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-150, cudaLaunchKernel/1 10-20, cudaEventQuery/9 40-120",
        "stream 7: a/1 30-115",
    )
    assert bounds(trace.critical_path(1)) == {"host": 150}


def test_a_call_that_need_not_wait_is_host_work() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-150, cudaLaunchKernel/1 10-20, cudaDeviceSynchronize/9 60-80",
        sync("Context Sync", 60, 79, 9),
        "stream 7: a/1 30-50",
    )
    assert bounds(trace.critical_path(1)) == {"host": 150}


def test_a_blocking_copy_is_waited_for() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-100, cudaLaunchKernel/1 10-20, cudaMemcpy/2 25-90",
        "stream 7: a/1 22-60, Memcpy DtoH (Device -> Pageable)/2 62-80",
    )
    expected = {"host": 20, "launch": 12, "compute": 38, "copy": 18, "sync": 10, "idle": 2}
    assert bounds(trace.critical_path(1)) == expected


def test_a_blocking_copy_may_be_the_first_slice() -> None:
    trace = trace_of(
        "thread 0: cudaMemcpy/1 0-90, aten::add 95-100",
        "stream 7: Memcpy DtoH (Device -> Pageable)/1 10-80",
    )
    assert timeline(trace.critical_path()) == (
        "0 launch cudaMemcpy, 10 work Memcpy DtoH (Device -> Pageable), 80 sync cudaMemcpy,"
        " 90 between None, 95 slice aten::add, 100"
    )


def test_forward_and_backward_thread() -> None:
    """The forward thread waits in its annotation while the backward thread works."""
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-100",
        event("aten::mm", 10, 30, sequence_nr=5),
        event("MmBackward0", 45, 60, thread=1, sequence_nr=5, fwd_thread=1),
        "thread 1: aten::mm 50-55, AccumulateGrad 62-70",
        "thread 0: Optimizer.step 80-95",
    )
    assert timeline(trace.critical_path(1)) == (
        "0 slice ProfilerStep#1, 10 slice aten::mm, 30 thread ProfilerStep#1,"
        " 45 slice MmBackward0, 50 slice aten::mm, 55 slice MmBackward0, 60 between None,"
        " 62 slice AccumulateGrad, 70 thread ProfilerStep#1, 80 slice Optimizer.step,"
        " 95 slice ProfilerStep#1, 100"
    )


def test_a_backward_thread_without_links_is_known_by_its_names() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-100, aten::mm 10-30",
        "thread 1: MmBackward 45-60",
        *(f"thread 1: aten::mm 50-{end}" for end in (55, 56, 57, 58)),
        "thread 0: Optimizer.step 80-95",
    )
    for path in (trace.critical_path(1), trace.critical_path()):
        assert ", 45 slice MmBackward, 50 " in timeline(path)


def test_a_graph_is_launched_once() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-50, cudaGraphLaunch/1 10-40",
        "stream 7: a/1 30-60, b/1 61-80, c/1 82-90",
    )
    assert timeline(trace.critical_path(1)) == (
        "0 slice ProfilerStep#1, 10 launch cudaGraphLaunch, 30 work a, 60 queue b, 61 work b,"
        " 80 queue c, 82 work c, 90"
    )


def test_a_graph_on_two_streams_waits_for_itself() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-50, cudaGraphLaunch/1 10-20",
        "stream 7: a/1 30-60",
        "stream 8: b/1 62-80",
    )
    assert timeline(trace.critical_path(1), last=3) == "30 work a, 60 queue b, 62 work b, 80"


def test_a_kernel_that_the_next_one_overlaps_stays_on_the_path() -> None:
    trace = trace_of(
        "thread 0: op 0-30, cudaLaunchKernel/1 10-20, cudaLaunchKernel/2 21-25,"
        " cudaLaunchKernel/3 26-28",
        "stream 7: a/1 30-60, b/2 50-80, c/3 55-70, e/3 81-90",
    )
    path = trace.critical_path()
    assert timeline(path, last=4) == "30 work a, 60 work b, 80 queue e, 81 work e, 90"
    stream = trace.dependencies().filter(kind="stream").select("source_id", "target_id", "lag_ns")
    assert stream.rows() == [(4, 5, 0), (5, 7, 1), (6, 7, 11)]


def test_work_of_a_graph_stands_in_the_order_of_the_stream_that_it_was_launched_into() -> None:
    """Its nodes show stream 8; the kernels around it are on stream 7, as its first node is."""
    calls = ", ".join(
        f"{name}/{number} {10 * number}-{10 * number + 2}"
        for number, name in enumerate(
            ("cudaLaunchKernel", "cudaGraphLaunch", "cudaLaunchKernel"), start=1
        )
    )
    trace = trace_of(
        f"thread 0: op 0-40, {calls}",
        "stream 7: a/1 15-60, b/2 61-70, d/3 100-120",
        "stream 8: c/2 71-98",
    )
    assert timeline(trace.critical_path(), last=6) == (
        "60 queue b, 61 work b, 70 queue c, 71 work c, 98 queue d, 100 work d, 120"
    )


def test_late_work_waited_for_what_ended_last_on_another_stream() -> None:
    """Three kernels begin 2 after what was before them, one 32 after: 3 after a copy."""
    trace = trace_of(
        "thread 0: op 0-40, " + ", ".join(f"cudaLaunchKernel/{n} {n}-{n + 1}" for n in range(1, 6)),
        "stream 7: a/1 10-20, b/2 22-30, c/3 32-40, d/4 72-80",
        "stream 8: Memcpy HtoD/5 15-69",
    )
    path = trace.critical_path()
    assert timeline(path, last=3) == "15 work Memcpy HtoD, 69 wait d, 72 work d, 80"
    waits = trace.dependencies().filter(kind="wait").select("certainty", "lag_ns").rows()
    assert waits == [("ordered", 3)]


def test_a_step_begins_when_the_one_before_it_is_completed() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-50, ProfilerStep#2 50-100,"
        " cudaLaunchKernel/1 10-20, cudaLaunchKernel/2 60-70",
        "stream 7: a/1 30-90, b/2 90-140",
    )
    assert timeline(trace.critical_path(2)) == "90 work b, 140"


def test_the_whole_trace_without_steps_and_without_host() -> None:
    path = trace_of("stream 7: a 100-110, b 130-150", "stream 8: c 120-140").critical_path()
    assert timeline(path) == "100 work a, 110 queue b, 120 queue b, 130 work b, 150"
    assert bounds(path) == {"compute": 30, "sync": 10, "idle": 10}


def test_of_threads_that_end_together_the_one_with_the_most_slices_is_the_main_one() -> None:
    path = trace_of("thread 0: a 0-100", "thread 1: b 0-40, c 50-100").critical_path()
    assert timeline(path, last=1) == "50 slice c, 100"


def test_an_annotation_and_what_it_launched() -> None:
    trace = trace_of(
        "thread 0: phase 0-20, phase 30-50, cudaLaunchKernel/1 35-40", "stream 7: a/1 45-70"
    )
    assert bounds(trace.critical_path(annotation="phase")) == {"host": 20}
    path = trace.critical_path(annotation="phase", instance=1)
    assert bounds(path) == {"host": 5, "launch": 10, "compute": 25}
    with pytest.raises(UnknownNameError, match=r"no instance 2 \(known: 0-1\)"):
        trace.critical_path(annotation="phase", instance=2)
    with pytest.raises(UnknownNameError, match="did you mean 'phase'"):
        trace.critical_path(annotation="phases")


def test_an_annotation_of_no_moment_is_none_of_the_instances() -> None:
    never = event("phase", 0, 20, category="user_annotation") | {"start_ns": None}
    trace = trace_of(never, "thread 0: phase 30-50")
    assert bounds(trace.critical_path(annotation="phase")) == {"host": 20}
    with pytest.raises(UnknownNameError, match=r"no instance 1 \(known: 0\)"):
        trace.critical_path(annotation="phase", instance=1)


def test_negative_delays_and_missing_launches() -> None:
    """A kernel before its launch: the host counts only where nothing else is known."""
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-50, cudaLaunchKernel/1 30-40",
        "stream 7: a/1 25-60, b/99 60-80, c 85-100",
    )
    assert timeline(trace.critical_path()) == (
        "0 slice ProfilerStep#1, 25 work a, 60 work b, 80 queue c, 85 work c, 100"
    )


def test_errors_say_what_there_is() -> None:
    one = trace_of("thread 0: ProfilerStep#1 0-50, ProfilerStep#4 50-90")
    with pytest.raises(UnknownNameError, match=r"no step 2 \(known: 1, 4\)"):
        one.critical_path(2)
    with pytest.raises(ParameterError, match="not both"):
        one.critical_path(1, annotation="x")
    with pytest.raises(ParameterError, match="step: needs 64-bit integers"):
        one.critical_path(1.5)  # type: ignore[call-overload]
    with pytest.raises(UnknownNameError, match=r"no rank 3 \(known: 0\)"):
        one.critical_path(1, rank=3)
    with pytest.raises(ParameterError, match="step: only one, not 1-4"):
        one.critical_path("1-4")


def two_ranks() -> Trace:
    some = [
        trace_of(f"thread 0: ProfilerStep#1 0-{50 + rank}", rank=rank).tables for rank in (0, 1)
    ]
    return Trace.from_tables({n: pa.concat_tables([t[n] for t in some]) for n in schema.TABLES})


def test_of_several_traces_one_is_chosen() -> None:
    both = two_ranks()
    with pytest.raises(ParameterError, match=r"there are 2 .*choose a run and a rank"):
        both.critical_path(1)
    path = both.critical_path(1, rank=1)
    assert (path.run, path.rank, path.step, path.length_ns) == ("run", 1, 1, 51)
    assert both.critical_path(run="run", rank=0).length_ns == 50


def test_an_empty_trace_has_an_empty_path() -> None:
    empty = Trace.from_tables({n: t.arrow.empty_table() for n, t in schema.TABLES.items()})
    path = empty.critical_path()
    assert path.length_ns == 0
    assert path.events.is_empty()
    assert path.bounds["total_ns"].to_list() == [0] * len(BOUNDS)
    assert path.bounds["share"].to_list() == [None] * len(BOUNDS)
    assert "no slices" in repr(path)
    with pytest.raises(UnknownNameError, match="there are no steps"):
        empty.critical_path(0)


def test_it_is_frozen_and_shows_what_binds() -> None:
    trace = trace_of(
        "thread 0: ProfilerStep#1 0-50, cudaLaunchKernel/1 10-20", "stream 7: <b>/1 30-70"
    )
    path = trace.critical_path(1)
    with pytest.raises(AttributeError):
        path.step = 2  # type: ignore[misc]
    assert repr(path).splitlines()[:2] == [
        "CriticalPath of step 1 of run, rank 0: 0.070 us, 3 parts",
        "  compute            0.040 us   57.1 %",
    ]
    assert "&lt;b&gt;" in path._repr_html_()
    assert path.bounds["share"].sum() == pytest.approx(1)


# Against the graph.

NAMES = ("aten::mm", "aten::add", "ProfilerStep#1", "MmBackward0")
CALL_NAMES = (
    "cudaLaunchKernel", "cudaMemcpyAsync", "cudaDeviceSynchronize", "hipStreamSynchronize",
    "cudaEventRecord", "cudaStreamWaitEvent", "cudaFree", None,
)  # fmt: skip
SYNC_NAMES = ("Stream Wait Event", "Stream Sync", "Event Sync", "Context Sync", None)
moments = st.integers(0, 60)
lengths = st.one_of(st.none(), st.integers(0, 25))
some = st.one_of(st.none(), st.integers(1, 5))


@st.composite
def slices(draw: st.DrawFn) -> Row:
    kind = draw(st.sampled_from(["op", "op", "call", "call", "kernel", "kernel", "sync"]))
    start, length = draw(moments), draw(lengths)
    end = None if length is None else start + length
    number = draw(some)
    if kind == "op":
        thread = draw(st.sampled_from([0, 0, 1, 2]))
        backward = {"sequence_nr": number, "fwd_thread": draw(st.sampled_from([None, 0, 0, 9]))}
        category = draw(st.sampled_from(["cpu_op", "user_annotation"]))
        more = backward if category == "cpu_op" else {}
        name = draw(st.sampled_from(NAMES))
        return event(name, start, end, category=category, thread=thread, **more)
    if kind == "call":
        row = call("", start, start, number, draw(st.sampled_from([0, 0, 1])))
        return {**row, "name": draw(st.sampled_from(CALL_NAMES)), "dur_ns": length}
    stream = draw(st.sampled_from([7, 7, 8, None]))
    if kind == "kernel":
        category = draw(st.sampled_from(["kernel", "kernel", "gpu_memcpy", "gpu_memset"]))
        row = {**kernel("", start, start, number, category=category), "stream": stream}
        called = draw(st.sampled_from(["gemm", "ncclDevKernel", None]))
        return {**row, "name": called, "dur_ns": length}
    waits = {
        "wait_on_stream": draw(st.sampled_from([7, 8, None])),
        "wait_on_correlation": draw(some),
    }
    row = sync("", start, start, number, stream=stream, **waits)
    return {**row, "name": draw(st.sampled_from(SYNC_NAMES)), "dur_ns": length}


@st.composite
def programs(draw: st.DrawFn) -> list[Row]:
    """Two threads that launch, wait and synchronise, and two streams that do as they are told."""
    now, free = [0, 0], {7: 0, 8: 0}
    events: list[Row] = []
    actions = st.sampled_from(["op", "launch", "launch", "launch", "graph", "wait", "sync"])
    for number in range(1, draw(st.integers(3, 12)) + 1):
        thread, action = draw(st.sampled_from([0, 0, 0, 1])), draw(actions)
        begin = now[thread] + draw(st.integers(0, 3))
        end = begin + draw(st.integers(1, 5))
        stream, other = draw(st.permutations([7, 8]))
        if action == "op":
            backward = {"fwd_thread": 1, "name": "MmBackward0"} if thread else {}
            events += [{**event("aten::mm", begin, end, thread=thread), **backward}]
        elif action == "launch":
            start = max(free[stream], begin + draw(st.integers(0, 8)))
            free[stream] = start + draw(st.integers(1, 15))
            events += [call("cudaLaunchKernel", begin, end, number, thread)]
            events += [kernel("gemm", start, free[stream], number, stream)]
        elif action == "graph":
            events += [call("cudaGraphLaunch", begin, end, number, thread)]
            last = begin + draw(st.integers(0, 8))
            for on_stream in draw(st.lists(st.sampled_from([7, 8]), max_size=4)):
                start = max(free[on_stream], last + draw(st.integers(0, 2)))
                last = free[on_stream] = start + draw(st.integers(1, 9))
                events += [kernel("gemm", start, last, number, on_stream)]
        elif action == "wait":
            free[stream] = max(free[stream], free[other])
            events += [call("cudaEventRecord", begin, end, 100 + number, thread)]
            events += [call("cudaStreamWaitEvent", end, end + 1, number, thread)]
            on = {"wait_on_stream": other, "wait_on_correlation": 100 + number}
            if draw(st.booleans()):
                events += [sync("Stream Wait Event", end, end + 1, number, stream=stream, **on)]
            end += 1
        else:
            end = max(end, free[stream] + draw(st.integers(0, 2)))
            events += [call("cudaStreamSynchronize", begin, end, number, thread)]
            if draw(st.booleans()):
                events += [sync("Stream Sync", begin, end, number, stream=stream)]
        now[thread] = end
    return [*slices_of(f"thread 0: ProfilerStep#1 0-{max(now)}"), *events]


def oracle_of(trace: Trace, path: CriticalPath) -> tuple[Oracle, tuple[Any, ...]]:
    """The graph of the window of a path, and the node at which it ends."""
    rows = trace.events.sort("event_id").to_dicts()
    busy = [r for r in rows if r["kind"] in {"kernel", "memcpy", "memset"} and r["dur_ns"]]
    host = [r for r in rows if r["kind"] in HOST and r["dur_ns"]]
    if path.step is None:
        counts: dict[int, int] = {}
        for row in host:
            counts[row["thread"]] = counts.get(row["thread"], 0) + 1
        order = sorted(counts, key=lambda thread: (-counts[thread], thread))
        pairs = helpers(rows)
        leading = [forward for forward, _ in pairs[-1:] if forward >= 0]
        others = [t for t in order if t not in {backward for _, backward in pairs}]
        main = [*leading, *others, *order, 0][0]
        last = [r["thread"] for r in host if r["start_ns"] + r["dur_ns"] == path.end_ns]
    else:
        marks = [r for r in host if r["name"] == f"ProfilerStep#{path.step}"]
        mark = min(marks, key=lambda r: (r["start_ns"], r["event_id"]))
        main = mark["thread"]
        last = [main] if mark["start_ns"] + mark["dur_ns"] == path.end_ns else []
    thread = main if main in last or not last else min(last)
    oracle = Oracle(rows, path.start_ns, path.end_ns, main, thread)
    if last:
        return oracle, ("point", thread, path.end_ns)
    ends = [r for r in busy if r["start_ns"] + r["dur_ns"] == path.end_ns]
    if not ends:  # the last work took no time
        return oracle, ("point", thread, path.end_ns)
    if path.step is not None:
        latest = max(-1 if r["step"] is None else r["step"] for r in ends)
        ends = [r for r in ends if (-1 if r["step"] is None else r["step"]) == latest]
    chosen = min(r["event_id"] for r in ends)
    return oracle, ("end", next(w for w in oracle.works if w["event_id"] == chosen))


def check_shape(path: CriticalPath) -> None:
    """It has no gaps, it is as long as the window, and its bounds are its length."""
    ends = (path.events["start_ns"] + path.events["dur_ns"]).to_list()
    assert [path.start_ns, *ends] == [*path.events["start_ns"].to_list(), path.end_ns]
    assert all(length > 0 for length in path.events["dur_ns"])
    assert path.events["dur_ns"].sum() == path.length_ns == path.bounds["total_ns"].sum()
    assert set(path.events["bound"]) <= set(BOUNDS)


def check_oracle(trace: Trace, path: CriticalPath) -> bool:
    check_shape(path)
    if not path.length_ns:
        return False
    oracle, node = oracle_of(trace, path)
    length, expected, unique = oracle.longest(node)
    assert length == path.length_ns
    if unique:
        end = pl.col("start_ns") + pl.col("dur_ns")
        rows = path.events.select("event_id", "edge", "start_ns", end_ns=end).rows()
        assert merged(rows) == merged(expected)
    check_idle(trace, path)
    return unique


def check_idle(trace: Trace, path: CriticalPath) -> None:
    """Where nothing on the path ran, it is idle if no device was busy, and else a wait."""
    works = [exposure.span(row) for row in exposure.works(trace.events.to_dicts())]
    for row in path.events.filter(pl.col("edge").is_in(["queue", "wait", "unknown"])).to_dicts():
        moments = range(*exposure.span(row))
        busy = [any(start <= at < end for start, end in works) for at in moments]
        assert busy == [row["bound"] == "sync"] * len(moments)


@settings(max_examples=max(1, EXAMPLES // 2))
@given(st.lists(slices(), min_size=8, max_size=20))
def test_it_is_the_longest_path(events: list[Row]) -> None:
    trace = trace_of(*events)
    steps = trace.step_times().filter(pl.col("host_ns") > 0)["step"].unique().to_list()
    for number in [None, *steps]:
        check_oracle(trace, trace.critical_path(number))


@given(programs())
def test_it_is_the_longest_path_of_a_program(events: list[Row]) -> None:
    trace = trace_of(*events)
    check_oracle(trace, trace.critical_path(1))


# Against the formulas of HolisticTraceAnalysis: whole microseconds, no sync rows.


def hta_critical_path(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Total and parts of d.14: the longest path by weight over edges between starts and ends.

    Consecutive moments of the host thread are an edge, as long as they are apart. A kernel has an
    edge from the start of its launch where the kernel before had ended when that began, else one
    from that kernel's end. Where they differ on purpose: HTA's kernel-kernel delays are `idle`
    here; a kernel before that ends during the launch call makes HTA's edge a kernel-kernel one, and
    no launch edge, however long the call still takes.
    """
    host = [r for r in rows if r["kind"] in HOST]
    kernels = sorted((r for r in rows if r["kind"] == "kernel"), key=lambda r: r["start_ns"])
    calls = {r["correlation"]: r["start_ns"] for r in host if r["correlation"]}
    moments_ = sorted({t for r in host for t in (r["start_ns"], r["start_ns"] + r["dur_ns"])})
    edges: list[tuple[tuple[Any, ...], tuple[Any, ...], str]] = [
        (("host", a), ("host", b), "host") for a, b in pairwise(moments_)
    ]
    before: int | None = None
    for number, row in enumerate(kernels):
        start, end = row["start_ns"], row["start_ns"] + row["dur_ns"]
        launched = calls[row["correlation"]]
        nodes = ("kernel", start, number), ("done", end, number)
        if before is None or before <= launched:
            edges.append((("host", launched), nodes[0], "launch"))
        else:
            edges.append((("done", before, number - 1), nodes[0], "idle"))
        edges.append((*nodes, "compute"))
        before = end
    longest: dict[tuple[Any, ...], dict[str, int]] = {}
    for tail, head, bound in sorted(edges, key=lambda e: (e[1][1], e[0][1])):
        path = dict(longest.get(tail, {}))
        path[bound] = path.get(bound, 0) + head[1] - tail[1]
        if sum(path.values()) > sum(longest.get(head, {}).values()):
            longest[head] = path
    return max(longest.values(), key=lambda path: sum(path.values()))


@st.composite
def runs(draw: st.DrawFn) -> list[Row]:
    """A host thread that launches kernels on a stream, which runs them as soon as it can."""
    now, free, events = 1_000, 0, []
    for number in range(1, draw(st.integers(1, 20)) + 1):
        begin = now + 1_000 * draw(st.integers(1, 9))
        returned = begin + 1_000 * draw(st.integers(1, 5))
        if begin < free <= returned:  # HTA's deviation
            begin, returned = free, free + returned - begin
        start = max(free, returned) + 1_000 * draw(st.integers(0, 3))
        free = start + 1_000 * draw(st.integers(1, 40))
        now = returned + 1_000 * draw(st.integers(1, 9))
        events += [call("cudaLaunchKernel", begin, returned, number)]
        events += [kernel("gemm", start, free, number)]
    return [*slices_of(f"thread 0: ProfilerStep#1 0-{now}"), *events]


@settings(max_examples=max(1, EXAMPLES // 4))
@given(runs())
def test_totals_and_parts_are_those_of_hta(events: list[Row]) -> None:
    trace = trace_of(*events)
    path = trace.critical_path(1)
    expected = hta_critical_path(trace.events.to_dicts())
    assert path.length_ns == sum(expected.values())
    assert bounds(path) == {bound: total for bound, total in expected.items() if total}


# Real traces.

REAL = (
    "facebookresearch__HolisticTraceAnalysis/critical_path/alexnet_benchmark_result.json.gz",
    "facebookresearch__HolisticTraceAnalysis/critical_path/event_sync_multi_stream_trace.json.gz",
    "facebookresearch__HolisticTraceAnalysis/critical_path/event_sync_trace.json.gz",
    "facebookresearch__HolisticTraceAnalysis/critical_path/simple_add_trace.json.gz",
    "facebookresearch__HolisticTraceAnalysis/mtia/mtia_inference_rank_0.json.gz",
    "facebookresearch__HolisticTraceAnalysis/amd/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "facebookresearch__HolisticTraceAnalysis/trace_compare/base.json.gz",
    "facebookresearch__param/dlrm_kineto/worker1_step_12.1694128201556.pt.trace.json.gz",
    "AMD-AGI__TraceLens/h100/Falconsai_nsfw_image_detection.json.gz",
    "luatil__torch-profile/trace_04.json.gz",
    "pytorch__benchmark/trace2.json",
    "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank0/trace_view.json.gz",
)


def real(name: str) -> Trace:
    return real_trace(needs.traces(name))


@pytest.mark.parametrize("name", few(REAL, 5), ids=[str(number) for number in range(len(REAL))])
def test_real_paths_have_no_gaps(name: str) -> None:
    trace = real(name)
    own_end = pl.col("start_ns") + pl.col("dur_ns")
    events = trace.events.select("event_id", own_start="start_ns", own_end=own_end)
    for number in [None, *trace.step_times()["step"].unique().sort().head(2)]:
        path = trace.critical_path(number)
        check_shape(path)
        end = pl.col("start_ns") + pl.col("dur_ns")
        stretches = path.events.with_columns(end_ns=end).join(events, on="event_id")
        inside = stretches.filter(pl.col("edge").is_in(["slice", "work", "sync"]))
        assert (inside["own_start"] <= inside["start_ns"]).all()
        assert (inside["end_ns"] <= inside["own_end"]).all()
        assert (stretches["own_start"] <= path.end_ns).all()


def test_a_collective_is_what_a_training_step_waits_for() -> None:
    """All-to-all on a stream of its own, waited for by calls of which no sync tells more."""
    path = real(REAL[7]).critical_path(10)
    total = dict(path.bounds.select("bound", "share").iter_rows())
    assert total["communication"] > 0.4
    assert total["launch"] < 0.05


def test_a_store_gives_the_same_path(tmp_path: Path) -> None:
    trace = real(REAL[2])
    trace.to_parquet(tmp_path)
    assert (
        profframe.load(tmp_path).critical_path(100).events.equals(trace.critical_path(100).events)
    )


def test_the_order_of_the_rows_does_not_matter() -> None:
    trace = real(REAL[1])
    table = trace.tables["events"]
    shuffled = {**trace.tables, "events": table.take(list(range(table.num_rows))[::-1])}
    found = Trace.from_tables(shuffled).critical_path()
    assert found.events.equals(trace.critical_path().events)


@pytest.mark.parametrize("kinds", [["kernel"], ["host_op"], ["runtime"], ["kernel", "sync"], []])
def test_a_filtered_trace_has_a_path(kinds: list[str]) -> None:
    check_shape(real(REAL[1]).filter(kinds=kinds).critical_path())
