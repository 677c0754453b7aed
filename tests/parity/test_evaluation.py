"""Queue depth, idle time and the ranking of `torch.profiler._utils`, against torch and by hand.

What torch has otherwise, by the names that the tests use:

- NAMES: it compares the bound method of a real event's name, so no launch is ever found; only
  kernels by `cudaLaunchKernel...` count, no copies, fills, graphs, HIP or driver calls.
- ONE_QUEUE: depth is a difference of places in one list of kernels by start, which is right for
  one stream whose kernels start in the order of their launches.
- WAITING_IS_BUSY: idle time ends where something is launched, not where it begins to run, and
  begins where the kernel that emptied the queue ends, though another may still run.
- OVERLAP: `intervals_overlap` skips the interval behind one that is covered, forgets what lies
  behind a partial overlap, and changes the intervals that it is given.
- SLIP: the moment that ends one fall of the queue is not looked at as the end of the fall before.
- NAN: a single event, or events that are all alike, have no score and no order.
- FLOAT32: scores are of single precision; equal ones come in the order of a walk over the tree.
- KERNELS_ARE_CHILDREN: in torch's tree a kernel is inside its call, whose self time it eats up.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from benchmarks.evaluation import Op, Work, profile
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import Row, event, loaded
from tests.conftest import real_trace
from tests.oracles import evaluation as oracle
from tests.oracles import waiting
from tests.oracles.intervals import merged, shared, when

SMALL: Final = 60_000
"""Bytes of the compressed files that are looked at in plain Python."""


def call(start: int, correlation: int, dur: int = 100_000) -> Row:
    return event(
        "cudaLaunchKernel",
        start,
        start + dur,
        category="cuda_runtime",
        thread=1,
        correlation=correlation,
    )


def kernel(start: int, end: int, correlation: int | None = None, **columns: Any) -> Row:
    line: dict[str, Any] = {"category": "kernel", "pid": "0", "thread": 9, "device": 0, "stream": 7}
    return event("gemm", start, end, correlation=correlation, **(line | columns))


LAUNCHES: Final = (400_000, 500_000, 600_000, 700_000, 800_000, 1_500_000)
KERNELS: Final = (900_000, 1_000_000, 1_100_000, 1_200_000, 1_300_000, 1_700_000)
OPS: Final = (*range(0, 1_000_000, 100_000), 1_100_000, 1_200_000)


def upstream() -> Trace:
    """The events of upstream's mock: launches, kernels, and ops of 0.1 ms, the last of 0.5 ms."""
    return loaded(
        *(call(at, number) for number, at in enumerate(LAUNCHES, start=1)),
        *(kernel(at, at + 100_000, number) for number, at in enumerate(KERNELS, start=1)),
        *(event("op", at, at + (500_000 if at == 1_200_000 else 100_000)) for at in OPS),
    )


class TestUpstream:
    """What upstream's tests of `_utils` expect."""

    def test_queue_depth_at_launches_and_kernels(self) -> None:
        found = upstream().sql(
            "SELECT queue_depth FROM events WHERE name <> 'op' ORDER BY start_ns, event_id"
        )
        assert found["queue_depth"].to_list() == [1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1, 0]

    def test_queue_depth_of_ops(self) -> None:
        found = upstream().filter(kinds="host_op").op_idle_queue()
        assert found["queue_depth"].to_list() == [0, 0, 0, 0, 1, 2, 3, 4, 5, 4, 2, 1]

    def test_without_a_device_there_is_no_queue(self) -> None:
        found = loaded(event("aten::mm", 0, 10)).op_idle_queue()
        assert found.select("queue_depth", "idle_ns").row(0) == (None, None)

    def test_overlap(self) -> None:
        busy = [(0, 9), (1, 2), (2, 3), (3, 4), (4, 5), (8, 12)]
        assert overlap((5, 10), busy) == 5

    def test_idle_time_until_work_runs(self) -> None:
        """torch: 0.1 ms each before the first launch and in the last op; WAITING_IS_BUSY."""
        found = upstream().filter(kinds="host_op").op_idle_queue()
        assert found["idle_ns"].to_list() == [*[100_000] * 9, 0, 0, 300_000]

    def test_optimizable_events(self) -> None:
        """As in upstream's recording; it has no calls in its tree, so that what waits is the op."""
        found = upstream_recording().optimizable_events(n=2)
        assert found["name"].to_list() == ["<built-in function _cuda_synchronize>", "aten::copy_"]
        assert found["source_location"].to_list() == [
            "torch/cuda/__init__.py(486): synchronize",
            "test_profiler.py(1245): garbage_code",
        ]


