"""``profframe.diff``: numbers by hand, and any tables against plain loops."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import ParameterError, Trace, UnknownNameError
from profframe.analysis import fail_on
from tests.builders import stored

Rows = Sequence[Mapping[str, object]]
Key = tuple[str, str | None]

EXAMPLES: Final = Path(__file__).parent.parent.parent / "examples"
HOSTILE: Final = ("it's", '<b>"x"</b>', "a; DROP TABLE events", "\x1b[31m\n", "名前 ", "", None)
SIDES: Final = ("base", "other")


def trace(rows: Rows, runs: Iterable[tuple[str, int]] = ()) -> Trace:
    """Events as they are in a store; ``runs`` are traces that may have none."""
    events = [{"event_id": i, "run": "r", "rank": 0} | dict(row) for i, row in enumerate(rows)]
    keys = {(row["run"], row["rank"]) for row in events} | {*runs}
    return stored(events=events, traces=[{"run": run, "rank": rank} for run, rank in keys])


def op(name: str | None, self_ns: int | None, **columns: object) -> dict[str, object]:
    return {"kind": "host_op", "name": name, "self_ns": self_ns, "dur_ns": self_ns} | columns


def kernel(name: str | None, dur_ns: int | None, **columns: object) -> dict[str, object]:
    times = dict.fromkeys(("dur_ns", "self_ns", "device_ns", "self_device_ns"), dur_ns)
    return {"kind": "kernel", "name": name} | times | columns


def annotation(name: str, dur_ns: int, **columns: object) -> dict[str, object]:
    return {"kind": "annotation", "name": name, "dur_ns": dur_ns, "self_ns": 0} | columns


def row(frame: pl.DataFrame, name: str | None, what: str = "op") -> dict[str, Any]:
    found = frame.filter(pl.col("name").eq_missing(pl.lit(name)), what=what)
    assert found.height == 1
    return found.row(0, named=True)


def values(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return frame.select(columns).rows()


# One run a side.


def test_rows_by_hand() -> None:
    base = trace([op("mm", 60), op("mm", 40), op("relu", 30), op("gone", 5), kernel("k", 70)])
    other = trace([op("mm", 150), op("relu", 20), op("new", 15), kernel("k", 70)])

    found = profframe.diff(base, other)

    assert values(
        found, "what", "name", "base_calls", "other_calls", "base_ns", "other_ns", "change_ns"
    ) == [
        ("op", "mm", 2, 1, 100, 150, 50),
        ("op", "new", 0, 1, 0, 15, 15),
        ("op", "relu", 1, 1, 30, 20, -10),
        ("op", "gone", 1, 0, 5, 0, -5),
        ("kernel", "k", 1, 1, 70, 70, 0),
    ]
    assert values(found, "status", "ratio", "contribution") == [
        ("changed", 1.5, 1.0),
        ("added", None, 0.3),
        ("changed", 2 / 3, -0.2),
        ("removed", 0.0, -0.1),
        ("equal", 1.0, None),
    ]
    assert values(found, "base", "other", "base_samples", "other_samples")[0] == (*SIDES, 1, 1)
    for name in ("change_low_ns", "change_high_ns", "p_value", "q_value", "significant"):
        assert found[name].is_null().all()


def test_annotations_are_inclusive_and_contribute_nothing() -> None:
    base = trace([annotation("ProfilerStep#3", 100), annotation("fwd", 40, device_ns=7)])
    other = trace([annotation("ProfilerStep#9", 160), annotation("fwd", 90, device_ns=9)])

    found = profframe.diff(base, other)

    assert values(found, "what", "name", "change_ns", "contribution", "base_device_ns") == [
        ("annotation", "ProfilerStep*", 60, None, None),
        ("annotation", "fwd", 50, None, 7),
    ]


def test_work_and_its_rates() -> None:
    """An op's work is done in the time of its kernels; what is inside an owner owns nothing."""
    base = trace(
        [
            op("linear", 50, device_ns=2000, self_device_ns=0, work_id=0, flops=10**6, bytes=4000),
            op("addmm", 30, device_ns=2000, self_device_ns=2000, work_id=0, flops=9, bytes=9),
            kernel("gemm", 2000, work_id=0, flops=10**6, bytes=4000),
            kernel("other", 9),
            op("on the host", 20, device_ns=0, work_id=4, flops=40),
        ]
    )
    found = profframe.diff(base, trace([]))

    columns = ("base_flops", "base_flops_per_s", "base_bytes", "base_bytes_per_s")
    for name, what in (("linear", "op"), ("gemm", "kernel")):
        got = row(found, name, what)
        assert [got[c] for c in columns] == [10**6, 5e11, 4000, 2e9]
    assert [row(found, "addmm")[c] for c in (*columns, "base_device_ns")] == [None] * 4 + [2000]
    assert row(found, "on the host")["base_flops_per_s"] == 2e9
    assert found["other_flops"].is_null().all()
    assert found["other_device_ns"].to_list() == [0] * 5


