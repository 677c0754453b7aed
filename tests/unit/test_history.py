"""Many runs: trend, regressions, outliers and the gate, by hand, against loops, and with noise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import ParameterError, Trace, UnknownNameError
from profframe.analysis import regressions, run_limits, run_selection
from profframe.analysis.stats import change_points, noise, typical
from tests import needs
from tests.builders import stored
from tests.conftest import Run

Row = Mapping[str, object]
DAY = 86_400 * 10**9
HOSTILE = ("it's", '<b>"x"</b>', "a; DROP TABLE events", "\x1b[31m\n", "名前 ", "", "op:*[a]=5%")


def checked(
    trace: Trace, baseline: Any, runs: Any, limit: Mapping[str, run_limits.Most], per_step: int = 0
) -> run_limits.CheckResult:
    """What the verb ``check`` asks."""
    totals = partial(trace.runs, per_step)
    return run_limits.check(trace.traces, trace.run_samples(), totals, baseline, runs, limit=limit)


def trace_of(rows: Iterable[Row], **tables: Iterable[Row]) -> Trace:
    """Events as they are in a store; a row of `traces` for each (run, rank), unless given."""
    events = [{"event_id": i, "rank": 0, "start_ns": i} | dict(row) for i, row in enumerate(rows)]
    keys = sorted({(str(row["run"]), int(str(row["rank"]))) for row in events})
    traces = [{"run": run, "rank": rank, "clock": "relative"} for run, rank in keys]
    return stored(**({"events": events, "traces": traces} | tables))


def op(run: str, name: str | None, self_ns: int, **columns: object) -> dict[str, object]:
    own = {"run": run, "kind": "host_op", "name": name, "self_ns": self_ns, "dur_ns": self_ns}
    return own | columns


def kernel(run: str, name: str, dur_ns: int, **columns: object) -> dict[str, object]:
    own = {"run": run, "kind": "kernel", "name": name, "dur_ns": dur_ns, "self_ns": dur_ns}
    return own | columns


def step(run: str, number: int, dur_ns: int, **columns: object) -> dict[str, object]:
    own = {"run": run, "kind": "annotation", "name": f"ProfilerStep#{number}", "dur_ns": dur_ns}
    return own | {"self_ns": 0, "step": number} | columns


def noisy(
    runs: int,
    *,
    ops: int = 12,
    seed: int = 0,
    planted: Mapping[str, float] | None = None,
    last: int = 5,
    whole: float = 0.0,
) -> Trace:
    """Runs of some ops and kernels with 3 % of noise, in the last of them times a factor."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(runs):
        pace = np.exp(whole * rng.normal())
        for one in range(ops):
            name = f"op{one}"
            factor = (planted or {}).get(name, 1.0) if number >= runs - last else 1.0
            spent = 10_000 * (one + 1) * factor * pace * np.exp(0.03 * rng.normal())
            made = kernel if one % 3 == 2 else op
            rows.append(made(f"r{number}", name, round(spent)))
        rows.append(step(f"r{number}", 1, 10_000_000))
    return trace_of(rows)


HOST_STEP: Final = (
    *("run", "rank", "step", "start_ns", "host_ns", "busy_ns", "compute_ns"),
    *("exposed_communication_ns", "exposed_copy_ns", "idle_ns"),
)


class TestRunsAndSteps:
    TIMES = st.integers(0, 12)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from("ab"),
                st.sampled_from((0, 3)),
                st.sampled_from(
                    ("ProfilerStep#1", "ProfilerStep#2", "op", "gemm", "ncclX", "Copy")
                ),
                TIMES,
                st.one_of(st.none(), TIMES),
            ),
            max_size=14,
        )
    )
    def test_against_loops(self, given: list[tuple[str, int, str, int, int | None]]) -> None:
        """Every number is counted nanosecond by nanosecond; steps are their slices on the host."""
        kinds = {"op": "host_op", "gemm": "kernel", "ncclX": "kernel", "Copy": "memcpy"}
        rows = [
            {"run": run, "rank": rank, "name": name, "kind": kinds.get(name, "annotation")}
            | {"start_ns": start, "dur_ns": dur, "self_ns": dur}
            for run, rank, name, start, dur in given
        ]
        trace = trace_of(rows)
        found = trace.step_times(window="host").select(HOST_STEP).rows()
        expected = [step_by_loop(row, rows) for row in rows if str(row["name"])[:1] == "P"]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
        steps = trace.profiler_steps.to_dicts()
        for run in trace.runs(per_step=8).iter_rows(named=True):
            own = [step for step in steps if step["run"] == run["run"]]
            by_loop = run_by_loop([row for row in rows if row["run"] == run["run"]], own)
            assert {name: run[name] for name in by_loop} == by_loop

    @pytest.mark.parametrize(
        "name", ["cpu_training.json.gz", "cpu_training_stack.json.gz", "bf16.json.gz"]
    )
    def test_they_agree_with_the_other_answers(self, root: Path, name: str) -> None:
        trace = profframe.load(root / "examples" / name)
        (run,) = trace.runs().to_dicts()
        steps, samples = trace.step_times(), trace.run_samples()
        assert run["op_self_ns"] == samples.filter(what="op")["spent_ns"].sum()
        assert (run["events"], run["span_ns"]) == trace.overview().select("events", "span_ns").row(
            0
        )
        assert run["step_max_ns"] == steps["step_ns"].max()
        assert run["steps"] == trace.step_times().height == steps.height
        peaks = trace.memory_peak().filter(pl.col("device").is_null())["allocated_bytes"]
        assert run["peak_host_bytes"] == peaks.max()


