"""Ranks of a job that are read together, and one by one: the same answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe.analysis.critical_path import source
from profframe.errors import ParameterError, UnknownNameError
from profframe.query import per_trace
from profframe.query.per_trace import PerTrace
from profframe.trace.trace import Trace
from tests.builders import event, loaded, together
from tests.members import few

AHEAD: Final = (7, 10**10, 10**10 - 5_000)


def rank(number: int, seed: int) -> Trace:
    """Steps with ops, a backward pass, launches, waits of streams and a collective.

    All ranks have the same correlations, threads, and numbers of arrows.
    """
    rng = random.Random(f"{number} {seed}")  # noqa: S311 - draws of a test
    rows: list[dict[str, Any]] = []
    flows = []
    for step in range(2):
        at = AHEAD[number] + 1_000 * step
        came = at + 600 + rng.randrange(200)
        call = 100 * step
        rows += [
            event(f"ProfilerStep#{step}", at, at + 950, category="user_annotation"),
            event("aten::mm", at + 10, at + 90, sequence_nr=step, fwd_thread=0),
        ]
        for k in range(1, 5):
            took, start = rng.randrange(10, 90), at + 100 * k
            rows += [
                event("cudaLaunchKernel", at + 10 + 10 * k, at + 15 + 10 * k,
                      category="cuda_runtime", correlation=call + k),
                event("gemm", start, start + took, category="kernel", thread=9, device=0,
                      stream=7 + k % 2, correlation=call + k),
            ]  # fmt: skip
            flows.append({"category": "graph_dependency", "flow_id": str(step), "time_ns": start,
                          "phase": "fs"[k % 2], "event_id": len(rows) - 1,
                          "thread": 9})  # fmt: skip
        rows += [
            event("cudaEventRecord", at + 60, at + 61, category="cuda_runtime",
                  correlation=call + 10),
            event("cudaStreamWaitEvent", at + 62, at + 63, category="cuda_runtime",
                  correlation=call + 11),
            event("Stream Wait Event", at + 62, at + 62, category="cuda_sync", thread=9, device=0,
                  stream=8, wait_on_stream=7, wait_on_correlation=call + 10,
                  correlation=call + 11),
            event("cudaDeviceSynchronize", at + 500, came - 50, category="cuda_runtime"),
            event("AddBackward0", at + 510, came - 60, thread=1, sequence_nr=step,
                  fwd_thread=1),
            event("gloo:all_reduce", came, at + 900, category="user_annotation",
                  collective="allreduce", process_group="0,1,2", collective_seq=step),
        ]  # fmt: skip
    return loaded(*rows, rank=number, header={"clock": "utc"}, flows=flows)


@pytest.fixture(scope="module", params=few(range(2), 1))
def job(request: pytest.FixtureRequest) -> Trace:
    return together(*(rank(number, request.param) for number in range(3)))


@pytest.fixture(scope="module")
def store(job: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job") / "store"
    job.to_parquet(path)
    return path


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_EVENTS", 0)
    monkeypatch.setattr(per_trace, "MOST_EVENTS", 0)


ASKED: Final[dict[str, Callable[[Trace], pl.DataFrame]]] = {
    "path": lambda trace: trace.critical_path(across_ranks=True).events,
    "path of a step": lambda trace: trace.critical_path(1, across_ranks=True).events,
    "path of the first": lambda trace: (
        trace.critical_path(annotation="aten::mm", across_ranks=True).events
    ),
    "path of the second": lambda trace: (
        trace.critical_path(annotation="aten::mm", instance=1, across_ranks=True).events
    ),
    "blame": lambda trace: trace.blame(),
    "dependencies": lambda trace: trace.dependencies(),
    "what-if": lambda trace: trace.what_if(
        1, communication=0.5, kernels={"gemm": 2.0}, stragglers=False
    ),
}
FEW: Final = ("path of the second", "blame", "dependencies", "what-if")
"""A step and no choice at all take the ways of an instance and of the dependencies."""


@pytest.mark.parametrize("ask", few(ASKED, FEW))
def test_answers_are_those_of_one_by_one(
    job: Trace, store: Path, ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ASKED[ask](job)
    assert asked.height > 1
    assert ASKED[ask](profframe.load(store)).equals(asked)
    one_by_one(monkeypatch)
    assert ASKED[ask](Trace.from_tables(job.tables)).equals(asked)
    assert ASKED[ask](profframe.load(store)).equals(asked)


def test_dependencies_are_of_all_kinds(job: Trace) -> None:
    kinds = set(job.dependencies()["kind"])
    assert {"launch", "stream", "wait", "graph", "sync", "thread", "collective"} <= kinds


def test_an_annotation_that_is_not_there(job: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        with pytest.raises(UnknownNameError, match="aten::mm"):
            job.critical_path(annotation="aten::m", across_ranks=True)
        one_by_one(monkeypatch)


def test_files_are_those_of_one_by_one(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("together", "apart"):
        trace = profframe.load(store).filter(ranks=[0, 2], steps=1)
        trace.export_chrome_trace(tmp_path / name, tracks=["queue_depth"], collectives=True)
        one_by_one(monkeypatch)
    assert (tmp_path / "together").read_bytes() == (tmp_path / "apart").read_bytes()


def test_rows_are_held_apart_in_their_order() -> None:
    mixed = together(*(rank(number, 0) for number in (2, 0, 1)))
    rows = PerTrace.of(mixed._session, {"events": None, "flows": None, "memory": None})
    assert rows is not None
    for number in range(3):
        own = mixed.filter(ranks=number)
        with rows.connection("r", number) as connection:
            for table in ("events", "flows", "memory"):
                read = connection.sql(f"FROM {table}").pl()
                assert read.drop("run").rows() == getattr(own, table).drop("run").rows()


def test_too_many_rows_are_not_held(job: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_trace, "MOST_EVENTS", job.events.height)
    assert PerTrace.of(job._session, {"events": None}) is not None
    monkeypatch.setattr(per_trace, "MOST_EVENTS", job.events.height - 1)
    assert PerTrace.of(job._session, {"events": None}) is None


def test_what_needs_one_run_lists_the_runs_and_not_the_ranks_of_the_first() -> None:
    job = together(*(loaded(event("mm", 0, 5), run=run, rank=rank)
                     for run in ("ddp", "ddp.1") for rank in range(8)))  # fmt: skip
    one_run = r"covers one run, and there are 2 \('ddp', 'ddp\.1'\); choose one, as in run='ddp'"
    for needs_a_run in (job.blame, lambda: job.critical_path(across_ranks=True), job.what_if):
        with pytest.raises(ParameterError, match=one_run):
            needs_a_run()
    assert job.blame(run="ddp.1").is_empty()
    one_trace = r"16 \(runs 'ddp', 'ddp\.1', ranks 0, 1, 2, .*\.\.\.\); choose a run and a rank"
    for needs_a_trace in (job.critical_path, job.tree):
        with pytest.raises(ParameterError, match=one_trace):
            needs_a_trace()
    with pytest.raises(ParameterError, match=r"there are 8 \(run 'ddp', ranks 0, 1, 2, "):
        job.filter(runs="ddp").tree()