def upstream_recording() -> Trace:
    """Five products, five copies of which the first waits for them, five products, a wait."""
    rows: list[Row] = []
    number = 0

    def product(at: int, start: int) -> None:
        nonlocal number
        number += 1
        rows.extend(
            [
                event("aten::matmul", at, at + 30_000),
                event("aten::mm", at + 1000, at + 29_000),
                call(at + 20_000, number, 6000),
                kernel(start, start + 9_296_000, number),
            ]
        )

    for i in range(5):
        product(i * 40_000, 150_000 + i * 9_298_000)
    rows.append(python_frame("test_profiler.py(1245): garbage_code", 400_000, 46_880_000))
    for i in range(5):
        at, length = (1_215_000, 45_430_000) if not i else (46_670_000 + i * 30_000, 20_000)
        number += 1
        begun = at + length - 5000
        rows += [
            event("aten::select", at - 5000, at - 2000),
            event("aten::copy_", at, at + length),
            call(at + 5000, number, 3000),
            kernel(begun, begun + 2000, number, category="gpu_memcpy"),
        ]
    for i in range(5):
        product(46_900_000 + i * 40_000, 46_990_000 + i * 9_303_000)
    begin, last = 47_250_000, 46_990_000 + 5 * 9_303_000
    rows.append(python_frame("torch/cuda/__init__.py(486): synchronize", begin, last + 900_000))
    rows += [
        python_frame("<built-in function isinstance>", begin + i, begin + i + 1) for i in range(40)
    ]
    rows.append(python_frame("<built-in function _cuda_synchronize>", begin + 100, last + 20_000))
    return loaded(*rows)


def python_frame(name: str, start: int, end: int) -> Row:
    return event(name, start, end, category="python_function")


def overlap(op: tuple[int, int], busy: Sequence[tuple[int, int]]) -> int:
    """How much of an op lies in intervals, by what profframe finds to be no idle time."""
    found = loaded(event("op", *op), *(kernel(*one) for one in busy)).op_idle_queue()
    return int((found["dur_ns"] - found["idle_ns"]).item())


def torch_utils() -> Any:
    """torch's module; what is compared here is gone from it since 2.14."""
    utils = needs.module("torch.profiler._utils")
    if not hasattr(utils, "BasicEvaluation"):
        needs.another_release("no BasicEvaluation")
    return utils


def torch_overlap(op: tuple[int, int], busy: Sequence[tuple[int, int]]) -> int:
    utils = torch_utils()
    key = utils.EventKey(Op("op", op[0], op[1] - op[0]))
    return int(key.intervals_overlap([utils.Interval(*one) for one in busy]))


@pytest.mark.parametrize(
    ("busy", "wrong", "true"),
    [
        ([(0, 9), (1, 2), (2, 3), (3, 4), (4, 5), (8, 12)], 12, 12),
        ([(0, 10), (5, 8), (20, 30)], 10, 20),
        ([(0, 10), (5, 20), (15, 30)], 20, 30),
    ],
)
def test_the_true_union_where_torch_has_another(
    busy: list[tuple[int, int]], wrong: int, true: int
) -> None:
    """OVERLAP."""
    assert overlap((0, 100), busy) == true
    assert torch_overlap((0, 100), busy) == wrong


PIECE = st.tuples(st.integers(0, 40), st.integers(-2, 40), st.integers(0, 12), st.integers(1, 3))
"""Start of a call, delay of its work, duration, pieces."""
SLICE = st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 40), st.sampled_from("abc"))
"""Thread, start, duration, name."""
NAMES: Final = {"a": "aten::a", "b": "lib.py(7): b", "c": None}


def drawn_trace(
    pieces: Sequence[tuple[int, int, int, int]], slices: Sequence[tuple[int, int, int, str]]
) -> Trace:
    rows: list[Row] = [event(NAMES[n], at, at + dur, thread=on) for on, at, dur, n in slices]
    for number, (at, delay, dur, count) in enumerate(pieces, start=1):
        rows.append(call(at, number, 3))
        starts = [max(0, at + delay + 2 * i) for i in range(count)]
        rows += [kernel(start, start + dur, number, stream=number % 3) for start in starts]
    return loaded(*rows)


@given(st.lists(PIECE, max_size=12), st.lists(SLICE, max_size=12), st.integers(0, 40))
def test_ranking_is_that_of_plain_python(
    pieces: list[tuple[int, int, int, int]], slices: list[tuple[int, int, int, str]], n: int
) -> None:
    trace = drawn_trace(pieces, slices)
    rows = trace.sql("FROM events ORDER BY event_id").to_dicts()
    check_ranking(trace, rows, n)


