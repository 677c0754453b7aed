"""Where the rows of a trace are: in memory, in a store, or some of them in place of others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import duckdb
import polars as pl
import pyarrow as pa

from profframe.errors import ProfframeError
from profframe.query import macros
from profframe.query.closed import Terms
from profframe.query.result import plain
from profframe.query.selection import Integers, Selection

_OF_THE_QUESTION: Final = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.InterruptException,
    duckdb.NotImplementedException,
    duckdb.OutOfMemoryException,
    duckdb.OutOfRangeException,
    duckdb.ParserException,
    duckdb.PermissionException,
    duckdb.SyntaxException,
    duckdb.TypeMismatchException,
)
"""What DuckDB has against SQL, whatever the rows are."""

Columns: TypeAlias = frozenset[str] | None
"""Names of columns that are needed; None for all there are."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a question needs of a table: without ``columns`` all, without ``where`` all rows.

    To plan each mention of a table takes as long as it has columns, up to a millisecond.
    """

    columns: Columns = None
    where: str | None = None
    """A condition in SQL."""

    def view(self, connection: duckdb.DuckDBPyConnection, name: str, rows: str) -> None:
        """Make a view of it, of a relation with the rows of the table."""
        columns = ", ".join(f'"{column}"' for column in sorted(self.columns or ())) or "*"
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {name} AS "
            f"FROM {rows} SELECT {columns} WHERE {self.where or 'TRUE'}"
        )


class Source(Protocol):
    """Where the rows of a trace are: in memory or in a store."""

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: Part) -> None:
        """Let a connection, and no other, read a part of a table by the table's name."""

    def paths(self, tables: Iterable[str]) -> Iterator[str]:
        """Files that a connection reads for views of some tables."""

    def scan(self, table: str) -> pl.LazyFrame:
        """All rows of a table, text as plain String."""

    def parts(self, table: str) -> Iterator[pa.Table]:
        """All rows of a table, as Arrow in the schema's types."""

    def split(self) -> tuple[Source, ...]:
        """Sources of fewer rows each, where that saves memory."""

    def check(self, *, thorough: bool = False) -> None:
        """Raise a StoreError if the rows can no longer be read; thoroughly: look at all of them."""

    def again(self) -> Source | None:
        """The same rows where they are now, if they have moved."""

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:
        """The source without what has nothing of some runs and ranks."""


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """Arrow tables."""

    tables: Mapping[str, pa.Table]
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: Part) -> None:
        rows = self.tables[table]
        if part.where is None:  # to plan a view of a view takes twice as long
            needed = part.columns or rows.column_names
            connection.register(table, rows.select([n for n in rows.column_names if n in needed]))
        else:
            connection.register(f"_{table}", rows)
            part.view(connection, table, f"_{table}")

    def paths(self, tables: Iterable[str]) -> Iterator[str]:  # noqa: ARG002
        yield from ()

    def scan(self, table: str) -> pl.LazyFrame:
        if table not in self.frames:
            self.frames[table] = plain(self.tables[table])
        return self.frames[table].lazy()

    def parts(self, table: str) -> Iterator[pa.Table]:
        yield self.tables[table]

    def split(self) -> tuple[Source, ...]:
        return (self,)

    def check(self, *, thorough: bool = False) -> None:
        pass

    def again(self) -> None:
        pass

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:  # noqa: ARG002
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """A source with another table in place of one of its own."""

    source: Source
    name: str
    rows: pa.Table

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: Part) -> None:
        self._of(table).view(connection, table, part)

    def paths(self, tables: Iterable[str]) -> Iterator[str]:
        return self.source.paths(table for table in tables if table != self.name)

    def scan(self, table: str) -> pl.LazyFrame:
        return self._of(table).scan(table)

    def parts(self, table: str) -> Iterator[pa.Table]:
        return self._of(table).parts(table)

    def split(self) -> tuple[Source, ...]:
        return tuple(Beside(part, self.name, self._rows_of(part)) for part in self.source.split())

    def check(self, *, thorough: bool = False) -> None:
        self.source.check(thorough=thorough)

    def again(self) -> Source | None:
        moved = self.source.again()
        return None if moved is None else Beside(moved, self.name, self.rows)

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:
        return Beside(self.source.only(runs, ranks), self.name, self.rows)

    def _rows_of(self, part: Source) -> pa.Table:
        traces = set(part.scan("traces").select("run", "rank").collect().rows())
        keys = zip(self.rows["run"].to_pylist(), self.rows["rank"].to_pylist(), strict=True)
        return self.rows.filter(pa.array([key in traces for key in keys], pa.bool_()))

    def _of(self, table: str) -> Source:
        return InMemory({table: self.rows}) if table == self.name else self.source


