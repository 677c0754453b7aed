"""Where the rows of a trace are: in memory, in a store, or some of them replaced by others."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.query.answer_cache import AnswerCache
from profframe.query.frames import plain
from profframe.query.selection import Integers

Columns: TypeAlias = frozenset[str] | None
"""Names of columns that are needed; None for all."""
ALL_TABLES: Final[Mapping[str, Columns]] = MappingProxyType(dict.fromkeys(schema.TABLES))
"""All columns of all tables."""
IN_EACH_TRACE: Final[Mapping[str, Columns]] = MappingProxyType(
    {name: None for name in schema.TABLES if name not in schema.OPTIONAL_TABLES}
)
"""All columns of the tables that are not optional."""
_WORD: Final = re.compile(r"\w+", re.ASCII)


def tables_for(sql: str) -> Mapping[str, Columns]:
    """All columns of the tables that SQL may read: of optional ones, those that it names.

    A view of each table takes time, and few questions are about the optional ones.

    Examples
    --------
    >>> tables_for("FROM Tensors").keys() - IN_EACH_TRACE.keys()
    {'tensors'}
    """
    words = {word.lower() for word in _WORD.findall(sql)}
    if words.isdisjoint(schema.OPTIONAL_TABLES):
        return IN_EACH_TRACE
    return {name: None for name in ALL_TABLES if name in IN_EACH_TRACE or name in words}


@dataclass(frozen=True, slots=True)
class TableRows:
    """Part of a table that a question needs; None is all ``columns``, or all rows.

    Planning each mention of a table takes time by its columns, up to a millisecond.
    """

    columns: Columns = None
    where: str | None = None
    """A condition in SQL."""

    def view(self, connection: duckdb.DuckDBPyConnection, name: str, rows: str) -> None:
        """Create a view of it over a relation with the rows of the table."""
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {self.select(rows)}")

    def copy(
        self, connection: duckdb.DuckDBPyConnection, name: str, rows: str, *, in_order: bool = True
    ) -> None:
        """Copy it from a relation with the rows of the table, and create a view of the copy.

        The order of files takes memory for each of them; that of the rows of a file does not.
        """
        if not in_order:
            connection.execute("SET preserve_insertion_order = false")
        try:
            connection.execute(f"CREATE OR REPLACE TEMP TABLE _{name} AS {self.select(rows)}")
        finally:
            if not in_order:
                connection.execute("SET preserve_insertion_order = true")
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM _{name}")

    def select(self, rows: str) -> str:
        """The SELECT of it from a relation with the rows of the table."""
        columns = ", ".join(f'"{column}"' for column in sorted(self.columns or ())) or "*"
        return f"FROM {rows} SELECT {columns} WHERE {self.where or 'TRUE'}"


class Source(Protocol):
    """Where the rows of a trace are: in memory or in a store."""

    def identity(self) -> Hashable | None:
        """Equal for sources of the same unchanged files; None for a source without files."""

    @property
    def answer_cache(self) -> AnswerCache | None:
        """What keeps answers about its rows for the next process, if anything does."""

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: TableRows) -> None:
        """Let one connection read a part of a table by the table's name."""

    def held(self, tables: Mapping[str, Columns]) -> Mapping[str, pa.Table] | None:
        """Some columns of tables that are in memory; None if the rows of any are in files."""

    def paths(self, tables: Iterable[str]) -> Iterator[str]:
        """Files that a connection reads for views of some tables."""

    def file_system(self) -> Any:
        """What opens these files for a connection; None if they are of this machine."""

    def scan(self, table: str, columns: Columns = None) -> pl.LazyFrame:
        """All rows of a table, at least these columns, text as plain String."""

    def sizes(self) -> pl.LazyFrame:
        """``run rank source_events`` of each trace, and maybe more columns."""

    def parts(self, table: str) -> Iterator[pa.Table]:
        """All rows of a table, as Arrow in the schema's types."""

    def split(self) -> tuple[Source, ...]:
        """Sources of fewer rows each, where that saves memory."""

    def check(self, *, thorough: bool = False) -> None:
        """Raise a StoreError if rows can no longer be read; ``thorough`` reads all of them."""

    def successor(self) -> Source | None:
        """A source of the same rows in other files, if these were replaced."""

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:
        """The source without files that have no rows of some runs and ranks."""


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """Arrow tables."""

    tables: Mapping[str, pa.Table]
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)
    answer_cache: AnswerCache | None = None

    def identity(self) -> None:
        pass

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: TableRows) -> None:
        rows = self.tables[table]
        if part.where is None:  # planning a view of a view takes twice as long
            connection.execute(f"DROP VIEW IF EXISTS {table}")
            connection.register(table, _some(rows, part.columns))
        else:
            connection.register(f"_{table}", rows)
            part.view(connection, table, f"_{table}")

    def held(self, tables: Mapping[str, Columns]) -> Mapping[str, pa.Table]:
        return {name: _some(self.tables[name], columns) for name, columns in tables.items()}

    def paths(self, tables: Iterable[str]) -> Iterator[str]:  # noqa: ARG002
        yield from ()

    def file_system(self) -> None:
        pass

    def scan(self, table: str, columns: Columns = None) -> pl.LazyFrame:
        if columns is not None and table not in self.frames:
            return plain(_some(self.tables[table], columns)).lazy()
        if table not in self.frames:
            self.frames[table] = plain(self.tables[table])
        return self.frames[table].lazy()

    def sizes(self) -> pl.LazyFrame:
        return self.scan("traces")

    def parts(self, table: str) -> Iterator[pa.Table]:
        yield self.tables[table]

    def split(self) -> tuple[Source, ...]:
        return (self,)

    def check(self, *, thorough: bool = False) -> None:
        pass

    def successor(self) -> None:
        pass

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:  # noqa: ARG002
        """The source without batches of other ranks; itself if there are none."""
        if ranks is None:
            return self
        ordered = ranks if isinstance(ranks, range) and ranks.step == 1 else sorted(ranks)
        tables = {name: _of_ranks(rows, ordered) for name, rows in self.tables.items()}
        if all(rows is self.tables[name] for name, rows in tables.items()):
            return self
        return InMemory(tables)


