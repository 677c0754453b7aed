"""Rows as a reader makes them: columns in the schema's types, sorted by the table that they go to.

No word of a source format is known here: where a row goes, its reader says by its `Table`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.schema import INT32, INT64, NAME, TEXT

Batch = Mapping["Table", pa.Table]
"""Some consecutive rows of a source, by table."""


class Table(enum.IntEnum):
    """Where a row goes."""

    EVENTS = 0
    MEMORY = 1
    FLOWS = 2
    COUNTERS = 3
    THREADS = 4
    INSTANTS = 5


_KEPT: Final[Mapping[Table, tuple[str, ...]]] = {
    Table.EVENTS: (
        "phase", "category", "name", "time_ns", "dur_ns", "pid", "tid", "device", "stream",
        "correlation", "external_id", "sequence_nr", "fwd_thread", "is_async", "python_id",
        "python_parent_id", "python_module_id", "module_hierarchy", "input_dims", "input_types",
        "input_strides", "concrete_inputs", "stack", "args", "ev_idx",
        "bad_time", "bad_dur", "rounded",
    ),
    Table.MEMORY: (
        "time_ns", "address", "bytes", "device_type", "memory_device", "total_allocated_bytes",
        "total_reserved_bytes", "pid", "tid", "bad_time", "rounded",
    ),
    Table.FLOWS: (
        "id", "category", "name", "phase", "time_ns", "pid", "tid", "binding_point", "args",
        "bad_time", "rounded",
    ),
    Table.COUNTERS: (
        "category", "name", "time_ns", "pid", "tid", "id", "args", "bad_time", "rounded",
    ),
    Table.THREADS: ("name", "pid", "tid", "args"),
    Table.INSTANTS: (
        "phase", "category", "name", "mark_scope", "time_ns", "dur_ns", "pid", "tid", "id", "args",
        "bad_time", "rounded",
    ),
}  # fmt: skip
"""Columns of a reader's rows that each table keeps."""

_NAMED: Final[Mapping[Table, Mapping[str, str]]] = {
    Table.EVENTS: {"time_ns": "start_ns"},
    Table.MEMORY: {"memory_device": "device"},
    Table.FLOWS: {"id": "flow_id"},
    Table.COUNTERS: {"id": "counter_id"},
    Table.INSTANTS: {"id": "instant_id", "mark_scope": "scope"},
}
"""Columns that a table has another name for."""

_WORKING: Final[Mapping[str, pa.DataType]] = {
    "phase": NAME,
    "pid": NAME,
    "tid": NAME,
    "name": NAME,
    "args": TEXT,
    "ev_idx": INT64,
    "bad_time": pa.bool_(),
    "bad_dur": pa.bool_(),
    "rounded": pa.bool_(),
}
"""Types of the columns that are gone, or not yet there, when the tables are done."""


def time_column(table: Table) -> str:
    """Name of the column that has the time of a row."""
    return _NAMED.get(table, {}).get("time_ns", "time_ns")


def columns(table: Table) -> dict[str, pa.DataType]:
    """Columns of a table of a batch, in the schema's names and types."""
    final = {c.name: c.type for c in schema.TABLES[table.name.lower()]}
    named = _NAMED.get(table, {})
    return {
        (name := named.get(kept, kept)): final.get(name) or _WORKING[name] for kept in _KEPT[table]
    }


def split(rows: pa.Table) -> Batch:
    """Rows by where they go, in the schema's types; repeated text is dictionary-encoded."""
    destination = rows["destination"].combine_chunks()
    values = pc.unique(destination).to_pylist()
    batch: dict[Table, pa.Table] = {}
    for table in map(Table, values):
        mine = rows.select(_KEPT[table])
        if len(values) > 1:
            mine = mine.filter(pc.equal(destination, table.value))
        batch[table] = pa.table(
            {
                name: _typed(column, type_)
                for column, (name, type_) in zip(mine.columns, columns(table).items(), strict=True)
            }
        )
    return batch


def _typed(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if type_ == NAME:
        return array.dictionary_encode()
    return _index(array) if type_ == INT32 else array.cast(type_)


def _index(array: pa.Array) -> pa.Array:
    """Index of a device or stream: what is negative or too large for one is unknown."""
    usable = pc.and_(pc.greater_equal(array, 0), pc.less(array, 1 << 31))
    return pc.if_else(usable, array, None).cast(INT32)


def gather(batches: Sequence[Batch]) -> dict[Table, pa.Table]:
    """All rows of each table, in order, with one dictionary for each column."""
    gathered: dict[Table, pa.Table] = {}
    for table in Table:
        empty = pa.table({name: pa.array([], type_) for name, type_ in columns(table).items()})
        parts = [batch[table] for batch in batches if table in batch]
        gathered[table] = pa.concat_tables([empty, *parts]).unify_dictionaries()
    return gathered


def earliest(batches: Sequence[Batch]) -> int | None:
    """The smallest time of all rows, in nanoseconds on the source's own clock."""
    times = [
        pc.min(rows[time_column(table)]).as_py()
        for batch in batches
        for table, rows in batch.items()
        if table is not Table.THREADS
    ]
    return min((t for t in times if t is not None), default=None)


@dataclass(frozen=True, slots=True)
class Header:
    """What a source says about itself; the columns of `traces` that a reader knows."""

    format: str
    clock: str
    base_ns: int | None = None
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    device_type: str | None = None
    device_properties: str | None = None
    profiler_flags: str | None = None
    metadata: str | None = None


@dataclass(slots=True)
class Quality:
    """Rows of the quality table, as they are found."""

    found: list[tuple[str, int, str | None, int | None]] = field(default_factory=list)

    def note(
        self, check: str, events: int, detail: str | None = None, example: int | None = None
    ) -> None:
        """Add a row for one of `schema.CHECKS`; `example` is the event_id of one of the events."""
        self.found.append((check, events, detail, example))

    def table(self) -> pa.Table:
        """The quality table, without run and rank."""
        return schema.quality_rows(*self.found)


@dataclass(frozen=True, slots=True)
class RawTrace:
    """The tables of one trace, without run, rank and facts; `header` has what names it."""

    tables: dict[str, pa.Table]
    header: Header
