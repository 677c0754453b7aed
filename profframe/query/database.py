"""DuckDB over the rows of a source: opened by the first question, then kept for the next ones.

A thread has a cursor of its own, with the views and macros of its questions. Sources of the same
files share a database; a process keeps few of them open, and a fork none.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import duckdb

from profframe import schema
from profframe.query import macros
from profframe.query.plans import PLANS
from profframe.query.sandbox import Terms, connect
from profframe.query.selection import Selection
from profframe.query.sources import Columns, Source, TableRows

Value = TypeVar("Value")

_OPEN_LIMIT: Final = 8
"""Most databases that a process keeps open: each has threads of its own."""


class _Thread(threading.local):
    """The cursor of a thread, and its views."""

    cursor: duckdb.DuckDBPyConnection | None = None
    views: dict[str, TableRows]


class Database:
    """DuckDB over the rows of a source and nothing else; opened when it is first needed.

    Parameters
    ----------
    source
        Where the rows are.
    terms
        What questions may read beside the rows, and their limits.
    once
        Runs each step that questions share once; None to keep no step.
    at_once
        Number of threads that ask at the same time: each takes a part of the work.
    """

    def __init__(
        self,
        source: Source,
        terms: Terms,
        once: macros.Once | None = None,
        at_once: int = 1,
    ) -> None:
        self._source = source
        self._terms = terms
        self._once = once
        self._at_once = at_once
        self._lock = threading.Lock()
        self._reset()

    def cache_last(self, what: str, key: object, compute: Callable[[], Value]) -> Value:
        """Cache of one value per name; recomputed when the key changes."""
        kept_key, value = self._recent.get(what, (None, None))
        if kept_key != key:
            self._recent.pop(what, None)
            value = compute()
            self._recent[what] = key, value
        kept: Value = value
        return kept

    def _reset(self) -> None:
        self._recent: dict[str, tuple[object, Any]] = {}
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._thread = _Thread()
        self._cursors = weakref.WeakSet[duckdb.DuckDBPyConnection]()

    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection that cursors come from."""
        with self._lock:
            if self._connection is not None:
                return self._connection
            source = self._source
            connection = connect(
                self._terms, source.paths(schema.TABLES), file_system=source.file_system()
            )
            if self._at_once > 1:
                [(threads,)] = connection.execute("SELECT current_setting('threads')").fetchall()
                connection.execute(f"SET external_threads = {min(self._at_once, threads)}")
            self._connection = connection
        _OPEN.add(self)
        return connection

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """The cursor of this thread."""
        thread = self._thread
        if thread.cursor is None:
            thread.cursor, thread.views = self.new_cursor(), {}
        return thread.cursor

    def view(self, selection: Selection, views: Mapping[str, Columns]) -> None:
        """Give the cursor of this thread views of some columns of the selected rows."""
        cursor, present = self.cursor(), self._thread.views
        for table, columns in views.items():
            part = TableRows(columns, selection.where(table))
            if present.get(table) != part:
                present.pop(table, None)
                self._source.view(cursor, table, part)
                present[table] = part

    def drop_cursor(self) -> None:
        """Replace the cursor of this thread after an error, which may have left state in it."""
        self._thread.cursor = None

    def new_cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor without views."""
        connection = self.connection()
        cursor = connection.cursor()
        self._cursors.add(cursor)
        with suppress(duckdb.InvalidInputException):  # a notebook without widgets has none
            cursor.execute("SET enable_progress_bar = false")
        if (once := self._once) is not None:
            of = weakref.ref(connection)  # tables of a step go with the connection
            macros.keep(cursor, lambda step, compute: once((of, step), compute))
        self._terms.register(cursor)
        return cursor

    @contextmanager
    def running(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Let `interrupt` stop what another cursor does in a block."""
        self._cursors.add(cursor)
        try:
            yield
        finally:
            self._cursors.discard(cursor)

    def interrupt(self) -> None:
        """Stop the queries of all threads."""
        for cursor in [*self._cursors]:
            cursor.interrupt()

    def close(self) -> None:
        """Drop the connection; running queries keep it until they end."""
        with self._lock:
            self._reset()

    def detach(self) -> object:
        """In the child of a fork: drop and return what has threads only in the parent."""
        state = self._connection, self._thread, self._cursors
        self._lock = threading.Lock()
        self._reset()
        return state


class _Open:
    """Open databases of this process; those of stores are shared."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: list[weakref.ref[Database]] = []
        self._of_stores = OrderedDict[Hashable, Database]()
        self._detached: list[object] = []

    def add(self, database: Database) -> None:
        """Keep a database open, and close the oldest beyond the limit."""
        with self._lock:
            others = [other for other in self._alive() if other is not database]
            alive = [*others, database]
            self._open = [weakref.ref(item) for item in alive[-_OPEN_LIMIT:]]
        for old in alive[:-_OPEN_LIMIT]:
            old.close()

    def _alive(self) -> list[Database]:
        return [database for ref in self._open if (database := ref()) is not None]

    def of(self, source: Source, terms: Terms) -> Database:
        """The database of a source; sources of the same files share one."""
        identity = source.identity()
        if identity is None or terms.tables:
            return Database(source, terms)
        files = tuple(map(os.path.realpath, terms.files))
        key = identity, files, terms.memory_limit
        with self._lock:
            database = self._of_stores.pop(key, None) or Database(source, terms)
            self._of_stores[key] = database
            while len(self._of_stores) > _OPEN_LIMIT:
                self._of_stores.popitem(last=False)
        return database

    def after_fork(self) -> None:
        """In the child: DuckDB's threads are gone, and closing it would wait for them."""
        self._lock = threading.RLock()
        self._detached += [database.detach() for database in self._alive()]
        self._open = []
        PLANS.after_fork()


_OPEN: Final = _Open()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPEN.after_fork)


def database_of(source: Source, terms: Terms) -> Database:
    """The database of a source; sources of the same files share one on the same terms."""
    return _OPEN.of(source, terms)
