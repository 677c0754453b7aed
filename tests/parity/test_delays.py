"""Delays of ranks count once where collectives overlap: planted, and against plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl
import pytest

import profframe
from profframe.trace.trace import Trace
from tests.members import few
from tests.oracles.delays import counted
from tests.overlaps import COMPUTE, Do, drawn, job, length
from tests.parity.test_blame import CAUSES, check_sums
from tests.parity.test_blame import drawn as without_overlaps

MS: Final = 1_000_000
SPREAD: Final = {("host", 10), ("kernel", 37), ("kernel", 39)}
"""Jobs in which up to a third of a delay is said to be of what came after its reason."""
WAITS: Final = """
    WITH matches AS (FROM collective_matches(events, traces)),
    waits AS MATERIALIZED (
        FROM collective_waits(matches, traces, true)
        WHERE came_ns IS NOT NULL
    )
"""


def check_oracle(trace: Trace) -> int:
    """All delays are those of the plain loops; how many of them count in part or not at all."""
    events = trace.sql("FROM events").to_dicts()
    waits = trace.sql(f"{WAITS} FROM waits").to_dicts()
    rows = trace.sql(f"{WAITS} FROM counted_delays(events, waits)")
    late = rows.filter(pl.col("late_since_ns").is_not_null())
    columns = late.select("rank", "match", "behind_ns", "late_since_ns").rows()
    assert {row[:2]: row[2:] for row in columns} == counted(events, waits)
    was = {(row["rank"], row["match"]): row for row in waits}
    for row in rows.iter_rows(named=True):
        of_row = was[row["rank"], row["match"]]
        assert row["behind_ns"] <= of_row["behind_ns"]
        assert row["held_up_ns"] == (row["behind_ns"] if of_row["held_up_ns"] else 0)
    return sum(row[2] < was[row[:2]]["behind_ns"] for row in columns)


def planted(where: str, ns: int) -> tuple[list[Do], list[Do]]:
    """Three steps of a backward pass whose buckets are reduced beside it, by two groups in turn.

    Rank 1 of two takes longer in the first op, or in the second kernel of the backward pass.
    """
    usual, slow = list[Do](), list[Do]()
    for step in range(3):
        dos = [Do("host", [300_000] * 2, "aten::forward")]
        for bucket in range(6):
            stream, group = ((20, "dp"), (21, "ep"))[bucket % 2]
            dos += [
                Do("host", [20_000] * 2, "aten::backward"),
                Do("kernel", [300_000] * 2, f"backward{bucket}"),
                Do("collective", [200_000] * 2, "AllReduce", stream, (COMPUTE,), group),
            ]
        dos += [Do("kernel", [100_000] * 2, "adam", after=(20, 21)), Do("sync", mark=step)]
        usual += dos
        slow += [do.later(1, ns) if do.name == where else do for do in dos]
    return usual, slow


@pytest.mark.parametrize(
    ("where", "cause", "ns"), [("aten::forward", "host", MS), ("backward1", "compute", 5 * MS)]
)
def test_what_makes_a_rank_late_to_all_buckets_counts_once(where: str, cause: str, ns: int) -> None:
    usual, slow = planted(where, ns)
    assert length(slow, 2) - length(usual, 2) == 3 * ns
    trace = job(slow, 2)
    waits = trace.sql(f"{WAITS} FROM waits")
    assert waits["behind_ns"].sum() > 1.1 * 3 * ns, "each collective by itself"
    rows = trace.blame()
    first = rows.row(0, named=True)
    assert (first["rank"], first["cause"], first["name"]) == (1, cause, where)
    assert first["cost_per_step_ns"] == pytest.approx(ns, rel=0.001)
    late = trace.stragglers().row(0, named=True)
    assert late["rank"] == 1
    assert late["held_up_ns"] + late["shared_ns"] == pytest.approx(3 * ns, rel=0.001)
    check_sums(trace, rows)


def check_late(kind: str, seed: int) -> None:
    usual, slow, ranks = drawn(kind, seed)
    [(was, now), *_] = [pair for pair in zip(usual, slow, strict=True) if pair[0] != pair[1]]
    rank = next(r for r in range(ranks) if was.took[r] != now.took[r])
    steps = sum(do.kind == "sync" for do in slow)
    ns = now.took[rank] - was.took[rank]
    gain = (length(slow, ranks) - length(usual, ranks)) / steps
    trace = job(slow, ranks)
    check_sums(trace)
    if gain < 0.95 * ns:  # some of it hides behind device work
        return
    first = trace.blame().row(0, named=True)
    cause = {"host": "host", "kernel": "compute"}[kind]
    assert (first["rank"], first["cause"]) == (rank, cause)
    assert first["name"] == now.name
    assert first["cost_per_step_ns"] == pytest.approx(ns, rel=0.1)
    [late] = trace.stragglers().filter(rank=rank).to_dicts()
    held_up = (late["held_up_ns"] + late["shared_ns"]) / steps
    assert 0.98 * gain <= held_up <= 1.02 * ns


@pytest.mark.parametrize("kind", ["host", "kernel"])
@pytest.mark.parametrize("seed", few(range(4), 1))
def test_who_is_late_where_collectives_overlap(kind: str, seed: int) -> None:
    check_late(kind, seed)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["host", "kernel"])
@pytest.mark.parametrize("seed", range(50))
def test_who_is_late_in_a_hundred_jobs_whose_collectives_overlap(
    kind: str, seed: int, request: pytest.FixtureRequest
) -> None:
    if (kind, seed) in SPREAD:
        request.applymarker(pytest.mark.xfail(strict=True, reason="the sum is right, not its rows"))
    check_late(kind, seed)


@pytest.mark.parametrize("kind", ["host", "kernel"])
@pytest.mark.parametrize("seed", few(range(8), 2))
def test_it_is_what_plain_loops_say(kind: str, seed: int) -> None:
    _, slow, ranks = drawn(kind, seed)
    check_oracle(job(slow, ranks))


@pytest.mark.parametrize("where", few([*CAUSES], 1))
def test_without_overlaps_it_is_what_plain_loops_say(where: str) -> None:
    trace, _ = without_overlaps(where, 1)
    check_oracle(trace)


def test_of_real_ranks_it_is_what_plain_loops_say(traces: Path) -> None:
    trace = profframe.load(traces / "facebookresearch__param/dlrm_kineto/*.gz")
    assert check_oracle(trace)


def test_the_last_rank_holds_up_a_collective_since_the_one_before_it() -> None:
    trace, _ = without_overlaps("host", 1)
    waits = trace.sql(f"{WAITS} FROM waits").sort("match", "came_ns")
    of_three = 0
    for (_,), rows in waits.group_by("match", maintain_order=True):
        *_, before, last = rows["came_ns"]
        assert rows["held_up_ns"].sum() == last - before
        of_three += rows.height > 2
    assert of_three
