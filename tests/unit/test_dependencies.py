"""The table of dependencies: by hand, in SQL, and against a plain loop over simulated jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from profframe import schema
from profframe.errors import ParameterError
from profframe.trace.trace import Trace
from tests.builders import Row, event, loaded, together
from tests.jobs import job
from tests.oracles.jobs import COLLECTIVE, HOST, KERNEL, Op, run

SHORT = ("source_id", "source_edge", "target_id", "target_edge", "kind", "certainty", "lag_ns")


def short(trace: Trace) -> list[tuple[object, ...]]:
    return trace.dependencies().select(SHORT).rows()


def on(stream: int, number: int) -> dict[str, Any]:
    return {"category": "kernel", "device": 0, "stream": stream, "thread": 9, "correlation": number}


def call(name: str, start: int, end: int, number: int) -> Row:
    return event(name, start, end, category="cuda_runtime", correlation=number)


def test_launches_streams_and_waits_of_the_host() -> None:
    trace = loaded(
        call("cudaLaunchKernel", 0, 10, 1),
        call("cudaLaunchKernel", 10, 20, 2),
        call("cudaDeviceSynchronize", 20, 95, 3),
        event("first", 12, 50, **on(7, 1)),
        event("second", 51, 90, **on(7, 2)),
    )
    assert short(trace) == [
        (4, "end", 2, "end", "sync", "implied", 5),
        (0, "start", 3, "start", "launch", "recorded", 12),
        (1, "start", 4, "start", "launch", "recorded", 41),
        (3, "end", 4, "start", "stream", "implied", 1),
    ]


def test_a_graph_whose_dependencies_were_recorded() -> None:
    """From the first event to the last."""
    rows = [
        event("first", 30, 60, **on(7, 1)),
        call("cudaGraphLaunch", 10, 20, 1),
        event("last", 65, 80, **on(8, 1)),
    ]
    flows = [
        {"category": "graph_dependency", "flow_id": "1", "phase": phase, "event_id": place,
         "time_ns": time_ns, "thread": 9}
        for phase, place, time_ns in (("s", 0, 30), ("f", 2, 65))
    ]  # fmt: skip
    assert [row for row in short(loaded(*rows, flows=flows)) if row[4] == "graph"] == [
        (0, "end", 2, "start", "graph", "recorded", 5)
    ]


def test_a_guess_about_streams_says_so() -> None:
    """A call lets a stream wait, and nothing says which one for what."""
    trace = loaded(
        call("cudaLaunchKernel", 0, 10, 1),
        call("cudaStreamWaitEvent", 10, 12, 2),
        call("cudaLaunchKernel", 12, 20, 3),
        event("first", 12, 50, **on(7, 1)),
        event("second", 53, 90, **on(20, 3)),
    )
    assert (3, "end", 4, "start", "wait", "ordered", 3) in short(trace)


def test_collectives_lead_from_the_last_rank_to_all_and_from_all_to_the_last() -> None:
    def rank(number: int, start: int) -> Trace:
        shared: dict[str, Any] = {
            "collective": "allreduce",
            "process_group": "0",
            "collective_seq": 4,
        }
        return loaded(event("nccl", start, 100, **on(7, 1), **shared), rank=number)

    rows = together(rank(0, 10), rank(1, 40), rank(2, 30)).dependencies()
    columns = ("source_rank", "source_edge", "target_rank", "target_edge", "kind", "lag_ns")
    assert rows["certainty"].unique().to_list() == ["recorded"]
    assert rows.select(columns).rows() == [
        (1, "start", 0, "end", "collective", 60),
        (0, "start", 1, "end", "collective", 90),
        (2, "start", 1, "end", "collective", 70),
        (1, "start", 2, "end", "collective", 60),
    ]


@settings(deadline=None, max_examples=max(1, settings().max_examples // 4))
@given(st.integers(1, 4), st.randoms(use_true_random=False))
def test_a_simulated_job_has_the_dependencies_of_its_program(ranks: int, rng: object) -> None:
    draw = rng.randrange  # type: ignore[attr-defined]  # hypothesis does not say what it is
    kinds = [(HOST, KERNEL, KERNEL, COLLECTIVE)[draw(4)] for _ in range(draw(1, 30))]
    ops = [
        Op(kind, [draw(1, 10**5) for _ in range(ranks)], [draw(1, 99) for _ in range(ranks)],
           (7, 20)[draw(2)])
        for kind in kinds
    ]  # fmt: skip
    done = run(ops, ranks)
    rows = job(done, [0] * ranks).dependencies()
    kinds_found = dict(rows.group_by("kind").len().iter_rows())
    launches = streams = 0
    for rank in range(ranks):
        works = [
            one for one in done.slices if one.rank == rank and one.kind in (KERNEL, COLLECTIVE)
        ]
        launches += len(works)
        streams += sum(max(0, sum(w.stream == s for w in works) - 1) for s in (7, 20))
    members = ranks * sum(kind == COLLECTIVE for kind in kinds)
    assert kinds_found.pop("launch", 0) == launches
    assert kinds_found.pop("stream", 0) == streams
    collectives = kinds_found.pop("collective", 0)
    assert collectives == (2 * (members - members // ranks) if ranks > 1 else 0)
    assert kinds_found.keys() <= {"sync"}
    assert rows["lag_ns"].min() is None or rows["lag_ns"].min() >= 0  # type: ignore[operator]


def test_sql_has_it_in_memory_and_in_a_store(tmp_path: Path) -> None:
    trace = profframe.load("examples/gpu_training.json.gz")
    trace.to_parquet(tmp_path / "store")
    question = "SELECT kind, count(*) AS pairs FROM Dependencies GROUP BY kind ORDER BY kind"
    inside, stored = (one.sql(question) for one in (trace, profframe.load(tmp_path / "store")))
    assert inside.equals(stored)
    assert inside["pairs"].sum() == trace.dependencies().height > 0
    joined = trace.sql("FROM dependencies SEMI JOIN events ON target_id = event_id")
    assert joined.height == inside["pairs"].sum()


def test_it_is_of_the_rows_that_are_selected() -> None:
    trace = profframe.load("examples/gpu_training.json.gz")
    part = trace.filter(steps=2)
    assert 0 < part.dependencies().height < trace.dependencies().height
    assert part.sql("SELECT count(*) AS pairs FROM dependencies")["pairs"][0] == (
        part.dependencies().height
    )


def test_its_columns_are_those_of_the_schema() -> None:
    rows = loaded().dependencies()
    assert rows.columns == [*schema.DEPENDENCIES.names]
    assert rows.is_empty()
    assert isinstance(rows, pl.DataFrame)


def test_its_name_is_taken() -> None:
    mine = pl.DataFrame({"a": [1]})
    with pytest.raises(ParameterError, match="'dependencies' exists already"):
        loaded().sql("FROM dependencies", tables={"dependencies": mine})
