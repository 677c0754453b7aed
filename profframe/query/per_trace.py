"""Rows of several traces, read in one query and split by (run, rank).

Opening a connection to the rows of one trace takes as long as reading a small trace: it lists the
columns of each table and looks up its files. It is better to read many small ones all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Final, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from profframe.query.session import Session
from profframe.query.sources import Columns

Key: TypeAlias = "tuple[str, int]"
MOST_EVENTS: Final = 500_000
"""Maximum number of events kept in memory."""


@dataclass(frozen=True, slots=True)
class PerTrace:
    """Rows of tables by (run, rank)."""

    session: Session
    rows: Mapping[str, pa.Table]
    places: Mapping[str, Mapping[Key, tuple[int, int]]]
    """Where the rows of a trace begin in a table, and how many there are."""

    @classmethod
    def of(cls, session: Session, views: Mapping[str, Columns]) -> PerTrace | None:
        """The selected rows of some tables, in their order; None if there are too many events."""
        with session.connection(views) as connection:
            if connection.sql("SELECT count(*) FROM events").fetchall() > [(MOST_EVENTS,)]:
                return None
            connection.execute("SET preserve_insertion_order = true")
            tables = {name: connection.sql(f"FROM {name}").to_arrow_table() for name in views}
        split = {name: _split(rows) for name, rows in tables.items()}
        return cls(
            session,
            {name: rows for name, (rows, _) in split.items()},
            {name: places for name, (_, places) in split.items()},
        )

    @contextmanager
    def connection(self, run: str | None, rank: int) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor with a view per table of one trace; without a run, of the only one."""
        if run is None:
            run = next(name for name, _ in self.places["traces"])
        with self.session.database.new_cursor() as cursor:
            for name, rows in self.rows.items():
                begin, count = self.places[name].get((run, rank), (0, 0))
                cursor.register(name, rows.slice(begin, count))
            yield cursor


@dataclass
class TraceConnections:
    """Connections to the rows of a session, or of some of its traces; few are read only once."""

    session: Session
    views: Mapping[str, Columns]
    _lock: Lock = field(default_factory=Lock)
    _read: list[PerTrace | None] = field(default_factory=list)

    @cached_property
    def keys(self) -> list[Key]:
        """The (run, rank) of all traces."""
        return self.session.sizes().select("run", "rank").rows()

    def connection(
        self, run: str | None, rank: int | None
    ) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """A cursor with a view per table; None stands for all runs, and for all ranks."""
        of_one_run = run is None or len({name for name, _ in self.keys}) == 1
        if of_one_run and (rank is None or len(self.keys) == 1):
            return self.session.connection(self.views)
        apart = None if rank is None else self._apart()
        if apart is not None and rank is not None:
            return apart.connection(run, rank)
        return self.session.filter(runs=run, ranks=rank).connection(self.views)

    def _apart(self) -> PerTrace | None:
        with self._lock:
            if not self._read:
                self._read.append(PerTrace.of(self.session, self.views))
        return self._read[0]


def _split(rows: pa.Table) -> tuple[pa.Table, dict[Key, tuple[int, int]]]:
    """The rows in the order of their traces, and where each of these is."""
    if not rows.num_rows:
        return rows, {}
    runs = rows["run"].cast(pa.string()).dictionary_encode().combine_chunks()
    ranks, rank = np.unique(rows["rank"].to_numpy(), return_inverse=True)
    code = runs.indices.to_numpy().astype(np.int64) * ranks.size + rank
    if bool((np.diff(code) < 0).any()):
        order = np.argsort(code, kind="stable")
        rows, code = rows.take(pa.array(order)), code[order]
    keys, begin, count = np.unique(code, return_index=True, return_counts=True)
    names = runs.dictionary.to_pylist()
    return rows, {
        (names[key // ranks.size], int(ranks[key % ranks.size])): (place[0], place[1])
        for key, *place in zip(keys.tolist(), begin.tolist(), count.tolist(), strict=True)
    }
