"""What nvprof and Nsight Systems share: a table for each kind of activity, each read in batches.

A reader describes its tables, `Activity`, and says what only its source has; the rest is here.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers import parsing_database
from profframe.readers.build.assembly import LONGEST_NS, assemble
from profframe.readers.build.rows import (
    Batch,
    Header,
    Quality,
    RawTrace,
    Table,
    conform,
    earliest,
    gather,
    has_values,
)
from profframe.readers.sqlite import nvtx
from profframe.readers.sqlite.cupti import device_lines, named
from profframe.readers.sqlite.database import Database, SourceTable
from profframe.readers.sqlite.demangle import demangled
from profframe.schema import INT64, TEXT
from profframe.system.disk_tables import Spool

_LONGEST: Final = pa.scalar(LONGEST_NS, INT64)
_SHORTEST: Final = pa.scalar(-LONGEST_NS, INT64)
_UNKNOWN: Final = pa.scalar(None, INT64)
_UTC_NS: Final = 1_200_000_000_000_000_000
"""A time from here on, in nanoseconds, is since the epoch (it is the year 2008)."""

Columns = dict[str, pa.Array]
Described = Mapping[str, str]
"""SQL by names of our own; ``{column}`` is a column of the table, NULL where there is none."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A table of slices on devices.

    Attributes
    ----------
    table, category
        What it is called here, and there.
    names
        Columns with ids of a name; the first that is known counts.
    codes, title
        Numbers by which a slice is named that has no name of its own, and the function.
    more
        Other columns.
    """

    table: str
    category: str
    names: tuple[str, ...] = ()
    codes: Described = field(default_factory=dict)
    title: Callable[..., str | None] | None = None
    more: Described = field(default_factory=dict)


@dataclass(slots=True)
class Activities(ABC):
    """A database of activities as rows: its description, and what is known while it is read.

    ``loaded`` are the tables that were read; ``accounted`` counts the rows that are in none of
    ours, by what they are to be called in the account.
    """

    STRINGS: ClassVar[str]
    """Table of texts."""
    STRING: ClassVar[Described]
    """Its columns: ``id`` and ``text``."""
    SHARED: ClassVar[Described]
    """Columns of every activity on a device."""
    LEFT_OUT: ClassVar[tuple[str, ...]]
    """Columns of these that are no arguments."""
    ACTIVITIES: ClassVar[tuple[Activity, ...]]
    DESCRIBE: ClassVar[re.Pattern[str]]
    """Tables that hold no events."""

    database: Database
    connection: duckdb.DuckDBPyConnection
    quality: Quality = field(default_factory=Quality)
    loaded: set[str] = field(default_factory=set)
    accounted: Counter[str] = field(default_factory=Counter)
    _strings: Columns | None = None

    @classmethod
    def read(cls, database: Database, spool: Spool | None) -> RawTrace:
        """Read all of it."""
        with parsing_database.connect() as connection:
            source = cls(database, connection)
            rows = gather(source.batches(), spool)
            source.note_leftovers()
            first_ns = earliest(rows)
            header = source.header(is_utc=first_ns is not None and first_ns >= _UTC_NS)
            if has_values(rows[Table.EVENTS]["device"]):
                header = replace(header, device_type="CUDA")
            return assemble(rows, header, source.quality, 0, connection, unread=source.accounted)

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """Every row; where two begin and end together, what is outside comes first."""

    @abstractmethod
    def placed(self, raw: Columns) -> Columns:
        """Process of slices on devices, and what else follows from their columns."""

    @abstractmethod
    def header(self, *, is_utc: bool) -> Header:
        """What the database says about itself; ``is_utc`` tells of its times."""

    def open(self, name: str) -> SourceTable:
        """A table that is read, by its name."""
        self.loaded.add(name)
        return self.database.table(name)

    def slices(self, activity: Activity) -> Iterator[Batch]:
        """Slices of a table on devices."""
        table = self.open(activity.table)
        names = {name: f"{{{name}}}" for name in activity.names}
        columns = {**self.SHARED, **activity.codes, **activity.more, **names}
        args = table.json(*self.LEFT_OUT, *names)
        asked = integers(table, columns) | {"args": (args, TEXT)}
        for raw in self.database.batches(table, asked):
            texts = [self.text(raw.pop(name)) for name in names]
            rows = raw | self.placed(raw)
            rows["tid"] = device_lines(rows["device"], rows["stream"])
            if activity.title is None:
                rows["name"] = readable(pc.coalesce(*texts))
            else:
                rows["name"] = named(activity.title, *(raw[code] for code in activity.codes))
            yield events(rows, activity.category)

    def text(self, ids: pa.Array) -> pa.Array:
        """Text of an id; the texts are read when the first one is asked for."""
        if ids.null_count == len(ids):
            return pa.nulls(len(ids), TEXT)
        if self._strings is None:
            table = self.database.table(self.STRINGS)
            asked = {
                "id": (self.STRING["id"].format_map(table), INT64),
                "text": (self.STRING["text"].format_map(table), TEXT),
            }
            self._strings = self.database.whole(table, asked)
        return lookup(ids, self._strings)

    def note_leftovers(self) -> None:
        """What is in no row: tables that only describe, as ``metadata``, each other one by name."""
        unread = {
            name: table.rows
            for name, table in self.database.tables.items()
            if name not in self.loaded and table.rows
        }
        left = {name: rows for name, rows in unread.items() if not self.DESCRIBE.fullmatch(name)}
        self.accounted["metadata"] += sum(unread.values()) - sum(left.values())
        self.accounted.update(left)
        if left:
            detail = ", ".join(f"{name} {rows:,}" for name, rows in sorted(left.items()))
            self.quality.note("rows_not_loaded", sum(left.values()), detail)
        for check, count in self.database.odd.items():
            self.quality.note(check, count)


def integers(table: SourceTable, columns: Described) -> dict[str, tuple[str, pa.DataType]]:
    """Columns of integers, to be read from a table."""
    return {name: (sql.format_map(table), INT64) for name, sql in columns.items()}


def events(columns: Mapping[str, pa.Array], category: str | pa.Array) -> Batch:
    """A batch of slices: between ``start`` and ``end``, in nanoseconds, and their other columns."""
    if isinstance(category, str):
        category = constant(category, len(columns["start"]))
    rows = {**columns, "category": category}
    return {Table.EVENTS: slices(columns["start"], columns["end"], rows)}


def ranges(columns: Mapping[str, pa.Array], category: str, is_async: pa.Array) -> Batch:
    """A batch of NVTX ranges; what PyTorch put into their names is in columns of its own."""
    parts = nvtx.split(columns["name"])
    rows = {
        **{name: columns[name] for name in ("start", "end", "pid", "tid")},
        "name": parts.name,
        "sequence_nr": parts.sequence_nr,
        "external_id": parts.external_id,
        "input_dims": parts.input_dims,
        "scope": parts.scope,
        "is_async": is_async,
        "args": nvtx.with_inputs(columns["args"], parts.inputs),
    }
    return events(rows, pc.if_else(parts.is_op, f"{category}_OP", category))


def labels(label: pa.Array, columns: Mapping[str, pa.Array]) -> Batch:
    """A batch of names of processes and threads, their text in ``text``."""
    texts = columns["text"].to_pylist()
    args = [None if text is None else json.dumps({"name": text}) for text in texts]
    rows = {"name": label, "pid": columns["pid"], "tid": columns["tid"]}
    return {Table.THREADS: conform(Table.THREADS, rows | {"args": pa.array(args, TEXT)})}


def device_properties(row: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Properties of a device by Kineto's names, then the others by the source's."""
    kineto = {key: row[own] for own, key in keys.items() if own in row}
    return kineto | {k: v for k, v in row.items() if k not in keys and k != "_id_"}


