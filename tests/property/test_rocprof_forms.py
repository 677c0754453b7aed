"""One recording in rocprofv3's three forms: whatever is in it, they give the same tables."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe.trace.trace import Trace
from tests import needs
from tests.rocprof_files import (
    CALLS,
    OPERATIONS,
    Allocation,
    Call,
    Copy,
    Kernel,
    Process,
    write_database,
    write_document,
    write_pftrace,
)

pb: Any = needs.module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
SLICES: Final = (
    "kind", "category", "name", "start_ns", "dur_ns", "pid", "tid", "device", "stream",
    "correlation", "bytes", "registers", "shared_memory_bytes",
)  # fmt: skip
"""Columns that all forms have."""
DRAWN: Final = ("memory_allocation", "scratch_memory")
"""What `.pftrace` has only as counters that it draws."""
PID: Final = 100
NAMES: Final = st.sampled_from(
    ("gemm<float>(float*, int)", "Cijk_Ailk_Bljk_MT128x128", "a\"'b\\ </script>", "é\u2028", "k")
)
TEXTS: Final = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6
)


@st.composite
def times(draw: Any, count: int, origin: int) -> list[tuple[int, int]]:
    """Spans one after another, none of them empty."""
    at, spans = origin, []
    for _ in range(count):
        start = at + draw(st.integers(1, 50))
        at = start + draw(st.integers(1, 1000))
        spans.append((start, at))
    return spans


@st.composite
def processes(draw: Any, pid: int, origin: int) -> Process:
    """A process with calls in a row on its threads, some of them with calls inside."""
    tids = (pid, pid + 1, pid + 7)
    numbers = iter(range(1, 10_000))
    calls: list[Call] = []
    for tid in tids:
        for start, end in draw(times(draw(st.integers(0, 5)), origin)):
            api = draw(st.sampled_from(CALLS))
            kinds = {"hsa_api": "HSA_CORE_API", "hip_api": "HIP_RUNTIME_API_EXT",
                     "marker_api": "MARKER_CORE_RANGE_API", "rccl_api": "RCCL_API"}  # fmt: skip
            name = draw(st.sampled_from(OPERATIONS[kinds[api]]))
            number = next(numbers)
            is_mark = api == "marker_api" and draw(st.booleans())
            pairs = st.tuples(st.just("int"), TEXTS, TEXTS)
            arguments = draw(st.lists(pairs, max_size=2, unique_by=lambda p: p[1]))
            calls.append(
                Call(
                    api=api,
                    name=name,
                    start=start,
                    end=start if is_mark else end,
                    tid=tid,
                    correlation=number,
                    stream=draw(st.integers(0, 2)),
                    message=draw(TEXTS),
                    arguments=tuple(arguments) if api == "hip_api" else (),
                )
            )
            if api == "hip_api" and end - start > 4 and draw(st.booleans()):
                inside = Call(
                    api="hsa_api", name="hsa_init", start=start + 1, end=end - 1, tid=tid,
                    correlation=next(numbers), ancestor=number,
                )  # fmt: skip
                calls.append(inside)
    launches = [call.correlation for call in calls if call.api in {"hip_api", "hsa_api"}]
    symbols = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    counters = ("SQ_WAVES", 'odd "name"')
    kernels: list[Kernel] = []
    copies: list[Copy] = []
    for stream in (0, 3):
        for start, end in draw(times(draw(st.integers(0, 4)), origin)):
            number = draw(st.sampled_from(launches)) if launches else next(numbers)
            launched = {
                "start": start, "end": end, "tid": draw(st.sampled_from(tids)), "stream": stream,
                "correlation": number if draw(st.booleans()) else next(numbers),
            }  # fmt: skip
            if draw(st.booleans()):
                source, target = draw(st.sampled_from(((0, 1), (1, 0), (1, 2), (2, 2))))
                name = draw(st.sampled_from(OPERATIONS["MEMORY_COPY"][1:]))
                size = draw(st.integers(0, 2**40))
                copies.append(Copy(name=name, source=source, target=target, bytes=size, **launched))
                continue
            values = st.tuples(st.sampled_from(counters), st.integers(0, 2**40).map(float))
            sizes = [draw(st.tuples(*[st.integers(1, 1024)] * 3)) for _ in range(2)]
            kernels.append(
                Kernel(
                    symbol=draw(st.integers(1, len(symbols))),
                    agent=draw(st.integers(1, 2)),
                    dispatch=len(kernels) + 1,
                    queue=draw(st.integers(1, 3)),
                    block=sizes[0],
                    grid=sizes[1],
                    scratch=draw(st.integers(0, 4096)),
                    lds=draw(st.integers(0, 65536)),
                    counters=tuple(draw(st.lists(values, max_size=3))),
                    **launched,
                )
            )
    allocations = [
        Allocation(
            name=name,
            start=start,
            end=end,
            tid=draw(st.sampled_from(tids)),
            correlation=next(numbers),
            agent=agent,
            bytes=draw(st.integers(1, 2**40)) if agent is not None else 0,
            address=draw(st.sampled_from((0, 4096, 2**47))),
        )
        for start, end in draw(times(draw(st.integers(0, 5)), origin))
        for name, agent in [
            draw(
                st.sampled_from(
                    (
                        ("MEMORY_ALLOCATION_ALLOCATE", 1),
                        ("MEMORY_ALLOCATION_FREE", None),
                        ("MEMORY_ALLOCATION_VMEM_ALLOCATE", 0),
                        ("SCRATCH_MEMORY_ALLOC", 2),
                        ("MEMORY_ALLOCATION_VMEM_FREE", None),
                        ("SCRATCH_MEMORY_FREE", None),
                    )
                )
            )
        ]
    ]
    agents = (
        ("CPU", "AMD EPYC 9654"),
        ("GPU", "AMD Instinct MI300X"),
        ("GPU", "AMD Instinct MI300X"),
    )
    return Process(
        pid=pid, agents=agents, symbols=tuple(symbols), counters=counters, calls=tuple(calls),
        kernels=tuple(kernels), copies=tuple(copies), allocations=tuple(allocations),
    )  # fmt: skip


@st.composite
def recordings(draw: Any) -> list[Process]:
    """One process or two, on one clock."""
    origin = draw(st.sampled_from((10_000, 7_000_000_000_123, 1_700_000_000_000_000_001)))
    return [draw(processes(pid, origin)) for pid in (PID, 5000)[: draw(st.integers(1, 2))]]


@given(recordings())
def test_all_forms_give_the_same_tables(drawn: list[Process]) -> None:
    with TemporaryDirectory() as folder:
        paths = Path(folder, "a.db"), Path(folder, "a.json"), Path(folder, "a.pftrace")
        database, document, pftrace = (
            profframe.load(write_database(paths[0], drawn)),
            profframe.load(write_document(paths[1], drawn)),
            profframe.load(write_pftrace(paths[2], drawn, pb)),
        )
        totals = sums(paths[0])
    for name in ("events", "counters", "memory", "instants", "flows", "devices", "threads"):
        differences = unlike(rows_of(database, name), rows_of(document, name))
        assert differences == ([], []), f"{name}: {differences}"
    drawn_by_pftrace = pl.col("category").is_in(DRAWN)
    for trace in (database, document):
        own = trace.events.filter(~drawn_by_pftrace)
        differences = unlike(slices(own, trace), slices(pftrace.events, pftrace))
        assert differences == ([], []), str(differences)
        assert_same_args(own, pftrace.events)
        assert counted(trace) <= counted(pftrace)
        assert all(row["event_id"] is not None for row in trace.counters.to_dicts())
        assert lines(own, trace) == lines(pftrace.events, pftrace)
        kernels = trace.events.filter(pl.col("category") == "kernel_dispatch")
        assert dict(kernels.group_by("name").agg(pl.col("dur_ns").sum()).rows()) == totals
        accounted = json.loads(trace.traces["accounted"][0])
        assert sum(accounted.values()) == trace.traces["source_events"][0]


def unlike(rows: list[Any], others: list[Any]) -> tuple[list[Any], list[Any]]:
    """What only one of two lists has."""
    return [row for row in rows if row not in others], [row for row in others if row not in rows]


def rows_of(trace: Trace, table: str) -> list[tuple[Any, ...]]:
    """All columns but the numbers of rows, in an order of their own."""
    frame: pl.DataFrame = getattr(trace, table)
    ids = [
        name
        for name in frame.columns
        if name.endswith("_id") or name in {"thread", "run", "preorder", "merged_into"}
    ]
    frame = frame.drop([name for name in ids if name not in {"async_id", "external_id"}])
    return sorted((_plain(row) for row in frame.to_dicts()), key=repr)


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    """Its values, with arguments in an order; a database lacks the stream of a call."""
    args = json.loads(row.pop("args", None) or "{}")
    if row.get("category") == "hip_api":
        args.pop("stream_ID", None)
    return (*row.values(), *sorted(args.items()))


def slices(events: pl.DataFrame, trace: Trace) -> list[tuple[Any, ...]]:
    """Slices with their launch, by name and time."""
    calls = trace.events.select("event_id", "name", "start_ns")
    both = events.join(calls, left_on="launch_id", right_on="event_id", how="left", suffix="_call")
    return sorted(both.select(*SLICES, "name_call", "start_ns_call").rows(), key=repr)


def assert_same_args(one: pl.DataFrame, other: pl.DataFrame) -> None:
    """Members that both have are equal."""
    keys = ("start_ns", "tid", "category", "correlation", "name")
    both = one.join(other, on=keys, nulls_equal=True, suffix="_other")
    assert both.height >= one.height
    for own, others in both.select("args", "args_other").rows():
        first, second = json.loads(own or "{}"), json.loads(others or "{}")
        shared = first.keys() & second.keys()
        if one.height == both.height:
            assert {k: first[k] for k in shared} == {k: second[k] for k in shared}


def counted(trace: Trace) -> set[tuple[Any, ...]]:
    rows = trace.counters.filter(pl.col("category") == "counter_collection")
    return set(rows.select("name", "device", "time_ns", "pid", "value").rows())


def lines(events: pl.DataFrame, trace: Trace) -> set[tuple[Any, ...]]:
    """Process and thread of slices, with their names."""
    own = trace.threads.select("thread", "pid", "tid", "process_name", "thread_name")
    used = own.join(events.select("thread").unique(), on="thread")
    return set(used.drop("thread").rows())


def sums(path: Path) -> dict[str, int]:
    """Total time of each kernel's name, by SQLite alone."""
    totals: dict[str, int] = {}
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (kernels,) in tables.fetchall():
            if not kernels.startswith("rocpd_kernel_dispatch"):
                continue
            symbols = kernels.replace("kernel_dispatch", "info_kernel_symbol")
            rows = connection.execute(
                f'SELECT display_name, sum(k."end" - k.start) FROM {kernels} AS k '
                f"JOIN {symbols} AS s ON s.id = k.kernel_id GROUP BY 1"
            )
            for name, total in rows:
                totals[name] = totals.get(name, 0) + total
    return totals
