"""The pair of traces that HTA compares, and its counts, by loops over the source's own JSON.

What HTA does otherwise: it adds up whole durations of ops, so a child's time counts in each op
around it, where here it is self time; it counts calls of the runtime, copies and fills, which are
no op, kernel or annotation; `ProfilerStep#N` of each step is a name of its own; it looks at the
first step unless told which.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from profframe import Trace

PAIR: Final = ("control", "test")
WHAT: Final = {"cpu_op": "op", "kernel": "kernel", "user_annotation": "annotation"}
Key = tuple[str, str]
Slices = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(traces: Path) -> Path:
    return traces / "facebookresearch__HolisticTraceAnalysis" / "trace_diff"


@pytest.fixture(scope="module")
def sides(folder: Path) -> tuple[Trace, Trace]:
    base, other = (profframe.load(folder / f"{name}.json.gz") for name in PAIR)
    return base, other


@pytest.fixture(scope="module")
def sources(folder: Path) -> tuple[Slices, Slices]:
    base, other = (
        [
            event
            for event in json.loads(gzip.decompress((folder / f"{name}.json.gz").read_bytes()))[
                "traceEvents"
            ]
            if event.get("ph") == "X"
        ]
        for name in PAIR
    )
    return base, other


def key(event: Mapping[str, Any]) -> Key:
    return WHAT[event["cat"]], re.sub(r"ProfilerStep#\d+", "ProfilerStep*", event["name"])


def counts(slices: Slices) -> Counter[Key]:
    return Counter(key(event) for event in slices if event.get("cat") in WHAT)


def words(calls: Mapping[Key, tuple[int, int]], what: str) -> Counter[str]:
    """HTA's `ops_diff`: added, deleted, increased, decreased, unchanged."""
    found: Counter[str] = Counter()
    for (of, _), (base, other) in calls.items():
        if of == what:
            change = "increased" if other > base else "decreased" if other < base else "unchanged"
            found["added" if base == 0 else "deleted" if other == 0 else change] += 1
    return found


def test_calls_and_whole_durations(
    sides: tuple[Trace, Trace], sources: tuple[Slices, Slices]
) -> None:
    """Every row: calls of all, durations of kernels and annotations; the sources have whole us."""
    found = profframe.diff(*sides)
    for side, slices in zip(("base", "other"), sources, strict=True):
        times: dict[Key, int] = defaultdict(int)
        for event in slices:
            if event.get("cat") in WHAT:
                times[key(event)] += 1000 * event["dur"]
        expected = counts(slices)
        assert sum(expected.values()) > 40_000
        for what, name, calls, ns in found.select(
            "what", "name", f"{side}_calls", f"{side}_ns"
        ).iter_rows():
            assert calls == expected.pop((what, name), 0)
            assert what == "op" or ns == times[what, name]
        assert not expected


def test_changes_sum_to_the_totals_to_the_nanosecond(sides: tuple[Trace, Trace]) -> None:
    """Self time of the ops: all they have, less what is in what is directly inside them."""
    found = profframe.diff(*sides)
    totals = []
    for side in sides:
        rows = side.events.select("event_id", "parent_id", "kind", "dur_ns").rows()
        times = {"host_op": 0, "kernel": 0}
        kinds = {event: kind for event, _, kind, _ in rows}
        for _, parent, kind, dur in rows:
            if kind in times:
                times[kind] += dur
            if parent is not None and kinds[parent] == "host_op":
                times["host_op"] -= dur
        totals.append(times)
    for what, kind in (("op", "host_op"), ("kernel", "kernel")):
        changes = found.filter(what=what)["change_ns"].to_list()
        total = totals[1][kind] - totals[0][kind]
        assert sum(changes) == total != 0
        contributions = found.filter(what=what)["contribution"].to_list()
        assert contributions == [change / total for change in changes]
        assert round(sum(map(Fraction, contributions)) * total) == total


@pytest.mark.parametrize("what", ["op", "kernel", "annotation"])
def test_counts_of_hta_for_whole_traces(
    sides: tuple[Trace, Trace], sources: tuple[Slices, Slices], what: str
) -> None:
    base, other = map(counts, sources)
    expected = words({k: (base[k], other[k]) for k in base | other}, what)
    found = profframe.diff(*sides).select("what", "name", "base_calls", "other_calls")
    got = {(of, name): (base, other) for of, name, base, other in found.iter_rows()}
    assert words(got, what) == expected
    assert len(expected) >= 1


@pytest.mark.parametrize("what", ["op", "kernel"])
def test_counts_of_hta_for_the_first_step(
    sides: tuple[Trace, Trace], sources: tuple[Slices, Slices], what: str
) -> None:
    """Its default: what begins in the first step; kernels by their launch."""
    expected = [counts(first_step(slices)) for slices in sources]
    control, test = (side.filter(steps=side.step_times()["step"][0]) for side in sides)
    found = profframe.diff(control, test).select("what", "name", "base_calls", "other_calls")
    got = {(of, name): (base, other) for of, name, base, other in found.iter_rows() if of == what}
    base, other = expected
    assert got == {k: (base[k], other[k]) for k in base | other if k[0] == what}


def first_step(slices: Slices) -> Slices:
    marks = [e for e in slices if e["name"].startswith("ProfilerStep#") and "cat" in e]
    mark = min((e for e in marks if e["cat"] in WHAT), key=lambda e: int(e["ts"]))
    start, end = mark["ts"], mark["ts"] + mark["dur"]
    launches = {e["args"]["correlation"]: e["ts"] for e in slices if e.get("cat") == "cuda_runtime"}
    return [
        event
        for event in slices
        if event.get("cat") in ("cpu_op", "kernel")
        and start
        <= (
            event["ts"]
            if event["cat"] == "cpu_op"
            else launches.get(event["args"]["correlation"], -1)
        )
        < end
    ]


def test_each_is_equal_to_itself(sides: tuple[Trace, Trace]) -> None:
    for side in sides:
        for kernel_by in ("name", "short_name", "shapes"):
            found = profframe.diff(side, side, kernel_by=kernel_by, copies=True)
            assert (found["change_ns"] == 0).all()
            assert (found["status"] == "equal").all()


def test_every_grouping_of_kernels_has_the_same_total(sides: tuple[Trace, Trace]) -> None:
    totals = set()
    for kernel_by in ("name", "short_name", "shapes"):
        kernels = profframe.diff(*sides, kernel_by=kernel_by).filter(what="kernel")
        totals.add((kernels["base_ns"].sum(), kernels["change_ns"].sum()))
    assert len(totals) == 1


def test_steps_differ_significantly_only_between_the_traces(sides: tuple[Trace, Trace]) -> None:
    """Other code on another device: most of it. The steps of one trace against each other: no."""
    found = profframe.diff(*sides, per="step")
    large = found.filter(what="op").head(10)
    assert large["significant"].sum() >= 8
    steps = sides[0].step_times()["step"].to_list()
    early, late = (sides[0].filter(steps=some) for some in (steps[:3], steps[3:]))
    assert not profframe.diff(early, late, per="step")["significant"].any()
