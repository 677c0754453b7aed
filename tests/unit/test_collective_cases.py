"""Collectives as the tests of the TensorBoard plugin and of TraceLens have them, number for number.

The events are those of ``tb_plugin/test/test_profiler.py`` of Kineto and of the all-to-all tests of
TraceLens, typed again; so are the numbers that these tests expect.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe.loaders import trace_files
from profframe.trace.trace import Trace
from tests.members import few

Event = dict[str, Any]

# The plugin: shapes on an op around the kernel, or on a slice of gloo


def op(  # noqa: PLR0917
    name: str, tid: int, ts: int, dur: int, number: int, elements: int
) -> Event:
    args = {"External id": number, "Input Dims": [[elements]], "Input type": ["float"]}
    line = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 23803, "tid": str(tid)}
    return line | {"ts": ts, "dur": dur, "args": args}


def kernel(name: str, stream: int, ts: int, dur: int, number: int) -> Event:
    args = {"device": 0, "correlation": 1000 + number, "external id": number}
    line = {"ph": "X", "cat": "Kernel", "name": name, "pid": 0, "tid": f"stream {stream}"}
    return line | {"ts": ts, "dur": dur, "args": args}


def loaded(folder: Path, ranks: list[list[Event]]) -> Trace:
    for rank, events in enumerate(ranks):
        header = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": len(ranks)}}
        (folder / f"worker{rank}.json").write_text(json.dumps(header | {"traceEvents": events}))
    return profframe.load(folder)


def nccl_rank(times: list[tuple[int, int]], broadcast_ns: int) -> list[Event]:
    (broadcast, broadcast_dur), (reduce, reduce_dur) = times
    return [
        op("nccl:broadcast", 23803, 0, broadcast_ns, 146, 53120),
        kernel("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", 16, broadcast,
               broadcast_dur, 146),
        op("aten::add_", 23803, 100, 20, 24504, 1000),
        kernel("void at::native::vectorized_elementwise_kernel", 7, 130, 161, 24504),
        op("nccl:all_reduce", 25166, 160, 75, 2513, 2049000),
        kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 16, reduce, reduce_dur,
               2513),
    ]  # fmt: skip


def test_nccl_of_the_plugin(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        [nccl_rank([(16, 16), (162, 1556)], 75), nccl_rank([(8, 31), (562, 1058)], 20)],
    )
    columns = ("rank", "collective", "dtype", "bytes", "dur_ns", "latency_ns")
    rows = trace.collectives(per="rank").select(columns).sort("rank", "bytes").rows()
    assert rows == [
        (0, "broadcast", "float", 212_480, 16_000, 16_000),
        (0, "all_reduce", "float", 8_196_000, 1_556_000, 1_058_000),
        (1, "broadcast", "float", 212_480, 31_000, 16_000),
        (1, "all_reduce", "float", 8_196_000, 1_058_000, 1_058_000),
    ]
    summary = trace.collectives(per="size").select(
        "collective", "dtype", "bytes", "calls", "total_ns"
    )
    assert summary.rows() == [
        ("all_reduce", "float", 8_196_000, 1, 1_058_000),
        ("broadcast", "float", 212_480, 1, 16_000),
    ]
    own = trace.events.filter(pl.col("name").str.starts_with("nccl"))
    assert own["in_elements"].null_count() == own.height, "columns are as the source has them"


def gloo_rank(times: list[tuple[int, int]]) -> list[Event]:
    threads = (23803, 23805, 23803, 23805, 23803)
    names = ["gloo:broadcast"] * 3 + ["gloo:all_reduce"] * 2
    sizes = [53120] * 3 + [2049000] * 2
    return [
        op(name, tid, ts, dur, 165 + i, size)
        for i, (name, tid, (ts, dur), size) in enumerate(
            zip(names, threads, times, sizes, strict=True)
        )
    ]


def test_gloo_of_the_plugin(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        [
            gloo_rank([(16, 38), (25, 36), (66, 18), (110, 18), (120, 36)]),
            gloo_rank([(20, 28), (28, 30), (77, 6), (88, 38), (130, 16)]),
        ],
    )
    rows = trace.collectives(per="rank").group_by("rank", "collective").agg(
        pl.len(), pl.sum("bytes"), pl.mean("bytes").alias("mean")
    )  # fmt: skip
    assert rows.sort("rank", "bytes").rows() == [
        (0, "broadcast", 3, 637_440, 212_480),
        (0, "all_reduce", 2, 16_392_000, 8_196_000),
        (1, "broadcast", 3, 637_440, 212_480),
        (1, "all_reduce", 2, 16_392_000, 8_196_000),
    ]


RUNTIME = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
LAUNCHED = {"ph": "X", "cat": "kernel", "name": "ncclKernel_SendRecv", "pid": 0, "tid": 7}


def one(folder: Path, around: list[tuple[str, str, dict[str, Any]]]) -> tuple[object, ...]:
    """What a kernel of a call inside these slices, outermost first, has of them."""
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1}
        | {"ts": i, "dur": 100 - 2 * i, "args": {"External id": i + 1, **args}}
        for i, (category, name, args) in enumerate(around)
    ]
    events += [
        RUNTIME | {"ts": 20, "dur": 5, "args": {"correlation": 9}},
        LAUNCHED | {"ts": 50, "dur": 9, "args": {"device": 0, "stream": 7, "correlation": 9}},
    ]
    return loaded(folder, [events]).collectives().select("collective", "dtype", "bytes").row(0)


SHAPES = {"Input Dims": [[3, 4], [2]], "Input type": ["c10::Half", "c10::Half"]}


@pytest.mark.parametrize(
    "around",
    few(
        [
            [("user_annotation", "nccl:all_to_all", SHAPES)],
            [("cpu_op", "nccl:all_to_all", SHAPES)],
            [("Operator", "nccl:all_to_all", SHAPES)],
            [("cpu_op", "c10d::alltoall_", {}), ("cpu_op", "nccl:all_to_all", SHAPES)],
            [("cpu_op", "nccl:all_to_all", SHAPES), ("cpu_op", "record_param_comms", {})],
            [("cpu_op", "rccl:_all_to_all_base", SHAPES)],
        ],
        3,
    ),
)
def test_shapes_are_on_the_op_or_the_annotation(
    tmp_path: Path, around: list[tuple[str, str, dict[str, Any]]]
) -> None:
    """12 and 2 halves are 28 bytes; the kernel's own name says less than what is around it."""
    assert one(tmp_path, around) == ("all_to_all", "c10::Half", 28)


