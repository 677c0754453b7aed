"""Limits of ``profframe diff``: what each holds, by hand, drawn, and on real traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import ParameterError, Trace, UnknownNameError
from profframe.analysis import fail_on
from profframe.analysis.run_limits import limits_of
from profframe.comparisons.diff import comparison
from profframe.comparisons.fail_on_metrics import check_limits, of_each_run
from profframe.show.run_limits_text import remarks, state
from tests.builders import stored, together
from tests.conftest import Run, real_trace

Rows = Sequence[Mapping[str, object]]
MS: Final = 10**6
ODD: Final = ("a=b", "op:x", "'\"`|", "\x1b[31m\n", "a[b", "*", "名前", " end ", "", "=5%")


def trace(rows: Rows, memory: Rows = (), run: str = "r", rank: int = 0) -> Trace:
    key = {"run": run, "rank": rank}
    events = [{"event_id": i} | key | dict(row) for i, row in enumerate(rows)]
    records = [key | dict(row) for row in memory]
    return stored(events=events, memory=records, traces=[key])


def steps(*times: int | None, first: int = 0) -> list[dict[str, object]]:
    """Marks of steps that begin a second after each other."""
    return [
        {"kind": "annotation", "name": f"ProfilerStep#{first + n}", "start_ns": n * 10**9}
        | {"dur_ns": ns, "self_ns": ns, "step": first + n}
        for n, ns in enumerate(times)
    ]


def op(name: str, ns: int, step: int | None = None) -> dict[str, object]:
    return {"kind": "host_op", "name": name, "self_ns": ns, "dur_ns": ns, "step": step}


def kernel(name: str, ns: int, step: int | None = None, **others: object) -> dict[str, object]:
    times = dict.fromkeys(("dur_ns", "self_ns", "device_ns", "self_device_ns"), ns)
    place = {"kind": "kernel", "name": name, "start_ns": 0, "device": 0, "stream": 7, "step": step}
    return place | times | others


def held(
    base: Trace, other: Trace, *texts: str, steps: str = "steady", per: str = "run", **options: Any
) -> list[fail_on.Verdict]:
    asked: dict[str, Any] = {"kernel_by": "name", "copies": False, "devices": False, "dtype": None}
    asked |= options
    names = ("base", "other")
    found = comparison(base, other, names, per=per, steps=steps, **asked)
    limits = [fail_on.limit(text) for text in texts]
    return check_limits(limits, (base, other), names, found, steps=steps, per=per, **asked)


def means(verdicts: Sequence[fail_on.Verdict]) -> list[tuple[float, float, bool]]:
    return [(float(one.base), float(one.other), one.is_broken) for one in verdicts]


# The grammar.


@pytest.mark.parametrize(
    ("text", "metric", "most"),
    [
        ("5%", "", Fraction(1, 20)),
        ("step=5%", "step", Fraction(1, 20)),
        (" step_p50_ns = 0.5 % ", "step_p50_ns", Fraction(1, 200)),
        ("op:aten::mm=2ms", "op:aten::mm", 2 * MS),
        ("op:a=b=1.5us", "op:a=b", 1500),
        ("module:*Attention*=3s", "module:*Attention*", 3 * 10**9),
        ("memory=200MB", "memory", 200 * 10**6),
        ("peak_host_bytes=1.5GiB", "peak_host_bytes", 3 << 29),
        ("busy_share=5%", "busy_share", Fraction(1, 20)),
        ("op:=7ns", "op:", 7),
        ("kernel:x =0%", "kernel:x ", 0),
    ],
)
def test_what_is_written(text: str, metric: str, most: Fraction) -> None:
    found = fail_on.limit(text)
    size = found.most.value if isinstance(found.most, fail_on.Amount) else found.most
    assert (found.metric, size) == (metric, most)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step", "a limit is a number and %, such as 5%, not 'step'"),
        ("=5%", "a limit is 5% or METRIC=5%"),
        (
            "step=5",
            "a limit is a percentage, such as 5%, or an amount, such as 2ms or 200MB, not '5'",
        ),
        ("step=-5%", "a limit is a percentage"),
        ("step=5 %%", "a limit is a percentage"),
        ("step=2MB", "a limit of step looks like 5% or 2ms, not '2MB'"),
        ("memory=2ms", "a limit of memory looks like 5% or 200MB, not '2ms'"),
        ("op:x=2KB", "a limit of op:x looks like 5% or 2ms"),
        ("busy_share=2ms", "a limit of busy_share looks like 5%, not '2ms'"),
        ("step=2Ms", "a limit of step looks like"),
        (
            "stepp=5%",
            r"no metric named 'stepp'; did you mean 'step'\? \(known: step, memory, expos",
        ),
        ("Module:x=5%", r"no metric named 'Module:x'; did you mean 'module:x'\?"),
        ("kernel=5%", r"did you mean 'kernel:NAME'\?.*category:NAME, module:NAME.*step_p50_ns"),
        ("start_ns=5%", r"no metric named 'start_ns'"),
        ("aten::mm=5%", r"no metric named 'aten::mm'; did you mean 'op:aten::mm'\?"),
    ],
)
def test_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises((ParameterError, UnknownNameError), match=message):
        fail_on.limit(text)


def test_of_runs_a_metric_has_one_kind_of_limit() -> None:
    assert limits_of(["step=2ms", "step=1ms", "memory=5%"])["step"] == fail_on.Amount(
        Fraction(MS), "1ms"
    )
    with pytest.raises(ParameterError, match="not both: step"):
        limits_of(["step=2ms", "step=5%"])


# The time of a step.


def test_idle_time_makes_a_step_longer(run: Run, tmp_path: Path) -> None:
    """Steps of 100 ms with 80 ms of ops become 106 ms: no op, kernel or annotation but the step."""
    for name, ns in (("a", 100 * MS), ("b", 106 * MS)):
        marks = steps(ns - 1, ns, ns + 1, ns)
        rows = [*marks, *(op("x", 80 * MS, n) for n in range(4))]
        trace(rows).to_parquet(tmp_path / name)
    sides = (tmp_path / "a", tmp_path / "b")

    assert run("diff", *sides, "--fail-on", "5%")[::2] == (0, "")
    code, out, err = run("diff", *sides, "--fail-on", "step=5%", "--fail-on", "step=5ms")
    assert code == 3
    assert err.splitlines() == [
        "worse by more than 5 %: step, 100.000 ms -> 106.000 ms (+6.0 %)",
        "worse by more than 5ms: step, 100.000 ms -> 106.000 ms (+6.0 %)",
    ]
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "broken 5 % step, 100.000 ms -> 106.000 ms (+6.0 %) mean of the steps" in " ".join(lines)
    held_by = ("--fail-on", "step=6%", "--fail-on", "step=6ms", "--fail-on", "step=7%")
    assert run("diff", *sides, *held_by)[::2] == (0, "")
    assert run("diff", *sides[::-1], "--fail-on", "step=0%")[::2] == (0, "")


def test_only_steady_steps_count_unless_all_are_asked_for() -> None:
    slow, fast = trace(steps(900, 100, 100, 100, None)), trace(steps(100, 100, 100, 100))
    assert means(held(slow, fast, "step=0%")) == [(100, 100, False)]
    assert means(held(slow, fast, "step=0%", steps="all")) == [(300, 100, False)]
    assert means(held(fast, slow, "step=0%", steps="all"))[0][:2] == (100, 300)


def test_a_step_lasts_as_long_as_on_its_longest_rank() -> None:
    ranks = together(trace(steps(100, 120)), trace(steps(110, 90), rank=1))
    assert means(held(ranks, trace(steps(115, 115)), "step=0%")) == [(115, 115, False)]


def ahead(took: int) -> Trace:
    """Five steps of 100 on the host, each with a kernel that takes longer, one after the other."""
    rows: list[dict[str, object]] = []
    for n in range(5):
        name = f"ProfilerStep#{n}"
        times = {"start_ns": 100 * n, "dur_ns": 100, "step": n}
        rows.append({"kind": "annotation", "name": name, "thread": 0} | times)
        call = {"kind": "runtime", "name": "cudaLaunchKernel", "thread": 0}
        rows.append(call | {"start_ns": 100 * n + 10, "dur_ns": 5, "step": n})
        launch = {"launch_id": 3 * n + 1, "start_ns": 20 + took * n}
        rows.append(kernel("mm", took, n, **launch))
    return trace(rows)


def test_a_limit_sees_a_slower_kernel_where_the_host_runs_ahead() -> None:
    """The host takes as long as before; the first step has the 20 before the first kernel."""
    verdicts = held(ahead(1000), ahead(1100), "step=5%", "step=12%")
    assert means(verdicts) == [(1004, 1104, True), (1004, 1104, False)]


def test_without_steps_the_whole_trace_is_the_sample() -> None:
    """From 0 to 50 of one side, and of the other from 0 to 2 s and 60 ns, though it has steps."""
    base = trace([op("x", 50) | {"start_ns": 0}])
    other = trace(steps(10, 20, 60))
    (found,) = held(base, other, "step=5%")
    assert (float(found.base), float(found.other), found.q_value) == (50, 2 * 10**9 + 60, None)
    assert found.measure.note == "no steps on base: the whole trace is the sample"
    (found,) = held(base, base, "step=5%")
    assert found.measure.note.startswith("no steps on base and other")


def test_a_change_above_the_limit_that_is_noise_holds() -> None:
    """Means of 100 and 110, and values from 60 to 160."""
    base, other = trace(steps(60, 140, 100, 90, 110)), trace(steps(70, 160, 110, 80, 130))
    (found,) = held(base, other, "step=5%")
    assert (found.is_above, found.is_broken) == (True, False)
    assert state(found) == "holds, noise"
    assert remarks(found).startswith("mean of the steps; above the limit, but within noise, q")
    assert found.q_value is not None
    assert found.q_value > 0.05
    (clear,) = held(trace(steps(99, 100, 101, 100)), trace(steps(109, 110, 111, 110)), "step=5%")
    assert (clear.is_broken, state(clear)) == (True, "broken")


def test_a_step_has_the_chance_of_its_row() -> None:
    """What `diff` says of `ProfilerStep*`, but for that row being there twice."""
    times = (91, 104, 99, 107, 95, 102)

    def side(factor: int) -> Trace:
        ops = [
            op(f"o{k}", (k + 1) * (90 + 7 * (k + n) % 20), n) for n in range(6) for k in range(9)
        ]
        return trace([*steps(*(time * factor for time in times)), *ops])

    base, other = side(100), side(112)
    for per in ("run", "step"):
        (found,) = held(base, other, "step=5%", per=per)
        row = profframe.diff(base, other, per="step").filter(name="ProfilerStep*")
        assert found.q_value == pytest.approx(row["p_value"].item(), rel=0.1)


def test_several_runs_a_side_are_the_samples() -> None:
    """Steps of a run are alike, and runs are not: from 100 to 140, and from 110 to 150."""

    def runs(*times: int) -> Trace:
        parts = [
            trace([*steps(ns, ns + 1, ns - 1), op("x", ns)], run=f"r{n}")
            for n, ns in enumerate(times)
        ]
        return together(*parts)

    varied = held(runs(100, 140, 120), runs(110, 150, 130), "step=5%", "op:x=5%")
    assert means(varied) == [(120, 130, False)] * 2
    assert [one.is_above for one in varied] == [True, True]
    clear = held(runs(100, 101, 99), runs(110, 111, 109), "step=5%", "op:x=5%")
    assert means(clear) == [(100, 110, True)] * 2
    assert [len(one.measure.base.values) for one in clear] == [9, 3]


def test_one_sample_is_held_by_the_limit_alone() -> None:
    (found,) = held(trace(steps(100)), trace(steps(106, 106)), "step=5%")
    assert (found.is_broken, found.q_value) == (True, None)


def test_exactly_the_limit_holds() -> None:
    for base, other, text in (
        (1000, 1137, "13.7%"),
        (3, 4, "1ns"),
        (10**15, 1001 * 10**12, "0.1%"),
    ):
        (found,) = held(trace(steps(base)), trace(steps(other)), f"step={text}")
        assert not found.is_broken
        (found,) = held(trace(steps(base)), trace(steps(other + 1)), f"step={text}")
        assert found.is_broken


# What has a name.


@cache
def named_side(scale: int) -> Trace:
    return trace(
        [
            op("aten::mm", 10 * scale),
            op("aten::add", 1),
            kernel("nvjet_a" if scale == 1 else "nvjet_b", 100 * scale, kernel_category="gemm"),
            kernel("void at::native::f<int>(int*)", 30, kernel_category="elementwise"),
            {"kind": "memcpy", "name": "Memcpy HtoD", "dur_ns": 5 * scale, "start_ns": 0}
            | {"kernel_category": "copy"},
            {"kind": "annotation", "name": "forward", "dur_ns": 70 * scale, "start_ns": 0},
        ]
    )


NAMED: Final = {
    metric: (base, other)
    for metric, base, other in [
        ("op:aten::mm", 10, 20),
        ("op:aten::*", 11, 21),
        ("op:*", 11, 21),
        ("kernel:nvjet*", 100, 200),
        ("kernel:nvjet_a", 100, 0),
        ("kernel:nvjet_b", 0, 200),
        ("kernel:at::native::f", 30, 30),
        ("kernel:void at::native::f<int>(int*)", 30, 30),
        ("kernel:at::nat*", 30, 30),
        ("annotation:forward", 70, 140),
        ("category:gemm", 100, 200),
        ("category:[eg]*", 130, 230),
        ("category:copy", 5, 10),
        ("kernel_ns", 130, 230),
    ]
}
"""What metrics are of `named_side`, of scale 1 and of scale 2."""


def test_what_a_name_holds() -> None:
    """All are asked at once: each limit is held by itself."""
    sides = named_side(1), named_side(2)
    for percent in (50, 100):
        found = means(held(*sides, *(f"{metric}={percent}%" for metric in NAMED)))
        assert dict(zip(NAMED, found, strict=True)) == {
            metric: (base, other, 100 * (other - base) > percent * base)
            for metric, (base, other) in NAMED.items()
        }
    back = means(held(*sides[::-1], *(f"{metric}=0%" for metric in NAMED)))
    assert dict(zip(NAMED, back, strict=True)) == {
        metric: (other, base, base > other) for metric, (base, other) in NAMED.items()
    }


def test_any_name() -> None:
    """A name that is there is no pattern."""
    base, other = (
        trace([op(name, ns + n) for n, name in enumerate(ODD)] + [op("xx", 99)]) for ns in (10, 30)
    )
    found = means(held(base, other, *(f"op:{name}=5%" for name in ODD)))
    assert found == [(10 + n, 30 + n, True) for n in range(len(ODD))]


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("op:aten::nn", r"op:aten::nn: on neither side: no op named .*did you mean 'aten::mm'"),
        ("kernel:nvjet", r"on neither side: no kernel named 'nvjet'"),
        ("category:gem", r"did you mean 'gemm'"),
        ("module:A", "base has no modules"),
        ("memory", "memory: on neither side: .*profile_memory"),
        ("exposed_communication", "no device communicates on either side"),
        ("throughput_per_s", "throughput_per_s: on neither side: it is not known"),
    ],
)
def test_what_neither_side_has_is_an_error(metric: str, message: str) -> None:
    with pytest.raises((ParameterError, UnknownNameError), match=message):
        held(named_side(1), named_side(2), f"{metric}=5%")
    empty = trace([])
    with pytest.raises((ParameterError, UnknownNameError), match=f"^{metric.partition(':')[0]}"):
        held(empty, empty, f"{metric}=5%")


@pytest.mark.parametrize("metric", ["op:aten::nn", "memory"])
def test_so_it_is_on_the_command_line(metric: str, run: Run, tmp_path: Path) -> None:
    """A name that is unknown, and a parameter that cannot be: the two errors that there are."""
    named_side(1).to_parquet(tmp_path / "a")
    code, out, err = run("diff", tmp_path / "a", tmp_path / "a", "--fail-on", f"{metric}=5%")
    assert (code, out) == (2, "")
    assert err.count("error: --fail-on: ") == 1


def test_per_step_samples_are_steps() -> None:
    """A step without the op counts as 0, and the warm-up not at all."""
    marks = steps(500, 100, 100, 100, 100)
    base = trace([*marks, op("x", 900, 0), *(op("x", 8, n) for n in (1, 2, 3))])
    other = trace([*marks, *(op("x", 9, n) for n in (1, 2, 3, 4))])
    (found,) = held(base, other, "op:x=5%", per="step")
    assert found.measure.base.values == (8, 8, 8, 0)
    assert (float(found.base), float(found.other)) == (6, 9)


def modules(scale: int) -> Trace:
    """Attention around SelfAttention with a launch in each, and another module."""
    calls = [("Attention_0", 0, 0, 5), ("SelfAttention_0", 1, 1, 3), ("Linear_9", 6, 6, 7)]
    rows: list[dict[str, object]] = [
        {"event_id": at, "kind": "python", "name": name, "python_module_id": n, "start_ns": at}
        | {"dur_ns": 50, "self_ns": 0, "preorder": at, "last_descendant_id": last}
        for n, (name, at, _, last) in enumerate(calls)
    ]
    for at in (3, 5, 7):
        place = {"start_ns": at, "dur_ns": 0, "preorder": at, "last_descendant_id": at}
        rows.append({"event_id": at, "kind": "runtime", "name": "launch", **place})
        rows.append(kernel("k", at * scale, event_id=10 + at, launch_id=at, start_ns=100 * at))
    return trace(rows)


def test_modules_that_are_inside_each_other_count_once() -> None:
    texts = ("module:*Attention*=5%", "module:SelfAttention_0=5%", "module:*=5%")
    found = held(modules(1), modules(2), *texts)
    assert means(found) == [(8, 16, True), (3, 6, True), (15, 30, True)]
    assert found[0].measure.note == "2 names together"


def test_peaks_of_memory() -> None:
    def side(peak: int) -> Trace:
        rows = [
            {"time_ns": n, "bytes": size, "address": n, "device": 0, "total_allocated_bytes": size}
            | {"device_type": "cuda"}
            for n, size in enumerate((5, peak, 9))
        ]
        return trace([op("x", 1)], rows)

    sides = side(100 * 10**6), side(300 * 10**6)
    known = [one.runs()["peak_device_bytes"].item() for one in sides]
    assert None not in known
    assert means(held(*sides, "memory=200MB"))[0] == (*known, known[1] - known[0] > 200 * 10**6)
    assert means(held(*sides, "memory=150MB", "memory=190%"))[0][2]
    with pytest.raises(ParameterError, match="memory: other does not have it"):
        held(sides[0], trace([op("x", 1)]), "memory=5%")


def test_exposed_communication() -> None:
    """30 of 50 ns of a collective are exposed; hidden wholly, it is 0 and not absent."""

    def side(compute: int) -> Trace:
        nccl = kernel("ncclDevKernel_AllReduce_Sum", 50, 1, stream=8)
        return trace([*steps(200, first=1), nccl, kernel("gemm", compute, 1)])

    texts = ("exposed_communication=5%", "exposed_communication_ns=30ns")
    for per in ("run", "step"):
        assert means(held(side(50), side(20), *texts, per=per)) == [(0, 30, True), (0, 30, False)]


def test_each_run_of_a_store() -> None:
    """`check` holds the same, of each run; of steps the mean of the steady ones."""
    runs = together(
        trace([*steps(900, 10, 20, 30), op("x", 5)], run="a"),
        trace([*steps(40, 40), kernel("k", 7, kernel_category="gemm")], run="b"),
    )
    assert of_each_run(runs, "step").rows() == [("a", 20), ("b", 40)]
    assert of_each_run(runs, "category:gemm").rows() == [("a", 0), ("b", 7)]


@pytest.mark.parametrize(("limit", "code"), [("step=5%", 3), ("step=30ms", 0), ("stepp=5%", 2)])
def test_check_takes_the_same_words(run: Run, tmp_path: Path, limit: str, code: int) -> None:
    traces = [
        trace([*steps(ns, ns, ns, ns), op("x", 5)], run=f"r{n}")
        for n, ns in enumerate([100 * MS + n for n in range(8)] + [120 * MS + n for n in range(4)])
    ]
    together(*traces).to_parquet(tmp_path / "store")
    found, _, err = run(
        "check", tmp_path / "store", "--baseline", "8", "--runs", "4", "--fail-on", limit
    )
    assert found == code
    if code == 3:
        assert err == "worse by more than 5 %: step, 100.000 ms -> 120.000 ms (+20.0 %)\n"


# Drawn.

_SIDE: Final = st.lists(
    st.tuples(st.sampled_from(["a", "ab", "b*", "=c"]), st.integers(0, 10**12)), max_size=6
)


@given(
    base=_SIDE,
    other=_SIDE,
    pattern=st.sampled_from(["a", "a*", "b*", "=*", "*", "?b"]),
    percent=st.integers(0, 300),
)
def test_drawn_sums_against_a_loop(
    base: list[tuple[str, int]], other: list[tuple[str, int]], pattern: str, percent: int
) -> None:
    names = {name for name, _ in base + other}
    fits = {
        "a": {"a"},
        "a*": {"a", "ab"},
        "b*": {"b*"},
        "=*": {"=c"},
        "*": names,
        "?b": {"ab"},
    }[pattern] & names
    sides = [trace([op(name, ns) for name, ns in rows]) for rows in (base, other)]
    text = f"op:{pattern}={percent}%"
    if not fits:
        with pytest.raises(UnknownNameError, match="neither side"):
            held(sides[0], sides[1], text)
        return
    sums = [sum(ns for name, ns in rows if name in fits) for rows in (base, other)]
    (found,) = held(sides[0], sides[1], text)
    assert [found.base, found.other] == sums
    assert found.is_broken == (100 * (sums[1] - sums[0]) > percent * sums[0])


# Real traces.


def test_real_pairs(traces: Path) -> None:
    """Sums are those of the answers; against itself nothing grew, whatever is held."""
    folder = traces / "AMD-AGI__TraceLens"
    sides = [
        real_trace(folder / device / "Qwen1.5-0.5B-Chat.json.gz") for device in ("h100", "mi300")
    ]
    words = (
        "step",
        "category:gemm",
        "kernel:*gemm*",
        "op:aten::*",
        "module:*Attention*",
        "kernel_ns",
    )
    found = {
        one.limit.metric: one for one in held(sides[0], sides[1], *(f"{word}=0%" for word in words))
    }
    for side, trace in zip(("base", "other"), sides, strict=True):
        value = {metric: float(getattr(one, side)) for metric, one in found.items()}
        gemm = trace.kernel_categories().filter(category="gemm")["total_ns"].sum()
        assert value["category:gemm"] == gemm
        assert value["step"] == trace.step_times()["step_ns"].max()
        ops = trace.run_samples().filter(pl.col("name").str.starts_with("aten::"), what="op")
        assert value["op:aten::*"] == ops["spent_ns"].sum()
        modules = trace.modules(per="run").filter(pl.col("name").str.contains("Attention"))
        times = modules["total_device_ns"].to_list()
        assert max(times) <= value["module:*Attention*"] <= sum(times)
    texts = [f"{word}=0%" for word in words if word != "kernel:*gemm*"]
    assert not any(one.is_above for one in held(sides[0], sides[0], *texts))