def busy_by_loop(own: list[dict[str, Any]], start: int, end: int) -> list[int]:
    """Nanoseconds of compute, exposed communication, exposed copies, and nothing."""
    found = [0, 0, 0, 0]
    for at in range(start, end):
        names = {
            row["name"]
            for row in own
            if row["kind"] in ("kernel", "memcpy")
            and row["dur_ns"] is not None
            and row["start_ns"] <= at < row["start_ns"] + row["dur_ns"]
        }
        order = ("gemm", "ncclX", "Copy")
        found[next((place for place, name in enumerate(order) if name in names), 3)] += 1
    return found


def device_rows(rows: list[dict[str, Any]], run: object, rank: object) -> list[dict[str, Any]]:
    return [
        row
        for row in rows
        if (row["run"], row["rank"]) == (run, rank)
        and row["kind"] in ("kernel", "memcpy")
        and row["dur_ns"] is not None
    ]


def step_by_loop(row: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[Any, ...]:
    start, dur = row["start_ns"], row["dur_ns"]
    key = (row["run"], row["rank"], int(row["name"][-1]), start, dur)
    busy = device_rows(rows, row["run"], row["rank"])
    if dur is None or not busy:
        return (*key, *[None] * 5)
    compute, communication, copy, idle = busy_by_loop(busy, start, start + dur)
    return (*key, dur - idle, compute, communication, copy, idle)


def times_by_loop(steps: list[dict[str, Any]]) -> list[int]:
    """How long the whole steps of a run took: from one completion on its last rank to the next."""
    together: dict[tuple[int, int], list[dict[str, Any]]] = {}
    met: dict[tuple[Any, ...], int] = {}
    for step in sorted(steps, key=lambda step: (step["start_ns"], step["event_id"])):
        number = met[step["rank"], step["step"]] = met.get((step["rank"], step["step"]), 0) + 1
        together.setdefault((step["step"], number), []).append(step)
    ends = {
        key: max(one["completed_ns"] for one in of if one["completed_ns"] is not None)
        for key, of in together.items()
        if any(one["completed_ns"] is not None for one in of)
    }
    ended = sorted(ends, key=lambda key: (ends[key], key))
    times = []
    for place, key in enumerate(ended):
        if not any(one["lack"] for one in together[key]):
            began = [one["began_ns"] for one in together[key] if one["completed_ns"] == ends[key]]
            times.append(ends[key] - max(*began, *(ends[earlier] for earlier in ended[:place]), -1))
    return times


def run_by_loop(own: list[dict[str, Any]], steps: list[dict[str, Any]]) -> dict[str, Any]:
    times = sorted(times_by_loop(steps))
    ranks = {row["rank"] for row in own}
    spans = []
    for rank in ranks:
        some = [row for row in own if row["rank"] == rank]
        first = min(row["start_ns"] for row in some)
        spans.append(max(row["start_ns"] + (row["dur_ns"] or 0) for row in some) - first)
    devices = [device_rows(own, own[0]["run"], rank) for rank in ranks]
    parts = [
        busy_by_loop(
            busy,
            min(row["start_ns"] for row in busy),
            max(row["start_ns"] + row["dur_ns"] for row in busy),
        )
        for busy in devices
        if busy
    ]
    sums: list[int | None] = [sum(part) for part in zip(*parts, strict=True)] or [None] * 4
    ops = [row["dur_ns"] for row in own if row["kind"] == "host_op" and row["dur_ns"] is not None]
    mean = (2 * sum(times) + len(times)) // (2 * len(times)) if times else None
    return {
        "ranks": len(ranks),
        "events": len(own),
        "kernels": sum(row["kind"] == "kernel" for row in own),
        "span_ns": max(spans),
        "steps": len(times),
        "step_mean_ns": mean,
        "step_max_ns": max(times, default=None),
        "step_min_ns": min(times, default=None),
        "throughput_per_s": 8e9 * len(times) / sum(times) if sum(times) else None,
        "op_self_ns": sum(ops) if ops else None,
        "compute_ns": sums[0],
        "exposed_communication_ns": sums[1],
        "exposed_copy_ns": sums[2],
        "idle_ns": sums[3],
    }


class TestOrder:
    def test_by_start_where_every_clock_is_utc(self) -> None:
        columns = {"run": ["a", "b", "b"], "clock": ["utc"] * 3, "start_ns": [5, 9, 3]}
        traces = pl.DataFrame(columns)
        assert run_selection.in_order(traces).rows() == [("b", 3), ("a", 5)]

    @pytest.mark.parametrize(("clock", "start"), [("relative", 3), ("utc", None), ("unknown", 3)])
    def test_by_name_otherwise(self, clock: str, start: int | None) -> None:
        traces = pl.DataFrame(
            {
                "run": ["r10", "r9", "r9b", "R1", "", "1"],
                "clock": ["utc", "utc", clock, "utc", "utc", "utc"],
                "start_ns": [1, 2, start, 4, 5, 6],
            }
        )
        found = run_selection.in_order(traces)
        assert found["run"].to_list() == ["", "1", "R1", "r9", "r9b", "r10"]
        assert found["start_ns"].null_count() == 6

    def test_the_same_start_by_name(self) -> None:
        traces = pl.DataFrame({"run": ["r10", "r9"], "clock": ["utc"] * 2, "start_ns": [1, 1]})
        assert run_selection.in_order(traces)["run"].to_list() == ["r9", "r10"]


class TestSides:
    ORDER = ("a1", "a2", "a3", "b1", "b*", "b2")

    @pytest.mark.parametrize(
        ("baseline", "runs", "base", "others"),
        [
            ("a*", None, ["a1", "a2", "a3"], ["b1", "b*", "b2"]),
            (["a1", "a3"], "b1", ["a1", "a3"], ["b1"]),
            (["b2", "a1"], ["b*"], ["a1", "b2"], ["b*"]),
            (3, None, ["a3", "b1", "b*"], ["b2"]),
            (2, 2, ["a3", "b1"], ["b*", "b2"]),
            (99, 1, ["a1", "a2", "a3", "b1", "b*"], ["b2"]),
            (2, "b1", ["a2", "a3"], ["b1"]),
            ("a[12]", 1, ["a1", "a2"], ["b2"]),
        ],
    )
    def test_names_patterns_and_numbers(
        self, baseline: Any, runs: Any, base: list[str], others: list[str]
    ) -> None:
        assert run_selection.sides(self.ORDER, baseline, runs) == (base, others)

    @pytest.mark.parametrize(
        ("baseline", "runs", "message"),
        [
            ("c*", None, "no run named 'c\\*'"),
            ("a1", None, "needs at least 2 runs .*, found 1 of 6"),
            ("*", None, "no other run"),
            ("a*", "a2", "run 'a2' is both in the baseline"),
            (0, None, "at least 1, not 0"),
            (2, -1, "at least 1, not -1"),
            (2, 6, "needs at least 2 runs"),
            (True, None, "needs 64-bit integers"),
            ([1, 2], None, "needs text"),
        ],
    )
    def test_errors(self, baseline: Any, runs: Any, message: str) -> None:
        with pytest.raises((ParameterError, UnknownNameError), match=message):
            run_selection.sides(self.ORDER, baseline, runs)


class TestChangePoints:
    def test_a_step_up_and_down(self) -> None:
        series = np.array([[10.0] * 5 + [12.0] * 6 + [10.0] * 5])
        series += np.random.default_rng(0).normal(0, 0.1, series.shape)
        assert [one.at for one in change_points.changes(series)[0]] == [5, 11]

    @pytest.mark.parametrize("length", [0, 1, 5, 6, 29, 30, 100])
    def test_what_never_changes_has_no_change(self, length: int) -> None:
        series = np.full((2, length), 0.1)
        assert change_points.changes(series) == [[], []]

    @pytest.mark.parametrize("length", [12, 60])
    def test_a_single_run_of_any_size_is_no_change(self, length: int) -> None:
        for at in range(length):
            series = np.random.default_rng(at).normal(100, 1, (1, length))
            series[0, at] *= 1000
            assert change_points.changes(series) == [[]]

    def test_a_perfect_step_needs_no_noise(self) -> None:
        series = np.array([[1.0] * 4 + [2.0] * 4])
        assert [(one.at, one.p) for one in change_points.changes(series)[0]] == [(4, 0.0)]

    @pytest.mark.parametrize("draw", ["normal", "exponential", "standard_cauchy"])
    @pytest.mark.parametrize("length", [30, 90])
    def test_noise_has_changes_at_most_as_often_as_stated(self, length: int, draw: str) -> None:
        rng = np.random.default_rng(1)
        sets = [getattr(rng, draw)(size=(5, length)) for _ in range(60)]
        assert sum(any(change_points.changes(series)) for series in sets) <= 2

    def test_few_runs_of_normal_noise_too(self) -> None:
        rng = np.random.default_rng(1)
        series = rng.normal(100, 3, (600, 14))
        found = [change_points.changes(one[None]) for one in series]
        assert sum(map(any, found)) <= 12

    @pytest.mark.parametrize("length", [14, 60])
    def test_the_chance_is_of_all_series_that_are_looked_at(self, length: int) -> None:
        """Bonferroni, exactly: so many times the chance of one series alone, and then the level."""
        series = np.random.default_rng(4).normal(size=(1, length))
        series[:, length // 2 :] += 4
        ((alone,),) = change_points.changes(series)
        among = change_points.changes(np.vstack([series, np.zeros((2, length))]))
        assert [[one.at for one in of_one] for of_one in among] == [[alone.at], [], []]
        assert among[0][0].p == pytest.approx(3 * alone.p, rel=1e-12)
        most = int(change_points.LEVEL / alone.p)
        ((of_most,),) = change_points.changes(series, series=most)
        assert of_most.p == pytest.approx(most * alone.p, rel=1e-12)
        assert change_points.changes(series, series=most + 1) == [[]]

    def test_a_trend_looks_at_all_its_metrics(self) -> None:
        """Also at those that are known of other runs only, which are searched by themselves."""
        rows = [op(f"r{n}", "x", 1000 + n % 3 + 9 * (n > 7)) for n in range(15)]
        rows += [step(f"r{n}", 1, 5000) for n in range(15) if n != 3]
        alone = trace_of(rows).trend("op:x")["p_value"].drop_nulls().item()
        among = trace_of(rows).trend(["op:x", "step_p50_ns", "step_max_ns"])["p_value"]
        assert among.drop_nulls().to_list() == pytest.approx([3 * alone], rel=1e-12)

    def test_ranks_see_the_same_in_any_scale(self) -> None:
        rng = np.random.default_rng(2)
        series = rng.normal(size=(3, 80))
        series[:, 50:] += 2
        ats = [
            [[change.at for change in one] for one in change_points.changes(scaled)]
            for scaled in (series, np.exp(series), series**3)
        ]
        assert ats[0] == ats[1] == ats[2]
        assert all(abs(one[0] - 50) <= 2 for one in ats[0])

    @pytest.mark.parametrize("ranked", [True, False])
    def test_the_test_of_a_stretch(self, ranked: bool) -> None:
        """Against Wilcoxon's and Student's tests of scipy at every place."""
        stats = needs.module("scipy.stats")
        series = np.random.default_rng(3).normal(size=40).round(1)
        series[25:] += 0.5
        scores = change_points._ranks(series[None])
        (place,), (chance,) = change_points._best(scores if ranked else series[None], ranked)
        found = {}
        for at in range(3, 38):
            before, after = series[:at], series[at:]
            if ranked:
                test = stats.mannwhitneyu(before, after, use_continuity=False, method="asymptotic")
                found[at] = test.pvalue
            else:
                found[at] = stats.ttest_ind(before, after).pvalue
        assert place == min(found, key=lambda at: found[at])
        assert chance == pytest.approx(found[int(place)], rel=1e-9)


class TestTypical:
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=30))
    def test_median_of_the_others_of_a_group(self, given: list[tuple[int, int]]) -> None:
        values = np.array([float(value) for _, value in given])
        groups = np.array([group for group, _ in given], np.int64)
        found = typical.median_of_others(values, groups)
        for number, (group, _) in enumerate(given):
            others = [v for i, (g, v) in enumerate(given) if g == group and i != number]
            if others:
                assert found[number] == median(others)
            else:
                assert np.isnan(found[number])

    def test_too_few_to_tell(self) -> None:
        values = np.array([1.0, 5.0])
        score, chance = typical.deviation(values, values)
        assert np.isnan(score).all()
        assert np.isnan(chance).all()

    def test_hardly_any_noise(self) -> None:
        """A byte more is no outlier where all others are equal; a tenth more is."""
        values = np.array([1e9] * 8 + [1e9 + 1, 1.1e9])
        others = typical.median_of_others(values, np.zeros(10, np.int64))
        score, _ = typical.deviation(values, others)
        assert abs(score[8]) < 0.01
        assert score[9] > 50

    def test_the_chance_is_of_both_sides(self) -> None:
        """By hand: distances 2 1 0 1 4, so the noise is 1.4826; Student's with 2 degrees of it."""
        score, chance = typical.deviation(np.array([-2.0, -1, 0, 1, 4]), np.zeros(5))
        assert score == pytest.approx(np.array([-2, -1, 0, 1, 4]) / 1.482602218505602)
        assert chance == pytest.approx(1 - np.abs(score) / np.sqrt(2 + score**2))

    def test_zero_counts_by_difference(self) -> None:
        values = np.array([0.0, 1, 2, 1, 0, 2, 1, 500])
        others = typical.median_of_others(values, np.zeros(8, np.int64))
        score, _ = typical.deviation(values, others)
        assert score.argmax() == 7

    def test_few_rows_have_no_pace(self) -> None:
        values = np.outer([1.0, 2, 3], [1.0, 2, 1])
        assert typical.pace(values, np.zeros(3)).tolist() == [1, 1, 1]

    def test_the_pace_of_all_rows(self) -> None:
        values = np.outer(np.arange(1.0, 31), [1.0, 2, 4, 8])
        values[3] = 0
        values[4, 0] = 77
        found = typical.pace(values, np.array([0, 0, 0, 1]))
        assert found == pytest.approx([0.5, 1, 2, 4])


