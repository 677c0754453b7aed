"""Queries on rows in memory that readers run again and again."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from typing import Final

import duckdb
import pyarrow as pa

from profframe.readers import parsing_database


class _Rows:
    """Rows of a registered table, which may change: registering it again costs a query of its own.

    A query takes them through the Arrow stream interface.
    """

    def __init__(self, rows: pa.Table) -> None:
        self.schema = rows.schema
        self.rows: pa.Table | None = rows

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        rows = self.schema.empty_table() if self.rows is None else self.rows
        return rows.__arrow_c_stream__(requested_schema)


class Session:
    """A cursor with planned queries: making them costs more than a small wave."""

    def __init__(self) -> None:
        self._prepared: dict[str, str] = {}
        """Names of the statements of queries, which a relation would plan again each time."""
        self._numbers = count()
        self._tables: dict[str, _Rows] = {}
        self.sound_keys: set[int] = set()
        """Hashes of lists of keys without duplicates."""

    @cached_property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Its own cursor."""
        return parsing_database.connect()

    @property
    def answers(self) -> bool:
        """Whether it still runs queries: after an internal error of the database none does."""
        try:
            self.cursor.execute("SELECT 1").fetchall()
        except duckdb.Error:
            return False
        return True

    @contextmanager
    def registered(self, name: str, rows: pa.Table) -> Iterator[None]:
        """Register rows under a name."""
        table = self._tables.get(name)
        if table is None or table.schema != rows.schema:
            if table is not None:
                self._prepared.clear()
            table = self._tables[name] = _Rows(rows)
            self.cursor.register(name, table)
        table.rows = rows
        try:
            yield
        finally:
            table.rows = None

    def rows_of(self, query: str) -> pa.Table:
        """Rows of a query, which is planned only once."""
        if query not in self._prepared:
            name = f"query_{next(self._numbers)}"
            self.cursor.execute(f"PREPARE {name} AS {query}")
            self._prepared[query] = name
        return self.cursor.sql(f"EXECUTE {self._prepared[query]}").to_arrow_table()


class _Sessions:
    """Sessions that no thread uses at the moment, with what they have planned."""

    def __init__(self) -> None:
        self._idle: list[Session] = []
        self._inherited: list[Session] = []
        """Those of the processes that this one was forked from, which close them themselves."""

    @contextmanager
    def lent(self) -> Iterator[Session]:
        """A session for the calling thread, which another may get afterwards."""
        session = self._idle.pop() if self._idle else Session()
        if not session.answers:
            session = Session()
        try:
            yield session
        finally:
            self._idle.append(session)

    def close(self) -> None:
        """End them, for the end of the process: DuckDB's queries do not outlive the interpreter."""
        self._idle.clear()

    def after_fork(self) -> None:
        """Reset in a forked child."""
        self._inherited += self._idle
        self._idle = []


_SESSIONS: Final = _Sessions()
lent = _SESSIONS.lent
atexit.register(_SESSIONS.close)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SESSIONS.after_fork)