def _some(rows: pa.Table, columns: Columns) -> pa.Table:
    """Some columns of a table, in its own order; one, if none is needed to count its rows."""
    if columns is None:
        return rows
    names = rows.column_names
    return rows.select([name for name in names if name in columns] or names[:1])


def _of_ranks(rows: pa.Table, ranks: Sequence[int]) -> pa.Table:
    """The batches of a table that may have rows of some ranks, in order; nothing is copied."""
    if "rank" not in rows.column_names or rows["rank"].num_chunks < 2:
        return rows
    batches = rows.to_batches()
    kept = []
    for batch in batches:
        low, high = pc.min_max(batch["rank"]).as_py().values()
        place = len(ranks) if low is None else bisect_left(ranks, low)
        if place < len(ranks) and ranks[place] <= high:
            kept.append(batch)
    return rows if len(kept) == len(batches) else pa.Table.from_batches(kept, rows.schema)


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """A source with one of its tables replaced."""

    source: Source
    name: str
    rows: pa.Table

    def identity(self) -> None:
        pass

    @property
    def answer_cache(self) -> None:
        pass

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: TableRows) -> None:
        self._of(table).view(connection, table, part)

    def held(self, tables: Mapping[str, Columns]) -> Mapping[str, pa.Table] | None:
        others = {name: columns for name, columns in tables.items() if name != self.name}
        rows = self.source.held(others)
        if rows is None or self.name not in tables:
            return rows
        return {**rows, self.name: _some(self.rows, tables[self.name])}

    def paths(self, tables: Iterable[str]) -> Iterator[str]:
        return self.source.paths(table for table in tables if table != self.name)

    def file_system(self) -> Any:
        return self.source.file_system()

    def scan(self, table: str, columns: Columns = None) -> pl.LazyFrame:
        return self._of(table).scan(table, columns)

    def sizes(self) -> pl.LazyFrame:
        return self.source.sizes() if self.name != "traces" else self.scan("traces")

    def parts(self, table: str) -> Iterator[pa.Table]:
        return self._of(table).parts(table)

    def split(self) -> tuple[Source, ...]:
        return tuple(Overlay(part, self.name, self._rows_of(part)) for part in self.source.split())

    def check(self, *, thorough: bool = False) -> None:
        self.source.check(thorough=thorough)

    def successor(self) -> Source | None:
        moved = self.source.successor()
        return None if moved is None else Overlay(moved, self.name, self.rows)

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:
        return Overlay(self.source.only(runs, ranks), self.name, self.rows)

    def _rows_of(self, part: Source) -> pa.Table:
        traces = set(part.scan("traces").select("run", "rank").collect().rows())
        keys = zip(self.rows["run"].to_pylist(), self.rows["rank"].to_pylist(), strict=True)
        return self.rows.filter(pa.array([key in traces for key in keys], pa.bool_()))

    def _of(self, table: str) -> Source:
        return InMemory({table: self.rows}) if table == self.name else self.source