def test_kernels_by_short_name_and_by_shapes() -> None:
    """Other kernels for the same op and shapes are one row by shapes."""
    mm = op("aten::mm", 9, input_dims="[[2,3],[3,4]]")
    base = trace([mm, kernel("void sm80<float>(float*)", 50, op_id=0)])
    other = trace([mm, kernel("void sm90<float>(float*)", 20, op_id=0)])

    by = {kernel_by: profframe.diff(base, other, kernel_by=kernel_by) for kernel_by in KERNEL_BY}

    kernels = {k: values(f.filter(what="kernel"), "name", "change_ns") for k, f in by.items()}
    assert kernels == {
        "name": [("void sm80<float>(float*)", -50), ("void sm90<float>(float*)", 20)],
        "short_name": [("sm80", -50), ("sm90", 20)],
        "shapes": [("aten::mm [[2,3],[3,4]]", -30)],
    }


KERNEL_BY: Final = ("name", "short_name", "shapes")


def test_copies_are_kernels_on_demand() -> None:
    copy = kernel("Memcpy HtoD", 8, bytes=64) | {"kind": "memcpy"}
    assert profframe.diff(trace([copy]), trace([])).height == 0
    found = profframe.diff(trace([copy]), trace([]), copies=True)
    assert values(found, "what", "name", "base_bytes", "base_bytes_per_s") == [
        ("kernel", "Memcpy HtoD", 64, 8e9)
    ]


def test_names_are_matched_to_the_letter() -> None:
    names = (*HOSTILE, "triton_0x7f01", "triton_0x7f02", "Mm", "mm", "mm ")
    base = trace([op(name, 10 + i) for i, name in enumerate(names)])
    other = trace([op(name, 20 + i) for i, name in enumerate(names)])

    found = profframe.diff(base, other, ("it's", '"<b>\x1b'))

    assert found.height == len(names)
    assert sorted(found["name"].fill_null("NULL")) == sorted(
        name or "" if name is not None else "NULL" for name in names
    )
    assert found["change_ns"].to_list() == [10] * len(names)
    assert values(found, *SIDES)[0] == ("it's", '"<b>\x1b')


def test_times_that_are_not_known() -> None:
    """Calls count; their time is not zero, and nothing is said of its change."""
    found = profframe.diff(trace([op("a", None), op("b", 5), op("b", None)]), trace([op("a", 3)]))
    assert values(found.sort("name"), "name", "base_calls", "base_ns", "change_ns", "status") == [
        ("a", 1, None, None, "changed"),
        ("b", 2, 5, -5, "removed"),
    ]


def test_nothing_at_all() -> None:
    found = profframe.diff(trace([]), trace([]))
    assert found.height == 0
    assert found.schema == profframe.diff(trace([op("a", 1)]), trace([])).schema
    assert found.schema["significant"] == pl.Boolean


# Several runs, ranks and steps.


