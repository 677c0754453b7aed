"""Ranks from their traces to the answers: numbers, clocks, mismatches, real jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import profframe
from profframe.facts.formulas.dtypes import DTYPES
from profframe.query import macros
from profframe.show.columns import since_start
from profframe.trace.trace import Trace
from tests.conftest import Run

Change = Callable[[int, dict[str, Any]], dict[str, Any] | None]
STEP_US = 1000.0
BASE_NS = 1_795_270_000_000_000_000


def job(folder: Path, change: Change, base: Mapping[int, int] | None = None) -> Trace:
    """Traces of four ranks that reduce ten times, every rank 20 us after the one before it.

    Each comes with the op that launches it, and the op before that; `change` may change or drop an
    event of a rank.
    """
    for rank in range(4):
        events = []
        for seq in range(10):
            call = STEP_US * seq + 20.0 * rank
            end = STEP_US * seq + 600.0
            of_group = {
                "Collective name": "allreduce",
                "In msg nelems": 1_000_000,
                "Out msg nelems": 1_000_000,
                "Group size": 4,
                "dtype": "BFloat16",
                "Process Group Name": "7",
                "Process Group Ranks": "[0, 1, 2, 3]",
                "Seq": 40 + seq,
            }
            host = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
            launch = {"correlation": seq + 1}
            events += [
                host | {"name": "aten::mm", "ts": call - 9.0 - 20 * rank, "dur": 8.0 + 20 * rank},
                host | {"name": "record_param_comms", "ts": call, "dur": 5.0, "args": of_group},
                host
                | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": call + 1, "dur": 2.0}
                | {"args": launch},
                {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": call + 10}
                | {"name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "dur": end - call - 10}
                | {"args": of_group | launch | {"device": 0, "stream": 7}},
            ]
        changed = [e for event in events if (e := change(rank, event)) is not None]
        start = (base or {}).get(rank, BASE_NS)
        head = {
            "baseTimeNanoseconds": start,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 4},
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(head | {"traceEvents": changed}))
    return profframe.load(folder)


def keep(_: int, event: dict[str, Any]) -> dict[str, Any]:
    return event


def is_kernel_of(event: dict[str, Any], seq: int) -> bool:
    return bool(event["cat"] == "kernel" and event["args"].get("Seq") == seq)


def test_matched_by_number(tmp_path: Path) -> None:
    rows = job(tmp_path, keep).collectives()
    assert rows["collective_seq"].to_list() == list(range(40, 50))
    assert set(rows["matched_by"]) == {"seq"}
    assert rows["mismatch"].null_count() == 10
    assert set(rows["start_skew_ns"]) == {60_000}
    assert set(rows["wait_ns"]) == {30_000}
    assert set(rows["latency_ns"]) == {530_000}
    assert rows["algorithm_gb_per_s"].to_list() == pytest.approx([2_000_000 / 530_000] * 10)
    assert rows["bus_gb_per_s"].to_list() == pytest.approx([2_000_000 / 530_000 * 1.5] * 10)


@pytest.mark.parametrize("word", ["Seq", "Comms Id"])
def test_what_is_missing_shifts_nothing(tmp_path: Path, word: str) -> None:
    def change(rank: int, event: dict[str, Any]) -> dict[str, Any] | None:
        if rank == 2 and is_kernel_of(event, 43):
            return None
        args = dict(event.get("args", {}))
        seq = args.pop("Seq", None)
        if seq is not None:
            args[word] = seq if word == "Seq" else 18_000_000_000_000_000_000 + seq
        return event | {"args": args}

    trace = job(tmp_path, change)
    [row] = trace.collectives(mismatched=True).to_dicts()
    assert (row["number"], row["ranks"], row["expected_ranks"]) == (4, 3, 4)
    assert (row["missing_ranks"], row["mismatch"]) == ("2", "missing_rank")
    others = trace.collectives().filter(pl.col("number") != 4)
    assert set(others["start_skew_ns"]) == {60_000}
    assert set(others["matched_by"]) == {"seq"}


def test_by_order_it_shifts_what_follows_and_says_so(tmp_path: Path) -> None:
    def change(rank: int, event: dict[str, Any]) -> dict[str, Any] | None:
        if rank == 2 and is_kernel_of(event, 43):
            return None
        return event | {"args": {k: v for k, v in event.get("args", {}).items() if k != "Seq"}}

    rows = job(tmp_path, change).collectives(corrected=False)
    assert set(rows["matched_by"]) == {"order"}
    assert rows["mismatch"].to_list() == [None] * 9 + ["missing_rank"]
    assert rows["start_skew_ns"][2] == 60_000
    assert rows["start_skew_ns"][3] > 900_000


def test_a_clock_that_is_3_ms_ahead_is_found_corrected_and_said(tmp_path: Path) -> None:
    def change(rank: int, event: dict[str, Any]) -> dict[str, Any]:
        return event | {"ts": event["ts"] + 3000.0} if rank == 1 else event

    trace = job(tmp_path, change)
    rows = trace.clock_skew()
    assert rows["offset_ns"].to_list() == [0, 3_000_000, 0, 0]
    assert rows["error_ns"].to_list() == [0, 0, 0, 0]
    assert rows["note"].to_list() == [None, "skewed", None, None]
    raw, corrected = trace.collectives(corrected=False), trace.collectives()
    assert set(raw["start_skew_ns"]) == {3_020_000}
    assert set(raw["last_rank"]) == {1}
    assert not any(raw["is_corrected"])
    assert set(corrected["start_skew_ns"]) == {60_000}
    assert set(corrected["last_rank"]) == {3}
    assert all(corrected["is_corrected"])
    assert trace.stragglers(corrected=False)["rank"][0] == 1
    late = trace.stragglers()
    assert (late["rank"][0], late["is_corrected"].all()) == (3, True)
    assert trace.collectives(per="size")["max_skew_ns"].max() == 60_000
    assert {*trace.blame()["is_corrected"]} == {True}
    assert {*trace.blame(corrected=False)["is_corrected"]} == {False}


def test_origins_of_the_clocks_are_in_the_times(tmp_path: Path) -> None:
    def change(rank: int, event: dict[str, Any]) -> dict[str, Any]:
        return event | {"ts": event["ts"] - 5_000_000.0} if rank == 3 else event

    trace = job(tmp_path, change, base={3: BASE_NS + 5_000_000_000})
    rows = trace.clock_skew()
    assert rows["offset_ns"].to_list() == [0, 0, 0, 0]
    assert rows["note"].to_list() == [None, None, None, "other_origin"]
    assert set(trace.collectives()["start_skew_ns"]) == {60_000}


def test_who_is_late_and_after_what(tmp_path: Path) -> None:
    rows = job(tmp_path, keep).stragglers().to_dicts()
    assert [row["rank"] for row in rows] == [3, 0, 1, 2]
    assert (rows[0]["times_last"], rows[0]["last_share"]) == (10, 1.0)
    assert rows[0]["before_op"] == "aten::mm"
    assert [row["held_up_ns"] for row in rows] == [200_000, 0, 0, 0]
    assert [row["shared_ns"] for row in rows] == [0, 0, 0, 200_000]
    assert rows[0]["mean_late_ns"] == 60_000
    assert [row["wait_ns"] for row in rows] == [0, 600_000, 400_000, 200_000]


def test_one_rank_alone(tmp_path: Path) -> None:
    trace = job(tmp_path, keep).filter(ranks=1)
    rows = trace.collectives()
    assert set(rows["matched_by"]) == {"none"}
    assert set(rows["mismatch"]) == {"not_loaded"}
    assert set(rows["missing_ranks"]) == {"0,2,3"}
    assert rows["wait_ns"].null_count() == 10
    assert trace.collectives(mismatched=True).is_empty()
    assert trace.stragglers().is_empty()


def test_kernels_that_say_nothing_have_it_of_their_op(tmp_path: Path) -> None:
    def change(_: int, event: dict[str, Any]) -> dict[str, Any]:
        if event["cat"] != "kernel":
            return event
        kept = {k: event["args"][k] for k in ("device", "stream", "correlation")}
        return event | {"args": kept}

    assert job(tmp_path, change).collectives().equals(job(tmp_path, keep).collectives())


def test_sizes_of_types_are_those_of_the_table() -> None:
    with duckdb.connect() as connection:
        for macro in macros.definitions("element_bytes()").values():
            connection.execute(macro)
        for name, dtype in DTYPES.items():
            [(size,)] = connection.execute("SELECT element_bytes(?)", [name]).fetchall()
            assert size == dtype.size, name
        torch = {
            "Float8_e5m2": 1, "Float8_e8m0fnu": 1, "Float4_e2m1fn_x2": 1, "Byte": 1, "Bool": 1,
            "UInt16": 2, "UInt32": 4, "UInt64": 8, "Half": 2, "BFloat16": 2, "ComplexDouble": 16,
            "FP32": 4, "BFP16": 2, "Undefined": None, "": None,
        }  # fmt: skip
        for name, expected in torch.items():
            [(size,)] = connection.execute("SELECT element_bytes(?)", [name]).fetchall()
            assert size == expected, name


def test_impossible_sizes_are_not_known(tmp_path: Path) -> None:
    def change(_: int, event: dict[str, Any]) -> dict[str, Any]:
        huge = {"In msg nelems": (1 << 63) - 1, "Out msg nelems": None, "Group size": 2_000_000_000}
        said = {"Collective name": "_allgather_base", "dtype": "Byte"} | huge
        return event | {"args": event["args"] | said} if "args" in event else event

    rows = job(tmp_path, change)
    for answer in ("collectives", "collectives.size", "stragglers", "collective_traffic"):
        assert rows.answer(answer).columns
    assert set(rows.collectives()["bytes"]) == {None}


def shown(folder: Path, run: Run) -> list[str]:
    """Lines of the section about ranks that the command line shows."""
    code, out, _ = run("show", folder, "--top", 2)
    assert code == 0
    lines = out.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("Ranks that others wait for")]
    return lines[starts[0] : lines.index("", starts[0])] if starts else []


def test_a_summary_says_who_is_waited_for(tmp_path: Path, run: Run) -> None:
    job(tmp_path, keep)
    title, _, first, second, *note = shown(tmp_path, run)
    assert title == "Ranks that others wait for (top 2 of 4)"
    words = "3 10 5.300 ms 10 100.0 % 200.000 us 0.000 us host aten::mm"
    assert first.split() == words.split()
    assert second.split()[0] == "0"
    assert note[0].startswith('last %: "times last" over collectives; held up: what the job would')


def test_a_summary_is_on_one_clock(tmp_path: Path, run: Run) -> None:
    job(tmp_path, lambda rank, event: event | {"ts": event["ts"] + 700.0 * rank})
    title, _, first, *_ = shown(tmp_path, run)
    assert title == "Ranks that others wait for (top 2 of 4)"
    assert first.split()[:9] == ["3", "10", "5.300", "ms", "10", "100.0", "%", "200.000", "us"]


def test_a_summary_says_if_clocks_cannot_be_told(tmp_path: Path, run: Run) -> None:
    def change(_: int, event: dict[str, Any]) -> dict[str, Any]:
        args = event.get("args", {})
        return event | {"args": args | {"Collective name": "broadcast"} if args else args}

    trace = job(tmp_path, change)
    assert {*trace.stragglers()["is_corrected"]} == {False}
    title, *_ = shown(tmp_path, run)
    note = "on the ranks' own clocks: see clock_skew"
    assert title.startswith(f"Ranks that others wait for ({note})")
    code, out, _ = run("blame", tmp_path)
    assert (code, note in out) == (0, True)


def test_a_summary_of_one_rank_says_nothing_of_it(tmp_path: Path, run: Run) -> None:
    job(tmp_path, keep)
    assert shown(tmp_path / "rank0.json", run) == []


def test_moments_without_a_rank_are_since_the_first_of_the_run(tmp_path: Path) -> None:
    trace = job(tmp_path, keep)
    rows = since_start(trace.collectives(), trace.traces)
    assert rows["start_ns"].to_list() == [19_000 + 1_000_000 * n for n in range(10)]


def columns(rows: pl.DataFrame) -> dict[str, list[Any]]:
    return rows.to_dict(as_series=False)


def test_eight_ranks_of_a_real_job(traces: Path) -> None:
    trace = profframe.load(traces / "facebookresearch__param" / "dlrm_kineto" / "*.gz")
    rows = columns(trace.collectives())
    assert rows["matched_by"] == ["order"] * 8
    assert rows["mismatch"] == [None] * 8
    assert rows["ranks"] == [8] * 8
    assert sorted(rows["collective"]) == ["all_reduce"] * 3 + ["all_to_all"] * 5
    assert None not in rows["bytes"]
    assert max(rows["end_skew_ns"]) <= 10_000, "all ranks leave a collective together"
    skew = columns(trace.clock_skew())
    assert skew["note"] == [None] * 8, "one machine has one clock"
    assert max(map(abs, skew["offset_ns"])) <= 2000, "the traces have whole microseconds"
    late = columns(trace.stragglers(corrected=False))
    assert sum(late["times_last"]) == 8
    came = trace.collectives(per="rank").group_by("number").agg(pl.col("start_ns").sort())
    starts = came["start_ns"].to_list()
    waits = trace.sql("""
        WITH matches AS (FROM collective_matches(events, traces))
        SELECT sum(held_up_ns)::BIGINT AS held_up_ns, sum(behind_ns)::BIGINT AS behind_ns
        FROM collective_waits(matches, traces, false)""").row(0, named=True)
    assert waits["held_up_ns"] == sum(one[-1] - one[-2] for one in starts)
    middles = [one[3] for one in starts]
    every = sum(one[-1] - middle for one, middle in zip(starts, middles, strict=True))
    assert waits["behind_ns"] == every
    both = sum(late["held_up_ns"]) + sum(late["shared_ns"])
    assert 0.5 * every < both < every, "what makes a rank late to several collectives counts once"
    balance = trace.rank_balance().filter(pl.col("step").is_null(), pl.col("class") == "compute")
    breakdown = trace.time_breakdown().filter(pl.col("step").is_null())
    assert balance["max_ns"].item() == breakdown["compute_ns"].max()


def test_two_ranks_of_an_ascend_job(traces: Path) -> None:
    folder = traces / "xiaobingling93-pixel__Ascend-msinsight" / "v2" / "level0"
    trace = profframe.load(folder / "rank*" / "*.gz")
    rows = columns(trace.collectives())
    assert rows["bytes"] == [16_388_000, 67_125_248, 151_011_328, 9_878_784]
    assert rows["matched_by"] == ["order"] * 4
    assert rows["ranks"] == [2] * 4
    assert rows["mismatch"] == [None] * 4
    assert max(map(abs, columns(trace.clock_skew())["offset_ns"])) < 20_000
    assert columns(trace.stragglers())["collectives"] == [4, 4]
