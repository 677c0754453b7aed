"""Make up an export of Nsight Systems with Python's lock in it: synthetic, no machine ran it.

The example database is made by it, from the repository's root::

    python -m examples.synthetic_gil examples/gil.sqlite

It has the tables and the words that ``nsys profile --trace=cuda,nvtx,python-gil`` and then ``nsys
export --type=sqlite`` write: ranges ``Holding GIL`` and ``Waiting for GIL`` in the NVTX domain
``GIL Trace``. A training loop launches forward and backward; between the two a thread that puts
together the next batch in Python takes the lock for four milliseconds, and the GPU runs dry.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

STEPS: Final = 5
STEP_NS: Final = 7_000_000
US: Final = 1_000
PID: Final = 1000
MAIN, LOADER = PID, 1007
PUSHED, DOMAIN = 59, 75
GIL: Final = 1
"""NVTX event types of a range and of the name of a domain; number of that domain."""
STRINGS: Final = (
    "cudaLaunchKernel_v7000", "cudaStreamSynchronize_v3020", "train", "collate",
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
    "Holding GIL", "Waiting for GIL",
)  # fmt: skip
TABLES: Final = """
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
    CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
    CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
    CREATE TABLE NVTX_EVENTS (
        start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
        globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER
    );
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
        start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
        returnValue INTEGER NOT NULL
    );
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
        start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
        globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL
    );
"""
"""Columns that Nsight Systems writes; it writes more."""
Row = tuple[int | str | None, ...]


def serialised(tid: int) -> int:
    """Id of a thread as Nsight Systems has it: machine, process, thread."""
    return 1 << 48 | PID << 24 | tid


def text_id(text: str) -> int:
    """Number of a text."""
    return STRINGS.index(text) + 1


def held(start: int, end: int, tid: int, text: str = "Holding GIL") -> Row:
    """A range of a thread that holds the lock, or waits for it."""
    return start, end, PUSHED, None, serialised(tid), None, text_id(text), GIL


def marked(start: int, end: int, text: str) -> Row:
    """A range of the training loop."""
    return start, end, PUSHED, text, serialised(MAIN), None, None, 0


def step_ranges(step: int, at: int) -> Iterator[Row]:
    """NVTX ranges of a step: the loop's own, and those of the lock."""
    wait, after, last = at + 1000 * US, at + 5000 * US, at + 6100 * US
    yield marked(at, at + STEP_NS, f"ProfilerStep#{step}")
    yield marked(at + 20 * US, at + 980 * US, "forward")
    yield marked(after + 20 * US, after + 1080 * US, "backward")
    yield held(at, wait, MAIN)
    yield held(wait, after, MAIN, "Waiting for GIL")
    yield held(after, last, MAIN)  # the call that waits for the GPU gives it away
    yield held(at + 400 * US, wait, LOADER, "Waiting for GIL")
    yield held(wait, after - 10 * US, LOADER)
    yield held(last + 20 * US, last + 90 * US, LOADER)


def launched(at: int, first: int) -> Iterator[tuple[Row, Row]]:
    """Twenty launches and their kernels, one after the other from here on."""
    device_at = at + 30 * US
    for place in range(20):
        start, correlation = at + place * 45 * US, first + place
        name = text_id(STRINGS[4 if place % 2 else 5])
        took = (140 if place % 2 else 20) * US + place
        device_at = max(device_at, start + 9 * US)
        call = (start, start + 6 * US, 0, serialised(MAIN), correlation)
        ids = (correlation, 1 << 48 | PID << 24, name, name)
        yield (
            (*call, text_id("cudaLaunchKernel_v7000"), 0),
            (device_at, device_at + took, 0, 1, 7, *ids),
        )
        device_at += took + US


def rows() -> dict[str, Sequence[Row]]:
    """Rows of all tables."""
    ranges: list[Row] = [(0, None, DOMAIN, "GIL Trace", serialised(MAIN), None, None, GIL)]
    calls: list[Row] = []
    kernels: list[Row] = []
    for step in range(STEPS):
        at = 1_000_000 + step * STEP_NS
        ranges += step_ranges(step, at)
        for place, begin in enumerate((at + 40 * US, at + 5040 * US)):
            pairs = [*launched(begin, 1 + 100 * step + 50 * place)]
            calls += (call for call, _ in pairs)
            kernels += (kernel for _, kernel in pairs)
        waited = (at + 6100 * US, at + 6900 * US, 0, serialised(MAIN), 100 * step + 99)
        calls.append((*waited, text_id("cudaStreamSynchronize_v3020"), 0))
    return {
        "StringIds": [*enumerate(STRINGS, 1)],
        "META_DATA_EXPORT": [("comment", "made by examples/synthetic_gil.py: no machine ran it")],
        "ThreadNames": [
            (text_id("train"), 20, serialised(MAIN)),
            (text_id("collate"), 20, serialised(LOADER)),
        ],
        "PROCESSES": [(1 << 48 | PID << 24, PID, "python")],
        "NVTX_EVENTS": ranges,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
    }


def main() -> None:
    """Write the database."""
    parser = argparse.ArgumentParser(description="A made-up export of Nsight Systems.")
    parser.add_argument("output", type=Path, help="database to write, such as gil.sqlite")
    output: Path = parser.parse_args().output
    output.unlink(missing_ok=True)
    with closing(sqlite3.connect(output)) as connection, connection:
        connection.execute("PRAGMA page_size = 512")  # a page for each table, at least
        connection.executescript(TABLES)
        for name, values in rows().items():
            marks = ", ".join("?" * len(values[0]))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", values)  # noqa: S608


if __name__ == "__main__":
    main()
