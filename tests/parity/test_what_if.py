"""Predictions: against jobs that are run again with other times, by hand, and on real traces."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from profframe.analysis.critical_path import BOUNDS
from profframe.errors import ParameterError, UnknownNameError
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import Row, event, loaded, together
from tests.conftest import Run
from tests.jobs import NAMES, job
from tests.oracles import jobs
from tests.oracles.jobs import COLLECTIVE, HOST, KERNEL, Op

EXAMPLES: Final = settings().max_examples
FACTORS: Final = (0.0, 0.25, 0.5, 2.0, 3.0)


def scaled(times: Sequence[int], factor: float) -> list[int]:
    return [round(time * factor) for time in times]


def faster_transfers(op: Op, factor: float) -> Op:
    return replace(op, took=scaled(op.took, factor)) if op.kind == COLLECTIVE else op


def faster_kernels(op: Op, factor: float) -> Op:
    return replace(op, took=scaled(op.took, factor)) if op.kind == KERNEL else op


def faster_host(op: Op, factor: float) -> Op:
    took = scaled(op.took, factor) if op.kind == HOST else op.took
    return replace(op, took=took, launch=scaled(op.launch, factor))


Again = Callable[[Op, float], Op]
Ask = Callable[[Trace, float], pl.DataFrame]
CHANGES: Final[dict[str, tuple[Again, Ask]]] = {
    "communication": (faster_transfers, lambda trace, f: trace.what_if(communication=f)),
    "kernels": (faster_kernels, lambda trace, f: trace.what_if(kernels={NAMES[KERNEL]: f})),
    "host": (faster_host, lambda trace, f: trace.what_if(host=f)),
}


def length(ops: Sequence[Op], ranks: int) -> int:
    return max(one.end for one in jobs.run(ops, ranks).slices)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Op], list[int]]:
    """Ops with a collective and a kernel among them, and by how much each clock is ahead."""
    ranks, rng = draw(st.integers(1, 4)), draw(st.randoms(use_true_random=False))
    same = draw(st.booleans())

    def each() -> list[int]:
        return [rng.randrange(1, 10**5) for _ in range(ranks)]

    kinds = [KERNEL, COLLECTIVE]
    kinds += [rng.choice((HOST, KERNEL, KERNEL, COLLECTIVE)) for _ in range(rng.randrange(5, 50))]
    launch = [5_000] * ranks
    ops = [Op(kind, each(), launch if same else each(), rng.choice((7, 20))) for kind in kinds]
    return ops, [0] + [rng.randrange(-(10**6), 10**6) for _ in range(ranks - 1)]


@settings(deadline=None, max_examples=max(1, EXAMPLES // 2))
@given(programs(), st.sampled_from([*CHANGES]), st.sampled_from(FACTORS))
def test_a_job_run_again_takes_what_was_predicted(
    program: tuple[list[Op], list[int]], change: str, factor: float
) -> None:
    ops, ahead = program
    again, ask = CHANGES[change]
    trace = job(jobs.run(ops, len(ahead)), ahead)
    rows = ask(trace, factor)
    assert rows["predicted_ns"][0] == rows["now_ns"][0] == length(ops, len(ahead)) - 1
    if change == "communication" and len(ahead) == 1:
        return  # a rank alone may also have waited
    truth = length([again(op, factor) for op in ops], len(ahead)) - 1
    assert rows["predicted_ns"][1] == pytest.approx(truth, rel=0.01)
    low, high = rows["low_ns"][1], rows["high_ns"][1]
    assert low <= rows["predicted_ns"][1] <= high
    bounds = rows.select(pl.sum_horizontal(f"{bound}_ns" for bound in BOUNDS)).to_series()
    assert bounds.to_list() == rows["predicted_ns"].to_list()


@settings(deadline=None, max_examples=max(1, EXAMPLES // 4))
@given(st.integers(2, 4), st.randoms(use_true_random=False))
def test_without_stragglers_each_op_is_that_of_the_median_rank(ranks: int, rng: object) -> None:
    """One rank is late in one op of the host or one kernel; all else is equal on all ranks."""
    draw = rng.randrange  # type: ignore[attr-defined]  # hypothesis does not say what it is
    kinds = [KERNEL, HOST, COLLECTIVE] * draw(1, 6)
    ops = [Op(kind, [draw(1, 10**5)] * ranks, [5_000] * ranks, 7) for kind in kinds]
    late_op = draw(len(ops) // 3) * 3 + draw(2)
    took = list(ops[late_op].took)
    took[draw(ranks)] += 10**6
    late = [*ops[:late_op], replace(ops[late_op], took=took), *ops[late_op + 1 :]]
    rows = job(jobs.run(late, ranks), [0] * ranks).what_if(stragglers=False)
    assert rows["predicted_ns"][1] == pytest.approx(length(ops, ranks), rel=0.01)


def test_a_collective_of_hosts_that_began_before_the_step() -> None:
    """What is left of it in the step is a part of it like any other slice."""
    ranks = []
    for rank, called in enumerate((60, 40)):
        step = 100 + 5 * rank
        ranks.append(
            loaded(
                event("ProfilerStep#1", 0, step, category="user_annotation"),
                event("ProfilerStep#2", step, 400, category="user_annotation"),
                event("mm", step + 1, step + 4),
                event("gloo:all_reduce", called, 300, thread=1),
                event("gloo:all_reduce", 310, 390, thread=1),
                rank=rank,
            )
        )
    trace = together(*ranks)
    assert trace.collectives()["ranks"].to_list() == [2, 2]
    rows = trace.what_if(step=2)
    assert rows["now_ns"].to_list() == rows["predicted_ns"].to_list()


@pytest.mark.parametrize(("is_alike", "saved"), [(True, 1_000), (False, 0)])
def test_what_one_rank_alone_does(is_alike: bool, saved: int) -> None:
    """It takes no time where all else is the same; stages of a pipeline do their own."""
    ranks = []
    for rank in range(2):
        name, until = ("mm" if is_alike else f"stage {rank}"), 1_200 * rank + 200 * (1 - rank)
        rows = [event(name, 10 * turn, 10 * turn + 10) for turn in range(20)]
        planted = [event("planted", 200, 1_200)] * rank
        ranks.append(loaded(*rows, *planted, event("end", until, until + 10), rank=rank))
    assert together(*ranks).what_if(stragglers=False)["saved_ns"][1] == saved


def gpu(*rows: Row) -> Trace:
    """Two launches, each with a kernel: the second kernel waits for the first."""
    call, kernel = "cudaLaunchKernel", "kernel"
    return loaded(
        event("aten::mm", 0, 20),
        event(call, 5, 15, category="cuda_runtime", correlation=1),
        event("aten::relu", 20, 40),
        event(call, 25, 35, category="cuda_runtime", correlation=2),
        event("gemm", 15, 115, category=kernel, device=0, stream=7, thread=9, correlation=1),
        event("relu", 116, 126, category=kernel, device=0, stream=7, thread=9, correlation=2),
        *rows,
    )


@pytest.mark.parametrize(
    ("change", "predicted"),
    [
        ({"kernels": {"gemm": 0.5}}, 76),  # 15 + 50, a gap of 1, 10
        ({"kernels": {"g*": 0}}, 45),  # the second launch is at 35 then
        ({"kernels": {"gemm": 2, "relu": 0}}, 216),
        ({"host": 0.5}, 118),  # the first kernel begins at 7: 2.5 are rounded to 2
        ({"launches": False}, 111),
    ],
)
def test_by_hand(change: dict[str, object], predicted: int) -> None:
    rows = gpu().what_if(**change)  # type: ignore[arg-type]  # some of its arguments
    assert rows["predicted_ns"].first() == 126
    assert rows["predicted_ns"].last() == predicted


def test_an_op_that_launches_nothing_takes_its_time_without_launches() -> None:
    rows = gpu(event("tail", 40, 300)).what_if(launches=False)
    assert rows["predicted_ns"].to_list() == [300, 260]


def test_an_op_launches_nothing_of_another_thread() -> None:
    call, kernel = "cudaLaunchKernel", {"device": 0, "stream": 7, "thread": 9, "correlation": 3}
    rows = gpu(
        event("tail", 40, 300),
        event(call, 130, 140, category="cuda_runtime", thread=1, correlation=3),
        event("late", 140, 150, category="kernel", **kernel),
    )
    assert rows.what_if(launches=False)["predicted_ns"].to_list() == [300, 260]


@pytest.mark.parametrize(("start", "predicted"), [(100, 112), (99, 12)])
def test_an_op_launches_what_begins_before_it_ends(start: int, predicted: int) -> None:
    """The op takes 100 ns; what begins as it ends is launched after it."""
    rows = loaded(
        event("aten::mm", 0, 100 if start == 100 else 110),
        event("cudaLaunchKernel", start, 110, category="cuda_runtime", correlation=1),
        event("gemm", 112, 122, category="kernel", device=0, stream=7, thread=9, correlation=1),
    )
    assert rows.what_if(launches=False)["predicted_ns"].to_list() == [122, predicted]


def test_a_call_between_launches_takes_its_time() -> None:
    rows = []
    for number, start in enumerate((0, 110), 1):
        about: dict[str, Any] = {"correlation": number}
        rows += [
            event("cudaLaunchKernel", start, start + 10, category="cuda_runtime", **about),
            event("gemm", start + 10, start + 15, category="kernel", device=0, stream=7, thread=9,
                  **about),
        ]  # fmt: skip
    rows.append(event("cudaMalloc", 10, 110, category="cuda_runtime"))
    assert loaded(*rows).what_if(launches=False)["predicted_ns"].to_list() == [125, 105]


def test_an_op_launches_what_begins_with_it() -> None:
    """What it does afterwards, for 10 ns, takes no time either: the kernel ends 2 ns after 0."""
    rows = loaded(
        event("aten::mm", 0, 110),
        event("cudaLaunchKernel", 0, 100, category="cuda_runtime", correlation=1),
        event("gemm", 101, 102, category="kernel", device=0, stream=7, thread=9, correlation=1),
    )
    assert rows.what_if(launches=False)["predicted_ns"].to_list() == [110, 2]


def test_an_op_has_the_launches_of_its_own_thread_in_a_trace_of_hours() -> None:
    """The tail begins 2^42 ns after the start; another thread launches at 20."""
    begin = 1 << 42
    rows = loaded(
        event("first", 0, 10),
        event("tail", begin, begin + 300),
        event("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=1, thread=1),
        event("gemm", 30, 40, category="kernel", device=0, stream=7, thread=9, correlation=1),
    )
    assert rows.what_if(launches=False)["saved_ns"].to_list() == [0, 0]


def test_what_takes_unusually_long_between_launches_is_not_launching() -> None:
    """Launches of 5 ns, 2 ns apart but for the last one: it comes 1 us after the others."""
    rows = []
    for number, start in enumerate((0, 7, 14, 21, 28, 1_033), 1):
        rows += [
            event("cudaLaunchKernel", start, start + 5, category="cuda_runtime",
                  correlation=number),
            event("gemm", start + 5, start + 7, category="kernel", device=0, stream=7, thread=9,
                  correlation=number),
        ]  # fmt: skip
    assert loaded(*rows).what_if(launches=False)["predicted_ns"].to_list() == [1_040, 1_002]


@pytest.mark.parametrize(
    ("kernel", "predicted", "low", "high"), [("a", 70, 70, 80), ("b", 80, 80, 80)]
)
def test_a_kernel_that_overlapped_keeps_the_rest_or_all_of_it(
    kernel: str, predicted: int, low: int, high: int
) -> None:
    """Kernel b begins 10 before a ends: without a it takes 20, or its whole 30."""
    work = (
        ("x", 10, 20),
        ("y", 20, 30),
        ("a", 30, 60),
        ("b", 50, 80),
        ("c", 80, 90),
        ("d", 90, 100),
    )
    rows = [event("op", 0, 30)]
    for number, (name, start, end) in enumerate(work, start=1):
        call: dict[str, Any] = {"category": "cuda_runtime", "correlation": number}
        line: dict[str, Any] = {"device": 0, "stream": 7, "thread": 9, "correlation": number}
        rows.append(event("cudaLaunchKernel", number, number + 1, **call))
        rows.append(event(name, start, end, category="kernel", **line))
    (_, row) = loaded(*rows).what_if(kernels={kernel: 0.0}).to_dicts()
    assert (row["now_ns"], row["predicted_ns"], row["low_ns"], row["high_ns"]) == (
        100, predicted, low, high,
    )  # fmt: skip


def test_what_waited_while_only_a_kernel_ran_may_have_waited_for_it() -> None:
    """Kernel b is launched at 15 and waits for a until 40, but c at 90 has no reason to be earlier.

    If it had one, it would gain at most 5: devices that take no time end with the host, at 95.
    Other work beside a from 12 to 38 leaves 4.
    """
    launch: dict[str, Any] = {"category": "cuda_runtime"}
    on: dict[str, Any] = {"category": "kernel", "device": 0, "thread": 9, "stream": 7}
    slices = [
        event("op", 0, 95),
        *(
            event("cudaLaunchKernel", start, start + 5, correlation=number, **launch)
            for number, start in enumerate((5, 15, 90), 1)
        ),
        event("a", 10, 40, correlation=1, **on),
        event("b", 40, 60, correlation=2, **on),
        event("c", 95, 100, correlation=3, **on),
    ]
    rows = loaded(*slices).what_if(kernels={"a": 0.0, "c": 0.0, "b": 2.0})
    shown = rows.select("predicted_ns", "low_ns", "high_ns").rows()
    assert shown[:4] == [(100,) * 3, (100, 95, 100), (95,) * 3, (100,) * 3]
    beside = event("x", 12, 38, correlation=1, **on | {"stream": 8})
    again = loaded(*slices, beside).what_if(kernels={"a": 0.0})
    assert again["low_ns"].to_list() == [100, 96]


@pytest.mark.parametrize(("delay", "is_held"), [(31_000, False), (31_001, True)])
def test_only_work_that_came_much_later_than_usual_may_come_when_it_came(
    delay: int, is_held: bool
) -> None:
    """Kernels follow each other after 1 us, but for the last: it may have waited for anything."""
    rows, end = [event("op", 0, 100)], 0
    for number in range(1, 9):
        start = end + (delay if number == 8 else 1_000)
        end = start + 50_000
        ids = {"correlation": number}
        rows += [
            event("cudaLaunchKernel", number, number + 1, category="cuda_runtime", **ids),
            event("last" if number == 8 else "a", start, end, category="kernel", device=0,
                  stream=7, thread=9, **ids),
        ]  # fmt: skip
    (_, row) = loaded(*rows).what_if(kernels={"a": 0.0}).to_dicts()
    assert row["predicted_ns"] == end - 7 * 50_000
    assert row["high_ns"] == (row["now_ns"] if is_held else row["predicted_ns"])


@pytest.mark.parametrize(
    ("name", "end", "predicted"),
    [
        ("Memcpy HtoD (Pageable -> Device)", 62, 60),
        ("Memcpy HtoD (Pageable -> Device)", 60, 60),
        ("Memcpy HtoD (Pageable -> Device)", 58, 62),
        ("Memcpy HtoD (Pinned -> Device)", 62, 100),
    ],
)
def test_a_host_makes_copies_of_pageable_memory(name: str, end: int, predicted: int) -> None:
    """In a call from 10 to 60 a copy runs from 20: that long the call copies, and then it goes on.

    A copy that ended at 58 was waited for until then: what the call did from 10 on is not known.
    """
    rows = [event("op", 0, 100)]
    rows += [
        event("cudaMemcpyAsync", 10, 60, category="cuda_runtime", correlation=1),
        event(name, 20, end, category="gpu_memcpy", device=0, stream=7, thread=9, correlation=1),
    ]
    (_, row) = loaded(*rows).what_if(copies=False).to_dicts()
    assert (row["now_ns"], row["predicted_ns"]) == (100, predicted)
    (_, row) = loaded(*rows).what_if(kernels={"Memcpy*": 0.5}).to_dicts()
    assert row["predicted_ns"] == (100 + predicted) // 2


def test_fused_kernels_are_as_long_as_the_longest() -> None:
    rows = gpu(event("block", 0, 40)).what_if(fused="block")
    assert rows.select("change", "predicted_ns").rows() == [("nothing", 126), ("fused: block", 116)]


def test_fused_kernels_may_be_launched_by_the_first_event() -> None:
    on: dict[str, Any] = {"category": "kernel", "device": 0, "stream": 7, "thread": 9}
    trace = loaded(
        event("cudaLaunchKernel", 5, 15, category="cuda_runtime", correlation=1),
        event("cudaLaunchKernel", 25, 35, category="cuda_runtime", correlation=2),
        event("gemm", 15, 115, correlation=1, **on),
        event("relu", 116, 126, correlation=2, **on),
        event("block", 0, 40),
    )
    assert trace.what_if(fused="block")["predicted_ns"].to_list() == [126, 116]


def test_work_that_other_work_held_up_does_not_show_how_launches_take_effect() -> None:
    """Only the first kernel waited for its launch alone: it began 2 after its call returned.

    So the others begin after the ends of their calls, too, which come at half the time: the third
    kernel runs from 65 + 5 to 85, and the others one after the other, 15 + 30 + 50 longer.
    """
    calls = [(0, 40), (40, 50), (50, 130), (130, 150), (150, 190), (190, 230)]
    works = [(42, 47), (48, 53), (135, 150), (155, 170), (190, 220), (232, 282)]
    trace = loaded(
        *(
            event("cudaLaunchKernel", *call, category="cuda_runtime", correlation=number)
            for number, call in enumerate(calls, 1)
        ),
        *(
            event("k", *work, category="kernel", device=0, stream=7, thread=9, correlation=number)
            for number, work in enumerate(works, 1)
        ),
    )
    assert trace.what_if(host=0.5)["predicted_ns"].to_list() == [282, 180]


def test_copies_can_be_hidden() -> None:
    copied = loaded(
        event("cudaMemcpyAsync", 0, 10, category="cuda_runtime", correlation=1),
        event("cudaLaunchKernel", 10, 20, category="cuda_runtime", correlation=2),
        event("copy", 10, 110, category="gpu_memcpy", device=0, stream=7, thread=9, correlation=1),
        event("gemm", 110, 120, category="kernel", device=0, stream=7, thread=9, correlation=2),
    )
    rows = copied.what_if(copies=False)
    assert rows["predicted_ns"].to_list() == [120, 30]


def test_bandwidth_and_latency_give_a_transfer() -> None:
    """Both ranks send 8,000 bytes in 400 ns; at 10 GB/s and 1 us it takes 1,800 ns."""
    ranks = [
        loaded(
            event("cudaLaunchKernel", 0, 10 + late, category="cuda_runtime", correlation=1),
            event(
                "ncclDevKernel_AllReduce", 10 + late, 510, category="kernel", device=0, stream=7,
                thread=9, correlation=1, collective="allreduce", process_group="0",
                collective_seq=1, element_type="Float", in_elements=2_000, out_elements=2_000,
            ),
            rank=rank,
            header={"clock": "utc"},
        )
        for rank, late in enumerate((0, 100))
    ]  # fmt: skip
    rows = together(*ranks).what_if(bandwidth_gb_per_s=10, latency_us=1)
    assert rows["now_ns"][0] == rows["predicted_ns"][0] == 510
    assert rows["predicted_ns"][1] == 110 + 1_000 + 800


def test_kernels_of_collectives_are_transfers() -> None:
    """A factor of them by name is one of communication: what ranks wait is not scaled."""
    kernel = Op(KERNEL, [9_000, 30_000], [500] * 2)
    transfer = Op(COLLECTIVE, [8_000] * 2, [500] * 2)
    for ops in ([kernel, transfer] * 3, [transfer] * 3):
        trace = job(jobs.run(ops, 2), [0, 77])
        by_name = trace.what_if(kernels={"nccl*": 0.25})["predicted_ns"]
        assert by_name.to_list() == trace.what_if(communication=0.25)["predicted_ns"].to_list()
        assert by_name[0] - by_name[1] == 3 * 6_000


def test_several_changes_have_a_row_each_and_one_together() -> None:
    rows = gpu().what_if(host=0.5, kernels={"gemm": 0.5})
    assert rows["change"].to_list() == [
        "nothing", "kernel gemm x 0.5", "host x 0.5", "all of these"]  # fmt: skip
    assert rows["saved_ns"].last() >= rows["saved_ns"].slice(1, 2).max()  # type: ignore[operator]


def test_a_device_scales_what_its_peaks_bound() -> None:
    trace = profframe.load("examples/gpu_training.json.gz")
    [model] = trace.devices["model"].unique().to_list()
    same = trace.what_if(device=model)
    assert same["saved_ns"][1] == pytest.approx(0, abs=same["now_ns"][0] * 1e-4)
    assert trace.what_if(device="NVIDIA V100 SXM2 16GB")["saved_ns"][1] <= 0


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"kernels": {"nothing": 2}}, UnknownNameError, "no kernel named 'nothing'"),
        ({"categories": {"gem": 2}}, UnknownNameError, "no category named 'gem'"),
        ({"fused": "nothing"}, UnknownNameError, "no op named 'nothing'"),
        ({"device": "H9"}, UnknownNameError, "no device named 'H9'"),
        ({"step": 99, "host": 1}, UnknownNameError, "no step 99"),
        ({"host": -1}, ParameterError, "host: expected a number from 0, got -1"),
        ({"kernels": {"gemm": float("nan")}}, ParameterError, "expected a number from 0"),
        ({"host": 1e7}, ParameterError, "host: expected at most 1,000,000, got 10000000.0"),
        ({"communication": "0.5"}, ParameterError, "communication: expected a number"),
        ({"bandwidth_gb_per_s": 1}, ParameterError, "no collective .* has a known size"),
        ({"bandwidth_gb_per_s": 0}, ParameterError, "expected more than 0"),
        ({"latency_us": 1}, ParameterError, "give bandwidth_gb_per_s, too"),
        ({"communication": 1, "bandwidth_gb_per_s": 1}, ParameterError, "give one of them"),
    ],
)
def test_what_cannot_be_is_one_error(
    change: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        gpu(event("ProfilerStep#1", 0, 40)).what_if(**change)  # type: ignore[arg-type]


def test_of_several_runs_one_is_chosen() -> None:
    one = loaded(event("mm", 0, 5), run="a")
    several = together(one, loaded(event("mm", 0, 8), run="b"))
    with pytest.raises(ParameterError, match="a prediction covers one run, and there are 2"):
        several.what_if(host=1)
    assert several.what_if(run="b", host=0.5)["predicted_ns"].to_list() == [8, 4]


def test_nothing_is_nothing() -> None:
    rows = loaded().what_if(host=0.5)
    assert rows.select("now_ns", "predicted_ns", "saved_share").rows() == [(0, 0, None)] * 2


def test_real_traces_are_replayed_as_they_are(traces: Path) -> None:
    """The unchanged replay has the recorded length, and the bounds of the critical path."""
    names = (
        "facebookresearch__param/dlrm_kineto",
        "pytorch-labs__segment-anything-fast/asdf_True.02c6e0.json.gz",
        "facebookresearch__HolisticTraceAnalysis/trace_diff/control.json.gz",
        "torch215_cuspy/deps.json",
    )
    for name in names:
        trace = profframe.load(traces / name)
        path = trace.critical_path(across_ranks=True)
        rows = trace.what_if(host=0.5, stragglers=False)
        assert rows["predicted_ns"][0] == rows["now_ns"][0] == path.length_ns
        assert rows["replay_error"].to_list() == [0] * rows.height
        for bound, total in path.bounds.select("bound", "total_ns").iter_rows():
            assert rows[f"{bound}_ns"][0] == total, (name, bound)


def test_the_command_line_says_the_same(run: Run) -> None:
    source = "examples/gpu_training.json.gz"
    code, shown, _ = run("what-if", source, "--step", 2, "--host", 0.5, "--kernel", "nvjet*=0.5")
    assert code == 0
    assert shown.startswith("What if: ")
    assert "replayed with +0.00%" in shown
    arguments = ("--host", 0.5, "--no-stragglers", "--free-launches", "--hide-copies")
    _, printed, _ = run("what-if", source, *arguments, "--format", "json")
    rows = profframe.load(source).what_if(host=0.5, stragglers=False, launches=False, copies=False)
    for row, (change, predicted) in zip(
        json.loads(printed), rows.select("change", "predicted_ns").iter_rows(), strict=True
    ):
        assert (row["change"], row["predicted_ns"]) == (change, predicted)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a change, such as --communication 0.5"),
        (("--kernel", "gemm"), "'gemm' is not NAME=FACTOR"),
        (("--kernel", "=0.5"), "is not NAME=FACTOR"),
        (("--host", "-1"), "not in the range x>=0"),
        (("--host", "1", "--host", "2"), "--host: only one"),
    ],
)
def test_wrong_arguments_are_refused_before_loading(
    run: Run, arguments: tuple[str, ...], words: str
) -> None:
    code, _, err = run("what-if", "no_such_file.json", *arguments)
    assert code == 2
    assert words in " ".join(err.split())


def test_a_second_question_reads_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = profframe.load("examples/gpu_training.json.gz")
    first = trace.what_if(host=0.5)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("profframe.analysis.critical_path.path_across_ranks.gather", refuse)
    assert trace.what_if(host=0.5).equals(first)
    with pytest.raises(AssertionError, match="read again"):
        trace.what_if(step=2, host=0.5)


@pytest.mark.long
def test_a_real_job_without_its_straggler_takes_what_was_predicted(tmp_path: Path) -> None:
    """Five recordings with a sleep of 20 ms in each step of rank 1, and five without.

    The median prediction is within a tenth of the median of the second, or within their spread on
    a machine that is busy.
    """
    needs.torch()

    def recorded(name: str, sleep_s: float) -> Trace:
        folder = tmp_path / name
        folder.mkdir()
        command = [sys.executable, "-m", "tests.unit.gloo_steps"]
        ranks = [
            subprocess.Popen([*command, str(rank), "2", str(folder), str(sleep_s)])
            for rank in range(2)
        ]
        assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
        return profframe.load(sorted(map(str, folder.glob("*.json"))))

    late, fine = [], []
    for turn in range(5):
        rows = recorded(f"late{turn}", 0.02).what_if(stragglers=False)
        late.append(rows["predicted_ns"][1])
        assert rows["saved_ns"][1] >= 0.15e9
        fine.append(recorded(f"fine{turn}", 0).what_if(host=1)["now_ns"][0])
    spread = max(fine) - min(fine)
    truth = statistics.median(fine)
    assert abs(statistics.median(late) - truth) <= max(0.1 * truth, spread), (late, fine)
