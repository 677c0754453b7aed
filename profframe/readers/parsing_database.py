"""The database in which readers parse: one per process, because opening and closing takes 20 ms."""

from __future__ import annotations

import os
from threading import Lock, Thread
from typing import Final

import duckdb


class _ParsingDatabase:
    """An empty database in memory; each connection sees only the tables that it registered."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._inherited: list[duckdb.DuckDBPyConnection] = []
        """Databases of the processes that this one was forked from, which close them themselves."""

    def open_in_background(self) -> None:
        """Open it on another thread, to be ready when the first text is read."""
        if self._database is None:
            Thread(target=self.connect, name="profframe-database").start()

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new connection, which runs queries on the calling thread."""
        with self._lock:
            if self._database is not None:
                try:
                    connection = self._database.cursor()
                    connection.execute("SELECT 1").fetchall()
                except duckdb.Error:  # after an internal error it runs no more queries
                    self._database = None
                else:
                    return connection
            self._database = duckdb.connect(config={"threads": 1})
            return self._database.cursor()

    def after_fork(self) -> None:
        """Reset in a forked child: a thread of the parent may have held the locks."""
        self._lock = Lock()
        if self._database is not None:
            self._inherited.append(self._database)
        self._database = None


_DATABASE: Final = _ParsingDatabase()
connect = _DATABASE.connect
open_in_background = _DATABASE.open_in_background

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_DATABASE.after_fork)