class TestNoise:
    def test_a_single_sample_has_the_noise_of_the_others(self) -> None:
        """By hand: 10, 12, 14 have variance 4; 20 is 8 more, of variance 4 + 4/3, freedom 2."""
        zeros, several = np.zeros(3, np.int64), np.arange(3)
        base = noise.Samples(zeros, several, np.array([10.0, 12, 14]), 1, several)
        other = noise.Samples(zeros[:1], several[:1], np.array([20.0]), 1, several[:1])
        score = 8 / np.sqrt(4 + 4 / 3)
        expected = 1 - score / np.sqrt(2 + score**2)  # Student's t of freedom 2 in closed form
        there, back = noise.compare(base, other), noise.compare(other, base)
        assert there.p[0] == pytest.approx(expected)
        assert back.p[0] == pytest.approx(expected)
        assert there.low[0] == pytest.approx(-back.high[0])


class TestRegressions:
    def test_what_got_slower_and_nothing_else(self) -> None:
        trace = noisy(25, planted={"op4": 1.2, "op5": 1.3, "op6": 0.7})
        found = trace.regressions(baseline=[f"r{n}" for n in range(20)])
        assert found.columns == list(regressions.COLUMNS)
        assert found.select("what", "name").rows() == [("kernel", "op5"), ("op", "op4")]
        assert found["significant"].all()
        assert found["base_runs"].to_list() == [20, 20]
        assert found["ratio"].to_list() == pytest.approx([1.3, 1.2], abs=0.05)
        every = trace.regressions(baseline=[f"r{n}" for n in range(20)], every=True)
        assert every.height == 12
        assert every.filter(name="op6")["change_high_ns"].item() < 0

    def test_numbers_by_hand(self) -> None:
        spent = {"r1": 100, "r2": 102, "r3": 98, "r4": 200, "r5": 204}
        rows = [op(run, "x", ns) for run, ns in spent.items()] + [op("r4", "x", 10, rank=1)]
        rows += [op("r5", "new", 7), op("r1", "gone", 8)]
        found = trace_of(rows).regressions(baseline="r[123]", every=True)
        assert found.select("name", "base_ns", "other_ns", "change_ns", "pace").rows() == [
            ("x", 100, 207, 107, 1.0),
            ("new", 0, 4, 4, 1.0),
            ("gone", 3, 0, -3, 1.0),
        ]
        assert found["base_calls"].to_list() == [1, 0, 1 / 3]
        assert found["other_calls"].to_list() == [1.5, 0.5, 0]
        assert found["ratio"].to_list() == [2.07, None, 0]

    @pytest.mark.parametrize("whole", [0.0, 0.05])
    def test_noise_is_called_a_regression_at_most_as_often_as_stated(self, whole: float) -> None:
        rng = np.random.default_rng(0)
        runs, ops = [f"r{n:02}" for n in range(14)], [f"op{n}" for n in range(40)]
        work = ("flops", "flops_ns", "bytes", "bytes_ns", "device")
        peaks = ("compute_ps", "compute_ns", "memory_ps", "memory_ns")
        shape = len(runs), len(ops)
        found = 0
        for _ in range(50):
            times = np.exp(rng.normal(12, 0.03, shape) + whole * rng.normal(size=(shape[0], 1)))
            rows = pl.DataFrame(
                {
                    "run": np.repeat(runs, len(ops)),
                    "rank": 0,
                    "step": None,
                    "what": "op",
                    "name": ops * len(runs),
                    "calls": 1,
                    "spent_ns": times.ravel().astype(int),
                    "device_ns": 0,
                    **dict.fromkeys((*work, *peaks), None),
                },
                schema_overrides=dict.fromkeys(("step", *work, *peaks), pl.Int64),
            )
            compared = regressions.compare_runs(rows, runs[:9], runs[9:])
            found += regressions.regressions(compared).height
        assert found <= 1

    def test_runs_that_are_slow_as_a_whole_have_a_pace(self) -> None:
        trace = noisy(20, ops=60, whole=0.1, planted={"op4": 1.2}, seed=3)
        found = trace.regressions(baseline=15, runs=5)
        assert found["name"].to_list() == ["op4"]
        every = trace.regressions(baseline=15, runs=5, every=True)
        assert every.filter(pl.col("pace") != 1).height == 60
        own = found["ratio"].item() / found["pace"].item()
        assert own == pytest.approx(1.2, abs=0.05)

    @pytest.mark.parametrize(("pace", "op4", "op7"), [(1.3, 1.1, 1.6), (0.7, 0.9, 1.2)])
    def test_what_regressed_takes_longer_by_itself_and_at_equal_pace(
        self, pace: float, op4: float, op7: float
    ) -> None:
        """All runs after are slower, op4 by less than the rest; or all faster, op4 by less."""
        planted = {f"op{n}": pace for n in range(60)} | {"op4": op4, "op7": op7}
        trace = noisy(20, ops=60, whole=0.1, planted=planted, seed=3)
        every = trace.regressions(baseline=15, runs=5, every=True)
        (row,) = every.filter(name="op4").to_dicts()
        assert row["significant"]
        assert (row["change_ns"] > 0) == (op4 > 1) == (row["change_low_ns"] < 0)
        assert (row["change_low_ns"] < 0) == (row["change_high_ns"] < 0)
        assert trace.regressions(baseline=15, runs=5)["name"].to_list() == ["op7"]

    def test_the_latest_run_alone(self) -> None:
        trace = noisy(12, planted={"op4": 1.5}, last=1)
        assert trace.regressions(baseline=11)["name"].to_list() == ["op4"]
        assert trace.regressions(baseline=11)["other_runs"].to_list() == [1]

    def test_what_contains_a_slow_op_is_not_slow(self) -> None:
        rng = np.random.default_rng(0)
        rows = []
        for number in range(12):
            inner = round((150 if number > 7 else 100) * (1 + 0.01 * rng.normal()) * 1000)
            outer = round(500_000 * (1 + 0.01 * rng.normal()))
            rows += [
                op(f"r{number}", "outer", outer, dur_ns=outer + inner),
                op(f"r{number}", "inner", inner),
                step(f"r{number}", 1, outer + inner),
            ]
        found = trace_of(rows).regressions(baseline=8, runs=4)
        assert found.select("what", "name").rows() == [("op", "inner")]

    def test_hostile_names(self) -> None:
        rows = [
            op(run, name, 1000 + n % 3 + 900 * (n > 5), rank=rank)
            for n, run in enumerate((*HOSTILE[:6], *(f"{h}\n" for h in HOSTILE)))
            for name in (*HOSTILE, None)
            for rank in (0, 1)
        ]
        found = trace_of(rows).regressions(baseline=list(HOSTILE[:6]))
        assert set(found["name"]) == {*HOSTILE, None}
        assert found["base_runs"].unique().to_list() == [6]

    def test_a_store_says_the_same(self, tmp_path: Path) -> None:
        trace = noisy(12, planted={"op4": 1.5})
        trace.to_parquet(tmp_path / "store")
        stored = profframe.load(tmp_path / "store")
        for ask in _questions():
            assert ask(stored).equals(ask(trace))


