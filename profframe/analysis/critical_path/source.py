"""Sources of a critical path's rows: one (run, rank), or several that share their queries.

A query takes longer to plan than to read a small trace. So the ranks of a job share their queries:
their events have numbers that no other rank has, and times on the clock of the job, and the results
are split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Protocol

import duckdb
import numpy as np
import pyarrow as pa

from profframe.analysis.critical_path.graph import UNSET
from profframe.analysis.critical_path.segments import CALLS
from profframe.facts.arrays import numbers
from profframe.intervals import Ints
from profframe.query.header import Answer
from profframe.query.run import prepare, select, selected

MOST_EVENTS: Final = 1_000_000
"""Maximum events for which ranks share queries: these are kept in memory."""

Columns = Mapping[str, Ints]
Variable = int | str
EVENT_BITS: Final = 40
_THREAD_BITS: Final = 24
_BITS: Final = {
    **dict.fromkeys(("event_id", "launch_id", "fwd_id", "source", "target", "call"), EVENT_BITS),
    "thread": _THREAD_BITS,
}
"""Columns with numbers of events and threads: the place of the rank is in the upper bits."""


class RankSource(Protocol):
    """The rows of one (run, rank)."""

    @property
    def ahead_ns(self) -> int:
        """Offset of its clock from the clock of the job."""

    def ints(self, sql: str, **variables: Variable) -> Columns:
        """Columns of integers, UNSET for NULL; sorted by ``event_id`` if there is one."""

    def texts(self, sql: str) -> list[str]:
        """One column of texts, without NULL."""


@dataclass(frozen=True, slots=True)
class SingleRank:
    """A connection to the rows of one (run, rank), with the macros of a path."""

    connection: duckdb.DuckDBPyConnection
    ahead_ns: int = 0

    def ints(self, sql: str, **variables: Variable) -> Columns:
        """Columns of integers."""
        for name, value in variables.items():
            type_ = "VARCHAR" if isinstance(value, str) else "BIGINT"
            self.connection.execute(f"SET VARIABLE {name} = ?::{type_}", [value])
        table = selected(self.connection, sql)
        columns = {name: numbers(table, name, missing=UNSET) for name in table.column_names}
        ids = columns.get("event_id")
        if ids is None or bool((ids[1:] > ids[:-1]).all()):
            return columns
        order = np.argsort(ids, kind="stable")
        return {name: values[order] for name, values in columns.items()}

    def texts(self, sql: str) -> list[str]:
        """One column of texts, without NULL."""
        return [text for (text,) in select(self.connection, sql).fetchall() if text is not None]


@dataclass(slots=True)
class SharedRanks:
    """The rows of several ranks: each query is run once for all of them."""

    alone: SingleRank
    lock: Lock = field(default_factory=Lock)
    answers: dict[object, tuple[Columns, Ints]] = field(default_factory=dict)

    def of(self, place: int, sql: str, variables: Mapping[str, Variable]) -> Columns:
        """The columns of one rank."""
        key = sql, tuple(variables.items())
        with self.lock:
            if key not in self.answers:
                self.answers[key] = _split(self.alone.ints(sql, **variables))
        columns, places = self.answers[key]
        begin, end = np.searchsorted(places, [place, place + 1])
        return {name: _own(name, values[begin:end]) for name, values in columns.items()}


@dataclass(frozen=True, slots=True)
class RankView:
    """The rows of the rank at a place, on the clock of the job."""

    together: SharedRanks
    place: int
    ahead_ns: int = 0

    def ints(self, sql: str, **variables: Variable) -> Columns:
        """Columns of integers."""
        return self.together.of(self.place, sql, variables)

    def texts(self, sql: str) -> list[str]:
        """One column of texts of all ranks, without NULL."""
        with self.together.lock:
            return self.together.alone.texts(sql)


@contextmanager
def of_several(
    connection: duckdb.DuckDBPyConnection, ranks: Sequence[int], ahead_ns: Sequence[int]
) -> Iterator[list[RankSource] | None]:
    """Sources of the ranks of a connection, while the block lasts; None if there are too many rows.

    ``ahead_ns`` is by how much the clock of each is ahead of that of the job.
    """
    # 64 ranks with 138,000 events take 2 to 4 s together and 20 to 27 s one by one: planning
    # dominates. With more events reading does, and memory counts.
    if connection.sql("SELECT count(*) FROM events").fetchall() > [(MOST_EVENTS,)]:
        yield None
        return
    places = pa.table(
        {
            "rank": pa.array(ranks, pa.int32()),
            "place": pa.array(range(len(ranks)), pa.int64()),
            "ahead_ns": pa.array(ahead_ns, pa.int64()),
        }
    )
    connection.register("_places", places)
    # Read once, renumbered and on one clock; every query of a path then reads these copies.
    tables = {name: selected(connection, sql) for name, sql in _TABLES.items()}
    connection.unregister("_places")
    with connection.cursor() as cursor:
        for name, table in tables.items():
            cursor.register(name, table)
        prepare(cursor, Answer("critical_path", CALLS), {})
        together = SharedRanks(SingleRank(cursor))
        yield [RankView(together, place) for place in range(len(ranks))]


def _split(columns: Columns) -> tuple[Columns, Ints]:
    """Rows in the order of their ranks, and the place of the rank of each row."""
    name = next(name for name in columns if name in _BITS)
    places = columns[name] >> _BITS[name]
    if bool((np.diff(places) >= 0).all()):
        return columns, places
    order = np.argsort(places, kind="stable")
    return {name: values[order] for name, values in columns.items()}, places[order]


def _own(name: str, values: Ints) -> Ints:
    """Undo the renumbering of events and threads for one rank."""
    if name not in _BITS:
        return values
    return np.where(values < 0, values, values & ((1 << _BITS[name]) - 1))


_EVENT: Final = f"(place << {EVENT_BITS})"
_TABLES: Final = {
    "events": f"""
        SELECT
            run, events.rank, event_id + {_EVENT} AS event_id, launch_id + {_EVENT} AS launch_id,
            fwd_id + {_EVENT} AS fwd_id, thread + (place << {_THREAD_BITS}) AS thread,
            correlation + CASE WHEN correlation > 0 THEN {_EVENT} ELSE 0 END AS correlation,
            wait_on_correlation + CASE WHEN wait_on_correlation > 0 THEN {_EVENT} ELSE 0 END
                AS wait_on_correlation,
            wait_on_stream, start_ns - ahead_ns AS start_ns, dur_ns, kind, name, depth, step,
            device, stream, fwd_thread, idle_ns, category, kernel_category, collective
        FROM events JOIN _places AS places ON events.rank = places.rank""",  # noqa: S608 - of constants
    "profiler_steps": f"""
        SELECT
            run, steps.rank, event_id + {_EVENT} AS event_id, step, host_ns,
            start_ns - ahead_ns AS start_ns, began_ns - ahead_ns AS began_ns,
            completed_ns - ahead_ns AS completed_ns,
            device_start_ns - ahead_ns AS device_start_ns, device_window_ns
        FROM profiler_steps AS steps JOIN _places AS places ON steps.rank = places.rank""",  # noqa: S608 - of constants
    "flows": f"""
        SELECT category, concat(place, '/', flow_id) AS flow_id, phase,
            event_id + {_EVENT} AS event_id
        FROM flows JOIN _places AS places ON flows.rank = places.rank
        WHERE flow_id IS NOT NULL""",  # noqa: S608 - of constants
}
"""Rows of all ranks with numbers of their own; correlations of 0 belong to nothing."""
