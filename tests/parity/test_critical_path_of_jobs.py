"""Critical paths across ranks: by hand, and against the longest path of jobs run by a loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import profframe
from profframe.analysis.critical_path.path_across_ranks import Meetings
from profframe.errors import ParameterError
from profframe.show.path_text import shortened_waits
from tests import step_jobs
from tests.builders import Row, event, loaded, together
from tests.jobs import NAMES, job
from tests.oracles.jobs import BETWEEN, COLLECTIVE, HOST, KERNEL, Op, run, waited


def totals(path: pl.DataFrame) -> dict[tuple[int, str], int]:
    return {
        (rank, bound): total
        for rank, bound, total in path.group_by("rank", "bound").agg(pl.col("dur_ns").sum()).rows()
        if total
    }


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Op], list[int]]:
    """Ops, and by how much each clock is ahead; times are drawn so that few are the same."""
    ranks, rng = draw(st.integers(2, 4)), draw(st.randoms(use_true_random=False))

    def each() -> list[int]:
        return [rng.randrange(1, 10**6) for _ in range(ranks)]

    kinds = st.sampled_from((HOST, KERNEL, KERNEL, COLLECTIVE))
    kinds_and_streams = st.tuples(kinds, st.sampled_from((7, 20)))
    ops = [
        Op(kind, each(), each(), stream)
        for kind, stream in draw(st.lists(kinds_and_streams, max_size=12))
    ]
    last = Op(COLLECTIVE, each(), each(), 20)
    ahead = [0, *(rng.randrange(-(10**9), 10**9) for _ in range(ranks - 1))]
    return [*ops, last], ahead


@settings(max_examples=max(1, settings().max_examples // 2))
@given(programs())
def test_it_is_the_longest_path_of_the_job(program: tuple[list[Op], list[int]]) -> None:
    ops, ahead = program
    done = run(ops, len(ahead))
    assume(not done.has_ties)
    path = job(done, [offset + 10**10 for offset in ahead]).critical_path(across_ranks=True)
    events = path.events
    assert path.start_ns == 10**10 + BETWEEN
    assert path.length_ns == events["dur_ns"].sum() == max(one.end for one in done.slices) - BETWEEN
    assert (events["start_ns"] + events["dur_ns"])[:-1].equals(events["start_ns"][1:])
    expected: dict[tuple[int, str], int] = {}
    for rank, bound, start, end in done.path:
        took = end - max(start, BETWEEN)
        if took > 0:
            expected[rank, bound] = expected.get((rank, bound), 0) + took
    assert totals(events) == expected
    assert totals(events.filter(pl.col("waiting_rank").is_not_null())) == waited(done)
    assert path.waits["total_ns"].sum() == sum(waited(done).values())


@pytest.mark.parametrize("where", [HOST, KERNEL])
def test_what_made_a_rank_late_is_named(where: str) -> None:
    """Rank 1 of three takes 5 ms more for one thing just before the collective."""
    late = 5_000_000
    took = [1_000_000, 1_000_000 + late, 1_000_000]
    ops = [Op(KERNEL, [100_000] * 3, [5_000] * 3), Op(where, took, [5_000] * 3),
           Op(COLLECTIVE, [50_000] * 3, [5_000] * 3)]  # fmt: skip
    path = job(run(ops, 3), [0, 10**6, -(10**6)]).critical_path(across_ranks=True)
    [first, *_] = path.waits.select("rank", "name", "total_ns").rows()
    assert first == (1, NAMES[where], late - (5_000 + BETWEEN) * (where == HOST))
    assert path.waits["total_ns"].sum() == late
    assert "all ranks" in repr(path)


def test_of_ranks_that_come_together_the_lowest_is_the_last() -> None:
    """Ranks 1 and 2 come to the first collective at 9, rank 0 to the second one at 7."""
    match, rank = np.array([0, 1, 0, 1, 0]), np.array([2, 1, 1, 0, 0])
    start = np.array([9, 5, 9, 7, 5])
    other = np.zeros(5, np.int64)
    meetings = Meetings(match, rank, other, start, start + 3, other, other, other, [0, 0, 0])
    assert meetings.last.tolist() == [2, 3, 2, 3, 2]


def of_hosts(*ranks: Sequence[Row]) -> pl.DataFrame:
    """Rank, name, and from when until when of each part of the path of a job with one clock."""
    trace = together(
        *(loaded(*of, rank=rank, header={"clock": "utc"}) for rank, of in enumerate(ranks))
    )
    return trace.critical_path(across_ranks=True).events


def gloo(word: str, start: int, end: int) -> Row:
    """One that does not wait for all ranks, so that clocks are as they are."""
    return event(f"gloo:{word}", start, end, process_group=word, collective_seq=1)


def test_a_rank_that_leaves_as_the_last_one_comes_did_not_wait_for_it() -> None:
    """Nothing is left for the transfer, so that it was there before rank 1 came at 30."""
    path = of_hosts(
        [event("early", 0, 10), gloo("broadcast", 10, 30), event("mm", 30, 90)],
        [event("late", 0, 30), gloo("broadcast", 30, 40)],
    )
    assert path.select("rank", "name", "dur_ns").rows() == [
        (0, "early", 10), (0, "gloo:broadcast", 20), (0, "mm", 60)]  # fmt: skip


def test_a_rank_that_comes_with_the_last_one_does_not_wait_for_it() -> None:
    path = of_hosts(
        [event("first", 0, 10), gloo("broadcast", 10, 30)],
        [event("first", 0, 10), gloo("broadcast", 10, 40)],
    )
    assert path.select("rank", "name", "dur_ns").rows() == [
        (1, "first", 10), (1, "gloo:broadcast", 30)]  # fmt: skip


def test_ranks_that_leave_as_the_other_one_comes_do_not_wait_in_a_circle() -> None:
    """At 30 both leave one collective and come to the other."""
    path = of_hosts(
        [event("first", 0, 10), gloo("reduce", 10, 30), gloo("broadcast", 30, 50)],
        [event("first", 0, 5), gloo("broadcast", 5, 30), gloo("reduce", 30, 40)],
    )
    assert path["dur_ns"].sum() == 50


def test_of_one_rank_it_is_that_of_the_rank() -> None:
    trace = profframe.load("examples/gpu_training.json.gz")
    for step in (None, trace.step_times()["step"][0]):
        alone, across = trace.critical_path(step), trace.critical_path(step, across_ranks=True)
        assert alone.events.equals(across.events)
        assert (alone.start_ns, alone.end_ns) == (across.start_ns, across.end_ns)
        assert across.waits.is_empty()


def test_several_runs_or_one_rank_are_refused() -> None:
    one = loaded(event("mm", 0, 5), run="a")
    with pytest.raises(
        ParameterError, match=r"covers one run, and there are 2 \('a', 'b'\); choose"
    ):
        together(one, loaded(event("mm", 0, 5), run="b")).critical_path(across_ranks=True)
    with pytest.raises(ParameterError, match="rank and across_ranks"):
        one.critical_path(rank=0, across_ranks=True)


def test_real_jobs_have_no_gaps(traces: Path) -> None:
    path = profframe.load(traces / "facebookresearch__param/dlrm_kineto").critical_path(
        across_ranks=True
    )
    events = path.events
    assert path.length_ns == events["dur_ns"].sum() > 0
    assert (events["start_ns"] + events["dur_ns"])[:-1].equals(events["start_ns"][1:])
    assert path.waits["rank"].unique().to_list() == [7]  # the straggler that advice names
    assert path.waits["total_ns"].sum() == events.filter(waiting_rank=4)["dur_ns"].sum()


@pytest.mark.parametrize("clocks", ["corrected", "recorded"])
def test_it_is_marked_in_a_file_of_all_ranks(clocks: str, tmp_path: Path) -> None:
    """On the clock of the file: that of the job, or of each rank."""
    ahead = [10**9, 10**9 + 10**6, 10**9 - 10**6]
    ops = [Op(KERNEL, [9_000, 700_000, 8_000], [5_000] * 3),
           Op(COLLECTIVE, [50_000] * 3, [5_000] * 3)]  # fmt: skip
    trace = job(run(ops, 3), ahead)
    path = trace.critical_path(across_ranks=True)
    assert path.events["rank"].n_unique() == 2
    tracks = {"critical path": path}
    trace.export_chrome_trace(tmp_path / "job.json", highlight=path, tracks=tracks, clocks=clocks)
    written = json.loads((tmp_path / "job.json").read_text(), parse_float=Decimal)
    base = int(written.get("baseTimeNanoseconds", 0))
    slices = [event | event.get("args", {}) for event in written["traceEvents"]]
    marked = [one for one in slices if one.get("critical") == 1]
    line = [one for one in slices if one["pid"] == "profframe" and one["ph"] == "X"]
    assert sorted(base + int(Decimal(e["ts"]) * 1000) for e in line) == sorted(
        start + (ahead[rank] - ahead[0]) * (clocks == "recorded")
        for rank, start in path.events.select("rank", "start_ns").rows()
    )
    events = path.events.drop_nulls("event_id").unique(["rank", "event_id"])
    assert sorted(one["name"] for one in marked) == sorted(events["name"])


def test_what_has_no_name_is_told_from_what_is_not_recorded() -> None:
    """Rank 1 is late: what it did has an event, whether that has a name or not."""
    trace = step_jobs.job(ranks=2, late={(step, 1): 500_000 for step in range(6)})
    path = trace.critical_path(across_ranks=True)
    nameless = pl.DataFrame(path.events).with_columns(name=pl.lit(None, pl.String))
    unrecorded = nameless.with_columns(event_id=pl.lit(None, pl.Int64))
    for events, name in ((nameless, "(no name)"), (unrecorded, "(nothing recorded)")):
        waits = shortened_waits(replace(path, events=events))
        assert waits["name"].unique().to_list() == [name]
        assert waits["total_ns"].sum() == path.waits["total_ns"].sum() > 0