def _questions() -> list[Callable[[Trace], pl.DataFrame]]:
    return [
        lambda trace: trace.runs(per_step=3),
        lambda trace: trace.step_times(),
        lambda trace: trace.trend(["step_p50_ns", "op:*", "kernel:op2"]),
        lambda trace: trace.regressions(baseline=7, runs=5),
        lambda trace: trace.outliers(),
        lambda trace: trace.outliers("step"),
    ]


class TestTrend:
    def test_in_order_of_time_with_levels(self) -> None:
        days = [3, 0, 1, 2, 4, 5, 6, 7]
        values = [10, 11, 10, 11, 20, 21, 20, 21]
        rows = [op(f"d{day}", "x", values[day] * 1000) for day in days]
        traces = [
            {"run": f"d{day}", "rank": 0, "clock": "utc", "start_ns": (9 - day) * DAY}
            for day in days
        ]
        found = trace_of(rows, traces=traces).trend("op:x")
        assert found["run"].to_list() == [f"d{day}" for day in range(7, -1, -1)]
        assert found["start_ns"].to_list() == [day * DAY for day in range(2, 10)]
        assert found["value"].to_list() == [1000 * value for value in reversed(values)]
        assert found["level"].to_list() == [20_500] * 4 + [10_500] * 4
        assert found["is_change"].to_list() == [False] * 4 + [True] + [False] * 3
        assert found["ratio"].drop_nulls().to_list() == [10_500 / 20_500]
        assert 0 < found["p_value"].drop_nulls().item() < 0.01

    def test_unknown_values_are_passed_over_and_absent_ops_take_nothing(self) -> None:
        rows = [step(f"r{n}", 1, 1000 if n < 5 else 3000) for n in range(10) if n != 4]
        rows += [op("r4", "seldom", 5)]
        found = trace_of(rows).trend(["step_p50_ns", "op:seldom"])
        steps, seldom = found.partition_by("metric", maintain_order=True)
        assert steps["value"].to_list() == [1000] * 4 + [None] + [3000] * 5
        assert steps["level"].to_list() == [1000] * 4 + [None] + [3000] * 5
        assert steps.filter("is_change")["run"].to_list() == ["r5"]
        assert steps.filter("is_change")["ratio"].to_list() == [3]
        assert seldom["value"].to_list() == [0] * 4 + [5] + [0] * 5
        assert not seldom["is_change"].any()

    def test_patterns_and_names_that_look_like_one(self) -> None:
        rows = [op(run, name, 5) for run in ("a", "b") for name in ("x*", "xy", "z")]
        trace = trace_of(rows)
        assert trace.trend("op:x*")["metric"].unique().to_list() == ["op:x*"]
        found = trace.trend(["op:*y", "op:?", "op:?"])["metric"].unique(maintain_order=True)
        assert found.to_list() == ["op:xy", "op:z"]

    @pytest.mark.parametrize(
        ("metric", "message"),
        [
            ("step_p50", "no metric named 'step_p50'; did you mean 'step_p50_ns'"),
            ("op:aten::nn", "no op named 'aten::nn'"),
            ("kernel:*", "no kernel named"),
            ("run", "no metric named 'run'"),
        ],
    )
    def test_unknown_metrics(self, metric: str, message: str) -> None:
        with pytest.raises(UnknownNameError, match=message):
            trace_of([op("a", "aten::mm", 5)]).trend(metric)

    def test_nothing_at_all(self) -> None:
        assert trace_of([]).trend("span_ns").height == 0
        assert trace_of([]).trend([]).height == 0


