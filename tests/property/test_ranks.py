"""Collectives and stragglers against plain Python that follows the definitions one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe import schema
from profframe.trace.trace import Trace
from tests.builders import table
from tests.oracles import ranks as oracle
from tests.oracles.ranks import Call


@st.composite
def jobs(draw: st.DrawFn) -> list[Call]:
    """Collectives of up to four ranks in up to two groups; some ranks miss some of them."""
    ranks = range(draw(st.integers(1, 4)))
    has_seq = {group: draw(st.booleans()) for group in ("dp", "tp")}
    calls: list[Call] = []
    clock = dict.fromkeys(ranks, 0)
    for seq in range(draw(st.integers(0, 5))):
        group = draw(st.sampled_from(["dp", "tp"]))
        collective = draw(st.sampled_from(list(oracle.FACTORS)))
        dtype = draw(st.sampled_from(list(oracle.SIZES)))
        elements = draw(st.integers(1, 9))
        for rank in ranks:
            clock[rank] += draw(st.integers(1, 9))
            dur = draw(st.integers(1, 9))
            if draw(st.integers(0, 5)):
                number = seq if has_seq[group] else None
                call = Call(rank, group, collective, number, clock[rank], dur, dtype, elements)
                calls.append(call)
            clock[rank] += dur
    return calls


JOBS = st.lists(jobs(), min_size=1, max_size=40)
"""Many at once, each a run of its own, for a query takes longer than what it is about."""


def size_of(calls: list[Call]) -> int:
    return max((call.rank for call in calls), default=0) + 1


def trace_of(*runs: list[Call]) -> Trace:
    tables = {name: t.arrow.empty_table() for name, t in schema.TABLES.items()}
    rows = [
        {
            "run": str(run),
            "rank": call.rank,
            "event_id": number,
            "kind": "kernel",
            "name": "nccl",
            "start_ns": call.start,
            "dur_ns": call.dur,
            "process_group": call.group,
            "group_size": size_of(calls),
            "collective": call.collective,
            "collective_seq": call.seq,
            "element_type": call.dtype,
            "in_elements": call.elements,
        }
        for run, calls in enumerate(runs)
        for number, call in enumerate(calls)
    ]
    heads = [
        {"run": str(run), "rank": rank, "clock": "utc"}
        for run, calls in enumerate(runs)
        for rank in range(size_of(calls))
    ]
    tables |= {"events": table("events", rows), "traces": table("traces", heads)}
    return Trace.from_tables(tables)


@settings(max_examples=6)
@given(JOBS)
def test_collectives(runs: list[list[Call]]) -> None:
    found = trace_of(*runs).collectives(per="rank", corrected=False).to_dicts()
    for run, calls in enumerate(runs):
        check_collectives([row for row in found if row["run"] == str(run)], calls)


def check_collectives(found: list[dict[str, Any]], calls: list[Call]) -> None:
    size = size_of(calls)
    sets = {
        frozenset((rank, calls.index(call)) for rank, call in match.items())
        for match in oracle.matched(calls)
    }
    by_number: dict[int, set[tuple[int, int]]] = {}
    for row in found:
        by_number.setdefault(row["number"], set()).add((row["rank"], row["event_id"]))
    assert {frozenset(match) for match in by_number.values()} == sets
    for row in found:
        match = {rank: calls[event] for rank, event in by_number[row["number"]]}
        kinds = {(c.dtype, c.elements, c.collective) for c in match.values()}
        assert (row["mismatch"] is None) == (len(match) == size and len(kinds) == 1)
        assert row["wait_ns"] == (oracle.waits(match)[row["rank"]] if len(match) > 1 else None)
        if len(kinds) == 1:
            latency, algorithm, bus = oracle.speeds(match, size)
            assert row["latency_ns"] == latency
            assert row["algorithm_gb_per_s"] == pytest.approx(algorithm)
            assert row["bus_gb_per_s"] == pytest.approx(bus)
        if len(match) > 1:
            assert row["matched_by"] == ("order" if match[row["rank"]].seq is None else "seq")


@settings(max_examples=6)
@given(JOBS)
def test_stragglers(runs: list[list[Call]]) -> None:
    found = trace_of(*runs).stragglers(corrected=False).to_dicts()
    columns = ("collectives", "wait_ns", "times_last", "times_first", "communication_ns")
    for run, calls in enumerate(runs):
        of_run = {
            row["rank"]: {column: row[column] for column in columns}
            for row in found
            if row["run"] == str(run)
        }
        assert of_run == oracle.summary(calls)


@settings(max_examples=3)
@given(st.lists(st.lists(st.permutations([0, 3, 5, 9]), min_size=1, max_size=4), max_size=20))
def test_the_latest_of_each_step_is_who_comes_last_most(runs: list[list[list[int]]]) -> None:
    jobs_of = [
        [
            [Call(rank, "dp", "allreduce", n, n * 100 + late, 50 - late) for rank, late in step]
            for n, step in enumerate(map(enumerate, steps))
        ]
        for steps in runs
    ]
    found = trace_of(*([call for step in steps for call in step] for steps in jobs_of))
    rows = found.stragglers().to_dicts()
    for run, steps in enumerate(jobs_of):
        times = {row["rank"]: row["times_last"] for row in rows if row["run"] == str(run)}
        order = sorted((r for r in times if times[r]), key=lambda r: (-times[r], r))
        assert order == oracle.flagged(steps, 100.0, 1)


def test_no_collectives() -> None:
    trace = trace_of([], [])
    assert trace.collectives().is_empty()
    assert trace.stragglers().is_empty()
    assert trace.collective_traffic().is_empty()
    assert trace.collectives(per="size").is_empty()
    assert trace.rank_balance().is_empty()
    assert trace.clock_skew()["note"].to_list() == [None, None]


def test_nothing_at_all() -> None:
    trace = Trace.from_tables({n: t.arrow.empty_table() for n, t in schema.TABLES.items()})
    for answer in ("collectives", "stragglers", "clock_skew", "rank_balance"):
        assert trace.answer(answer).is_empty()


def test_rows_of_any_order_and_a_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    calls = [
        Call(rank, "dp", "allreduce", seq, 100 * seq + 7 * rank, 50 - 7 * rank)
        for seq in range(20)
        for rank in range(4)
    ]
    trace = trace_of(calls)
    mixed = {**trace.tables, "events": trace.tables["events"].take(pa.array(range(79, -1, -1)))}
    store = tmp_path_factory.mktemp("ranks") / "store"
    trace.to_parquet(store)
    for answer in ("collectives", "stragglers", "clock_skew", "collectives.size"):
        expected = trace.answer(answer)
        assert expected.equals(Trace.from_tables(mixed).answer(answer))
        assert expected.equals(Trace.from_store(store).answer(answer))
