"""Explanations: pieces by a loop over nanoseconds, sums, and what may not matter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from profframe.analysis.causes import step_trees
from profframe.analysis.causes.delays import NO_SORT, Delays, delays
from profframe.analysis.causes.step_pieces import BUSY, HOST, LAUNCH, NOTHING, UNRECORDED, pieces
from profframe.analysis.causes.step_trees import (
    COMPILE,
    LOAD,
    RESUME,
    SYNC,
    Lost,
    StepSlices,
    Windows,
    trees,
)
from profframe.errors import AnswerError
from profframe.query.header import Answer
from profframe.query.run import prepare
from profframe.trace.jobs import parts_of
from profframe.trace.trace import Trace
from tests.builders import Row, event, loaded

SEEDS: Final = st.integers(0, 2**32)
LOADING: Final = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
COMPILING: Final = "entire_frame_compile (dynamo_timed)"
RESUMING: Final = "torch_dynamo_resume_in_forward_at_7"
KERNEL: Final[dict[str, Any]] = {"category": "kernel", "device": 0, "thread": 9}


def read(trace: Trace) -> tuple[StepSlices, Windows, Lost]:
    parts = parts_of(trace)
    (key,), connect = parts.keys, parts.connection
    with connect(*key) as connection:
        prepare(connection, Answer("causes", step_trees.MACROS), {})
        of = step_trees.slices(connection)
        return of, step_trees.windows(connection, of), step_trees.lost(connection, of)


def program(seed: int) -> list[Row]:
    """Steps with ops on two threads, calls, and kernels, copies and collectives on two streams."""
    rng = random.Random(seed)  # noqa: S311 -- not for secrets
    events: list[Row] = [event("aten::first", 0, 1)]
    steps = rng.randrange(3)
    events += [
        event(f"ProfilerStep#{step}", 100 * step, 100 * step + 90, category="user_annotation")
        for step in range(steps)
    ]
    for thread in range(2):
        at = 2 * rng.randrange(1, 10) + thread
        while at < 180:
            end = at + rng.randrange(2, 20)
            if not any(
                at < 100 * step + 90 < end or at < 100 * step < end for step in range(steps)
            ):
                events.append(event("aten::mm", at, end, thread=thread))
                if rng.random() < 0.7:
                    number = len(events)
                    call: dict[str, Any] = {
                        "category": "cuda_runtime",
                        "thread": thread,
                        "correlation": number,
                    }
                    events.append(event("cudaLaunchKernel", at + 1, end, **call))
                    start = at + rng.randrange(1, 60)
                    name = rng.choice(["gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD"])
                    where = KERNEL | {"stream": rng.choice([7, 20]), "correlation": number}
                    if name.startswith("Memcpy"):
                        where["category"] = "gpu_memcpy"
                    events.append(event(name, start, start + rng.randrange(1, 25), **where))
            at = end + rng.randrange(0, 12)
    return events


def incomplete(seed: int) -> list[Row]:
    """The same without some of the kernels, and for most seeds without steps."""
    rng = random.Random(seed)  # noqa: S311 -- not for secrets
    return [
        row
        for row in program(seed)
        if not (row["category"] == "kernel" and rng.random() < 0.3)
        and not (seed % 3 and str(row["name"]).startswith("ProfilerStep"))
    ]


def owners(of: StepSlices, steps: Windows, lost: Lost) -> dict[int, tuple[int, int]]:
    """What each nanosecond belongs to, by a loop."""
    end_ns = of.end_ns

    def order(row: int) -> tuple[int, ...]:
        return of.start_ns[row], end_ns[row], of.label[row], of.detail[row], row

    works = sorted(np.flatnonzero(of.work > 0).tolist(), key=order)

    def innermost(thread: int, at: int) -> int:
        own = [
            row
            for row in range(of.event_id.size)
            if of.work[row] == 0
            and of.thread[row] == thread
            and of.start_ns[row] <= at < end_ns[row]
        ]
        return max(own, key=lambda row: of.depth[row], default=-1)

    result = {}
    for begin, end in zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True):
        for at in range(begin, end):
            running = [row for row in works if of.start_ns[row] <= at < end_ns[row]]
            if running:
                result[at] = BUSY, min(running, key=lambda row: of.work[row])
                continue
            if any(a <= at < b for a, b in zip(lost.start_ns, lost.end_ns, strict=True)):
                result[at] = UNRECORDED, -1
                continue
            following = next((row for row in works if of.start_ns[row] > at), -1)
            launch = int(of.launch[following]) if following >= 0 else -1
            if launch >= 0 and at >= of.start_ns[launch]:
                result[at] = LAUNCH, following
                continue
            row = innermost(int(of.thread[launch]) if launch >= 0 else steps.thread, at)
            row = innermost(steps.thread, at) if row < 0 else row
            result[at] = (HOST, row) if row >= 0 else (NOTHING, -1)
    return result


@settings(deadline=None)
@given(SEEDS, st.sampled_from([program, incomplete]))
def test_pieces_are_those_of_a_loop_over_nanoseconds(
    seed: int, of_seed: Callable[[int], list[Row]]
) -> None:
    of, steps, lost = read(loaded(*of_seed(seed)))
    made = pieces(of, steps, lost)
    columns = (made.start_ns, made.ns, made.what, made.row, made.window)
    taken = {}
    for start, ns, what, row, window in zip(*(column.tolist() for column in columns), strict=True):
        for at in range(start, start + ns):
            assert at not in taken
            assert steps.start_ns[window] <= at < steps.end_ns[window]
            taken[at] = what, row
    assert taken == owners(of, steps, lost)


@settings(deadline=None)
@given(SEEDS)
def test_lost_calls_are_those_of_a_loop_over_steps(seed: int) -> None:
    """In a step they were made, or their work may have run."""
    of, steps, lost = read(loaded(*incomplete(seed)))
    moments = [
        set(range(begin, end))
        for begin, end in zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    ]
    launched = of.start_ns[lost.row].tolist()
    spans = zip(launched, lost.start_ns.tolist(), lost.end_ns.tolist(), strict=True)
    expected = sum(
        any(step & {launch, *range(begin, end)} for step in moments) for launch, begin, end in spans
    )
    assert lost.in_windows(of, steps) == expected


def changed(events: list[Row], seed: int) -> list[Row]:
    """The same with other lengths here and there, and some calls fewer."""
    rng = np.random.default_rng(seed)
    kept: list[Row] = []
    for row in events:
        if str(row["name"]) == "aten::mm" and rng.random() < 0.1:
            continue
        kept.append({**row, "dur_ns": max(1, int(str(row["dur_ns"])) - int(rng.integers(0, 3)))})
    return kept


@settings(deadline=None, max_examples=max(1, settings().max_examples // 2))
@given(SEEDS)
def test_causes_add_up_and_are_reversed_with_the_sides(seed: int) -> None:
    events = program(seed)
    sides = loaded(*events), loaded(*changed(events, seed))
    check_sums(*sides)


@settings(deadline=None, max_examples=max(1, settings().max_examples // 2))
@given(SEEDS)
def test_causes_add_up_where_work_was_lost(seed: int) -> None:
    check_sums(loaded(*program(seed)), loaded(*incomplete(seed)))


def check_sums(*sides: Trace) -> None:
    there, back = profframe.explain(*sides), profframe.explain(*sides[::-1])
    assert there.causes["change_ns"].sum() == there.other_ns - there.base_ns
    assert (there.base_ns, there.other_ns) == (back.other_ns, back.base_ns)
    turned = {
        "calls_added": "calls_removed",
        "calls_removed": "calls_added",
        "fusion_made": "fusion_lost",
        "fusion_lost": "fusion_made",
    }
    names = ("op", "kernel")
    columns = {f"base_{name}": f"other_{name}" for name in names}
    columns |= {new: old for old, new in columns.items()}
    expected = back.causes.rename(columns).with_columns(pl.col("cause").replace(turned))
    key = ["cause", *columns]
    both = there.causes.join(expected, on=key, how="full", nulls_equal=True, suffix="_back")
    assert both["change_ns"].null_count() == both["change_ns_back"].null_count() == 0
    assert (both["change_ns"] + both["change_ns_back"]).abs().max() in (None, 0, 1)


def test_a_trace_against_itself_is_nothing() -> None:
    trace = profframe.load("examples/gpu_training.json.gz")
    assert profframe.explain(trace, trace).causes.is_empty()


@settings(deadline=None, max_examples=max(1, settings().max_examples // 4))
@given(SEEDS)
def test_the_order_of_rows_and_numbers_of_threads_do_not_matter(seed: int) -> None:
    events = program(seed)
    shuffled = [
        {**row, "thread": {0: 5, 1: 3}.get(int(str(row["thread"])), row["thread"])}
        for row in events
    ]
    random.Random(seed).shuffle(shuffled)  # noqa: S311 -- not for secrets
    sides = loaded(*events), loaded(*shuffled)
    assert profframe.explain(*sides).causes.is_empty()


def test_a_kernel_that_another_one_replaced_by_hand() -> None:
    """Two steps of a product of 4 x 8 and 8 x 16, of 1,024 operations: 10 us, then 4 us."""
    sides = []
    for name, took in (("volta_sgemm", 10_000), ("turing_sgemm", 4_000)):
        rows: list[Row] = []
        for step in range(2):
            at = 100_000 * step
            rows += [
                event(f"ProfilerStep#{step}", at, at + 50_000, category="user_annotation"),
                event(
                    "aten::mm",
                    at + 1_000,
                    at + 5_000,
                    input_dims="[[4,8],[8,16]]",
                    input_types='["float","float"]',
                ),
                event(
                    "cudaLaunchKernel",
                    at + 2_000,
                    at + 4_000,
                    category="cuda_runtime",
                    correlation=step + 1,
                ),
                event(
                    name, at + 6_000, at + 6_000 + took, **KERNEL, stream=7, correlation=step + 1
                ),
            ]
        sides.append(loaded(*rows))
    causes = profframe.explain(*sides).causes
    columns = ["cause", "base_op", "other_op", "base_kernel", "other_kernel", "change_ns"]
    row = causes.filter(cause="kernel_swapped")
    assert row.select(columns).rows() == [
        ("kernel_swapped", "aten::mm", "aten::mm", "volta_sgemm", "turing_sgemm", -6_000)
    ]
    assert row.select("base_calls", "other_calls", "base_call_ns", "other_call_ns").rows() == [
        (1.0, 1.0, 10_000, 4_000)
    ]
    assert row.select("base_flops_per_s", "other_flops_per_s").rows() == [
        (pytest.approx(1_024e5), pytest.approx(256e6))
    ]
    assert causes["change_ns"].sum() == 0


@pytest.mark.parametrize(
    ("names", "purpose"),
    [
        (["cudaDeviceSynchronize", LOADING], LOAD),
        ([LOADING, COMPILING, "cudaDeviceSynchronize"], COMPILE),
        ([COMPILING, RESUMING], COMPILE),
        ([RESUMING, LOADING], RESUME),
        (["cudaDeviceSynchronize"], SYNC),
    ],
)
def test_of_several_things_in_a_call_the_rarest_is_its_purpose(
    names: list[str], purpose: int
) -> None:
    """It compiles rather than loads, and waits for a device only if it does nothing else."""
    inside = [
        event(name, 10 * at, 10 * at + 9, category="cuda_runtime" if "cuda" in name else "cpu_op")
        for at, name in enumerate(names, 1)
    ]
    late = alone(event("aten::first", 0, 90), *inside)
    assert late.sort[late.node].tolist() == [purpose]


@pytest.mark.parametrize(
    ("inside", "work", "purpose"),
    [
        (COMPILING, "kernel", COMPILE),
        ("cudaDeviceSynchronize", "kernel", NO_SORT),
        ("cudaDeviceSynchronize", "gpu_memcpy", SYNC),
    ],
)
def test_what_launches_kernels_does_not_exist_to_wait_for_them(
    inside: str, work: str, purpose: int
) -> None:
    category = "cuda_runtime" if "cuda" in inside else "cpu_op"
    late = alone(
        event("aten::first", 0, 90),
        event(inside, 40, 80, category=category),
        event("cudaLaunchKernel", 10, 20, category="cuda_runtime", correlation=2),
        event("something", 20, 30, **KERNEL | {"category": work}, stream=7, correlation=2),
    )
    assert late.sort[late.node].tolist() == [purpose]


def test_a_piece_is_due_to_the_largest_call_that_ended_before_it_in_its_step() -> None:
    """Of calls of 50, 50 and 5 ns in the first step, and one of 5 ns in the second."""
    node, window = np.array([6, 7, 8, 9]), np.array([0, 0, 0, 1])
    late = Delays(
        0, node, window, np.array([10, 20, 30, 130]), np.array([50, 50, 5, 5]), node, node
    )
    found = late.before(np.array([0, 0, 0, 0, 1, 1]), np.array([9, 10, 20, 40, 129, 130]))
    assert found.tolist() == [-1, 6, 7, 7, -1, 9]


def alone(*rows: Row) -> Delays:
    """The calls of a trace that the other side has nothing of, on a thread that also launches."""
    of, steps, _ = read(
        loaded(
            *rows,
            event("cudaLaunchKernel", 900, 905, category="cuda_runtime", correlation=1),
            event("gemm", 905, 910, **KERNEL, stream=7, correlation=1),
        )
    )
    made = trees([(of, steps)])
    return delays(of, made, 0, steps, made.row >= 0)


@pytest.mark.parametrize(("kernels", "is_same"), [(4, True), (5, False)])
def test_calls_are_the_same_up_to_four_times_the_work(kernels: int, is_same: bool) -> None:
    """One kernel of `aten::alone` is the first that `aten::both` launches on the other side."""

    def side(name: str, launched: list[str]) -> Trace:
        rows = [event(name, 0, 100)]
        for number, kernel in enumerate(launched):
            at = 10 * number
            call: dict[str, Any] = {"category": "cuda_runtime", "correlation": number + 1}
            rows += [
                event("cudaLaunchKernel", at + 1, at + 5, **call),
                event(kernel, 200 + at, 205 + at, **KERNEL, stream=7, correlation=number + 1),
            ]
        return loaded(*rows)

    names = ["first", "second", "third", "fourth", "fifth"]
    base, other = side("aten::alone", names[:1]), side("aten::both", names[:kernels])
    tree = profframe.explain(base, other).tree
    ops = tree.filter(kind="host_op").select("base_name", "other_name").rows()
    both, alone = ("aten::alone", "aten::both"), [("aten::alone", None), (None, "aten::both")]
    assert sorted(ops, key=str) == ([both] if is_same else sorted(alone, key=str))


def test_a_side_without_nodes_has_one_step_and_one_without_slices_is_an_error() -> None:
    call = loaded(event("cudaFree", 0, 30, category="cuda_runtime"))
    of = loaded(event("aten::mm", 0, 100))
    why = profframe.explain(call, of)
    assert (why.base_ns, why.other_ns, why.causes["change_ns"].sum()) == (30, 100, 70)
    nothing = loaded(event("mine", 0, 30, category="mine"))
    with pytest.raises(AnswerError, match=r"^other: nothing to explain"):
        profframe.explain(of, nothing)
    with pytest.raises(AnswerError, match=r"^base: nothing to explain"):
        profframe.explain(nothing, of)


class TestLostWork:
    """Two ops with a kernel each, of 20 us; on the other side that of the second is not there."""

    @pytest.fixture
    def whole(self) -> Trace:
        return loaded(*self.rows())

    @pytest.fixture
    def incomplete(self) -> Trace:
        return loaded(*self.rows()[:-1])

    def rows(self, begin: int = 0) -> list[Row]:
        made: list[Row] = [event("aten::last", begin + 95_000, begin + 100_000)]
        for at, name in ((begin + 1_000, "mm"), (begin + 41_000, "add")):
            launch: dict[str, Any] = {"correlation": at}
            made += [
                event(f"aten::{name}", at, at + 3_000),
                event(
                    "cudaLaunchKernel", at + 1_000, at + 2_000, category="cuda_runtime", **launch
                ),
                event(name, at + 9_000, at + 29_000, **KERNEL, stream=7, **launch),
            ]
        return made

    def test_its_time_is_not_recorded(self, whole: Trace, incomplete: Trace) -> None:
        """From its launch at 42 us on it may have run, in 8 us of waiting and 20 us there."""
        why = profframe.explain(whole, incomplete)
        assert (why.base_lost_calls, why.other_lost_calls) == (0, 1)
        changes = why.causes.select("cause", "base_op", "base_kernel", "change_ns").rows()
        assert changes == [
            ("unrecorded", None, None, 58_000),
            ("unrecorded", "aten::add", "add", -28_000),
            ("host_code", None, None, -25_000),
            ("launch_bound", None, None, -5_000),
        ]

    def test_of_both_sides_it_is_no_change(self, incomplete: Trace) -> None:
        why = profframe.explain(incomplete, incomplete)
        assert (why.base_lost_calls, why.other_lost_calls) == (1, 1)
        assert why.causes.is_empty()

    def test_without_device_work_on_both_sides_all_time_is_the_host_s(self) -> None:
        host = [row for row in self.rows() if row["category"] != "kernel"]
        longer = event("aten::last", 95_000, 105_000)
        why = profframe.explain(loaded(*host), loaded(longer, *host[1:]))
        assert (why.base_lost_calls, why.other_lost_calls) == (2, 2)
        assert why.causes.select("cause", "change_ns").rows() == [("kernel_time", 5_000)]

    def test_steps_with_it_do_not_count(self, whole: Trace) -> None:
        """Of three, the last lost a kernel, which may have run until its end."""
        rows = [row for step in range(3) for row in self.rows(200_000 * step)][:-1]
        steps = [
            event(
                f"ProfilerStep#{n}", 200_000 * n, 200_000 * n + 150_000, category="user_annotation"
            )
            for n in range(3)
        ]
        why = profframe.explain(loaded(*rows, *steps), whole)
        assert (why.base_steps, why.other_steps) == (2, 1)
        assert (why.base_lost_calls, why.other_lost_calls) == (0, 0)
        assert (why.base_is_whole, why.other_is_whole) == (False, True)