class TestOutliers:
    def test_a_run_and_the_ops_that_make_it_so(self) -> None:
        rng = np.random.default_rng(0)
        rows = []
        for number in range(12):
            for name in ("x", "y", "z"):
                slow = 500 if (number, name) == (7, "y") else 0
                rows.append(op(f"r{number}", name, round(1000 * (1 + 0.01 * rng.normal())) + slow))
        found = trace_of(rows).outliers()
        worst = found.filter(metric="op_self_ns").select("run", "what", "name").row(0)
        assert worst == ("r7", "op", "y")
        assert set(found["run"]) == {"r7"}
        assert found["score"].to_list()[0] > 10
        excess = found["excess_ns"][0]
        assert 450 < excess < 550
        assert found["spent_ns"][0] - found["typical_ns"][0] == excess

    def test_next_to_nothing_of_the_run_makes_no_outlier(self) -> None:
        """All but one wait for no communication; 5 ns of 1 ms are nothing, 90 us are not."""
        spans = [op(f"r{n}", "x", 1_000_000 + n) for n in range(12)]
        for waited, expected in ((5, []), (90_000, ["r4"])):
            kernels = [kernel(f"r{n}", "gemm", 100) for n in range(12)]
            late = kernel("r4", "ncclX", waited, start_ns=500)
            found = trace_of([*spans, *kernels, late]).outliers()
            names = found.filter(metric="exposed_communication_ns")["run"].to_list()
            assert names[:1] == expected

    def test_memory_has_no_ops(self) -> None:
        record = {"rank": 0, "time_ns": 1, "bytes": 9, "device_type": "CUDA", "device": 0}
        memory = [
            record | {"run": f"r{n}", "total_allocated_bytes": 2000 if n == 3 else 1000}
            for n in range(8)
        ]
        found = trace_of([op(f"r{n}", "x", 5) for n in range(8)], memory=memory).outliers()
        assert found.select("run", "metric", "value", "typical", "what").rows() == [
            ("r3", "peak_device_bytes", 2000, 1000, None)
        ]

    def test_a_step_and_the_ops_that_make_it_so(self) -> None:
        rng = np.random.default_rng(0)
        rows = []
        for run, pace in (("a", 1), ("b", 3)):
            for number in range(20):
                slow = 700_000 if (run, number) == ("b", 6) else 0
                spent = round(pace * 1e6 * (1 + 0.01 * rng.normal())) + slow
                rows += [
                    step(run, number, spent + 1000, rank=4, start_ns=10**9 * number),
                    op(run, "x", 1000, step=number, rank=4),
                    op(run, "y", spent, step=number, rank=4),
                ]
        found = trace_of(rows).outliers("step")
        assert found.select("run", "rank", "step", "metric", "what", "name").rows() == [
            ("b", 4, 6, "step_ns", "op", "y")
        ]
        assert abs(found["typical"].item() - 3e6) < 5e4
        assert abs(found["excess_ns"].item() - 7e5) < 1e5

    def test_noise_is_called_an_outlier_at_most_as_often_as_stated(self) -> None:
        found = [noisy(15, ops=6, seed=seed).outliers().height for seed in range(8)]
        assert sum(number > 0 for number in found) <= 1

    def test_top_and_ops_bound_the_answer(self) -> None:
        rows = [
            op(f"r{n}", name, 1000 + 10 * (n % 3) + 5000 * (n > 17))
            for n in range(20)
            for name in "abcdef"
        ]
        trace = trace_of(rows)
        assert set(trace.outliers()["run"]) == {"r18", "r19"}
        one = trace.outliers(top=1, ops=2)
        assert one["run"].n_unique() == 1
        assert one.filter(metric="op_self_ns").height == 2
        assert trace.outliers(top=0).height == 0
        without = trace.outliers(ops=0)
        assert without.height > 0
        assert without["what"].null_count() == without.height

    @pytest.mark.parametrize("per", ["run", "step"])
    @pytest.mark.parametrize("rows", [[], [op("a", "x", 5)], [step("a", 1, 5), step("b", 1, 9)]])
    def test_too_little_to_tell(self, rows: list[Row], per: str) -> None:
        assert trace_of(rows).outliers(per).height == 0

    def test_errors(self) -> None:
        with pytest.raises(UnknownNameError, match="per is one of run, step, not 'rank'"):
            trace_of([]).outliers("rank")
        with pytest.raises(ParameterError, match="top: a number from 0"):
            trace_of([]).outliers(top=-1)

    @given(
        st.lists(
            st.lists(st.one_of(st.none(), st.integers(0, 5)), min_size=3, max_size=3), max_size=6
        )
    )
    def test_typical_times_against_a_loop(self, given: list[list[int | None]]) -> None:
        """What each run is held against: the lower median, 0 for a run that lacks the op."""
        from profframe.analysis.outliers import _excess

        rows = [
            (f"r{n}", 0, None, "op", name, ns)
            for n, run in enumerate(given)
            for name, ns in zip("xyz", run, strict=True)
            if ns is not None
        ]
        names = ("run", "rank", "step", "what", "name", "spent_ns")
        types = (pl.String, pl.Int32, pl.Int64, pl.String, pl.String, pl.Int64)
        samples = pl.DataFrame(rows, schema=dict(zip(names, types, strict=True)), orient="row")
        runs = sorted({row[0] for row in rows})
        found = samples.select("run", pl.lit(None, pl.Int32).alias("rank"), "step").unique()
        excess = _excess(found, samples)
        for run, name, spent, usual in excess.select(
            "run", "name", "spent_ns", "typical_ns"
        ).iter_rows():
            times = {r[0]: r[5] for r in rows if r[4] == name}
            everyone = sorted(times.get(one, 0) for one in runs)
            assert usual == everyone[(len(everyone) - 1) // 2]
            assert spent == times.get(run, 0)


class TestCheck:
    def test_limits(self) -> None:
        trace = noisy(25, planted={"op4": 1.2})
        limit = dict(map(run_limits.limit_of, ("10%", "op:op*=50%", "step_p50_ns=1%")))
        found = checked(trace, 20, 5, limit)
        assert [one.metric for one in found.worse] == ["op:op4"]
        assert found.worse[0].limit == Fraction(1, 10)
        assert found.regressions.equals(trace.regressions(baseline=20, runs=5))
        assert (len(found.base), len(found.others)) == (20, 5)

    def test_a_pattern_is_for_all_that_fit_it(self) -> None:
        trace = noisy(25, planted={"op4": 1.2, "op7": 1.3, "op8": 1.3})
        found = checked(trace, 20, 5, {"op:*": Fraction(1, 10)})
        assert [one.metric for one in found.worse] == ["op:op4", "op:op7"]

    def test_the_lowest_of_several_limits_counts_whatever_their_order(self) -> None:
        trace = noisy(25, planted={"op4": 1.2})
        for limits in (["op:*=50%", "op:op4=10%"], ["op:op4=50%", "op:*=50%", "op:op4=10%"]):
            found = checked(trace, 20, 5, run_limits.limits_of(limits))
            assert [(one.metric, one.limit) for one in found.worse] == [("op:op4", Fraction(1, 10))]
        twice = checked(trace, 20, 5, run_limits.limits_of(["op:*=10%", "5%"]))
        assert [one.metric for one in twice.worse] == ["op:op4"]

    def test_totals_count_if_they_grew_beyond_noise(self) -> None:
        planted = {f"op{n}": 1.1 for n in range(12)}
        found = checked(noisy(25, planted=planted), 20, 5, {"": Fraction(8, 100)})
        assert [one.metric for one in found.worse][:2] == ["op_self_ns", "kernel_ns"]
        still = checked(noisy(25), 20, 5, {"": Fraction(0)})
        assert still.worse == []

    def test_many_metrics_are_corrected_for(self) -> None:
        """Welch's p of x is 0.0018: clear as one of 3 metrics (both totals), not as one of 7."""
        spent = {"a1": 100, "a2": 101, "a3": 99, "b1": 106, "b2": 107, "b3": 105}
        rows = [op(run, "x", 1000 * ns) for run, ns in spent.items()]
        rows += [op(run, name, 5000) for run in spent for name in ("t", "u", "v", "w")]
        rows += [kernel(run, "k", 5000) for run in spent]
        trace = trace_of(rows)
        alone = checked(trace, "a*", None, {"op:x": Fraction(0)})
        among = checked(trace, "a*", None, {"op:*": Fraction(0)})
        for found, number in ((alone, 3), (among, 7)):
            (p,) = found.metrics.filter(metric="op:x")["p_value"]
            assert (found.metrics.height, round(p, 5)) == (number, 0.00183)
        assert 3 * p < regressions.LEVEL < 7 * p
        assert [one.metric for one in alone.worse] == ["op:x"]
        assert among.worse == []

    def test_small_ops_do_not_count(self) -> None:
        trace = noisy(25, ops=60, planted={"op0": 1.5})
        assert trace.regressions(baseline=20, runs=5)["name"].to_list() == ["op0"]
        assert checked(trace, 20, 5, {"": Fraction(1, 10)}).worse == []

    def test_throughput_may_not_fall(self) -> None:
        rows = [step(f"r{n}", 1, (1000 if n < 8 else 1300) + n % 3) for n in range(12)]
        limit = {"throughput_per_s": Fraction(1, 10)}
        trace = trace_of(rows)
        slower = checked(trace, 8, 4, limit, per_step=64)
        assert [one.metric for one in slower.worse] == ["throughput_per_s"]
        assert checked(trace, ["r8", "r9", "r1?"], None, limit, per_step=64).worse == []

    def test_a_limit_for_what_is_not_there_is_an_error(self) -> None:
        with pytest.raises(ParameterError, match="'peak_device_bytes': not known for the runs"):
            checked(noisy(9), 5, 4, {"peak_device_bytes": Fraction(1, 10)})

    @pytest.mark.parametrize("text", ["5", "x=5", "=5%", "5%=x", ""])
    def test_bad_limits(self, text: str) -> None:
        with pytest.raises(ParameterError, match="a limit is"):
            run_limits.limit_of(text)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "store"
    noisy(25, planted={"op4": 1.2}).to_parquet(path)
    return path


class TestCommandLine:
    @pytest.mark.parametrize(
        ("options", "code", "message"),
        [
            (["--baseline", "20", "--runs", "5"], 0, ""),
            (["--baseline", "20", "--runs", "5", "--fail-on", "30%"], 0, ""),
            (["--baseline", "20", "--runs", "5", "--fail-on", "5%"], 3, "op:'op4'"),
            (["--baseline", "r?", "--baseline", "r1?", "--fail-on", "op:op4=5%"], 3, "op:'op4'"),
            (["--baseline", "r?", "--runs", "r1?", "--fail-on", "5%"], 0, ""),
            (["--baseline", "none"], 1, "no run named 'none'"),
            (["--baseline", "r1"], 1, "needs at least 2 runs"),
            (["--baseline", "20", "--fail-on", "nothing=5%"], 2, "no metric named 'nothing'"),
            (["--baseline", "20", "--fail-on", "op:absent=5%"], 1, "no op named 'absent'"),
            (["--baseline", "20", "--fail-on", "5"], 2, "--fail-on: a limit is"),
            ([], 2, "--baseline"),
        ],
    )
    def test_exit_codes(
        self, store: Path, options: Sequence[str], code: int, message: str, run: Run
    ) -> None:
        found, _, err = run("check", store, *options)
        assert found == code
        assert message in err
        assert (err == "") == (code == 0)

    def test_a_run_may_be_named_like_a_number(self, tmp_path: Path, run: Run) -> None:
        rows = [op(f"2026010{n}", "x", 1000 + n + 900 * (n == 3)) for n in range(1, 8)]
        trace_of(rows).to_parquet(tmp_path / "store")
        options = ["--baseline", "*[4-7]", "--runs", "20260103", "--fail-on", "5%"]
        code, out, _ = run("check", tmp_path / "store", *options)
        assert code == 3
        assert "compared      20260103" in out

    def test_statistics_are_answers_too(self, store: Path, run: Run) -> None:
        code, out, _ = run("answer", "trend", store, "-p", "metric=op:op4", "--format", "csv")
        assert code == 0
        assert out.startswith("metric,run,start_ns,value")
        assert run("answer", "outliers", store, "-p", "per=step")[0] == 0
        assert run("answer", "outliers", store, "-p", "top=x")[0] == 2
        code, out, _ = run("answer", "trend")
        assert code == 0
        assert "step_p50_ns" in out

    def test_what_a_person_reads(self, store: Path, run: Run) -> None:
        code, out, _ = run("check", store, "--baseline", "20", "--runs", "5")
        assert code == 0
        lines = out.splitlines()
        assert lines[0].split() == ["baseline", "20", "runs,", "r0", "to", "r19"]
        assert lines[1].split() == ["compared", "5", "runs,", "r20", "to", "r24"]
        assert lines[2].startswith("op self time")
        assert "Takes longer" in lines
        assert lines[-1].split()[:2] == ["op", "op4"]

    def test_rows_for_programs(self, store: Path, run: Run) -> None:
        options = ["--baseline", "20", "--runs", "5", "--format", "json", "--fail-on", "5%"]
        code, out, _ = run("check", store, *options)
        assert code == 3
        (row,) = json.loads(out)
        assert (row["what"], row["name"], row["significant"]) == ("op", "op4", True)
        assert list(row) == list(regressions.COLUMNS)
