"""Calls whose work is not in the trace, on drawn programs: what was taken out is what is told."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import Row, event, facts, loaded
from tests.oracles import lost_work
from tests.property.test_step_times import call_of, program, work

LOST = ("lost_device", "lost_stream", "lost_start_ns", "lost_end_ns")


def made(rows: Sequence[Row]) -> list[dict[str, Any]]:
    table = facts(*rows)["events"]
    known = [n for n in (*lost_work.COLUMNS, *LOST) if n in table.column_names]
    missing = dict.fromkeys((*lost_work.COLUMNS, *LOST))
    return [missing | row for row in table.select(known).to_pylist()]


def lost_places(rows: Sequence[dict[str, Any]]) -> dict[int, tuple[Any, ...]]:
    return {
        row["event_id"]: tuple(row[name] for name in LOST)
        for row in rows
        if row["lost_start_ns"] is not None
    }


@pytest.mark.parametrize("seeds", [range(n, n + 20) for n in range(0, 100, 20)], ids=str)
def test_drawn_programs(seeds: range) -> None:
    for seed in seeds:
        rows = made(thinned(program(seed), random.Random(seed)))  # noqa: S311
        assert lost_places(rows) == lost_work.places(rows)


def thinned(rows: list[Row], draw: random.Random) -> list[Row]:
    """Without some of the work; some programs capture a graph, or work that has no correlation."""
    share = draw.choice((0.0, 0.02, 0.3, 0.9))
    kept = [row for row in rows if "stream" not in row or draw.random() >= share]
    if draw.random() < 0.3:
        start = draw.randint(0, 500)
        names = draw.choice((["Begin", "End"], ["Begin"], ["End"]))
        kept += [
            call_of(f"cudaStream{name}Capture", start + 50 * n, start + 50 * n + 1, 9000 + n)
            for n, name in enumerate(names)
        ]
    if draw.random() < 0.3:
        kept.append(work("stray", draw.randint(0, 900), 1_000, draw.choice((7, 9)), 0))
    return kept


class Queues:
    """A program of which each op has a stream of its own; all truth about its work is known."""

    def __init__(self, seed: int, lost_share: float = 0.3) -> None:
        draw = random.Random(seed)  # noqa: S311
        streams = (7, 20, 21)[: draw.randint(1, 3)]
        free = dict.fromkeys(streams, 0)
        self.rows: list[Row] = []
        self.lost: dict[int, tuple[int, int, int]] = {}
        """Stream, start and end of the work of each call, by its correlation."""
        now = 0
        for correlation in range(1, draw.randint(2, 60)):
            stream = draw.choice(streams)
            now += draw.randint(0, 40)
            self.rows += [
                event(f"aten::op{stream}", now, now + 9),
                call_of("cudaLaunchKernel", now + 2, now + 5, correlation),
            ]
            start = max(free[stream], now + 3 + draw.randint(0, 3))
            free[stream] = end = start + draw.randint(1, 80)
            now += 10
            if draw.random() < lost_share:
                self.lost[correlation] = (stream, start, end)
            else:
                self.rows.append(work("k", start, end, stream, correlation))
        self.rows.append(event("aten::end", max(now, *free.values()), max(now, *free.values()) + 1))


@pytest.mark.parametrize("seeds", [range(n, n + 25) for n in range(0, 50, 25)], ids=str)
def test_the_truth_is_within_what_is_told(seeds: range) -> None:
    for seed in seeds:
        truth = Queues(seed)
        rows = made(truth.rows)
        of_calls = {row["correlation"]: row for row in rows if row["kind"] == "runtime"}
        assert {n for n, row in of_calls.items() if row["lost_end_ns"]} == set(truth.lost)
        for correlation, (stream, start, end) in truth.lost.items():
            told = of_calls[correlation]
            if told["lost_stream"] in {stream, None}:
                assert told["lost_start_ns"] <= start
                assert end <= told["lost_end_ns"]


def test_all_work_of_a_program_is_lost() -> None:
    """Its steps have no length: how long the host took is not how long they took."""
    calls = [call_of("cudaLaunchKernel", 100 * n, 100 * n + 2, n + 1) for n in range(4)]
    marks = [
        event(f"ProfilerStep#{n}", 200 * n, 200 * n + 200, category="user_annotation")
        for n in (0, 1)
    ]
    trace = loaded(*marks, *calls)
    assert trace.step_times().select("step_ns", "lack", "host_ns").rows() == [
        (None, "records", 200), (None, "records", 200)
    ]  # fmt: skip
    rows = made([*marks, *calls])
    assert lost_places(rows) == {n + 2: (None, None, 100 * n, 400) for n in range(4)}


def test_a_capture_is_of_its_process() -> None:
    rows = made(
        [
            {**call_of("cudaStreamBeginCapture", 0, 1, 1), "pid": "2", "thread": 2},
            call_of("cudaLaunchKernel", 10, 12, 2),
            {**call_of("cudaLaunchKernel", 10, 12, 3), "pid": "2", "thread": 3},
            call_of("cudaLaunchKernel", 20, 22, 4),
            work("k", 30, 40, 7, 4),
        ]
    )
    assert lost_places(rows) == {1: (0, 7, 10, 30)}


def test_as_much_work_without_a_number_is_not_lost() -> None:
    """On two streams, so that nobody can tell which call launched which."""
    calls = [call_of("cudaLaunchKernel", 10 * n, 10 * n + 2, n) for n in (1, 2, 3)]
    linked = [*calls, work("k", 40, 50, 7, 3)]
    strays = [work("k", 15, 20, 7, 0), work("k", 25, 30, 8, 0)]
    assert lost_places(made([*linked, *strays])) == {}
    assert set(lost_places(made([*linked, strays[0]]))) == {0, 1}
    early = work("k", 5, 8, 8, 0)
    assert set(lost_places(made([*linked, strays[0], early]))) == {0, 1}


@pytest.mark.parametrize("per", ["device", "stream"])
def test_gaps_end_where_lost_work_may_have_begun(per: str) -> None:
    """On drawn programs: each gap of a lane is recorded until then, and unrecorded from then on."""
    unrecorded = 0
    for seed in range(10):
        rows = Queues(seed).rows
        trace = loaded(*rows)
        parts: dict[Any, list[tuple[int, int, bool]]] = {}
        for gap in trace.gaps(per=per, top=9999).to_dicts():
            end = gap["start_ns"] + gap["dur_ns"]
            parts.setdefault((gap["device"], gap["stream"]), []).append(
                (gap["start_ns"], end, gap["cause"] == "unrecorded")
            )
        wanted = gaps_of(made(rows), per)
        assert {lane: sorted(of) for lane, of in parts.items()} == wanted
        unrecorded += sum(is_lost for of in wanted.values() for *_, is_lost in of)
    assert unrecorded > 20


def gaps_of(
    rows: Sequence[dict[str, Any]], per: str
) -> dict[tuple[Any, Any], list[tuple[int, int, bool]]]:
    lanes: dict[tuple[Any, Any], list[tuple[int, int]]] = {}
    for row in rows:
        if row["kind"] in lost_work.WORK and None not in {row["start_ns"], row["dur_ns"]}:
            lane = (row["device"], row["stream"] if per == "stream" else None)
            lanes.setdefault(lane, []).append((row["start_ns"], row["start_ns"] + row["dur_ns"]))
    parts: dict[tuple[Any, Any], list[tuple[int, int, bool]]] = {}
    for (device, stream), spans in lanes.items():
        lost = [
            (start, end)
            for of_device, of_stream, start, end in lost_work.places(rows).values()
            if start < end
            and of_device in {device, None}
            and (stream is None or of_stream in {stream, None})
        ]
        free = min(spans)[0]
        for start, end in sorted(spans):
            if start > free:
                since = [max(s, free) for s, e in lost if s < start and e > free]
                cut = min(since, default=start)
                ends = [(free, cut, False), (cut, start, True)]
                parts.setdefault((device, stream), []).extend(p for p in ends if p[0] < p[1])
            free = max(free, end)
    return parts


def test_advice_counts_nothing_in_a_step_that_lost_work() -> None:
    """Its length is unknown, so none of its gaps may be set against that of the others."""
    rows: list[Row] = [
        event(f"ProfilerStep#{n}", 500_000 * n, 500_000 * (n + 1), category="user_annotation")
        for n in range(4)
    ]
    for n in range(20):
        at = 100_000 * n
        rows.append(call_of("cudaLaunchKernel", at, at + 5_000, n + 1))
        if n != 7:
            rows.append(work("mm", at + 10_000, at + 60_000, 7, n + 1))
    trace = loaded(*rows)
    (found,) = trace.advice().filter(rule="launch_bound").iter_rows(named=True)
    steps = dict(trace.events.select("event_id", "step").iter_rows())
    assert {steps[n] for n in found["evidence_events"]} == {0, 2, 3}
    assert found["events"] == 14


def test_a_stream_of_which_everything_is_lost_is_not_known() -> None:
    """Its thread's other ops are on one stream, which says nothing of this one."""
    rows = made(
        [
            event("aten::mm", 0, 9),
            call_of("cudaLaunchKernel", 1, 2, 1),
            work("k", 3, 8, 7, 1),
            event("nccl:all_reduce", 10, 19),
            call_of("cudaLaunchKernel", 11, 12, 2),
            event("aten::mm", 20, 29),
            call_of("cudaLaunchKernel", 21, 22, 3),
            work("k", 23, 28, 7, 3),
        ]
    )
    assert lost_places(rows) == {4: (0, None, 11, 23)}


def test_of_work_without_a_number_as_much_may_be_there() -> None:
    calls = [call_of("cudaLaunchKernel", 10 * n, 10 * n + 2, n) for n in range(1, 5)]
    rows = [*calls, work("k", 50, 55, 7, 4), work("k", 60, 65, 7, 0), work("k", 70, 75, 8, 0)]
    (row,) = loaded(*rows).quality.filter(issue="launch_without_work").to_dicts()
    assert row["events"] == 1
    assert row["detail"].endswith(
        "1 of 4: of these 3 calls, some work has no correlation: 3 on stream 7"
    )


def test_fills_that_are_not_there_are_counted() -> None:
    calls = [call_of("cudaMemsetAsync", 10 * n, 10 * n + 2, n) for n in (1, 2, 3)]
    rows = [
        *calls,
        work("k", 50, 55, 7, 9),
        {**work("Memset", 60, 65, 7, 2), "category": "gpu_memset"},
    ]
    trace = loaded(*rows)
    (row,) = trace.quality.filter(issue="fill_without_work").to_dicts()
    assert row["events"] == 2
    assert not loaded(*calls).quality.filter(issue="fill_without_work").height