@given(
    st.lists(PIECE.filter(lambda piece: piece[1] >= 0), max_size=12), st.lists(SLICE, max_size=9)
)
def test_the_queues_of_all_streams_add_up(
    pieces: list[tuple[int, int, int, int]], slices: list[tuple[int, int, int, str]]
) -> None:
    trace = drawn_trace(pieces, slices)
    changes = trace.queue_depth().select("stream", "time_ns", "depth").rows()
    for row in trace.op_idle_queue().to_dicts():
        last = {stream: depth for stream, at, depth in changes if at <= row["start_ns"]}
        assert (row["queue_depth"] or 0) == sum(last.values())


def check_ranking(trace: Trace, rows: list[dict[str, Any]], n: int) -> None:
    expected = oracle.ranked(rows)
    found = trace.optimizable_events(n=n).to_dicts()
    assert [row["score"] for row in found] == pytest.approx(
        [score for score, _ in expected[:n]], abs=1e-9
    )
    by_id = {row["event_id"]: (score, row) for score, row in expected}
    for row in found:
        score, slice_ = by_id[row["event_id"]]
        assert row["score"] == pytest.approx(score, abs=1e-9)
        assert row["idle_share"] == oracle.idle_share(slice_)
        assert row["source_location"] == oracle.source_location(slice_, rows)
    exact = [(-row["score"], row["start_ns"], row["event_id"]) for row in found]
    assert exact == sorted(exact)


def torch_profile(rows: Sequence[dict[str, Any]]) -> tuple[Any, dict[Any, int]]:
    """The rows as torch's code takes them: a tree of host slices, and launches and kernels."""
    ops = {
        row["event_id"]: Op(row["name"], row["start_ns"], row["dur_ns"])
        for row in rows
        if row["preorder"] is not None
    }
    for row in rows:
        if row["parent_id"] is not None:
            ops[row["parent_id"]].around(ops[row["event_id"]])
    work = [
        Work(
            row["name"], row["start_ns"], row["dur_ns"], row["correlation"], row["kind"] == "kernel"
        )
        for row in rows
        if row["correlation"] is not None
    ]
    return profile(list(ops.values()), work), {op: number for number, op in ops.items()}


def one_stream(seed: int) -> Trace:
    """Ops with short kernels on one stream, but for one behind which others wait."""
    draw = random.Random(seed)  # noqa: S311
    rows: list[Row] = [event("aten::first", 0, 1)]
    now, free = 1000, 0
    long = draw.randint(5, 15)
    for number in range(1, 31):
        length = draw.randint(1000, 90_000)
        op = event("aten::op", now, now + length)
        inner = event("aten::inner", now + 100, now + draw.randint(200, length))
        start = max(free, now + 151)
        free = start + (500_000 if number == long else draw.randint(100, 5000))
        rows += [op, inner, call(now + 150, number, 2 * number), kernel(start, free, number)]
        now += length + draw.randint(10, 30_000)
    rows.append(event("aten::last", max(now, free), max(now, free) + 1))
    return loaded(*rows)


@pytest.mark.parametrize("seed", range(12))
class TestAgainstTorch:
    """torch's own code on stand-ins, where it is right."""

    @pytest.fixture
    def utils(self) -> Any:
        return torch_utils()

    def test_self_times_and_queue_depths(self, seed: int, utils: Any) -> None:
        trace = one_stream(seed)
        rows = trace.sql("FROM events ORDER BY event_id").to_dicts()
        taken, ids = torch_profile(rows)
        evaluated = utils.BasicEvaluation(taken)
        theirs = {ids[key.event]: metrics for key, metrics in evaluated.metrics.items()}
        for row in trace.op_idle_queue().to_dicts():
            metrics = theirs.pop(row["event_id"])
            assert row["self_ns"] == metrics.self_time_ns
            assert row["queue_depth"] == metrics.queue_depth
            assert row["dur_ns"] == metrics.duration_time_ns
        assert not theirs
        depths = trace.sql(
            "SELECT queue_depth FROM events WHERE correlation > 0 ORDER BY start_ns, kind DESC"
        )
        assert depths["queue_depth"].to_list() == [
            p.queue_depth for p in evaluated.queue_depth_list
        ]

    def test_the_same_events_in_the_same_order(self, seed: int, utils: Any) -> None:
        """torch's ranking of the true idle times; its own are wrong by OVERLAP."""
        trace = one_stream(seed)
        rows = trace.sql("FROM events ORDER BY event_id").to_dicts()
        taken, ids = torch_profile(rows)
        evaluated = utils.BasicEvaluation(taken)
        for key, metrics in evaluated.metrics.items():
            metrics.idle_time_ns = rows[ids[key.event]]["idle_ns"]
        queue = oracle.points(rows)
        (fall,) = oracle.falls(queue)
        assert oracle.falls(queue, skip=1) == [fall]
        theirs = [ids[key.event] for key in evaluated.rank_events(50)]
        ours = trace.optimizable_events(n=50)
        assert theirs
        assert ours["event_id"].to_list() == theirs
        assert ours["score"].is_unique().all()  # or FLOAT32 would decide


