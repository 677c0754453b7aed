"""Rows from a reader: columns in the schema's types, by the table that they go to.

This module knows no source format: a reader names the `RowTable` of its rows.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
import numpy.ma  # Arrow would import it for its first array, in the middle of the first load
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.schema import BOOL, INT32, INT64, NAME, TEXT
from profframe.system import memory_limit
from profframe.system.disk_tables import Builder, Spool, SpooledTable, together

Batch = Mapping["RowTable", pa.Table]
"""Some consecutive rows of a source, by table."""


class RowTable(enum.IntEnum):
    """Where a row goes."""

    EVENTS = 0
    MEMORY = 1
    FLOWS = 2
    COUNTERS = 3
    THREADS = 4
    INSTANTS = 5


_KEY_TEXTS: Final = {"pid": NAME, "tid": NAME}
_TIMED: Final = {"bad_time": BOOL, "rounded": BOOL}
"""Whether a time was invalid or out of range, and whether it was finer than a nanosecond; NULL, as
in all rows of a source without such times, means no."""


def _columns(table: RowTable) -> dict[str, pa.DataType]:
    columns = {
        c.name: c.type
        for c in schema.TABLES[table.name.lower()].columns[2:]
        if c.name in READ[table]
    }
    if table is RowTable.THREADS:
        return _KEY_TEXTS | {"name": NAME, "args": TEXT}
    if table is RowTable.EVENTS:
        columns |= {"phase": NAME, "ev_idx": INT64, "bad_dur": BOOL}
        columns |= {"arrow_id": TEXT, "arrow_phase": NAME, "counts": BOOL}
    if table is RowTable.MEMORY:
        columns |= {"is_odd": BOOL}
    if table is RowTable.COUNTERS:
        columns |= {"of_event": INT64}
    return columns | _KEY_TEXTS | _TIMED


DEVICE_ARGS: Final = (
    "bytes", "collective", "process_group", "group_size", "group_ranks", "collective_seq",
    "collective_id", "element_type", "in_elements", "out_elements", "in_splits", "out_splits",
    "peer_rank", "wait_on_stream", "wait_on_correlation", "sync_kind", "grid", "block", "registers",
    "shared_memory_bytes", "blocks_per_sm", "occupancy",
)  # fmt: skip
"""Columns that few slices have, added after the others."""
READ: Final[Mapping[RowTable, frozenset[str]]] = MappingProxyType(
    {
        table: frozenset(schema.READER_COLUMNS[table.name.lower()])
        - {"event_id", "thread", "series", "value", "op_id"}
        - (frozenset(DEVICE_ARGS) if table is RowTable.EVENTS else frozenset())
        for table in RowTable
    }
)
"""Columns of the schema that come straight from a row of the source."""
COLUMNS: Final[Mapping[RowTable, Mapping[str, pa.DataType]]] = MappingProxyType(
    {table: MappingProxyType(_columns(table)) for table in RowTable}
)
"""Columns of a batch, and their types: the schema's, and those that `assembly` needs."""
SOURCE_VALUES: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    dict.fromkeys(
        (
            *("torch_flops", "cpu_bytes", "device_bytes", "kernel_ns", "named_by"),
            *("given_flops", "given_bytes"),
        ),
        INT64,
    )
    | {column: schema.EVENTS.arrow.field(column).type for column in DEVICE_ARGS}
)
"""Columns that some sources have, and that facts compute for the others.

``kernel_ns`` is device time of a host slice that no device slice stands for; ``named_by`` is the
row of the op that names a device slice as its own; ``given_flops`` and ``given_bytes`` are the work
of an op or a kernel.
"""


def time_column(table: RowTable) -> str:
    """Name of the column with the time of a row."""
    return "start_ns" if table is RowTable.EVENTS else "time_ns"