def test_what_is_no_collective_says_nothing_of_its_shapes(tmp_path: Path) -> None:
    assert one(tmp_path, [("cpu_op", "mine:step", SHAPES)]) == ("send_recv", None, None)
    assert one(tmp_path, [("cpu_op", "c10d::alltoall_", SHAPES)])[1:] == (None, None)


def test_what_a_kernel_says_itself_goes_before_its_op(tmp_path: Path) -> None:
    events = [
        op("nccl:all_reduce", 1, 0, 50, 5, 100),
        kernel("ncclKernel_AllReduce", 7, 10, 9, 5),
    ]
    events[1]["args"] |= {"Collective name": "allreduce", "dtype": "Double", "In msg nelems": 3}
    assert loaded(tmp_path, [events]).collectives().select("dtype", "bytes").rows() == [
        ("Double", 24)
    ]


# TraceLens: kernels that name neither device nor process


def all_to_all(rank: int, ts: int, dur: int, splits: object, **other: object) -> Event:
    size = sum(splits) if isinstance(splits, list) else 1024
    args = {
        "External id": 100 + rank,
        "Process Group Name": "pg_default",
        "Process Group Ranks": [0, 1, 2, 3],
        "Collective name": "all_to_allv",
        "Group size": 4,
        "dtype": "BFloat16",
        "In msg nelems": size,
        "Out msg nelems": size,
        "In split size": splits,
        "Out split size": splits,
        "stream": 0,
    }
    name = f"ncclKernel_AllToAllv_{rank}"
    return {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "args": args | other}