def two_falls() -> Trace:
    """Two queues of four, one empty moment between them (at 2,000), an op during each fall."""
    rows: list[Row] = []
    for number in range(1, 9):
        begin = 0 if number <= 4 else 3000
        rows.append(call(begin + 10 * number, number, 5))
        rows.append(kernel(begin + 500 * ((number - 1) % 4 + 1), begin + 500 * number, number))
    rows += [event("aten::early", 1100, 1400), event("aten::late", 4100, 4700)]
    return loaded(*rows, event("aten::first", 0, 1), event("aten::last", 9000, 9001))


def test_a_fall_that_torch_passes_over() -> None:
    """SLIP."""
    utils = torch_utils()
    trace = two_falls()
    rows = trace.sql("FROM events ORDER BY event_id").to_dicts()
    assert oracle.falls(oracle.points(rows)) == [(40, 2000), (3080, 5000)]
    theirs = utils.BasicEvaluation(torch_profile(rows)[0]).rank_events(99)
    assert "aten::early" not in {key.event.name for key in theirs}
    ours = trace.optimizable_events(n=99)["name"].to_list()
    assert {"aten::early", "aten::late"} <= set(ours)


def test_events_that_are_all_alike_come_in_the_order_of_time() -> None:
    """NAN."""
    rows = [call(10 * n, n, 5) for n in range(1, 5)]
    rows += [kernel(100 * n, 100 * n + 50, n) for n in range(1, 5)]
    alike = [event("aten::mm", at, at + 5, thread=2) for at in (270, 60)]
    found = loaded(*rows, *alike).optimizable_events(n=9)
    assert found.select("start_ns", "score").rows() == [(40, 0), (60, 0), (270, 0)]


@dataclass(frozen=True)
class Real:
    """A Kineto event has a method for its name."""

    work: Work

    def name(self) -> str:
        return self.work.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)


def test_real_events_have_names_that_torch_does_not_read() -> None:
    """NAMES."""
    utils = torch_utils()

    work = [
        Real(Work("cudaLaunchKernel", 0, 5, 1, on_device=False)),
        Real(Work("gemm", 9, 5, 1, on_device=True)),
    ]
    depths = utils.BasicEvaluation(profile([Op("aten::mm", 0, 20)], work)).queue_depth_list
    assert [point.queue_depth for point in depths] == [0]


def test_self_times_of_a_live_profile() -> None:
    """torch's tree takes a slice that starts where another ends to be inside it; here none does."""
    torch = needs.torch()
    utils = torch_utils()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        x = torch.ones(8, 8, requires_grad=True)
        (x @ x).relu().sum().backward()
    evaluated = utils.BasicEvaluation(profiler.profiler)
    theirs = [
        (key.event.name, key.event.start_time_ns, metrics.self_time_ns)
        for key, metrics in evaluated.metrics.items()
    ]
    ours = profframe.load(profiler).op_idle_queue()
    assert ours.select("name", "start_ns", "self_ns").sort("start_ns", "name").rows() == sorted(
        theirs, key=lambda one: (one[1], one[0])
    )
    assert ours["queue_depth"].null_count() == ours["idle_ns"].null_count() == ours.height


def test_real_traces(chrome_trace: Path) -> None:
    if chrome_trace.stat().st_size >= SMALL:
        needs.another_trace("it is too large for plain Python")
    with real_trace(chrome_trace).session() as trace:
        if not trace.overview()["kernels"].sum():
            needs.another_trace("no kernel is in it")
        check_real(trace)


def check_real(trace: Trace) -> None:
    rows = trace.sql("FROM events ORDER BY event_id").to_dicts()
    queue, found = waiting.waits(rows), trace.op_idle_queue()
    called, begun = sorted(a for a, b in queue if a < b), sorted(b for a, b in queue if a < b)
    work = [row for row in waiting.pieces(rows) if row["dur_ns"] is not None]
    busy = merged(map(when, work))
    for row in found.to_dicts():
        at, until = when(row)
        if queue:
            assert row["queue_depth"] == bisect_right(called, at) - bisect_right(begun, at)
        assert row["idle_ns"] == row["dur_ns"] - shared([(at, until)], busy)
    if len(rows) < 3000:
        check_ranking(trace, rows, 20)
    check_steps(trace)


def check_steps(trace: Trace) -> None:
    """A step idles for as long as its breakdown says."""
    steps = trace.time_breakdown("host").drop_nulls("step").select("step", "span_ns", "idle_ns")
    marks = trace.op_idle_queue().filter(pl.col("name").str.starts_with("ProfilerStep#"))
    assert marks.select("dur_ns", "idle_ns").rows() == steps.select("span_ns", "idle_ns").rows()
