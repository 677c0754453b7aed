"""Queries on rows in memory that each thread runs again and again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import duckdb
import pyarrow as pa

from profframe.readers import parsing_database


class Session(threading.local):
    """A thread's own cursor and prepared queries: making them costs more than a small wave."""

    def __init__(self) -> None:
        self._bound: dict[str, duckdb.DuckDBPyRelation] = {}

    @cached_property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """The cursor of the calling thread."""
        return parsing_database.connect()

    @contextmanager
    def registered(self, name: str, rows: pa.Table) -> Iterator[None]:
        """Register rows under a name."""
        self.cursor.register(name, rows)
        try:
            yield
        finally:
            self.cursor.unregister(name)

    def rows_of(self, query: str) -> pa.Table:
        """Rows of a query, which is bound only once."""
        if query not in self._bound:
            self._bound[query] = self.cursor.sql(query)
        return self._bound[query].to_arrow_table()
