"""Questions about rows in memory, which each thread asks over and over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import duckdb
import pyarrow as pa

from profframe.readers import parsing_database


class Session(threading.local):
    """What each thread has for itself and uses again: what it costs is more than a small wave."""

    def __init__(self) -> None:
        self._bound: dict[str, duckdb.DuckDBPyRelation] = {}

    @cached_property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """The one of this thread."""
        return parsing_database.connect()

    @contextmanager
    def about(self, name: str, rows: pa.Table) -> Iterator[None]:
        """Ask about these rows by a name."""
        self.cursor.register(name, rows)
        try:
            yield
        finally:
            self.cursor.unregister(name)

    def ask(self, query: str) -> pa.Table:
        """Rows of a query; that it can be run is looked at once."""
        if query not in self._bound:
            self._bound[query] = self.cursor.sql(query)
        return self._bound[query].to_arrow_table()
