"""What ranks cost a job: ranks that are delayed by hand, and sums against those of stragglers."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe.errors import ParameterError, UnknownNameError
from profframe.show.blame_text import parts, sentences
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import Row, event, loaded, together
from tests.conftest import Run
from tests.jobs import NAMES, job
from tests.members import few
from tests.oracles.jobs import COLLECTIVE, HOST, INPUT, KERNEL, Op
from tests.oracles.jobs import run as done

LINK: Final = "link"
CAUSES: Final = {HOST: "host", KERNEL: "compute", INPUT: "input", LINK: "communication"}
"""What is delayed, and the word for it."""
LATE: Final = 5_000_000
LONGEST: Final = 8_000
JITTER: Final = 800

PARTS: Final = """
    WITH matches AS MATERIALIZED (FROM collective_matches(events, traces)),
    arrivals AS MATERIALIZED (
        FROM collective_waits(matches, traces, true)
        WHERE came_ns IS NOT NULL
    ),
    waits AS MATERIALIZED (FROM counted_delays(events, arrivals)),
    pairs AS MATERIALIZED (FROM late_pairs(waits)),
    parts AS (
        SELECT match, rank, sum(part_ns) AS part_ns
        FROM late_parts(events, waits, pairs)
        GROUP BY match, rank
    )
    SELECT
        pairs.match, pairs.rank, part_ns::BIGINT AS part_ns, behind_ns,
        came_ns - before_came_ns AS late_ns
    FROM pairs LEFT JOIN parts ON pairs.match = parts.match AND pairs.rank = parts.rank