def test_ranks_are_added_up_and_runs_averaged() -> None:
    """Of 3 runs: 10 + 20, 31, and a run without the op; 61 / 3 is 20.33."""
    base = trace(
        [op("a", 10, run="1"), op("a", 20, run="1", rank=1), op("a", 31, run="2")], [("3", 0)]
    )
    other = trace([op("a", 2, run="1"), op("a", 3, run="2")])

    found = row(profframe.diff(base, other), "a")

    assert (found["base_calls"], found["base_ns"], found["base_samples"]) == (1.0, 20, 3)
    assert (found["other_calls"], found["other_ns"], found["other_samples"]) == (1.0, 3, 2)
    assert found["change_ns"] == -17
    assert 0 < found["p_value"] < 1
    assert found["significant"] is False


def test_one_run_says_nothing_of_the_noise() -> None:
    many = [op("a", 10 + i, run=str(i)) for i in range(5)]
    for base, other in ((many, many[:1]), (many[:1], many)):
        found = row(profframe.diff(trace(base), trace(other)), "a")
        assert found["p_value"] is found["significant"] is found["change_low_ns"] is None


def test_steps_are_averaged_and_what_is_in_none_is_left_out() -> None:
    def steps(*times: int) -> list[dict[str, object]]:
        return [op("a", time, step=i) for i, time in enumerate(times)] + [op("a", 999)]

    base, other = trace(steps(10, 12, 11)), trace(steps(100, 120, 110, 112))

    found = row(profframe.diff(base, other, per="step"), "a")

    assert (found["base_ns"], found["other_ns"], found["other_samples"]) == (11, 111, 4)
    assert found["change_low_ns"] <= 100 <= found["change_high_ns"]
    whole = row(profframe.diff(base, other), "a")
    assert (whole["base_ns"], whole["base_samples"]) == (33 + 999, 1)


def marked(*times: int | None) -> list[dict[str, object]]:
    """Steps of these lengths, an op of 5 ns and a kernel of 7 in each."""
    rows: list[dict[str, object]] = []
    for n, ns in enumerate(times):
        mark = annotation(f"ProfilerStep#{n}", 0, step=n) | {"dur_ns": ns, "start_ns": 1000 * n}
        rows += [mark, op("a", 5 + 100 * (n == 0), step=n), kernel("k", 7, step=n)]
    return rows


def test_steady_steps_count_and_it_is_said_how_many_are_left_out() -> None:
    """The first is the warm-up, the last was cut off; of three steps nobody can tell."""
    base, other = trace(marked(900, 100, 100, 100, None)), trace(marked(900, 100, 100))
    columns = ("base_ns", "other_ns", "base_samples", "other_samples", "base_steps_left_out")
    found = profframe.diff(base, other, per="step")
    assert values(found.filter(name="a"), *columns) == [(5, 38, 3, 3, 2)]
    assert found["other_steps_left_out"].unique().to_list() == [0]
    assert found["base_outside_ns"].unique().to_list() == [0]
    found = profframe.diff(base, other, per="step", steps="all")
    assert values(found.filter(name="a"), *columns) == [(25, 38, 5, 3, 0)]
    whole = profframe.diff(base, other)
    assert values(whole.filter(name="a"), *columns) == [(125, 115, 1, 1, 0)]
    with pytest.raises(UnknownNameError, match="did you mean 'steady'"):
        profframe.diff(base, other, per="step", steps="stady")


def test_a_step_that_one_rank_calls_warm_up_is_none_of_the_run() -> None:
    ranks = [row | {"rank": 0} for row in marked(100, 100, 100, 100)]
    ranks += [row | {"rank": 1} for row in marked(900, 100, 100, 100)]
    ranks = [row | {"event_id": n} for n, row in enumerate(ranks)]
    found = profframe.diff(trace(ranks), trace(ranks), per="step")
    assert values(found.filter(name="a"), "base_samples", "base_steps_left_out") == [(3, 1)]