def conform(table: RowTable, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Rows of one table; missing columns are NULL.

    Repeated text is dictionary-encoded here if it is plain; indices may be any integers, and those
    that are negative or too large become NULL.
    """
    nulls_of = nulls(len(next(iter(columns.values()))))
    source_types = {name: type_ for name, type_ in SOURCE_VALUES.items() if name in columns}
    return pa.table(
        {
            name: typed(columns[name], type_) if has_values(columns.get(name)) else nulls_of(type_)
            for name, type_ in {**COLUMNS[table], **source_types}.items()
        }
    )


def codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    """Codes of a column with one dictionary, 0 for NULL, and the text of each code."""
    texts = [None, *column.chunk(0).dictionary.to_pylist()]
    indices = (chunk.indices for chunk in column.chunks)
    parts = [(pc.fill_null(of, -1) if of.null_count else of).to_numpy() for of in indices]
    return np.concatenate(parts).astype(np.int64) + 1, texts


def has_values(values: pa.Array | None) -> bool:
    """Whether any of the values is not NULL."""
    return values is not None and values.null_count < len(values)


def nulls(count: int) -> Callable[[pa.DataType], pa.Array]:
    """A function from a type to an array of NULLs, which all columns of that type share.

    Many columns of a trace are empty, and would take as much memory as the others.
    """
    return cache(partial(pa.nulls, count))


def repeated(texts: Iterable[str | None]) -> pa.DictionaryArray:
    """Texts that repeat, as a dictionary; one that many values share is looked at once.

    Examples
    --------
    >>> repeated(["a", None, "a"]).indices.to_pylist()
    [0, None, 0]
    """
    numbers: dict[str, int] = {}
    indices = [None if t is None else numbers.setdefault(t, len(numbers)) for t in texts]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32()), pa.array([*numbers], pa.string())
    )


def replaced(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Rows with new values in one column."""
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def typed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """An array in a type of the schema; indices that are negative or too large become NULL."""
    if array.type == type_:
        return array
    if type_ == NAME:
        return pc.dictionary_encode(array.cast(pa.string()))
    return _index(array) if type_ == INT32 else array.cast(type_)


_LOWEST: Final = pa.scalar(0, INT64)
_BEYOND: Final = pa.scalar(1 << 31, INT64)
"""Scalars with a type: without one, Arrow tries to import a package that is not installed."""


def _index(array: pa.Array) -> pa.Array:
    lowest, highest = pc.min_max(array).as_py().values()
    if lowest is None or (lowest >= 0 and highest < _BEYOND.as_py()):
        return array.cast(INT32)
    is_valid = pc.and_(pc.greater_equal(array, _LOWEST), pc.less(array, _BEYOND))
    return pc.if_else(is_valid, array, pa.scalar(None, array.type)).cast(INT32)


Rows = Mapping[RowTable, pa.Table]
"""All rows of a source, by table."""


def gather(batches: Iterable[Batch], spool: Spool | None = None) -> Rows:
    """All rows of each table, in order, with one dictionary per column.

    With a spool large tables are written to disk as they come.
    """
    if spool is not None:
        return _spooled(batches, spool)
    parts: dict[RowTable, list[pa.Table]] = {table: [] for table in RowTable}
    size = 0
    for batch in batches:
        for table, rows in batch.items():
            parts[table].append(rows)
            size += rows.nbytes
        memory_limit.check(size)
    return {table: together(_no_rows(table), rows) for table, rows in parts.items()}


@cache
def _no_rows(table: RowTable) -> pa.Table:
    return pa.schema(COLUMNS[table].items()).empty_table()


def _spooled(batches: Iterable[Batch], spool: Spool) -> Rows:
    builders = {table: Builder(spool, COLUMNS[table]) for table in RowTable}
    for batch in batches:
        for table, rows in batch.items():
            builders[table].add(rows)
        memory_limit.check()
    tables = {table: builder.rows() for table, builder in builders.items()}
    return {
        table: rows.read() if isinstance(rows, SpooledTable) and table not in _LARGE else rows
        for table, rows in tables.items()
    }


_LARGE: Final = (RowTable.EVENTS, RowTable.MEMORY, RowTable.FLOWS, RowTable.INSTANTS)


def earliest(rows: Rows) -> int | None:
    """The earliest time of all rows, in nanoseconds on the source's own clock."""
    times = [
        pc.min(part[time_column(table)]).as_py()
        for table, part in rows.items()
        if table is not RowTable.THREADS and part.num_rows
    ]
    return min((t for t in times if t is not None), default=None)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a source: the columns of `traces` from a reader."""

    format: str
    clock: str
    base_ns: int | None = None
    rank: int | None = None
    rank_source: str = "distributedInfo"
    world_size: int | None = None
    backend: str | None = None
    device_type: str | None = None
    device_properties: str | None = None
    profiler_flags: str | None = None
    metadata: str | None = None
    run: str | None = None
    """Run, if the source says it."""


class HeaderOfClock(Protocol):
    """The header of a source, of which its rows tell whether its clock is UTC."""

    def __call__(self, *, is_utc: bool) -> Header:
        """The header."""


def header_of(rows: Rows, header: HeaderOfClock) -> Header:
    """The header of a source that names neither its clock nor the type of devices, by its rows."""
    first_ns = earliest(rows)
    own = header(is_utc=first_ns is not None and first_ns >= schema.UTC_NS)
    used_device = has_values(rows[RowTable.EVENTS]["device"])
    return replace(own, device_type="CUDA") if used_device else own


@dataclass(slots=True)
class Quality:
    """Notes for the quality table."""

    rows: list[tuple[str, int, str | None, int | None]] = field(default_factory=list)

    def note(
        self, check: str, events: int, detail: str | None = None, example: int | None = None
    ) -> None:
        """Add a row for one of `schema.CHECKS`; `example` is the event_id of one of the events."""
        self.rows.append((check, events, detail, example))

    def table(self) -> pa.Table:
        """The quality table, without run and rank."""
        return schema.quality_rows(*self.rows)


@dataclass(frozen=True, slots=True)
class RawTrace:
    """The tables of one trace, without run, rank and facts."""

    tables: dict[str, pa.Table]
    header: Header
