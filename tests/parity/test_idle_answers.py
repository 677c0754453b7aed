"""Idle time, gaps and queues against plain loops on drawn and real traces; idle against HTA's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe import Trace
from profframe.query.catalogue import find
from profframe.query.run import run
from tests.builders import table
from tests.cases import connection
from tests.conftest import real_trace
from tests.members import few
from tests.oracles.intervals import end

Row = dict[str, Any]
BUSY: Final = ("kernel", "memcpy", "memset")
CALLS: Final = ("runtime", "driver")
SORTS: Final = {"host_op": "op", "annotation": "annotation", "python": "frame"} | dict.fromkeys(
    CALLS, "call"
)
KERNEL_WAIT_NS: Final = 30_000


# Plain loops, over the rows of one (run, rank) as dicts.


def timed_work(rows: Iterable[Row]) -> list[Row]:
    """Work with a start and a duration, as it starts."""
    found = [
        row
        for row in rows
        if row["kind"] in BUSY and row["start_ns"] is not None and row["dur_ns"] is not None
    ]
    return sorted(found, key=lambda row: (row["start_ns"], row["event_id"]))


def stream_of(row: Row) -> tuple[int | None, int | None]:
    return row["device"], row["stream"]


def lanes(rows: Iterable[Row], per: str) -> dict[tuple[int | None, int | None], list[Row]]:
    found = defaultdict(list)
    for row in timed_work(rows):
        found[row["device"], row["stream"] if per == "stream" else None].append(row)
    return found


def launch(row: Row, calls: Mapping[int, Row]) -> Row | None:
    return calls.get(row["launch_id"])


def thread_of(row: Row, calls: Mapping[int, Row], otherwise: int | None = None) -> int | None:
    call = launch(row, calls)
    return otherwise if call is None else call["thread"]


def queued(row: Row, calls: Mapping[int, Row]) -> int | None:
    call = launch(row, calls)
    return None if call is None else call["start_ns"]


def waits_over(rows: Sequence[Row]) -> dict[int, int]:
    """By event_id of work: when the waits that hold it up were over."""
    calls = {row["event_id"]: row for row in rows if row["kind"] in CALLS}
    all_work = timed_work(rows)
    over: dict[int, int] = {}
    for wait in rows:
        if wait["kind"] != "sync" or "wait" not in (wait["name"] or "").lower():
            continue
        call = launch(wait, calls)
        known_end = None if None in (wait["start_ns"], wait["dur_ns"]) else end(wait)
        behind = [row for row in all_work if stream_of(row) == stream_of(wait)]
        if call is not None and call["start_ns"] is not None:
            order = [(queued(row, calls), row["start_ns"], row["event_id"]) for row in behind]
            keys = [(row[1] if row[0] is None else row[0], *row[1:]) for row in order]
            after = [key for key in keys if key[0] >= call["start_ns"]]
            inside = call["dur_ns"] is not None and known_end is not None
            ends = [] if known_end is None or (inside and known_end <= end(call)) else [known_end]
        else:
            keys = [(row["start_ns"], row["start_ns"], row["event_id"]) for row in behind]
            after = [key for key in keys if key[0] >= (wait["start_ns"] or 0)]
            ends = [] if known_end is None else [known_end]
            if wait["start_ns"] is None:
                continue
        ends += awaited(wait, all_work, calls)
        if after and ends:
            held_up = min(after)[2]
            over[held_up] = max(over.get(held_up, ends[0]), *ends)
    return over


def awaited(wait: Row, all_work: Iterable[Row], calls: Mapping[int, Row]) -> list[int]:
    """When the work ended that was queued on the other stream before the event was recorded."""
    records = [
        call["start_ns"]
        for call in calls.values()
        if call["correlation"] is not None and call["correlation"] == wait["wait_on_correlation"]
    ]
    if wait["wait_on_stream"] is None or not any(at is not None for at in records):
        return []
    recorded = max(at for at in records if at is not None)
    ends = []
    for row in all_work:
        at = queued(row, calls)
        at = row["start_ns"] if at is None else at
        if stream_of(row) == (wait["device"], wait["wait_on_stream"]) and at <= recorded:
            ends.append(end(row))
    return [max(ends)] if ends else []


def late_by(start: int, after: Row, calls: Mapping[int, Row]) -> int:
    """The part of a gap before the launch of what came next."""
    at = queued(after, calls)
    return 0 if at is None else min(max(at - start, 0), after["start_ns"] - start)


def cause_of(start: int, after: Row, over: int | None, calls: Mapping[int, Row], wait: int) -> str:
    at = queued(after, calls)
    host = 0 if at is None else max(at - start, 0)
    waited = 0 if over is None else min(over, after["start_ns"]) - (start + host)
    if waited > host:
        return "sync"
    if host > 0:
        return "host_wait"
    return "kernel_wait" if after["start_ns"] - start < wait else "other"


def gaps_by_hand(
    rows: Sequence[Row], per: str, wait: int, over: Mapping[int, int] | None = None
) -> list[Row]:
    """The gaps; `over` as `waits_over` has it."""
    calls = {row["event_id"]: row for row in rows if row["kind"] in CALLS}
    over = waits_over(rows) if over is None else over
    found = []
    for (device, stream), work in lanes(rows, per).items():
        first_of_end: dict[int, int] = {}
        for row in work:
            first_of_end[end(row)] = min(
                first_of_end.get(end(row), row["event_id"]), row["event_id"]
            )
        busy_until, thread = end(work[0]), thread_of(work[0], calls)
        for row in work[1:]:
            thread = thread_of(row, calls, thread)
            if row["start_ns"] > busy_until:
                found.append(
                    {
                        "device": device,
                        "stream": stream,
                        "start_ns": busy_until,
                        "dur_ns": row["start_ns"] - busy_until,
                        "late": late_by(busy_until, row, calls),
                        "cause": cause_of(busy_until, row, over.get(row["event_id"]), calls, wait),
                        "before_id": first_of_end[busy_until],
                        "after_id": row["event_id"],
                        "thread": thread,
                    }
                )
            busy_until = max(busy_until, end(row))
    return found


def idle_by_hand(rows: Sequence[Row], per: str, gaps: Sequence[Row]) -> set[tuple[Any, ...]]:
    found = set()
    for (device, stream), work in lanes(rows, per).items():
        mine = [gap for gap in gaps if (gap["device"], gap["stream"]) == (device, stream)]
        span = max(map(end, work)) - work[0]["start_ns"]
        idle = sum(gap["dur_ns"] for gap in mine)
        for cause in {gap["cause"] for gap in mine}:
            of_cause = [gap["dur_ns"] for gap in mine if gap["cause"] == cause]
            found.add(
                (
                    device,
                    stream,
                    cause,
                    len(of_cause),
                    sum(of_cause),
                    (2 * sum(of_cause) + len(of_cause)) // (2 * len(of_cause)),
                    max(of_cause),
                    sum(of_cause) / idle,
                    sum(of_cause) / span,
                    span - idle,
                    span,
                    sum(gap["late"] for gap in mine if gap["cause"] == cause),
                )
            )
    return found


def host_by_hand(gap: Row, rows: Iterable[Row]) -> dict[str, tuple[int, int]]:
    """For each sort, the slice that was the innermost for longest, and for how long."""
    start, stop = gap["start_ns"], gap["start_ns"] + gap["dur_ns"]
    slices: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] in SORTS and row["thread"] == gap["thread"] and not row["is_async"]:
            known = None not in (row["start_ns"], row["dur_ns"])
            if known and row["dur_ns"] and row["start_ns"] < stop and end(row) > start:
                slices[SORTS[row["kind"]]].append(row)
    found = {}
    for sort, mine in slices.items():
        in_order = sorted(mine, key=nesting_order)
        times = {at for row in mine for at in (row["start_ns"], end(row)) if start < at < stop}
        held: Counter[int] = Counter()
        for a, b in pairwise(sorted({start, stop, *times})):
            open_rows = [row for row in in_order if row["start_ns"] <= a and end(row) >= b]
            if open_rows:
                held[open_rows[-1]["event_id"]] += b - a
        best = min(held, key=lambda event_id: (-held[event_id], event_id))
        found[sort] = (best, held[best])
    return found


def nesting_order(row: Row) -> tuple[int, int, int, int]:
    return row["start_ns"], -row["dur_ns"], row["preorder"] or 0, row["event_id"]


def depths_by_hand(rows: Sequence[Row]) -> dict[tuple[int | None, int | None], dict[int, int]]:
    """Depth from each change on, by stream."""
    calls = {row["event_id"]: row for row in rows if row["kind"] in CALLS}
    changes: dict[tuple[int | None, int | None], Counter[int]] = defaultdict(Counter)
    for row in rows:
        if row["kind"] in BUSY and row["start_ns"] is not None:
            at = queued(row, calls)
            if at is not None:
                changes[stream_of(row)][at] += 1
                changes[stream_of(row)][row["start_ns"]] -= 1
    found: dict[tuple[int | None, int | None], dict[int, int]] = {}
    for stream, of_stream in changes.items():
        depth = 0
        for at in sorted(of_stream):
            if of_stream[at]:
                depth += of_stream[at]
                found.setdefault(stream, {})[at] = depth
    return found


def summary_by_hand(depths: Mapping[int, int], full: int) -> tuple[Any, ...]:
    times = sorted(depths)
    weights: Counter[int] = Counter()
    for a, b in pairwise(times):
        weights[depths[a]] += b - a
    span = weights.total()

    def percentile(percent: int) -> int:
        return min(
            depth
            for depth in weights
            if Fraction(sum(ns for d, ns in weights.items() if d <= depth), span)
            >= Fraction(percent, 100)
        )

    empty = sum(ns for depth, ns in weights.items() if depth <= 0)
    blocked = sum(ns for depth, ns in weights.items() if depth >= full)
    return (
        span,
        sum(depth * ns for depth, ns in weights.items()) / span,
        min(weights),
        max(weights),
        *map(percentile, (50, 90, 99)),
        empty,
        empty / span,
        blocked,
        blocked / span,
    )


# Drawn traces.

STREAMS: Final = st.sampled_from([(0, 7), (0, 7), (0, 7), (0, 8), (1, 7), (0, None), (None, None)])
TIMES: Final = st.one_of(st.integers(0, 60), st.none()) | st.integers(0, 60)
SLICE: Final = st.fixed_dictionaries(
    {
        "rank": st.integers(0, 1),
        "kind": st.sampled_from([*BUSY, "kernel", "kernel", "sync", "sync", *CALLS, "runtime"]),
        "name": st.sampled_from(["k", "Stream Wait Event", "Stream Sync", None]),
        "start_ns": TIMES,
        "dur_ns": st.one_of(st.integers(0, 9), st.none()) | st.integers(0, 9),
        "thread": st.integers(0, 2),
        "on": STREAMS,
        "launch_id": st.one_of(st.none(), st.integers(0, 24)),
        "correlation": st.one_of(st.none(), st.integers(1, 4)),
        "wait_on_stream": st.sampled_from([7, 8, None]),
        "wait_on_correlation": st.one_of(st.none(), st.integers(1, 4)),
    }
)
SLICES: Final = st.lists(SLICE, max_size=4) | st.lists(SLICE, min_size=12, max_size=25)


def drawn_rows(slices: Iterable[Row]) -> list[Row]:
    rows = []
    for number, drawn in enumerate(slices):
        row: Row = {"event_id": number, "preorder": None, "is_async": None} | drawn
        row["device"], row["stream"] = (
            row.pop("on") if row["kind"] in (*BUSY, "sync") else (None, None)
        )
        if row["kind"] != "sync":
            row["wait_on_stream"] = row["wait_on_correlation"] = None
        if row["kind"] in CALLS:
            row["launch_id"] = None
        rows.append(row)
    return rows


def answered(name: str, rows: Sequence[Row], **parameters: object) -> list[Row]:
    known = [
        {k: v for k, v in row.items() if k != "rank"} | {"rank": row.get("rank", 0)} for row in rows
    ]
    connection().register("events", table("events", known))
    relation = run(connection(), find(name), parameters)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def ranks(rows: Sequence[Row]) -> Iterator[tuple[int, list[Row]]]:
    for rank in sorted({row["rank"] for row in rows}):
        yield rank, [row for row in rows if row["rank"] == rank]


@pytest.mark.parametrize("per", ["stream", "device"])
@given(slices=SLICES)
def test_idle_is_that_of_loops(per: str, slices: list[Row]) -> None:
    rows = drawn_rows(slices)
    found = answered("idle", rows, per=per, kernel_wait_ns=5)
    for rank, mine in ranks(rows):
        got = [
            (*tuple(row.values())[2:13], row["launch_wait_ns"])
            for row in found
            if row["rank"] == rank
        ]
        assert set(got) == idle_by_hand(mine, per, gaps_by_hand(mine, per, 5))
        assert len(got) == len(set(got))
        assert_moments(mine, per, got)


def assert_moments(rows: Sequence[Row], per: str, idle: Iterable[tuple[Any, ...]]) -> None:
    """Busy and idle moments are those of the span, and no moment is both."""
    for lane, work in lanes(rows, per).items():
        busy = {at for row in work for at in range(row["start_ns"], end(row))}
        span = set(range(work[0]["start_ns"], max(map(end, work))))
        assert sum(row[4] for row in idle if row[:2] == lane) == len(span - busy)


@pytest.mark.parametrize("per", ["stream", "device"])
@given(slices=SLICES, top=st.sampled_from([2, 99]))
def test_gaps_are_those_of_loops(per: str, slices: list[Row], top: int) -> None:
    rows = drawn_rows(slices)
    found = answered("gaps", rows, per=per, top=top, kernel_wait_ns=5)
    for rank, mine in ranks(rows):
        got = [row for row in found if row["rank"] == rank]
        assert_gaps(got, mine, gaps_by_hand(mine, per, 5), top)


def assert_gaps(got: Sequence[Row], rows: Sequence[Row], gaps: Iterable[Row], top: int) -> None:
    def place(gap: Row) -> tuple[Any, ...]:
        lane = gap["device"], gap["stream"]
        return -gap["dur_ns"], gap["start_ns"], *((index is None, index or 0) for index in lane)

    expected = [
        {key: gap[key] for key in gap if key != "late"} for gap in sorted(gaps, key=place)[:top]
    ]
    assert [
        {key: row[key] for key in gap} for row, gap in zip(got, expected, strict=True)
    ] == expected
    names = {row["event_id"]: row["name"] for row in rows}
    for row in got:
        host = host_by_hand(row, rows)
        for sort in ("op", "annotation", "frame", "call"):
            event_id, ns = host.get(sort, (None, None))
            assert (row[f"{sort}_id"], row[f"{sort}_ns"]) == (event_id, ns)
            assert row[f"{sort}_name"] == names.get(event_id)
        assert (row["before_name"], row["after_name"]) == (
            names[row["before_id"]],
            names[row["after_id"]],
        )


@given(slices=SLICES)
def test_queues_are_those_of_loops(slices: list[Row]) -> None:
    rows = drawn_rows(slices)
    series, summary = (
        answered("queue_depth", rows),
        answered("queue_depth.stream", rows, full_depth=2),
    )
    for rank, mine in ranks(rows):
        assert_queues(
            [row for row in series if row["rank"] == rank],
            [row for row in summary if row["rank"] == rank],
            mine,
            full=2,
        )


def assert_queues(
    series: Sequence[Row], summary: Sequence[Row], rows: Sequence[Row], full: int
) -> None:
    expected = depths_by_hand(rows)
    got: dict[tuple[Any, Any], dict[int, int]] = defaultdict(dict)
    for row in series:
        got[row["device"], row["stream"]][row["time_ns"]] = row["depth"]
    assert got == expected
    assert sum(map(len, expected.values())) == len(series)
    assert {(row["device"], row["stream"]): tuple(row.values())[4:] for row in summary} == {
        stream: summary_by_hand(depths, full) for stream, depths in expected.items()
    }


NESTED: Final = st.recursive(
    st.tuples(st.sampled_from(sorted(SORTS)), st.integers(0, 6), st.just(())),
    lambda inner: st.tuples(
        st.sampled_from(sorted(SORTS)), st.integers(0, 4), st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=15,
)
"""Kind, time before each child, children."""


def laid_out(drawn: tuple[str, int, tuple[Any, ...]], start: int, into: list[Row]) -> int:
    """Rows of a tree of slices; gives its end."""
    kind, own, children = drawn
    row: Row = {"kind": kind, "name": kind, "start_ns": start, "thread": 1, "preorder": len(into)}
    into.append(row)
    at = start + own
    for child in children:
        at = laid_out(child, at, into) + own
    row["dur_ns"] = at - start
    return at


@given(trees=st.lists(NESTED, max_size=4), gap=st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_the_host_in_a_gap_is_that_of_loops(trees: list[Any], gap: tuple[int, int]) -> None:
    rows: list[Row] = []
    at = 0
    for tree in trees:
        at = laid_out(tree, at, rows)
    nothing = dict.fromkeys(["device", "stream", "launch_id", "is_async", "correlation"])
    nothing |= dict.fromkeys(["wait_on_stream", "wait_on_correlation", "preorder"])
    launch_ = {"kind": "runtime", "name": "l", "start_ns": 200, "dur_ns": 1, "thread": 1}
    work = [
        {"kind": "kernel", "name": "a", "start_ns": 0, "dur_ns": gap[0], "device": 0},
        {"kind": "kernel", "name": "b", "start_ns": sum(gap), "dur_ns": 5, "device": 0},
    ]
    for row in work:
        row |= {"launch_id": len(rows), "thread": 9}
    rows = [nothing | row | {"event_id": i} for i, row in enumerate([*rows, launch_, *work])]
    assert_gaps(answered("gaps", rows), rows, gaps_by_hand(rows, "device", KERNEL_WAIT_NS), top=20)


# The formulas of HolisticTraceAnalysis, whole microseconds, no sync rows.


def hta_idle(rows: Sequence[Row]) -> dict[tuple[Any, Any, str], int]:
    """Its idle time: each row of a stream against the row before, whichever ended last."""
    launched = {row["event_id"]: row["start_ns"] // 1000 for row in rows if row["kind"] in CALLS}
    sums: dict[tuple[Any, Any, str], int] = defaultdict(int)
    for (device, stream), work in lanes(rows, "stream").items():
        for before, row in pairwise(work):
            start, before_end = row["start_ns"] // 1000, end(before) // 1000
            launch_at = launched.get(row["launch_id"], -1)
            if launch_at > before_end:
                category = "host_wait"
            elif start - before_end < 30:
                category = "kernel_wait"
            else:
                category = "other"
            sums[device, stream, category] += start - before_end
    return {key: total for key, total in sums.items() if total}


def overlaps(work: Sequence[Row]) -> bool:
    return any(end(a) > b["start_ns"] for a, b in pairwise(work))


def assert_as_hta(idle: Iterable[Row], rows: Sequence[Row]) -> None:
    """DEV-10: where work overlaps on a stream, its gaps are below zero; those streams differ."""
    differ = {lane for lane, work in lanes(rows, "stream").items() if overlaps(work)}
    found = {
        (row["device"], row["stream"], row["cause"]): row["idle_ns"]
        for row in idle
        if (row["device"], row["stream"]) not in differ
    }
    expected = {key: us * 1000 for key, us in hta_idle(rows).items() if key[:2] not in differ}
    assert found == expected


@given(
    slices=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(0, 200), st.booleans()),
        max_size=12,
    )
)
def test_idle_is_that_of_hta(slices: list[tuple[int, int, int, bool]]) -> None:
    rows: list[Row] = []
    at = 0
    for gap, duration, ahead, is_known in slices:
        at += gap
        times = {"start_ns": at * 1000, "dur_ns": duration * 1000}
        call = {"start_ns": max(at - ahead, 0) * 1000, "dur_ns": 1000}
        launch_id = len(rows) + 1 if is_known else None
        rows += [
            {"kind": "kernel", "device": 0, "stream": 7, "launch_id": launch_id} | times,
            {"kind": "runtime", "launch_id": None} | call,
        ]
        at += duration
    rows = [row | {"event_id": number} for number, row in enumerate(rows)]
    assert_as_hta(answered("idle", rows), rows)


WHOLE_MICROSECONDS: Final = (
    "facebookresearch__HolisticTraceAnalysis/with_gpu_user_annotation/step_based_trace_2543932.json.gz",
    "facebookresearch__param/dlrm_kineto/worker0_step_12.1694128201545.pt.trace.json.gz",
    "facebookresearch__param/dlrm_kineto/worker1_step_12.1694128201556.pt.trace.json.gz",
    "pytorch-labs__segment-anything-fast/amg_example_trace.1c507e.json.gz",
    "pytorch-labs__segment-anything-fast/asdf_True.02c6e0.json.gz",
    "pytorch__kineto/samples/resnet50_num_workers_0.2021-01.worker0.pt.trace.json.gz",
)


@pytest.mark.parametrize("path", few(WHOLE_MICROSECONDS, 3), ids=range(len(WHOLE_MICROSECONDS)))
def test_real_idle_is_that_of_hta(traces: Path, path: str) -> None:
    trace = real_trace(traces / path)
    rows = trace.events.select(COLUMNS.split()).to_dicts()
    assert all(row["start_ns"] % 1000 == 0 for row in timed_work(rows))
    assert_as_hta(trace.idle().to_dicts(), rows)


# Real traces.

TRACES: Final = (
    "AMD-AGI__TraceLens/h100/Qwen1.5-0.5B-Chat.json.gz",
    "AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz",
    "AMD-AGI__TraceLens/inference/sglang_deepseek_r1_B300_1782843274.7730265-TP-0-DECODE.trace.json.gz",
    "AMD-AGI__TraceLens/inference/sglang_deepseek_r1_MI300_1782841132.2905657-TP-0-DECODE.trace.json.gz",
    "AMD-AGI__TraceLens/inference/vllm_piecewise_graph_execution.json.gz",
    "GindaChen__nsys-ai/h100_2gpu_1s.sqlite",
    "facebookresearch__HolisticTraceAnalysis/critical_path/alexnet_benchmark_result.json.gz",
    "facebookresearch__HolisticTraceAnalysis/critical_path/event_sync_multi_stream_trace.json.gz",
    "facebookresearch__HolisticTraceAnalysis/mtia/mtia_inference_rank_0.json.gz",
    "facebookresearch__param/dlrm_kineto/worker1_step_12.1694128201556.pt.trace.json.gz",
    "luatil__torch-profile/trace_04.json.gz",
    "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank0/trace_view.json.gz",
)
COLUMNS: Final = (
    "event_id kind name start_ns dur_ns thread device stream correlation launch_id preorder "
    "is_async wait_on_stream wait_on_correlation"
)


@pytest.mark.parametrize("path", few(TRACES, 3), ids=range(len(TRACES)))
def test_real_traces(traces: Path, path: str) -> None:
    with real_trace(traces / path).session() as trace:
        check_real(trace)


def check_real(trace: Trace) -> None:
    rows = trace.events.select(COLUMNS.split()).to_dicts()
    over = waits_over(rows)
    for per in ("stream", "device"):
        gaps = gaps_by_hand(rows, per, KERNEL_WAIT_NS, over)
        rows_of = trace.idle(per=per).to_dicts()
        idle = {(*[*row.values()][2:13], row["launch_wait_ns"]) for row in rows_of}
        assert idle == idle_by_hand(rows, per, gaps)
        assert_gaps(trace.gaps(per=per, top=5).to_dicts(), rows, gaps, top=5)
    series, summary = trace.queue_depth().to_dicts(), trace.queue_depth(per="stream").to_dicts()
    assert_queues(series, summary, rows, full=1024)