def test_time_per_call_where_calls_differ_in_number() -> None:
    """4 calls of 10 become 5 of 9: 45 against 40, and each call is a tenth shorter."""
    base = [*(op("a", 10) for _ in range(4)), op("b", 7), op("gone", 3), op("c", 1), op("c", 2)]
    other = [*(op("a", 9) for _ in range(5)), op("b", 9), op("new", 4), op("c", 0)]
    found = profframe.diff(trace(base), trace(other)).sort("name")
    assert values(found, "name", "base_call_ns", "other_call_ns", "warning") == [
        ("a", 10, 9, "+25.0 % calls, -10.0 % per call"),
        ("b", 7, 9, None),
        ("c", 2, 0, "-50.0 % calls, -100.0 % per call"),
        ("gone", 3, None, None),
        ("new", None, 4, None),
    ]


def outside_of_steps() -> list[dict[str, object]]:
    """Three steps of 10, 12 and 11 ns of kernels, 30 ns of kernels and 9 ns of ops in none."""
    times = enumerate((10, 12, 11))
    return [
        *(kernel("k", time, step=step, device=step % 2) for step, time in times),
        *(kernel("k", 20, device=0), kernel("cut off", 10, device=1), op("setup", 9)),
    ]


def test_what_is_in_no_step_is_counted_beside_the_rest() -> None:
    rows = outside_of_steps()
    found = profframe.diff(trace(rows), trace(rows[:3]), per="step")
    columns = ("name", "base_ns", "base_outside_ns", "other_outside_ns")
    assert values(found, *columns) == [("k", 11, 10, 0)]


@pytest.mark.parametrize(
    ("outside", "expected"),
    [
        ("kernels", [("kernel", "cut off", 3, 1 / 3, 0), ("kernel", "k", 18, 4 / 3, 0)]),
        (
            "all",
            [
                ("op", "setup", 3, 1 / 3, 0),
                ("kernel", "cut off", 3, 1 / 3, 0),
                ("kernel", "k", 18, 4 / 3, 0),
            ],
        ),
    ],
)
def test_what_is_in_no_step_counts_evenly(outside: str, expected: list[tuple[object, ...]]) -> None:
    """(33 + 20) / 3 is 17.67, and 10 / 3 is 3.33."""
    side = trace(outside_of_steps())
    found = profframe.diff(side, side, per="step", outside=outside)
    columns = ("what", "name", "base_ns", "base_calls", "base_outside_ns")
    kinds = {"op": 0, "kernel": 1}
    got = sorted(values(found, *columns), key=lambda row: (kinds[row[0]], row[1]))
    assert got == expected


def test_what_is_in_no_step_was_measured_once_and_is_not_tested() -> None:
    """In even parts it would be ten equal numbers a side: any change would be significant."""

    def side(in_steps: int, in_none: int) -> Trace:
        steps = (kernel(name, in_steps + n, step=n) for n in range(10) for name in ("k", "both"))
        return trace([*steps, kernel("both", in_none), kernel("cut off", in_none)])

    found = profframe.diff(side(100, 100), side(200, 110), per="step", outside="kernels")
    columns = ("name", "change_ns", "significant", "change_low_ns", "p_value", "q_value")
    assert values(found.filter(pl.col("name") != "k"), *columns) == [
        ("both", 101, None, None, None, None), ("cut off", 1, None, None, None, None),
    ]  # fmt: skip
    alone = row(found, "k", "kernel")
    assert (alone["change_ns"], alone["significant"]) == (100, True)
    assert alone["change_low_ns"] <= 100 <= alone["change_high_ns"]


def test_outside_is_for_steps_alone() -> None:
    side = trace(outside_of_steps())
    with pytest.raises(ParameterError, match="only with per='step'"):
        profframe.diff(side, side, outside="all")
    with pytest.raises(UnknownNameError, match="did you mean 'kernels'"):
        profframe.diff(side, side, per="step", outside="kernel")


def test_kernels_of_each_device() -> None:
    found = profframe.diff(trace(outside_of_steps()), trace([]), devices=True)
    got = values(found.filter(what="kernel"), "name", "device", "base_ns", "base_calls")
    assert got == [("k", 0, 41, 3.0), ("k", 1, 12, 1.0), ("cut off", 1, 10, 1.0)]


