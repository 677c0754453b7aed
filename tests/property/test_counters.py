"""What counters were in kernels, and energy, against plain loops over fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from profframe import Trace
from tests.builders import stored

VALUES = st.sampled_from([0.0, 1.0, -3.0, 0.1, 250.5, 1e9, 1e-9, math.nan, math.inf, None])
POWERS = st.sampled_from([0.0, 1.0, 0.25, 250.5, 700.0, -2.0, math.nan, -math.inf, None])
DEVICES = st.integers(0, 1)


def samples(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    one = st.tuples(DEVICES, st.integers(0, 40), values)
    # Two values of one time would leave open which of them holds.
    return st.lists(one, max_size=14, unique_by=lambda row: row[:2])


SLICES = st.lists(
    st.tuples(
        DEVICES,
        st.integers(0, 40),
        st.integers(0, 25),
        st.sampled_from(["gemm", "add"]),
        st.sampled_from(["kernel", "memcpy", "memset", "sync"]),
    ),
    max_size=7,
)


def trace_of(slices: list[Any], values: list[Any], unit: str) -> Trace:
    return stored(
        events=[
            {"kind": kind, "name": name, "start_ns": start, "dur_ns": dur, "device": device}
            for device, start, dur, name, kind in slices
        ],
        counters=[
            {"name": "c", "series": "c", "value": value, "time_ns": time, "device": device}
            | {"unit": unit}
            for device, time, value in values
        ],
    )


def held(values: list[Any], device: int) -> list[tuple[int, int, Fraction]]:
    """From, until and value of each sample that holds for some time and is a number."""
    of = sorted((time, value) for where, time, value in values if where == device)
    pairs = itertools.pairwise(of)
    return [
        (time, until, Fraction(value))
        for (time, value), (until, _) in pairs
        if value is not None and math.isfinite(value)
    ]


def busy(slices: list[Any], device: int) -> list[tuple[int, int, str]]:
    return [
        (start, start + dur, name)
        for where, start, dur, name, kind in slices
        if where == device and kind != "sync"
    ]


@given(SLICES, samples(VALUES))
def test_counters_of_kernels(slices: list[Any], values: list[Any]) -> None:
    rows = trace_of(slices, values, "%").counters_by_op(per="kernel").to_dicts()
    expected = {}
    for device in {where for where, *_ in values}:
        whole = held(values, device)
        work = busy(slices, device)
        for name in {name for *_, name in work}:
            means, covered, count, total, of_all, beside, kernels = [], 0, 0, Fraction(), 0, 0, 0
            for start, end, own in work:
                if own != name:
                    continue
                kernels += 1
                of_all += end - start
                inside = [one for one in whole if one[0] >= start and one[1] <= end]
                ns = sum(until - time for time, until, _ in inside)
                if not ns or 2 * ns < end - start:
                    continue
                amount = sum((until - time) * value for time, until, value in inside)
                means.append(amount / ns)
                total, covered, count = total + amount, covered + ns, count + len(inside)
                beside += sum(sum(a <= t < b for a, b, _ in work) > 1 for t in range(start, end))
            lengths = sum(
                end - start
                for start, end, own in work
                if own == name and (ns := _inside(whole, start, end)) and 2 * ns >= end - start
            )
            expected[name, device] = (
                kernels, of_all, len(means), covered, count,
                float(total / covered) if covered else None,
                float(min(means)) if means else None,
                float(max(means)) if means else None,
                beside / lengths if lengths else None,
            )  # fmt: skip
    assert {(row["kernel"], row["device"]) for row in rows} == expected.keys()
    for row in rows:
        *counts, mean, least, most, part = expected[row["kernel"], row["device"]]
        assert [row[c] for c in ("slices", "total_ns", "ranges", "covered_ns", "samples")] == counts
        for column, number in (("mean_value", mean), ("min_value", least), ("max_value", most)):
            assert _is_near(row[column], number, values)
        assert row["beside_share"] == part


def _inside(whole: list[Any], start: int, end: int) -> int:
    return sum(until - time for time, until, _ in whole if time >= start and until <= end)


def _is_near(value: float | None, exact: float | None, values: list[Any]) -> bool:
    """Equal to the last digits of the largest value of the series."""
    if value is None or exact is None:
        return value is exact
    largest = max(abs(v) for *_, v in values if v is not None and math.isfinite(v))
    return math.isclose(value, exact, rel_tol=1e-14, abs_tol=1e-15 * largest)


@given(SLICES, samples(POWERS))
def test_energy_adds_up(slices: list[Any], values: list[Any]) -> None:
    trace = trace_of(slices, values, "W")
    devices = trace.energy().to_dicts()
    assert {row["device"] for row in devices} == {where for where, *_ in values}
    parts = trace.energy(per="kernel").to_dicts()
    for row in devices:
        device = row["device"]
        whole, work = held(values, device), busy(slices, device)
        at = {t: value for time, until, value in whole for t in range(time, until)}
        running = {t: [one for one in work if one[0] <= t < one[1]] for t in at}
        assert row["sampled_ns"] == len(at)
        if not at:
            assert row["energy_j"] is row["work_j"] is row["idle_j"] is None
            continue
        assert _is_energy(row["energy_j"], sum(at.values()))
        assert _is_energy(row["work_j"], sum(v for t, v in at.items() if running[t]))
        assert _is_energy(row["idle_j"], sum(v for t, v in at.items() if not running[t]))
        own = [part for part in parts if part["device"] == device]
        total = sum((part["energy_j"] or 0) + (part["estimated_j"] or 0) for part in own)
        assert math.isclose(total, row["energy_j"], rel_tol=1e-12, abs_tol=1e-16)
        for name in {name for *_, name in work}:
            measured, other = Fraction(), Fraction()
            for start, end, of in work:
                if of != name:
                    continue
                share = sum(
                    (v / len(running[t]) for t, v in at.items() if start <= t < end), Fraction()
                )
                ns = _inside(whole, start, end)
                is_known = ns and 2 * ns >= end - start and all(t in at for t in range(start, end))
                beside = sum(sum(a <= t < b for a, b, _ in work) > 1 for t in range(start, end))
                is_known = is_known and 10 * beside <= end - start
                measured, other = (
                    (measured + share, other) if is_known else (measured, other + share)
                )
            mine = [part for part in own if part["name"] == name and part["part"] == "work"]
            assert _is_energy(sum(part["energy_j"] or 0 for part in mine), measured)
            assert _is_energy(sum(part["estimated_j"] or 0 for part in mine), other)


def _is_energy(joules: float, watt_ns: Fraction | int) -> bool:
    """Equal to 1e-16 J: power counts in nanowatts, and what is shared in 1e-18 J."""
    return math.isclose(joules, float(watt_ns) / 1e9, rel_tol=1e-12, abs_tol=1e-16)
