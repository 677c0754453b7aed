"""``launches``, ``op_kernels`` and ``sequences`` against the formulas of HolisticTraceAnalysis.

Times are whole microseconds. Where a formula deviates, the deviation has a name.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import real_trace
from tests.oracles.launching import Row
from tests.parity.launch_tables import events_of, named, on


@dataclass(frozen=True)
class Launch:
    """A call and its work, in microseconds, as the formulas have them."""

    name: str
    start: int
    dur: int
    work_start: int
    work_dur: int


HTA_NAMES: Final = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
"""DEV-15: calls of all other names are left out by the formula."""


def launch_statistics(pairs: Sequence[Launch], names: Sequence[str]) -> dict[str, list[int]]:
    """d.9 by name: pairs, time of the calls, delays, short kernels, and both kinds of outliers."""
    found = {}
    for name in names:
        mine = [pair for pair in pairs if pair.name == name]
        delays = [max(0, pair.work_start - pair.start - pair.dur) for pair in mine]
        if mine:
            found[name] = [
                len(mine),
                sum(pair.dur for pair in mine),
                max(delays),
                sum(pair.dur <= 50 and pair.work_dur < pair.dur for pair in mine),
                sum(pair.dur > 50 for pair in mine),
                sum(delay > 100 for delay in delays),
            ]
    return found


def our_statistics(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    return {
        row["name"]: [
            row["calls"],
            row["total_ns"] // 1000,
            row["max_delay_ns"] // 1000,
            row["short_kernels"],
            row["outlier_calls"],
            row["outlier_delays"],
        ]
        for row in rows
        if row["calls"]
    }


OTHER_NAMES: Final = ("cuLaunchKernel", "hipLaunchKernel", "hipModuleLaunchKernel", "aclrtLaunch")


@given(
    st.lists(
        st.builds(
            Launch,
            st.sampled_from(HTA_NAMES + OTHER_NAMES),
            st.integers(0, 300),
            st.integers(0, 99),
            st.integers(0, 600),
            st.integers(0, 99),
        ),
        max_size=20,
    )
)
def test_launch_statistics_are_those_of_the_formula(pairs: list[Launch]) -> None:
    rows = []
    for number, pair in enumerate(pairs, start=1):
        start, dur, work_start, work_dur = (
            1000 * us for us in (pair.start, pair.dur, pair.work_start, pair.work_dur)
        )
        rows.append(on("cuda_runtime", start, dur, pair.name, thread=number, correlation=number))
        category = "gpu_memcpy" if "Memcpy" in pair.name else "kernel"
        work = {"thread": 99, "device": 0, "stream": 7, "correlation": number}
        rows.append(on(category, work_start, work_dur, "work", **work))
    found = our_statistics(named("launches", events_of(rows)))
    assert found == launch_statistics(pairs, HTA_NAMES + OTHER_NAMES)
    by_formula = launch_statistics(pairs, HTA_NAMES)
    assert {name: found[name] for name in found if name in HTA_NAMES} == by_formula, "but DEV-15"


@pytest.mark.parametrize(
    "pattern",
    [
        "facebookresearch__HolisticTraceAnalysis/with_gpu_user_annotation/step_based*.json.gz",
        "facebookresearch__param/dlrm_kineto/worker3_step_12.*.json.gz",
        "pytorch-labs__segment-anything-fast/asdf_True.*.json.gz",
    ],
    ids=range(3),
)
def test_launch_statistics_of_whole_microseconds(pattern: str, traces: Path) -> None:
    """Read anew, joined by correlation as the formula joins."""
    (path,) = traces.glob(pattern)
    with gzip.open(path) as file:
        everything = json.load(file)["traceEvents"]
    complete = [row for row in everything if row.get("ph") == "X" and "correlation" in row["args"]]
    is_call = [row["cat"].lower() in {"cuda_runtime", "cuda_driver", "runtime"} for row in complete]
    calls = {
        row["args"]["correlation"]: row for row, call in zip(complete, is_call, strict=True) if call
    }
    pairs = [
        Launch(
            (call := calls[row["args"]["correlation"]])["name"],
            call["ts"],
            call["dur"],
            row["ts"],
            row["dur"],
        )
        for row, is_one in zip(complete, is_call, strict=True)
        if not is_one and row["args"]["correlation"] in calls
    ]
    assert all(isinstance(us, int) for pair in pairs for us in (pair.start, pair.work_dur))
    found = our_statistics(real_trace(path).launches().to_dicts())
    assert found == launch_statistics(pairs, sorted({pair.name for pair in pairs}))
    assert set(launch_statistics(pairs, HTA_NAMES)) <= set(found), "DEV-15"


@dataclass(frozen=True)
class Op:
    """An op with what is in it: ops, and calls, each given by the name of its kernel."""

    name: str
    inside: tuple[Op | str, ...]


OPS: Final = st.recursive(
    st.sampled_from(["gemm", "add", "Memset"]),
    lambda inside: st.builds(
        Op,
        st.sampled_from(["aten::linear", "aten::mm", "aten::add", "region"]),
        st.lists(inside, max_size=3).map(tuple),
    ),
    max_leaves=8,
)


@dataclass
class Timeline:
    """The rows of ``tables`` and the launches, while ops are laid out one after the other."""

    rows: list[Row]
    us: int
    step: int
    thread: int

    def tick(self) -> int:
        self.us += self.step
        return self.us * 1000

    def lay(self, op: Op | str) -> None:
        start = self.tick()
        if isinstance(op, Op):
            number = len(self.rows)
            self.rows.append({})
            for inner in op.inside:
                self.lay(inner)
            category = "user_annotation" if op.name == "region" else "cpu_op"
            end = self.tick()
            self.rows[number] = on(category, start, end - start, op.name, thread=self.thread)
            return
        correlation = len(self.rows) + 1000 * self.thread + 1
        end = self.tick()
        call = {"thread": self.thread, "correlation": correlation}
        self.rows.append(on("cuda_runtime", start, end - start, "cudaLaunchKernel", **call))
        work = {"thread": 99, "device": 0, "stream": 7, "correlation": correlation}
        category = "gpu_memset" if op == "Memset" else "kernel"
        self.rows.append(on(category, end + 1_000_000, 1000 * (correlation % 7), op, **work))


def laid_out(*threads: Sequence[Op | str]) -> list[Row]:
    rows: list[Row] = []
    for number, ops in enumerate(threads):
        timeline = Timeline([], number, len(threads), number)
        for op in ops:
            timeline.lay(op)
        rows += timeline.rows
    return rows


def around(row: Row, ops: Sequence[Row], on_any_thread: bool) -> list[Row]:
    """The ops around a call, outermost first."""
    return sorted(
        (
            op
            for op in ops
            if op["start_ns"] <= row["start_ns"]
            and row["start_ns"] + row["dur_ns"] <= op["start_ns"] + op["dur_ns"]
            and (on_any_thread or op["thread"] == row["thread"])
        ),
        key=lambda op: op["start_ns"],
    )


def ops_and_kernels(
    ranks: Sequence[Sequence[Row]], on_any_thread: bool = False, keep_list: bool = False
) -> list[dict[tuple[str, str], tuple[int, float, float]]]:
    """d.10 for each rank: count, mean op delay and mean runtime delay by op and sequence.

    ``on_any_thread`` is DEV-16: an op of another thread may be the one with the greatest start;
    ``keep_list`` is DEV-17: the rows of a rank are counted again with the next one.
    """
    found = []
    instances: dict[tuple[Any, ...], list[tuple[int, int, str]]] = defaultdict(list)
    for number, rows in enumerate(ranks):
        if not keep_list:
            instances = defaultdict(list)
        ops = [row for row in rows if row["category"] == "cpu_op"]
        kernels = {row["correlation"]: row for row in rows if row["category"] == "kernel"}
        for call in (row for row in rows if row["category"] == "cuda_runtime"):
            outer = around(call, ops, on_any_thread)
            kernel = kernels.get(call["correlation"])
            if outer and kernel is not None:
                op = outer[-1]
                instances[number, op["thread"], op["name"], op["start_ns"]].append(
                    (
                        call["start_ns"] - op["start_ns"],
                        kernel["start_ns"] - call["start_ns"],
                        kernel["name"],
                    )
                )
        groups = defaultdict(list)
        for (_, _, name, _), launched in instances.items():
            text = " -> ".join(kernel for _, _, kernel in launched)
            groups[name, text].append(launched[0][:2])
        found.append(
            {
                key: (
                    len(delays),
                    sum(op for op, _ in delays) / len(delays),
                    sum(runtime for _, runtime in delays) / len(delays),
                )
                for key, delays in groups.items()
            }
        )
    return found


def our_ops(rows: Sequence[Row], rank: int) -> dict[tuple[str, str], tuple[int, object, object]]:
    return {
        (row["name"], row["sequence"]): (
            row["calls"],
            pytest.approx(row["mean_op_delay_ns"], abs=0.51),
            pytest.approx(row["mean_runtime_delay_ns"], abs=0.51),
        )
        for row in rows
        if row["rank"] == rank and row["kind"] == "host_op"
    }


@given(st.lists(st.lists(OPS, max_size=4), min_size=1, max_size=2))
def test_ops_and_kernels_are_those_of_the_formula(threads: list[list[Op | str]]) -> None:
    rows = laid_out(*threads)
    ranks = [rows, laid_out(*threads, [])]
    found = named("op_kernels", events_of(*ranks))
    formula = ops_and_kernels(ranks)
    assert [our_ops(found, 0), our_ops(found, 1)] == formula
    if len(threads) == 1:
        assert ops_and_kernels(ranks, on_any_thread=True) == formula


def test_ops_and_kernels_where_the_formula_deviates() -> None:
    rows = [
        on("cpu_op", 0, 90_000, "aten::mm"),
        on("cuda_runtime", 30_000, 5_000, "cudaLaunchKernel", correlation=1),
        on("kernel", 50_000, 9_000, "gemm", thread=99, device=0, stream=7, correlation=1),
        on("cpu_op", 10_000, 90_000, "aten::add", thread=1),
    ]
    right = {("aten::mm", "gemm"): (1, 30_000, 20_000)}
    found = named("op_kernels", events_of(rows, rows))
    assert our_ops(found, 0) == our_ops(found, 1) == right
    dev_16 = {("aten::add", "gemm"): (1, 20_000, 20_000)}
    assert ops_and_kernels([rows], on_any_thread=True) == [dev_16]
    dev_17 = {("aten::mm", "gemm"): (2, 30_000, 20_000)}
    assert ops_and_kernels([rows, rows], keep_list=True) == [right, dev_17]


def frequent_sequences(
    rows: Sequence[Row], name: str, min_kernels: int, of_least_depth: bool
) -> dict[tuple[str, str], list[int]]:
    """d.11: count, time of the kernels and of the slices by name of the slice and kernels.

    ``of_least_depth`` is what the formula does: of all slices with the name it takes those of the
    least depth in the trace, and leaves out any that are outermost further down.
    """
    host = [row for row in rows if row["category"] in {"cpu_op", "user_annotation"}]
    work = {row["correlation"]: row for row in rows if row["thread"] == 99}
    candidates = [(len(around(row, host, False)), row) for row in host if name in row["name"]]
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for depth, slice_ in candidates:
        outer = [row for row in around(slice_, host, False) if name in row["name"]]
        least = min(depth for depth, _ in candidates)
        if depth > least if of_least_depth else outer != [slice_]:
            continue
        inside = [
            work[row["correlation"]]
            for row in rows
            if row["category"] == "cuda_runtime" and slice_ in around(row, host, False)
        ]
        if len(inside) >= min_kernels:
            ordered = sorted(inside, key=lambda row: row["start_ns"])
            sums = found[slice_["name"], " -> ".join(row["name"] for row in ordered)]
            sums[0] += 1
            sums[1] += sum(row["dur_ns"] for row in ordered)
            sums[2] += slice_["dur_ns"]
    return found


@given(
    st.lists(st.lists(OPS, max_size=4), min_size=1, max_size=2),
    st.sampled_from(["aten::", "region", "linear", "a"]),
    st.integers(1, 3),
)
def test_sequences_are_those_of_the_formula(
    threads: list[list[Op | str]], name: str, min_kernels: int
) -> None:
    rows = laid_out(*threads)
    asked = {"name": name, "min_kernels": min_kernels, "top": 0, "copies": True}
    found = {
        (row["name"], row["sequence"]): [row["calls"], row["device_ns"], row["total_ns"]]
        for row in named("sequences", events_of(rows), **asked)
        if row["kind"] != "runtime"
    }
    assert found == frequent_sequences(rows, name, min_kernels, of_least_depth=False)
    at_least_depth = frequent_sequences(rows, name, min_kernels, of_least_depth=True)
    assert all(found[key][0] >= count for key, (count, _, _) in at_least_depth.items())


def test_sequences_at_any_depth() -> None:
    """The formula misses the second ``aten::linear``, which is an op deeper than the first."""
    linear = Op("aten::linear", ("gemm", "add"))
    rows = laid_out([linear, Op("region", (linear,))])
    (row,) = named("sequences", events_of(rows), name="linear", min_kernels=2)
    assert (row["sequence"], row["calls"]) == ("gemm -> add", 2)
    (sums,) = frequent_sequences(rows, "linear", 2, of_least_depth=True).values()
    assert sums[0] == 1