def test_shares_of_the_peaks() -> None:
    """1e9 FLOP in 2 us of a peak of 1e15 FLOP/s are half of it; 1e6 bytes in it, of 1e12, too."""
    devices = [
        {"run": "r", "rank": 0, "device": 0, "fp32_flop_per_s": 1e15, "bandwidth_bytes_per_s": 1e12}
    ]
    work = {"work_dtype": "fp32", "device": 0, "work_id": 0}
    rows: list[dict[str, object]] = [
        op("mm", 100, event_id=0, work_id=0, device_ns=6000, flops=2 * 10**9, bytes=3 * 10**6),
        kernel("a", 2000, event_id=1, flops=10**9, bytes=10**6, **work),
        kernel("a", 4000, event_id=2, flops=10**9, bytes=2 * 10**6, **work),
        kernel("b", 9, event_id=3, flops=10**9, **work | {"device": 1, "work_id": None}),
    ]
    events = [{"run": "r", "rank": 0} | row for row in rows]
    side = stored(events=events, traces=[{"run": "r", "rank": 0}], devices=devices)

    found = profframe.diff(side, trace([]))

    columns = [f"{side}_{peak}_share" for side in SIDES for peak in ("flop", "bandwidth")]
    for name, what in (("mm", "op"), ("a", "kernel")):
        assert values(found.filter(name=name, what=what), *columns) == [(1 / 3, 0.5, None, None)]
    assert values(found.filter(name="b"), *columns) == [(None,) * 4]


def test_a_changed_op_is_found_among_noise() -> None:
    def runs(factor: float, seed: int) -> Trace:
        random = np.random.default_rng(seed)
        names = [f"op{i}" for i in range(40)]
        return trace(
            [
                op(
                    name,
                    round(1e6 * random.normal(1, 0.02) * (factor if name == "op7" else 1)),
                    run=str(run),
                )
                for run in range(5)
                for name in names
            ]
        )

    found = profframe.diff(runs(1, 1), runs(1.1, 2))
    assert found.filter("significant")["name"].to_list() == ["op7"]
    got = row(found, "op7")
    assert got["change_low_ns"] < 100_000 < got["change_high_ns"]
    assert not profframe.diff(runs(1, 1), runs(1, 2))["significant"].any()


def test_a_mean_of_calls_is_the_nearest_double() -> None:
    """3 of 5 runs are 0.6, and not 3 times a fifth: 0.6000000000000001."""
    rows = [op("all", 1, run=f"{run}") for run in range(5)]
    side = trace([*rows, *(op(name, 1, run=f"{run}") for name in "abc" for run in range(3))])
    assert set(profframe.diff(side, side)["base_calls"]) == {1.0, 0.6}


# Any tables, against loops.

_NAME: Final = st.sampled_from([*HOSTILE, "a", "b"])
_TIME: Final = st.none() | st.integers(-50, 10**12)
_EVENT: Final = st.fixed_dictionaries(
    {
        "run": st.sampled_from(["1", "2"]),
        "rank": st.sampled_from([0, 3]),
        "kind": st.sampled_from(["host_op", "kernel", "annotation", "memcpy", "runtime", "sync"]),
        "name": _NAME,
        "step": st.none() | st.integers(0, 2),
        "self_ns": _TIME,
        "dur_ns": _TIME,
    }
)
_WHAT: Final = {"host_op": "op", "kernel": "kernel", "annotation": "annotation"}


def looped(events: Rows, per: str) -> tuple[dict[Key, tuple[Fraction, int | None]], int]:
    """Mean calls and time of each row, by loops; and the number of samples."""
    counted = [e for e in events if e["kind"] in _WHAT and (per == "run" or e["step"] is not None)]
    sampled = counted if per == "step" else events
    number = len({(e["run"], e["step"] if per == "step" else None) for e in sampled}) or 1
    calls: dict[Key, int] = defaultdict(int)
    times: dict[Key, list[Any]] = defaultdict(list)
    for e in counted:
        key = _WHAT[str(e["kind"])], e["name"] if e["name"] is None else str(e["name"])
        calls[key] += 1
        time = e["self_ns" if e["kind"] == "host_op" else "dur_ns"]
        times[key] += [] if time is None else [time]
    means = {
        key: math.floor(Fraction(sum(times[key]), number) + Fraction(1, 2)) if times[key] else None
        for key in calls
    }
    return {key: (Fraction(calls[key], number), means[key]) for key in calls}, number