def blame(source: Source, error: Exception) -> None:
    """Raise a StoreError if it is for the files of a source that a question has failed."""
    of_question = (ProfframeError, *_OF_THE_QUESTION)
    source.check(thorough=not all(isinstance(one, of_question) for one in _causes(error)))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it was raised of."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def hide_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB draw no progress bar."""
    with suppress(duckdb.InvalidInputException):  # a notebook without widgets has none
        connection.execute("SET enable_progress_bar = false")


class _OfThread(threading.local):
    """What each thread has for itself."""

    cursor: duckdb.DuckDBPyConnection | None = None
    views: dict[str, Columns]
    """What the cursor can read now."""


@dataclass(frozen=True, slots=True, eq=False)
class Conversation:
    """A source to which many questions are asked, from any thread, each of them once."""

    source: Source
    selection: Selection
    """Of the rows that are asked about."""
    terms: Terms
    """On which the connection was opened."""
    connection: duckdb.DuckDBPyConnection
    known: dict[object, Future[Any]] = field(default_factory=dict)
    """What was asked, and what came or comes back."""
    of_thread: _OfThread = field(default_factory=_OfThread)
    asking: threading.Lock = field(default_factory=threading.Lock)
    cursors: list[duckdb.DuckDBPyConnection] = field(default_factory=list)

    def interrupt(self) -> None:
        """Stop what any thread is asking."""
        for cursor in [*self.cursors]:
            cursor.interrupt()

    def cursor(self, views: Mapping[str, Columns]) -> duckdb.DuckDBPyConnection:
        """A connection for questions of this thread, with these columns of the same rows."""
        mine = self.of_thread
        if mine.cursor is None:
            mine.cursor, mine.views = self.connection.cursor(), {}
            self.cursors.append(mine.cursor)
            hide_progress(mine.cursor)
            macros.keep(mine.cursor, self.once)
            self.terms.hand_over(mine.cursor)
        for table, columns in views.items():
            if table not in mine.views or mine.views[table] != columns:
                part = Part(columns, self.selection.where(table))
                self.source.view(mine.cursor, table, part)
                mine.views[table] = columns
        return mine.cursor

    def once(self, question: object, ask: Callable[[], Any]) -> Any:
        """What a question gives; asked only where nobody has asked it before."""
        with self.asking:
            is_new = question not in self.known
            answer = self.known.setdefault(question, Future())
        if is_new:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)
                raise
        return answer.result()

    def view(self, connection: duckdb.DuckDBPyConnection, table: str, part: Part) -> None:
        self.source.view(connection, table, part)

    def paths(self, tables: Iterable[str]) -> Iterator[str]:
        return self.source.paths(tables)

    def scan(self, table: str) -> pl.LazyFrame:
        return self.source.scan(table)

    def parts(self, table: str) -> Iterator[pa.Table]:
        return self.source.parts(table)

    def split(self) -> tuple[Source, ...]:
        return self.source.split()

    def check(self, *, thorough: bool = False) -> None:
        self.source.check(thorough=thorough)

    def again(self) -> Source | None:
        return self.source.again()

    def only(self, runs: Iterable[str] | None, ranks: Integers | None) -> Source:
        return self.source.only(runs, ranks)
