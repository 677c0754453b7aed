"""The database in which readers parse: one in a process, for to open and close one takes 20 ms."""

from __future__ import annotations

import os
from threading import Lock, Thread
from typing import Final

import duckdb


class _ParsingDatabase:
    """An empty database in memory; what a connection registers, no other one sees."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._of_parents: list[duckdb.DuckDBPyConnection] = []
        """Those of processes that this one was forked from: to close them is up to these."""

    def open_beside(self) -> None:
        """Open it on a thread of its own, so that it is there when the first text is read."""
        if self._database is None:
            Thread(target=self.connect, name="profframe-database").start()

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new connection, which runs a query on the thread that asks."""
        with self._lock:
            if self._database is not None:
                try:
                    connection = self._database.cursor()
                    connection.execute("SELECT 1").fetchall()
                except duckdb.Error:  # after an internal error it answers nothing more
                    self._database = None
                else:
                    return connection
            self._database = duckdb.connect(config={"threads": 1})
            return self._database.cursor()

    def after_fork(self) -> None:
        """In the child of a fork: a thread of the parent may have had the locks."""
        self._lock = Lock()
        if self._database is not None:
            self._of_parents.append(self._database)
        self._database = None


_DATABASE: Final = _ParsingDatabase()
connect = _DATABASE.connect
open_beside = _DATABASE.open_beside

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_DATABASE.after_fork)