@given(
    st.lists(_EVENT, max_size=12), st.lists(_EVENT, max_size=12), st.sampled_from(["run", "step"])
)
def test_any_tables(base: Rows, other: Rows, per: str) -> None:
    expected = [looped(side, per) for side in (base, other)]
    try:
        found = profframe.diff(trace(base), trace(other), per=per)
    except ParameterError:
        assert per == "step"
        assert not all(rows for rows, _ in expected)
        return
    got = {
        (what, name): tuple(rest)
        for what, name, *rest in found.select(
            "what", "name", "base_calls", "base_ns", "other_calls", "other_ns", "change_ns"
        ).iter_rows()
    }
    assert got.keys() == expected[0][0].keys() | expected[1][0].keys()
    for key, (base_calls, base_ns, other_calls, other_ns, change) in got.items():
        for (rows, _), calls, ns in zip(
            expected, (base_calls, other_calls), (base_ns, other_ns), strict=True
        ):
            mean_calls, mean = rows.get(key, (Fraction(0), 0))
            assert (calls, ns) == (float(mean_calls), mean)
        known = base_ns is not None and other_ns is not None
        assert change == (other_ns - base_ns if known else None)
    check_sums(found)
    order = [
        (found["what"][i], abs(c) if c is not None else -1)
        for i, c in enumerate(found["change_ns"])
    ]
    rank = ("op", "kernel", "annotation")
    assert order == sorted(order, key=lambda o: (rank.index(o[0]), -o[1]))


def check_sums(found: pl.DataFrame) -> None:
    """Contributions are of the total, and changes its sum."""
    for what in ("op", "kernel"):
        rows = found.filter(what=what)
        total = rows["change_ns"].sum()
        for change, contribution in values(rows, "change_ns", "contribution"):
            if total == 0 or change is None:
                assert contribution is None
            else:
                assert contribution == change / total
    assert found.filter(what="annotation")["contribution"].is_null().all()


# Sides.


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("diff")
    for name in ("fp32", "bf16"):
        profframe.load(EXAMPLES / f"{name}.json.gz").to_parquet(folder / name)
    return str(folder / "fp32"), str(folder / "bf16")


def test_traces_paths_and_stores_are_alike(stores: tuple[str, str]) -> None:
    found = profframe.diff([EXAMPLES / "fp32.json.gz"], str(EXAMPLES / "bf1*.gz"))

    assert found.equals(profframe.diff(*stores))
    assert found.equals(profframe.diff(profframe.load(EXAMPLES / "fp32.json.gz"), stores[1]))
    check_sums(found)


def test_changes_of_the_examples_add_up_to_the_nanosecond(stores: tuple[str, str]) -> None:
    """The same training in float32 and in bfloat16: the total is that of the events."""
    base, other = (profframe.load(store) for store in stores)
    found = profframe.diff(base, other, ("fp32", "bf16")).filter(what="op")
    totals = [
        sum(t for t in side.events.filter(kind="host_op")["self_ns"].to_list() if t is not None)
        for side in (base, other)
    ]
    assert found["change_ns"].sum() == totals[1] - totals[0]
    assert sum(Fraction(c) for c in found["contribution"]) == pytest.approx(1, abs=1e-12)
    assert found["base_flops_per_s"].max() is not None


def test_a_trace_is_equal_to_itself(stores: tuple[str, str]) -> None:
    for per in ("run", "step"):
        found = profframe.diff(stores[0], stores[0], per=per)
        assert (found["change_ns"] == 0).all()
        assert (found["status"] == "equal").all()
        assert found["contribution"].is_null().all()
        assert not found["significant"].any()