def tracelens(folder: Path, ranks: list[list[Event]]) -> Trace:
    for rank, events in enumerate(ranks):
        path = folder / f"rank{rank}_trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
    return profframe.load(folder)


def traffic(trace: Trace) -> dict[tuple[int, int], tuple[int, int]]:
    rows = trace.collective_traffic().select("rank", "peer_rank", "calls", "bytes").rows()
    return {(rank, peer): (calls, size) for rank, peer, calls, size in rows}


def walls(trace: Trace) -> list[tuple[int, float | None]]:
    """Time from first start to last end, and imbalance, of each collective."""
    ends = (pl.col("start_ns") + pl.col("dur_ns")).max() - pl.col("start_ns").min()
    rows = trace.collectives(per="rank").group_by("number").agg(ends, pl.first("imbalance"))
    return [(wall, imbalance) for _, wall, imbalance in rows.sort("number").rows()]


def test_balanced_parts(tmp_path: Path) -> None:
    trace = tracelens(
        tmp_path,
        [
            [
                all_to_all(rank, 1000 + 10 * rank, 500, [1024] * 4),
                all_to_all(rank, 5000 + 5 * rank, 800, [2048] * 4),
            ]
            for rank in range(4)
        ],
    )
    pairs = {(rank, peer) for rank in range(4) for peer in range(4)}
    assert traffic(trace) == dict.fromkeys(pairs, (2, 3072 * 2))
    assert walls(trace) == [(530_000, 1.0), (815_000, 1.0)]
    summary = trace.collectives().select("collective", "dtype", "bytes", "ranks", "mismatch")
    assert summary.rows() == [
        ("all_to_allv", "BFloat16", 8192, 4, None),
        ("all_to_allv", "BFloat16", 16384, 4, None),
    ]
    [(check, count, first)] = (
        trace.filter(ranks=2).quality.select("issue", "events", "example_event_id").rows()
    )
    assert (check, count, first) == ("unnamed_device", 2, 0)


def test_imbalanced_parts(tmp_path: Path) -> None:
    """8,000 elements of rank 0 and 1,000 of others are 2,750 in the mean."""
    splits = [[2000] * 4, *([[250] * 4] * 3)]
    trace = tracelens(
        tmp_path,
        [
            [all_to_all(rank, 1000, 200 + 100 * rank, splits[rank], dtype="Float")]
            for rank in range(4)
        ],
    )
    sent = traffic(trace)
    assert {sent[0, peer] for peer in range(4)} == {(1, 2000 * 4)}
    assert {sent[rank, peer] for rank in (1, 2, 3) for peer in range(4)} == {(1, 250 * 4)}
    assert walls(trace) == [(500_000, 8000 / 2750)]


def test_a_rank_that_sends_nothing(tmp_path: Path) -> None:
    splits = [[500, 500, 0, 500], [500, 500, 0, 500], [0, 0, 0, 0], [500, 500, 0, 500]]
    trace = tracelens(
        tmp_path,
        [
            [all_to_all(rank, 1000, 10 if rank == 2 else 100, splits[rank], dtype="Half")]
            for rank in range(4)
        ],
    )
    sent = traffic(trace)
    assert len(sent) == 16
    assert {sent[2, peer] for peer in range(4)} == {(1, 0)}
    assert [sent[0, peer] for peer in range(4)] == [(1, 1000), (1, 1000), (1, 0), (1, 1000)]
    assert walls(trace) == [(100_000, 1500 / 1125)]


def test_nobody_sends_anything(tmp_path: Path) -> None:
    trace = tracelens(tmp_path, [[all_to_all(rank, 1000, 10, [0] * 4)] for rank in range(4)])
    assert set(traffic(trace).values()) == {(1, 0)}
    assert trace.collectives().select("bytes", "imbalance").rows() == [(0, None)]