"""
"""What the causes of stragglers add up to, and what they have to."""


def drawn(where: str, seed: int) -> tuple[Trace, tuple[int, ...]]:
    """A job in which one thing of one rank takes longer, and the ranks that this may be.

    All ranks do about the same, in steps that end in a collective of all. Neighbours may exchange
    something in between: the link of two of them is delayed for both.
    """
    rng = random.Random(f"{where} {seed}")  # noqa: S311 - draws of a test
    ranks = rng.choice((4, 6, 8)) if where == LINK else rng.randrange(2, 9)
    pairs = [(rank, rank + 1) for rank in range(0, ranks - 1, 2)]
    ops: list[Op] = []
    links: list[int] = []

    def each() -> list[int]:
        about = rng.randrange(1_000, LONGEST)
        return [about + rng.randrange(JITTER) for _ in range(ranks)]

    for _ in range(rng.randrange(3, 6)):
        kinds = [INPUT, HOST, *rng.choices((HOST, KERNEL, KERNEL), k=rng.randrange(3, 8)), KERNEL]
        if where == LINK or rng.random() < 0.5:
            kinds.insert(rng.randrange(2, len(kinds)), LINK)
        for kind in (*kinds, COLLECTIVE):
            if kind == LINK:
                links.append(len(ops))
                ops.append(Op(COLLECTIVE, each(), each(), groups=pairs))
            else:
                stream = 20 if kind == KERNEL and rng.random() < 0.4 else 7
                ops.append(Op(kind, each(), each(), stream))
    if where == KERNEL:  # the other stream is not waited for
        ops = [replace(op, stream=7) for op in ops]
    number = rng.choice(links or [n for n, op in enumerate(ops) if op.kind == where])
    if where != LINK:
        number = rng.choice([n for n, op in enumerate(ops) if op.kind == where])
    late = rng.choice(pairs) if where == LINK else (rng.randrange(ranks),)
    took = [*ops[number].took]
    took[late[0]] += LATE
    ops[number] = replace(ops[number], took=took)
    ahead = [10**10, *(10**10 + rng.randrange(-(10**6), 10**6) for _ in range(ranks - 1))]
    return job(done(ops, ranks), ahead), late


def check_sums(trace: Trace, rows: pl.DataFrame | None = None, *, corrected: bool = True) -> None:
    """Of each rank all adds up to what stragglers says, to the nanosecond."""
    rows = trace.blame("rank", corrected=corrected) if rows is None else rows
    sums = rows.filter(part="entry").group_by("rank").agg(pl.col("cost_ns", "held_up_ns").sum())
    late = trace.stragglers(corrected=corrected)
    behind = late.select("rank", pl.col("held_up_ns") + pl.col("shared_ns"), held="held_up_ns")
    assert sorted(sums.rows()) == sorted(row for row in behind.rows() if row[1])


def check_culprit(where: str, seed: int) -> None:
    trace, late = drawn(where, seed)
    rows = trace.blame()
    first = rows.row(0, named=True)
    name = NAMES[COLLECTIVE if where == LINK else where]
    assert (first["rank"] in late, first["cause"], first["name"]) == (True, CAUSES[where], name)
    assert first["cost_ns"] == pytest.approx(LATE, rel=0.02)
    check_sums(trace, rows)


@pytest.mark.parametrize("where", CAUSES)
@pytest.mark.parametrize("seed", few(range(2), 1))
def test_who_is_delayed_is_named_with_the_cause(where: str, seed: int) -> None:
    check_culprit(where, seed)


@pytest.mark.long
@pytest.mark.parametrize("where", CAUSES)
@pytest.mark.parametrize("seed", range(100))
def test_who_is_delayed_is_named_in_a_hundred_jobs(where: str, seed: int) -> None:
    check_culprit(where, seed)


def by_cause(trace: Trace) -> dict[tuple[int, str, int | None], int]:
    rows = trace.blame("cause").filter(part="entry")
    return {
        (rank, cause, other): cost
        for rank, cause, other, cost in rows.select(
            "rank", "cause", "waits_for_rank", "cost_ns"
        ).rows()
    }


@pytest.mark.parametrize("slower", few([0, 1], 1))
def test_who_waits_for_a_late_rank_is_not_to_blame(slower: int) -> None:
    """Rank 1 is late to its neighbour, and so both are to the others, whichever comes first."""
    ranks, pairs = 4, [(0, 1), (2, 3)]
    same = [1_000] * ranks
    late = [2_000, 2_000 + LATE, 2_000, 2_000]
    after = [3_000 + 50 * (rank == slower) for rank in range(ranks)]
    ops = [
        Op(COLLECTIVE, same, same),
        Op(HOST, late),
        Op(COLLECTIVE, [10_000] * ranks, same, groups=pairs),
        Op(HOST, after),
        Op(KERNEL, [20_000 + 50 * (rank == slower) for rank in range(ranks)], same),
        Op(COLLECTIVE, same, same),
    ]
    trace = job(done(ops, ranks), [10**10] * ranks)
    costs = by_cause(trace)
    assert costs[1, "host", None] == pytest.approx(LATE, rel=0.001)
    waits = {key: cost for key, cost in costs.items() if key[1] == "wait"}
    # if it is rank 1 itself that is late to the last collective, too, that counts before
    assert sum(waits.values()) == pytest.approx(LATE * slower, rel=0.001)
    assert {other for _, _, other in waits} == ({1} if slower else set())
    assert trace.blame("cause")["cause"][0] == "host"
    check_sums(trace)


def three_hosts(*first: Row) -> Trace:
    """Rank 0 comes last: it waited for rank 1 for 900 ns, while rank 2 did something else.

    Rank 1 begins with what is given.
    """

    def gloo(group: str, number: int, start: int, end: int) -> Row:
        return event(
            "gloo:all_reduce", start, end, collective="allreduce", process_group=group,
            collective_seq=number,
        )  # fmt: skip

    every = gloo("all", 1, 100, 200)
    rows = [
        [
            every,
            gloo("two", 1, 300, 1_300),
            event("mm", 1_300, 1_350),
            gloo("all", 2, 1_400, 2_000),
        ],
        [
            *first,
            every,
            event("mm", 200, 1_200),
            gloo("two", 1, 1_200, 1_300),
            gloo("all", 2, 1_310, 2_000),
        ],
        [every, event("mm", 200, 1_320), gloo("all", 2, 1_320, 2_000)],
    ]
    return together(
        *(loaded(*of, rank=rank, header={"clock": "utc"}) for rank, of in enumerate(rows))
    )


def test_a_collective_of_hosts_waits_for_a_late_rank() -> None:
    assert by_cause(three_hosts()) == {
        (0, "wait", 1): 900, (0, "communication", None): 100, (0, "host", None): 200 - 1_120,
        (1, "host", None): 900,
    }  # fmt: skip


def test_a_rank_without_device_work_does_not_wait_as_devices_do() -> None:
    """Though another rank of the run has some."""
    work = event("gemm", 50, 60, category="kernel", device=0, stream=7, thread=9)
    rows = three_hosts(work).stragglers()
    assert rows.select("rank", "held_up_ns", "excess", "excess_ns").rows() == [
        (1, 900, "host", 900),
        (0, 80, "host", 80),
        (2, 0, None, None),
    ]


def test_host_time_behind_work_of_the_device_costs_nothing() -> None:
    hidden, same = 1_000_000, [1_000] * 3
    ops = [
        Op(COLLECTIVE, same, same),
        Op(KERNEL, [2 * hidden] * 3, same),
        Op(HOST, [5_000, 5_000 + hidden, 5_000]),
        Op(KERNEL, [9_000, 9_000, 9_700], same),
        Op(COLLECTIVE, same, same),
    ]
    trace = job(done(ops, 3), [10**10] * 3)
    assert by_cause(trace) == {(2, "compute", None): 700}
    assert trace.stragglers()["excess"][0] == "compute"


def test_several_late_ranks_are_blamed_as_one_would_be() -> None:
    """Of four ranks two load for 5 ms longer: the job would gain that if both did not."""
    same = [1_000] * 4
    ops = [
        Op(COLLECTIVE, same, same),
        Op(INPUT, [3_000, 3_000, 3_000 + LATE, 3_100 + LATE]),
        Op(COLLECTIVE, same, same),
    ]
    trace = job(done(ops, 4), [10**10] * 4)
    assert by_cause(trace) == {(2, "input", None): LATE, (3, "input", None): 100}
    late = trace.stragglers().filter(pl.col("excess").is_not_null())
    assert late.select("rank", "held_up_ns", "shared_ns", "excess").rows() == [
        (3, 100, 0, "input"),
        (2, 0, LATE, "input"),
    ]


def test_what_was_not_recorded_is_said_to_be() -> None:
    """Rank 1 begins a millisecond later than rank 0: nothing tells why."""
    ranks = [
        loaded(
            event("mm", start, start + 10_000),
            event("cudaLaunchKernel", start + 10_000, start + 20_000, category="cuda_runtime",
                  correlation=1),
            event("ncclDevKernel_AllReduce", start + 20_000, 2_000_000, category="kernel", device=0,
                  stream=7, thread=9, correlation=1, collective="allreduce", process_group="0",
                  collective_seq=1),
            rank=rank, header={"clock": "utc"},
        )
        for rank, start in enumerate((100_000, 1_100_000))
    ]  # fmt: skip
    trace = together(*ranks)
    rows = trace.blame().filter(part="entry")
    assert rows.select("rank", "cause", "name", "waits_for_rank", "cost_ns").rows() == [
        (1, "wait", None, None, 1_000_000)
    ]
    assert trace.stragglers()["excess"][0] == "wait"
    check_sums(trace)


def test_what_only_the_late_rank_recorded_before_is_no_reason() -> None:
    """Rank 1 was recorded for 4 ms longer, and its second op takes 1 ms longer."""
    ranks = []
    for rank, (first, took) in enumerate(((4_000_000, 10_000), (0, 1_010_000))):
        begun = 4_000_000 + took
        ranks.append(
            loaded(
                event("early", first, 4_000_000) if rank else event("mark", first, first + 1),
                event("mm", 4_000_000 + (rank == 0), begun),
                event("cudaLaunchKernel", begun, begun + 10_000, category="cuda_runtime",
                      correlation=1),
                event("ncclDevKernel_AllReduce", begun + 10_000, 6_000_000, category="kernel",
                      device=0, stream=7, thread=9, correlation=1, collective="allreduce",
                      process_group="0", collective_seq=1),
                rank=rank, header={"clock": "utc"},
            )
        )  # fmt: skip
    trace = together(*ranks)
    rows = trace.blame(corrected=False).filter(part="entry")
    costs = dict(rows.group_by("cause").agg(pl.col("cost_ns").sum()).rows())
    assert costs == {"host": 1_000_000}
    late = (
        trace.stragglers(corrected=False).select("rank", "excess", "excess_ns", "held_up_ns").row(0)
    )
    assert late == (1, "host", 1_000_000, 1_000_000)
    check_sums(trace, corrected=False)


def test_a_kernel_that_nothing_waits_for_is_an_excess_and_no_cause() -> None:
    """Rank 1 has a longer kernel on a stream of its own, and is late because of its host."""
    ranks = []
    for rank, (took, beside) in enumerate(((10_000, 5_000), (60_000, 105_000))):
        begun = 40_000 + took
        call: dict[str, Any] = {"category": "cuda_runtime"}
        work: dict[str, Any] = {"category": "kernel", "device": 0}
        group: dict[str, Any] = {"collective": "allreduce", "process_group": "0"}
        ranks.append(
            loaded(
                event("cudaLaunchKernel", 0, 10_000, **call, correlation=1),
                event("ncclDevKernel_AllReduce", 10_000, 20_000, **work, **group, stream=7,
                      thread=9, correlation=1, collective_seq=1),
                event("cudaLaunchKernel", 20_000, 30_000, **call, correlation=2),
                event("gemm", 30_000, 30_000 + beside, **work, stream=8, thread=10, correlation=2),
                event("mm", 40_000, begun),
                event("cudaLaunchKernel", begun, begun + 10_000, **call, correlation=3),
                event("ncclDevKernel_AllReduce", begun + 10_000, 200_000, **work, **group,
                      stream=7, thread=9, correlation=3, collective_seq=2),
                rank=rank, header={"clock": "utc"},
            )
        )  # fmt: skip
    trace = together(*ranks)
    assert trace.stragglers()["excess"][0] == "compute"
    assert by_cause(trace) == {(1, "host", None): 50_000}


def test_what_is_late_and_what_is_transfer() -> None:
    ops = [Op(COLLECTIVE, [7_000] * 3, [1_000] * 3), Op(HOST, [15_000, 16_000, 19_000]),
           Op(COLLECTIVE, [11_000] * 3, [1_000] * 3)]  # fmt: skip
    trace = job(done(ops, 3), [10**10] * 3)
    rows = trace.blame("rank").select("rank", "part", "cost_ns", "steps", "part_share").rows()
    assert rows == [(2, "entry", 3_000, 0, 1.0), (None, "transfer", 18_000, 0, 1.0)]
    found = trace.collectives(per="rank").select("number", "rank", "wait_ns", "transfer_ns").rows()
    assert found == [
        (1, 0, 0, 7_000), (1, 1, 0, 7_000), (1, 2, 0, 7_000),
        (2, 0, 4_000, 11_000), (2, 1, 3_000, 11_000), (2, 2, 0, 11_000),
    ]  # fmt: skip


def late_pairs(*ranks: Sequence[tuple[str, int, int, int]]) -> list[tuple[Any, ...]]:
    """Who is late to whom, and since when the two are compared, by the clock of each.

    A rank has collectives: group, number, begin and end. Its clock is 1,000 ahead of the last.
    """
    trace = together(
        *(
            loaded(
                *(
                    event(
                        "ncclDevKernel_AllReduce", at + 1_000 * rank, end + 1_000 * rank,
                        category="kernel", device=0, stream=7 + place, thread=9 + place,
                        collective="allreduce", process_group=group, collective_seq=number,
                    )
                    for place, (group, number, at, end) in enumerate(calls)
                ),
                rank=rank, header={"clock": "utc"},
            )
            for rank, calls in enumerate(ranks)
        )
    )  # fmt: skip
    return trace.sql("""
        WITH matches AS (FROM collective_matches(events, traces)),
        waits AS (FROM collective_waits(matches, traces, true))
        SELECT rank, start_ns, before_rank, before_start_ns, behind_ns, since_ns, before_since_ns
        FROM late_pairs(waits)
        ORDER BY start_ns""").rows()


def test_ranks_are_together_at_the_moment_at_which_one_goes_on() -> None:
    """Rank 0 comes to the third collective at 100, as rank 1 does to the second one."""
    assert late_pairs(
        [("dp", 0, 10, 20), ("dp", 1, 50, 120), ("dp", 2, 100, 200)],
        [("dp", 0, 10, 20), ("dp", 1, 100, 120), ("dp", 2, 160, 200)],
    ) == [(1, 1_100, 0, 50, 50, 1_010, 10), (1, 1_160, 0, 100, 60, 1_100, 100)]


def test_who_meets_a_third_rank_is_not_together_with_the_others() -> None:
    """Rank 1 meets rank 2 at 50, and was last together with rank 0 at 10."""
    assert late_pairs(
        [("dp", 0, 10, 20), ("dp", 1, 100, 200)],
        [("dp", 0, 10, 20), ("tp", 0, 40, 60), ("dp", 1, 160, 200)],
        [("tp", 0, 50, 60)],
    ) == [(1, 1_160, 0, 100, 60, 1_010, 10), (2, 2_050, 1, 1_040, 10, None, None)]


def steps(late: Sequence[int]) -> Trace:
    """Two ranks with a step per number: by how much rank 1 is late in it, in an op of a module.

    A step of no time, which is none, comes last.
    """
    ranks = []
    for rank in (0, 1):
        rows, at = [], 10**10
        for number, more in enumerate(late):
            took, end = 1_000 + more * rank, at + 20_000 + max(late)
            rows += [
                event(f"ProfilerStep#{number}", at, end + 5_000, category="user_annotation"),
                event("nn.Module: Block_0", at + 100, at + 200 + took, category="python_function",
                      python_id=2 * number + 1, python_module_id=7),
                event("aten::linear", at + 150, at + 150 + took),
                event("cudaLaunchKernel", at + 300 + took, at + 400 + took,
                      category="cuda_runtime", correlation=number + 1),
                event("ncclDevKernel_AllReduce", at + 500 + took, end, category="kernel", device=0,
                      stream=7, thread=9, correlation=number + 1, collective="allreduce",
                      process_group="0", collective_seq=number),
            ]  # fmt: skip
            at = end + 10_000
        rows.append(event("ProfilerStep#99", at, at, category="user_annotation"))
        ranks.append(loaded(*rows, rank=rank, header={"clock": "utc"}))
    return together(*ranks)


def test_it_is_per_step_with_op_and_module() -> None:
    trace = steps([0, 4_000, 6_000])
    found = trace.blame().filter(part="entry")
    assert found.select("rank", "cause", "name", "op", "module", "cost_ns", "steps").rows() == [
        (1, "host", "aten::linear", "aten::linear", "nn.Module: Block_0", 10_000, 3)
    ]
    assert found["cost_per_step_ns"].to_list() == [10_000 / 3]
    for per, kept in (("op", "op"), ("module", "module"), ("rank", "rank"), ("cause", "cause")):
        [row] = trace.blame(per).filter(part="entry").rows(named=True)
        assert row["cost_ns"] == 10_000
        assert row[kept] == found[kept][0]
        assert row["name"] is None
    [row] = trace.blame("rank", step=1).filter(part="entry").rows(named=True)
    assert (row["cost_ns"], row["steps"]) == (4_000, 1)
    assert trace.blame(step=0).filter(part="entry").is_empty()


def test_it_adds_up_where_not_all_clocks_are_known() -> None:
    """Rank 2 only takes part in a broadcast, whose ranks do not leave it together."""

    def nccl(word: str, group: str, start: int, end: int) -> Row:
        return event(
            f"nccl{word}", start, end, category="kernel", device=0, stream=7, thread=9,
            collective=word, process_group=group, collective_seq=1,
        )  # fmt: skip

    ahead = 5_000
    rows = [
        [event("mm", 10_000, 12_000), nccl("allreduce", "a", 20_000, 30_000)],
        [
            event("mm", 11_000 + ahead, 13_000 + ahead),
            nccl("allreduce", "a", 22_000 + ahead, 30_000 + ahead),
            nccl("broadcast", "b", 40_000 + ahead, 50_000 + ahead),
        ],
        [event("mm", 10_000, 40_000), nccl("broadcast", "b", 48_000, 50_000)],
    ]
    trace = together(
        *(loaded(*of, rank=rank, header={"clock": "utc"}) for rank, of in enumerate(rows))
    )
    assert trace.collectives(corrected=True)["is_corrected"].to_list() == [True, False]
    check_sums(trace)
    check_sums(trace, corrected=False)


def test_on_the_command_line(tmp_path: Path, run: Run) -> None:
    steps([0, 4_000, 6_000]).to_parquet(tmp_path / "store")
    code, out, _ = run("blame", tmp_path / "store")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("Collectives wait 3.333 us for late ranks, and take ")
    assert lines[0].endswith(" once all ranks are there (means of 3 steps).")
    assert lines[1] == "Rank 1: 3.333 us per step, 100 % host."
    [row] = [line for line in lines if "aten::linear" in line]
    words = "1 host aten::linear aten::linear nn.Module: Block_0 3.333 us 100.0 %"
    assert row.split() == words.split()
    assert "Transfer, once all ranks are there" in lines
    code, out, _ = run(
        "blame", tmp_path / "store", "--per", "cause", "--step", 2, "--format", "csv"
    )
    assert (code, out.splitlines()[1]) == (0, "r,1,entry,host,,,,,6000,6000,1,6000.0,1.0,true")
    code, out, _ = run("answer", "blame", tmp_path / "store", "-p", "per=rank", "--format", "csv")
    assert (code, out.splitlines()[1]) == (
        0,
        "r,1,entry,,,,,,10000,10000,3,3333.3333333333335,1.0,true",
    )
    code, out, _ = run("blame", "examples/gpu_training.json.gz")
    assert out.startswith("no rows: no collectives, sends or receives in this trace; record ranks")
    assert run("blame", tmp_path / "store", "--per", "kernel")[0] == 2


def rows_of(*costs: tuple[int, str | None, int | None, int], steps: int = 2) -> pl.DataFrame:
    """Rows of blame: rank, cause, the rank that it waited for, and nanoseconds."""
    columns = ["rank", "cause", "waits_for_rank", "cost_ns"]
    late = pl.DataFrame(
        costs,
        dict(zip(columns, [pl.Int32, pl.String, pl.Int32, pl.Int64], strict=True)),
        orient="row",
    )
    return late.with_columns(part=pl.lit("entry"), steps=pl.lit(steps))


def test_a_rank_does_not_wait_for_itself_in_a_table() -> None:
    """Its own number means that the reason counts at another collective."""
    rows = rows_of((2, "wait", 2, 9), (3, "wait", 6, 5), (4, "wait", None, 1))
    others = dict.fromkeys(("name", "op", "module"), pl.lit(None, pl.String))
    [(_, table)] = parts(rows.with_columns(**others, cost_per_step_ns="cost_ns", part_share=0.1))
    assert table["waits_for_rank"].to_list() == ["(elsewhere)", "6", None]


def test_first_it_says_what_each_late_rank_costs_and_why() -> None:
    rows = rows_of(
        (6, "host", None, 334_000_000), (6, "input", None, 38_000_000),
        (6, "compute", None, 56_000_000), (6, "copy", None, -6_000_000),
        (3, "wait", 6, 400_000_000), (3, "compute", None, 4_000_000),
        (0, "input", None, 8_000_000), (1, "wait", None, 2_000_000), (2, "wait", 2, 1_000_000),
        (5, "host", None, 10),
    )  # fmt: skip
    assert sentences(rows) == [
        "Rank 6: 211.000 ms per step, 78 % host; data loading adds 19.000 ms per step.",
        "Rank 0: 4.000 ms per step, 100 % data loading.",
        "Rank 3: 202.000 ms per step, 99 % waiting for rank 6.",
        "Rank 5: 0.005 us per step, 100 % host.",
        "Rank 1: 1.000 ms per step, 100 % before anything was recorded.",
        "1 other rank: 500.000 us per step.",
    ]
    assert sentences(rows_of((1, None, None, 5_000), steps=0)) == ["Rank 1: 5.000 us."]


def check_defaults(trace: Trace) -> pl.DataFrame:
    """With nothing asked for, stragglers and blame say the same; what blame says of each rank."""
    sums = trace.blame("rank").filter(part="entry").select("rank", "cost_ns", "held_up_ns")
    late = trace.stragglers().filter(pl.col("held_up_ns") + pl.col("shared_ns") > 0)
    behind = late.select("rank", pl.col("held_up_ns") + pl.col("shared_ns"), held="held_up_ns")
    assert sums.height
    assert sorted(sums.rows()) == sorted(behind.rows())
    assert {*late["is_corrected"], *trace.blame()["is_corrected"]} == {True}
    return sums


@pytest.mark.long
def test_it_adds_up_on_ranks_that_run_now(tmp_path: Path) -> None:
    needs.torch()
    command = [sys.executable, "-m", "tests.unit.gloo_steps"]
    ranks = [
        subprocess.Popen([*command, str(rank), "3", str(tmp_path), "0.01"]) for rank in range(3)
    ]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0, 0]
    check_defaults(profframe.load(sorted(map(str, tmp_path.glob("*.json")))))


REAL: Final = {
    "eight ranks on GPUs": "facebookresearch__param/dlrm_kineto/*.gz",
    "two ranks on NPUs": "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank*/*.gz",
}


@pytest.mark.parametrize("pattern", few(REAL.values(), 1), ids=REAL)
def test_it_adds_up_on_real_ranks(traces: Path, pattern: str) -> None:
    trace = profframe.load(traces / pattern)
    sums = check_defaults(trace)
    check_sums(trace)
    check_sums(trace, corrected=False)
    parts = trace.sql(PARTS)
    assert parts["behind_ns"].sum() == sums["cost_ns"].sum()
    assert parts["part_ns"].equals(parts["behind_ns"])
    waits = trace.collectives()
    transfer = trace.blame("rank").filter(part="transfer")["cost_ns"].sum()
    assert transfer == waits.filter(pl.col("ranks") > 1)["latency_ns"].sum()


def test_what_it_refuses() -> None:
    one = loaded(event("mm", 0, 5), run="a")
    assert one.blame().is_empty()
    assert profframe.load("examples/gpu_training.json.gz").blame().is_empty()
    with pytest.raises(ParameterError, match=r"blame covers one run, and there are 2 "):
        together(one, loaded(event("mm", 0, 5), run="b")).blame()
    with pytest.raises(UnknownNameError, match="cause, rank, not 'kernel'"):
        one.blame("kernel")
    with pytest.raises(UnknownNameError, match="run named 'c'"):
        one.blame(run="c")