def test_filtered_traces() -> None:
    whole = profframe.load(EXAMPLES / "fp32.json.gz")
    first, second = whole.step_times()["step"][:2]
    found = profframe.diff(whole.filter(steps=first), whole.filter(steps=second))
    assert set(found["what"]) == {"op", "annotation"}
    assert profframe.diff(whole.filter(kinds="annotation"), whole)["what"].unique().len() == 2


def test_a_run_of_the_example_and_its_steps_are_noise() -> None:
    """Steps of one run against other steps of the same run."""
    whole = profframe.load(EXAMPLES / "fp32.json.gz")
    steps = whole.step_times()["step"].to_list()
    half = len(steps) // 2
    found = profframe.diff(
        whole.filter(steps=steps[:half]), whole.filter(steps=steps[half:]), per="step"
    )
    assert not found["significant"].any()


@pytest.mark.parametrize("names", ["ab", ("a",), ("a", "a"), ("a", ""), ("a", 1), ["a", "b", "c"]])
def test_names_are_two_different_texts(names: Any) -> None:
    with pytest.raises(ParameterError, match="two different texts"):
        profframe.diff(trace([]), trace([]), names)


@pytest.mark.parametrize(("parameter", "value"), [("kernel_by", "shape"), ("per", "steps")])
def test_unknown_values_are_refused_before_anything_is_loaded(parameter: str, value: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        profframe.diff("no such file", "no such file", **{parameter: value})  # type: ignore[arg-type]


def test_a_side_without_steps_is_named() -> None:
    with pytest.raises(
        ParameterError, match=r"per='step': 'new' has nothing inside profiler steps"
    ):
        profframe.diff(trace([op("a", 1, step=1)]), trace([op("a", 1)]), ("old", "new"), per="step")


# Limits.


@pytest.mark.parametrize(
    ("text", "part"),
    [("5%", Fraction(1, 20)), (" 0.5 % ", Fraction(1, 200)), ("0%", 0), ("250%", Fraction(5, 2))],
)
def test_limits(text: str, part: Fraction) -> None:
    assert fail_on.percent(text) == part


@pytest.mark.parametrize(
    "text", ["", "5", "5x", "%", "-5%", "5%%", "nan%", "inf%", "1e3%", "5 5%", "\u0665%"]
)
def test_no_limits(text: str) -> None:
    with pytest.raises(ParameterError, match="a number and %"):
        fail_on.percent(text)


def grown(base: Rows, other: Rows, limit: str = "5%") -> list[tuple[str, str | None]]:
    found = fail_on.growths(profframe.diff(trace(base), trace(other)), fail_on.percent(limit))
    return [(one.what, one.name) for one in found]


def test_totals_count_and_only_beyond_the_limit() -> None:
    assert grown([op("a", 100)], [op("a", 105)]) == []
    assert grown([op("a", 100)], [op("a", 106)]) == [("op", None)]
    assert grown([op("a", 100), op("b", 100)], [op("a", 150), op("b", 60)]) == []
    assert grown([kernel("a", 100)], [kernel("b", 106)]) == [("kernel", None)]
    assert grown([annotation("a", 100)], [annotation("a", 900)]) == []
    assert grown([op("a", 100)], [op("a", 100), kernel("k", 1)], "900%") == [("kernel", None)]
    assert grown([op("a", 100)], [op("a", 20)], "0%") == []
    assert grown([], [], "0%") == []


def test_significant_rows_count_if_they_hold_a_percent() -> None:
    def runs(large: int, small: int, step: int) -> Rows:
        return [
            one
            for run in range(4)
            for one in (
                op("large", 10**9 + run, run=str(run)),
                op("one percent", large + run, run=str(run)),
                op("less", small + run, run=str(run)),
                annotation("step", step + run, run=str(run)),
            )
        ]

    base = runs(10**8, 10**6, 10**9)
    assert grown(base, runs(106 * 10**6, 10**6, 10**9)) == [("op", "one percent")]
    assert grown(base, runs(104 * 10**6, 10**6, 10**9)) == []
    assert grown(base, runs(10**8, 2 * 10**6, 10**9)) == []
    assert grown(base, runs(90 * 10**6, 10**6, 11 * 10**8)) == [("annotation", "step")]