@pytest.mark.parametrize(
    "splits",
    few(["bad-split", "[256, 256, ...]", "[512, 512]", "[1, 2,"], ["[512, 512]", "[1, 2,"]),
)
def test_parts_that_are_not_known_are_no_rows(tmp_path: Path, splits: str) -> None:
    trace = tracelens(tmp_path, [[all_to_all(rank, 5000, 20, splits)] for rank in range(4)])
    assert traffic(trace) == {}
    assert trace.events["in_splits"].to_list() == [splits.replace(" ", "")] * 4


@pytest.mark.parametrize("splits", few([[], "[]", "", None], [[], ""]))
def test_no_parts_are_equal_parts(tmp_path: Path, splits: object) -> None:
    one_rank = {"In msg nelems": 1024, "In split size": splits, "Out split size": splits}
    trace = tracelens(
        tmp_path, [[all_to_all(rank, 5000, 20, [1], **one_rank)] for rank in range(4)]
    )
    assert set(traffic(trace).values()) == {(1, 512)}
    assert trace.events["in_splits"].null_count() == 4


def test_other_collectives_have_no_parts(tmp_path: Path) -> None:
    other = {"Collective name": "allreduce", "In split size": None, "Out split size": None}
    trace = tracelens(
        tmp_path, [[all_to_all(rank, 1000, 100, [1024], **other)] for rank in range(4)]
    )
    assert traffic(trace) == {}


def test_types_that_differ_are_a_mismatch(tmp_path: Path) -> None:
    pair = {"Process Group Ranks": [0, 1], "Group size": 2}
    trace = tracelens(
        tmp_path,
        [
            [all_to_all(rank, 6000 + rank, 25, [512, 512], dtype=dtype, **pair)]
            for rank, dtype in enumerate(("Float", "Half"))
        ],
    )
    assert trace.collectives()["mismatch"].to_list() == ["dtype"]
    assert traffic(trace) == {
        (0, 0): (1, 2048), (0, 1): (1, 2048), (1, 0): (1, 1024), (1, 1): (1, 1024)
    }  # fmt: skip


def test_a_device_of_the_kernels_is_not_needed(tmp_path: Path) -> None:
    """Six kernels: four have no device, whatever stands in the place of the process."""
    pids: list[dict[str, Any]] = [
        {"pid": "rank0"}, {"pid": None}, {}, {"pid": ""}, {"pid": "GPU 1"}, {"pid": 3}
    ]  # fmt: skip
    events = [all_to_all(i, 10 * i, 5, [256] * 4) | pid for i, pid in enumerate(pids)]
    trace = tracelens(tmp_path, [events])
    columns = ("device", "collective", "in_splits", "in_elements")
    rows = trace.events.select(columns).rows()
    said = ("all_to_allv", "[256,256,256,256]", 1024)
    assert rows == [(device, *said) for device in (None, None, None, None, 1, 3)]
    checks = trace.quality.select("issue", "events", "example_event_id", "action").rows()
    assert checks == [("unnamed_device", 4, 0, "kept, device is NULL")]
    store = tmp_path / "store"
    trace.to_parquet(store)
    assert profframe.load(store).quality["events"].to_list() == [4]


def test_large_files_are_read_the_same(tmp_path: Path) -> None:
    """Pieces are written to disk as they come: the first ones have none of these columns."""
    host = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    path = tmp_path / "rank0.json"
    events = [host] * 50 + [all_to_all(0, 10, 5, [256] * 4) | {"pid": "rank0"}]
    path.write_text(json.dumps({"traceEvents": events}))
    trace_files.write_trace(trace_files.read_trace(path, spool_folder=tmp_path), tmp_path / "store")
    stored = profframe.load(tmp_path / "store")
    last = stored.events.select("device", "collective", "in_splits").row(-1)
    assert last == (None, "all_to_allv", "[256,256,256,256]")
    assert stored.quality.select("issue", "events", "example_event_id").rows() == [
        ("unnamed_device", 1, 50)
    ]
