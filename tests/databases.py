"""Small databases as nvprof and Nsight Systems write them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from profframe import Trace

Row = dict[str, Any]


def write(path: Path, tables: Mapping[str, Sequence[Row]]) -> Path:
    """A database of these tables; a table has the columns of its first row, one without rows none.

    Columns of text and bytes are declared as such, others as INT.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, rows in tables.items():
            first = rows[0] if rows else {"nothing": None}
            columns = ", ".join(f'"{c}" {declared(value)}' for c, value in first.items())
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            for row in rows:
                marks = ", ".join("?" * len(row))
                listed = ", ".join(f'"{c}"' for c in row)
                values = list(row.values())
                connection.execute(f'INSERT INTO "{name}" ({listed}) VALUES ({marks})', values)
    return path


def declared(value: object) -> str:
    if isinstance(value, str):
        return "TEXT"
    return "BLOB" if isinstance(value, bytes) else "INT"


def thread(pid: int, tid: int, machine: int = 1) -> int:
    """Serialised id of a thread, as Nsight Systems has it."""
    return machine << 48 | pid << 24 | tid


def object_id(pid: int, tid: int = 0) -> bytes:
    """Id of the object that a marker of nvprof belongs to."""
    return pid.to_bytes(4, "little") + (tid & 0xFFFFFFFF).to_bytes(4, "little") + bytes(4)


def columns(trace: Trace, *names: str) -> list[tuple[Any, ...]]:
    return trace.events.select(names).rows()


def accounted(trace: Trace) -> dict[str, int]:
    """How many rows of the database are in each table; all of them are somewhere."""
    row = trace.traces.row(0, named=True)
    counts: dict[str, int] = json.loads(row["accounted"])
    assert sum(counts.values()) == row["source_events"]
    return counts


def found(trace: Trace) -> dict[str, int]:
    return dict(trace.quality.select("issue", "events").rows())