def constant(value: object, count: int, type_: pa.DataType = TEXT) -> pa.Array:
    """The same value for every row."""
    return pa.repeat(pa.scalar(value, type_), count)


def slices(start: pa.Array, end: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Rows of events: between two times in nanoseconds, and their other columns."""
    count = len(start)
    no = constant(value=False, count=count, type_=pa.bool_())
    beyond = no if _is_sound(start) and _is_sound(end) else pc.or_(_beyond(start), _beyond(end))
    return conform(
        Table.EVENTS,
        {
            "phase": constant("X", count),
            "start_ns": start,
            "dur_ns": pc.if_else(beyond, _UNKNOWN, pc.subtract(end, start)),
            "bad_dur": beyond,
            "bad_time": no,
            "rounded": no,
            **columns,
        },
    )


def _is_sound(times: pa.Array) -> bool:
    """Whether the difference of any two is a number of 64 bits."""
    bounds = pc.min_max(times).as_py()
    return all(bound is None or abs(bound) < LONGEST_NS for bound in bounds.values())


def _beyond(times: pa.Array) -> pa.Array:
    sound = pc.and_(pc.less(times, _LONGEST), pc.greater(times, _SHORTEST))
    return pc.fill_null(pc.invert(sound), fill_value=False)


def marks(time: pa.Array, phase: str, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Rows of instants: a time in nanoseconds, and their other columns."""
    count = len(time)
    no = constant(value=False, count=count, type_=pa.bool_())
    return conform(
        Table.INSTANTS,
        {
            "phase": constant(phase, count),
            "time_ns": time,
            "bad_time": no,
            "rounded": no,
            **columns,
        },
    )


def filtered(columns: Mapping[str, pa.Array], mask: pa.Array) -> dict[str, pa.Array]:
    """Some rows of every column."""
    return {name: array.filter(mask) for name, array in columns.items()}


def lookup(ids: pa.Array, known: Mapping[str, pa.Array]) -> pa.Array:
    """Text of each id, by columns ``id`` and ``text``; NULL where it has none."""
    encoded = ids.dictionary_encode()
    place = pc.index_in(encoded.dictionary, value_set=known["id"])
    return known["text"].take(place).take(encoded.indices)


def readable(names: pa.Array) -> pa.Array:
    """Names of kernels, without C++'s mangling."""
    encoded = names.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    plain = demangled(texts)
    if not plain:
        return names
    return pa.array([plain.get(text, text) for text in texts], TEXT).take(encoded.indices)
