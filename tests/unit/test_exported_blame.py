"""The path across ranks, and what makes ranks late, as tracks of a file of several ranks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.trace.trace import Trace
from tests.builders import event, loaded, together
from tests.jobs import job, row
from tests.members import few
from tests.oracles.jobs import COLLECTIVE, HOST, INPUT, KERNEL, Op, run
from tests.round_trip import differences, document, faults

RANKS = 4
AHEAD = (10**10, 10**10 + 5_003, 10**10 - 77, 10**10 + 1)
CAUSES = ("host", "input", "launch", "compute", "copy", "communication", "wait")


def drawn(seed: int) -> tuple[Op, ...]:
    """Ranks that each take another time for each of several steps, and meet after each of these."""
    rng = random.Random(seed)  # noqa: S311 - draws of a test

    def each() -> list[int]:
        return [rng.randrange(1_000, 90_000) for _ in range(RANKS)]

    pairs = [(0, 1), (2, 3)]
    return tuple(
        op
        for _ in range(4)
        for op in (
            Op(INPUT, each()),
            Op(HOST, each()),
            Op(KERNEL, each(), each()),
            Op(COLLECTIVE, each(), [1_000] * RANKS, groups=pairs),
            Op(HOST, each()),
            Op(COLLECTIVE, each(), [2_000] * RANKS),
        )
    )


@pytest.fixture(scope="module", params=few(range(2), 1))
def trace(request: pytest.FixtureRequest) -> Iterator[Trace]:
    with job(run([*drawn(request.param)], RANKS), AHEAD).session() as trace:
        yield trace


def added(path: Path, line: str) -> list[dict[str, Any]]:
    """Slices of the lines of all ranks together whose names begin so."""
    return [
        event
        for event in document(path)["traceEvents"]
        if event["pid"] == "profframe" and event["ph"] == "X" and event["tid"].startswith(line)
    ]


def ns(number: Any) -> int:
    return int(number * 1000)


@pytest.mark.parametrize("clocks", ["corrected", "recorded"])
def test_slices_add_up_to_what_blame_says(trace: Trace, tmp_path: Path, clocks: str) -> None:
    trace.export_chrome_trace(tmp_path / "o.json", tracks=["blame"], clocks=clocks)
    costs: Counter[tuple[int, str]] = Counter()
    alone: Counter[int] = Counter()
    slices = added(tmp_path / "o.json", "blame rank ")
    for one in slices:
        args = one["args"]
        assert one["tid"].removesuffix(" (2)") == f"blame rank {args['late_rank']}"
        assert ns(one["dur"]) == args["cost_ns"] == sum(args.get(f"{c}_ns", 0) for c in CAUSES)
        assert args["largest_cost_ns"] > 0
        costs.update({(args["late_rank"], c): args.get(f"{c}_ns", 0) for c in CAUSES})
        alone[args["late_rank"]] += args["held_up_ns"]
    corrected = clocks == "corrected"
    late = trace.blame("cause", corrected=corrected).filter(part="entry")
    sums = late.group_by("rank", "cause").agg(pl.col("cost_ns").sum())
    assert {key: cost for key, cost in costs.items() if cost} == {
        (rank, cause): cost for rank, cause, cost in sums.rows() if cost
    }
    ranks = trace.blame("rank", corrected=corrected).filter(part="entry")
    assert alone == dict(ranks.select("rank", "held_up_ns").rows())
    assert len({one["args"]["late_rank"] for one in slices}) > 1


def test_a_slice_ends_where_the_late_rank_comes(trace: Trace, tmp_path: Path) -> None:
    trace.export_chrome_trace(tmp_path / "o.json", tracks=["blame"])
    events = document(tmp_path / "o.json")["traceEvents"]
    came = {
        (event["pid"] // 1000 - 1, event["ts"])
        for event in events
        if event["ph"] == "X" and event.get("cat") == "kernel" and "nccl" in event["name"]
    }
    slices = added(tmp_path / "o.json", "blame")
    assert {(s["args"]["late_rank"], s["ts"] + s["dur"]) for s in slices} <= came
    last = {(s["args"]["late_rank"], s["ts"] + s["dur"]) for s in slices if s["args"]["held_up_ns"]}
    assert last
    since = {s["ts"] for s in slices}
    assert since & {time for _, time in came}, "when the rank before came"
    waits = trace.sql("""
        WITH matches AS (FROM collective_matches(events, traces))
        SELECT max(behind_ns) AS longest FROM collective_waits(matches, traces, true)""")
    assert max(ns(s["dur"]) for s in slices) <= waits["longest"][0]  # else part of it is elsewhere


def test_what_costs_most_names_a_slice(trace: Trace, tmp_path: Path) -> None:
    trace.export_chrome_trace(tmp_path / "o.json", tracks=["blame"])
    slices = added(tmp_path / "o.json", "blame")
    for one in slices:
        args = one["args"]
        name = f"{args['cause']}: {args.get('op') or args.get('slice') or 'nothing recorded'}"
        if "waits_for_rank" in args:
            name = f"wait for rank {args['waits_for_rank']}"
            if args["waits_for_rank"] == args["late_rank"]:
                name = "late as at another collective"
        assert one["name"] == name
    assert {"host: aten::linear"} < {one["name"] for one in slices}


def test_the_path_across_ranks_is_one_line(trace: Trace, tmp_path: Path) -> None:
    trace.export_chrome_trace(tmp_path / "o.json", tracks=["path_across_ranks", "blame"])
    line = added(tmp_path / "o.json", "path_across_ranks")
    path = trace.critical_path(across_ranks=True)
    assert [(ns(one["ts"]), ns(one["dur"])) for one in line] == path.events.select(
        "start_ns", "dur_ns"
    ).rows()
    assert [one["name"].split(":")[0] for one in line] == [
        f"rank {rank}" for rank in path.events["rank"]
    ]
    assert added(tmp_path / "o.json", "blame")


def test_ranks_come_back_without_the_tracks(trace: Trace, tmp_path: Path) -> None:
    for name, tracks in (("with", ["path_across_ranks", "blame"]), ("without", None)):
        trace.export_chrome_trace(tmp_path / f"{name}.json", tracks=tracks)
        assert faults(tmp_path / f"{name}.json") == []
    back, plain = (profframe.load(tmp_path / f"{name}.json") for name in ("with", "without"))
    marks = back.instants.filter(pl.col("category") == "profframe")
    assert marks.height == len(added(tmp_path / "with.json", ""))
    assert {part.partition(":")[0] for part in differences(plain, back)} <= {
        "instants", "threads", "traces.accounted", "traces.source_events",
    }  # fmt: skip
    assert back.threads.filter(pl.col("pid") != "profframe").equals(plain.threads)
    assert back.blame().equals(plain.blame())


def in_steps() -> Trace:
    """Two steps; a rank is late in each of them, and by more in the second."""
    parts = []
    for rank in range(3):
        rows = []
        for step, late in ((5, 1_000 * rank), (6, 7_000 * rank)):
            at = step * 100_000
            rows += [
                event(f"ProfilerStep#{step}", at, at + 90_000, category="user_annotation"),
                event("aten::linear", at + 1_000, at + 9_000 + late),
                event(
                    "gloo:all_reduce", at + 10_000 + late, at + 50_000, category="user_annotation",
                    collective="allreduce", process_group="0,1,2", collective_seq=step,
                ),
            ]  # fmt: skip
        parts.append(loaded(*rows, rank=rank, header={"clock": "utc"}))
    return together(*parts)


def test_only_steps_that_are_written_are_there(tmp_path: Path) -> None:
    trace = in_steps()
    tracks = ["path_across_ranks", "blame"]
    trace.filter(steps=6).export_chrome_trace(tmp_path / "o.json", tracks=tracks, clocks="recorded")
    slices = added(tmp_path / "o.json", "blame")
    assert [(one["args"]["late_rank"], one["args"]["step"]) for one in slices] == [(2, 6)]
    expected = trace.blame("rank", step=6, corrected=False).filter(part="entry")
    assert [one["args"]["cost_ns"] for one in slices] == expected["cost_ns"].to_list() == [7_000]
    path = added(tmp_path / "o.json", "path_across_ranks")
    assert (
        sum(ns(one["dur"]) for one in path) == trace.critical_path(6, across_ranks=True).length_ns
    )


def test_one_rank_alone_is_never_late(tmp_path: Path) -> None:
    trace = loaded(row(run([Op(HOST, [5])], 1).slices[0], 0))
    trace.export_chrome_trace(tmp_path / "o.json", tracks=["blame"])
    assert added(tmp_path / "o.json", "blame") == []
