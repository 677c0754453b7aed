"""The common part of nvprof and Nsight Systems: tables by kind of activity, read in batches.

A reader describes its tables as `Activity` and adds what only its source has.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers import parsing_database
from profframe.readers.build.assembly import LONGEST_NS, assemble
from profframe.readers.build.row_tables import (
    Batch,
    Header,
    Quality,
    RawTrace,
    RowTable,
    conform,
    gather,
    header_of,
)
from profframe.readers.sqlite import nvtx
from profframe.readers.sqlite.cupti import device_lines, names_by_code
from profframe.readers.sqlite.sqlite_file import SourceTable, SqliteFile
from profframe.schema import INT64, TEXT
from profframe.system.disk_tables import Spool

_LONGEST: Final = pa.scalar(LONGEST_NS, INT64)
_SHORTEST: Final = pa.scalar(-LONGEST_NS, INT64)
_UNKNOWN: Final = pa.scalar(None, INT64)

PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
"""Beginning of the names of tables with CUPTI's activities."""

Columns = dict[str, pa.Array]
Expressions = Mapping[str, str]
"""SQL by our names; ``{column}`` is a column of the table, or NULL if it has none."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A table of slices on devices.

    Attributes
    ----------
    category
        Category in the trace, and end of the table's name.
    names
        Columns with ids of a name; the first that is not NULL counts.
    codes, title
        SQL of the numbers that give a slice without a name its title, and the function for it.
    has_bytes
        It has the number of bytes.
    is_launched
        It is of kernels, and has the shape of their launches.
    """

    category: str
    names: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    title: Callable[..., str | None] | None = None
    has_bytes: bool = False
    is_launched: bool = False


_AXES: Final = ("X", "Y", "Z")
_SHAPE: Final = {
    **{f"{word}{axis}": f"{{{word}{axis}}}" for word in ("grid", "block") for axis in _AXES},
    "registers": "{registersPerThread}",
    "shared_memory_bytes": "{staticSharedMemory} + {dynamicSharedMemory}",
}
"""Columns of tables of kernels."""


@dataclass(slots=True)
class Activities(ABC):
    """A database of activities as rows: its description, and the state of reading it.

    ``loaded`` are the tables that were read; ``accounted`` counts rows that are in none of our
    tables, by their names in the event counts.
    """

    STRINGS: ClassVar[str]
    """Table of texts."""
    STRING: ClassVar[tuple[str, str]]
    """SQL of its ids, and of their texts."""
    SHARED: ClassVar[Expressions]
    """Columns of every activity on a device."""
    EXCLUDED: ClassVar[tuple[str, ...]]
    """Columns of activities that are not arguments."""
    ACTIVITIES: ClassVar[tuple[Activity, ...]]
    DESCRIBE: ClassVar[re.Pattern[str]]
    """Tables that hold no events."""

    database: SqliteFile
    connection: duckdb.DuckDBPyConnection
    quality: Quality = field(default_factory=Quality)
    loaded: set[str] = field(default_factory=set)
    accounted: Counter[str] = field(default_factory=Counter)
    _strings: Columns | None = None

    @classmethod
    def read(cls, database: SqliteFile, spool: Spool | None) -> RawTrace:
        """Read all of it."""
        with parsing_database.connect() as connection:
            source = cls(database, connection)
            rows = gather(source.batches(), spool)
            source.note_leftovers()
            header = header_of(rows, source.header)
            return assemble(rows, header, source.quality, 0, unread=source.accounted)

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """All rows; if two have equal times, the outer one comes first."""

    @abstractmethod
    def location(self, raw: Columns) -> Columns:
        """Process and device of slices on devices."""

    @abstractmethod
    def header(self, *, is_utc: bool) -> Header:
        """The header of the database; ``is_utc`` is about its times."""

    def open(self, name: str) -> SourceTable:
        """Look up a table by name, and mark it as loaded."""
        table = self.database.table(name)
        self.loaded |= {name, table.name}
        return table

    def slices(self, activity: Activity) -> Iterator[Batch]:
        """Slices of a table on devices."""
        table = self.open(PREFIX + activity.category)
        names = {name: f"{{{name}}}" for name in activity.names}
        codes = {code: code for code in activity.codes}
        size = {"bytes": "{bytes}"} if activity.has_bytes else {}
        shape = _SHAPE if activity.is_launched else {}
        args = table.json(*self.EXCLUDED, *names)
        columns = integers(table, {**self.SHARED, **codes, **size, **shape, **names})
        selection = columns | {"args": (args, TEXT)}
        for raw in self.database.batches(table, selection):
            texts = [self.text(raw.pop(name)) for name in names]
            rows = raw | self.location(raw)
            rows["tid"] = device_lines(rows["device"], rows["stream"])
            if shape:
                rows |= {word: _triple(raw, word) for word in ("grid", "block")}
            if activity.title is None:
                rows["name"] = pc.coalesce(*texts)
            else:
                rows["name"] = names_by_code(activity.title, *map(raw.get, codes))
            yield events(rows, activity.category)

    def text(self, ids: pa.Array) -> pa.Array:
        """Texts of ids; the table of texts is read at the first use."""
        if ids.null_count == len(ids):
            return pa.nulls(len(ids), TEXT)
        if self._strings is None:
            table = self.database.table(self.STRINGS)
            number, text = (sql.format_map(table) for sql in self.STRING)
            selection = {"id": (number, INT64), "text": (text, TEXT)}
            self._strings = self.database.read_all(table, selection)
        return lookup(ids, self._strings)

    def note_leftovers(self) -> None:
        """Account for unread tables: descriptive ones as ``metadata``, others by name."""
        unread = {
            name: table.rows
            for name, table in self.database.tables.items()
            if name not in self.loaded and table.rows
        }
        by_name = {name: rows for name, rows in unread.items() if not self.DESCRIBE.fullmatch(name)}
        self.accounted["metadata"] += sum(unread.values()) - sum(by_name.values())
        self.accounted.update(by_name)
        extended = tuple(f"{name}_" for name in self.loaded)
        for check, are_known in (("rows_not_loaded", True), ("unknown_table", False)):
            tables = {n: r for n, r in by_name.items() if n.startswith(extended) is not are_known}
            if tables:
                detail = ", ".join(f"{name} {rows:,}" for name, rows in sorted(tables.items()))
                self.quality.note(check, sum(tables.values()), detail)
        for check, count in self.database.anomalies.items():
            self.quality.note(check, count)


def _triple(raw: Columns, word: str) -> pa.Array:
    """A size in three dimensions as a JSON list; NULL where one is not known."""
    sizes = [raw[f"{word}{axis}"].cast(TEXT) for axis in _AXES]
    inside = pc.binary_join_element_wise(*sizes, ",")
    return pc.binary_join_element_wise("[", inside, "]", "")


def integers(table: SourceTable, columns: Expressions) -> dict[str, tuple[str, pa.DataType]]:
    """Columns of integers, to be read from a table."""
    return {name: (sql.format_map(table), INT64) for name, sql in columns.items()}


def events(columns: Mapping[str, pa.Array], category: str | pa.Array) -> Batch:
    """A batch of slices, from ``start`` to ``end`` in nanoseconds, with their other columns."""
    start, end = columns["start"], columns["end"]
    if isinstance(category, str):
        category = constant(category, len(start))
    beyond = pc.or_(_beyond(start), _beyond(end))
    rows = {
        "phase": constant("X", len(start)),
        "start_ns": start,
        "dur_ns": pc.if_else(beyond, _UNKNOWN, pc.subtract(end, start)),
        "bad_dur": beyond,
        **columns,
        "category": category,
    }
    return {RowTable.EVENTS: conform(RowTable.EVENTS, rows)}


def ranges(columns: Mapping[str, pa.Array], category: str, is_async: pa.Array) -> Batch:
    """A batch of NVTX ranges, with the parts of names by PyTorch in columns of their own."""
    parts = nvtx.split(columns["name"])
    rows = {name: columns[name] for name in ("start", "end", "pid", "tid")} | parts
    rows["is_async"] = is_async
    inputs = pc.binary_join_element_wise('"', parts["inputs"], '"', "")
    rows["args"] = with_member(columns["args"], "input_op_ids", inputs)
    return events(rows, pc.if_else(parts["is_op"], f"{category}_OP", category))


def marks(columns: Mapping[str, pa.Array], category: str, phase: str) -> Batch:
    """A batch of instants, at ``start`` in nanoseconds, with their other columns."""
    time = columns["start"]
    shared = {"phase": constant(phase, len(time)), "category": constant(category, len(time))}
    return {RowTable.INSTANTS: conform(RowTable.INSTANTS, {**columns, **shared, "time_ns": time})}


def with_member(args: pa.Array, name: str, values: pa.Array) -> pa.Array:
    """Arguments with one more member, first, from JSON texts; NULL adds none."""
    if values.null_count == len(values):
        return args
    member = pc.binary_join_element_wise(f'{{"{name}":', values, "")
    rest = pc.binary_join_element_wise(",", pc.utf8_slice_codeunits(args, 1), "")
    joined = pc.binary_join_element_wise(member, pc.fill_null(rest, "}"), "")
    return pc.if_else(pc.is_valid(values), joined, args)


def labels(label: str | pa.Array, columns: Mapping[str, pa.Array]) -> Batch:
    """A batch of names of processes and threads, from ``text``."""
    if isinstance(label, str):
        label = constant(label, len(columns["text"]))
    texts = columns["text"].to_pylist()
    args = [None if text is None else json.dumps({"name": text}) for text in texts]
    rows = {"name": label, "pid": columns["pid"], "tid": columns["tid"]}
    return {RowTable.THREADS: conform(RowTable.THREADS, rows | {"args": pa.array(args, TEXT)})}


def device_properties(row: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Properties of a device by Kineto's names, the others by the source's."""
    kineto = {key: row[name] for name, key in keys.items() if name in row}
    return kineto | {k: v for k, v in row.items() if k not in keys and k != "_id_"}


def constant(text: str | None, count: int) -> pa.Array:
    """A column of one text."""
    return pa.repeat(pa.scalar(text, TEXT), count)


def _beyond(times: pa.Array) -> pa.Array:
    """Whether differences with a time may not fit into 64 bits."""
    in_range = pc.and_(pc.less(times, _LONGEST), pc.greater(times, _SHORTEST))
    return pc.fill_null(pc.invert(in_range), fill_value=False)


def filtered(columns: Mapping[str, pa.Array], mask: pa.Array) -> dict[str, pa.Array]:
    """The rows in a mask, of every column."""
    return {name: array.filter(mask) for name, array in columns.items()}


def lookup(ids: pa.Array, texts: Mapping[str, pa.Array]) -> pa.Array:
    """Text of each id from columns ``id`` and ``text``; NULL if it has none."""
    encoded = ids.dictionary_encode()
    place = pc.index_in(encoded.dictionary, value_set=texts["id"])
    return texts["text"].take(place).take(encoded.indices)
