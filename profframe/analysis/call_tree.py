"""Nested host slices of a trace, depth first; `profframe.show.tree_text` draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import duckdb

from profframe.analysis.run_selection import some_traces
from profframe.errors import ParameterError, UnknownNameError
from profframe.query.selection import integer

_ALL: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice."""

    event_id: int
    level: int
    thread: int
    name: str | None
    dur_ns: int | None
    """None for a slice that was captured into a graph."""
    self_ns: int | None
    device_ns: int | None
    root_ns: int | None
    hidden: int
    """Slices inside it that are too deep to be listed."""


@dataclass(frozen=True, slots=True)
class CallTree:
    """Slices in depth-first order, the busiest thread first."""

    slices: Sequence[Slice]
    threads: Mapping[int, str]
    """Names of the threads; empty if there is only one."""
    left_out: int
    """Slices that are not listed."""


def call_tree(
    connection: duckdb.DuckDBPyConnection, event_id: int | None, depth: int | None, top: int
) -> CallTree:
    """The host slices of one trace.

    Parameters
    ----------
    connection
        DuckDB connection with the views ``events`` and ``threads``, of one (run, rank).
    event_id
        Root of the tree; None for all slices without a parent.
    depth
        Levels below it; None for as many as fit into the rows.
    top
        Maximum number of slices, the first in order; 0 for all.

    Raises
    ------
    UnknownNameError
        There is no such event.
    ParameterError
        There are several (run, rank), the event is not a nested host slice, or a value is invalid.
    """
    event_id = None if event_id is None else integer("event_id", event_id)
    depth = None if depth is None else integer("depth", depth)
    limit = integer("top", top)
    limit = limit if limit > 0 else _ALL
    if depth is not None and depth < 0:
        raise ParameterError(f"depth: needs 0 or more levels, got {depth}")
    _check_single(connection)
    first, last = _range(connection, event_id)
    connection.execute(_POSITIONS, [event_id, first, last])
    levels = connection.sql(
        "SELECT level, count(*) FROM placed GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    deepest = _depth(levels, limit) if depth is None else depth
    slices = [Slice(*row) for row in connection.execute(_LISTING, [deepest, limit]).fetchall()]
    threads = _threads(connection) if len({node.thread for node in slices}) > 1 else {}
    return CallTree(slices, threads, sum(size for _, size in levels) - len(slices))


_POSITIONS: Final = """
    CREATE OR REPLACE TEMP TABLE placed AS
    WITH slices AS (
        SELECT event_id, preorder, root_id, depth, thread, dur_ns
        FROM events
        WHERE preorder BETWEEN $2 AND $3
    ),
    roots AS (
        SELECT
            root_id,
            min(depth) AS depth,
            arg_min(thread, preorder) AS thread,
            max(dur_ns) FILTER (event_id = coalesce($1, root_id)) AS root_ns
        FROM slices
        GROUP BY root_id
    ),
    threads AS (
        SELECT roots.thread, sum(slices.dur_ns) AS thread_ns
        FROM slices
        JOIN roots ON slices.root_id = roots.root_id AND slices.depth = roots.depth
        GROUP BY roots.thread
    )
    SELECT
        event_id,
        slices.depth - roots.depth AS level,
        roots.thread,
        root_ns,
        row_number() OVER (ORDER BY thread_ns DESC NULLS LAST, roots.thread, preorder) AS place
    FROM slices
    JOIN roots ON slices.root_id = roots.root_id
    JOIN threads ON roots.thread = threads.thread"""

_LISTING: Final = """
    WITH shown AS (
        SELECT
            event_id, level, thread, root_ns, place,
            lead(place, 1, 1 + (SELECT count(*) FROM placed)) OVER (ORDER BY place) - place - 1 AS hidden
        FROM placed
        WHERE level <= $1
        ORDER BY place
        LIMIT $2
    )
    SELECT
        event_id, level, shown.thread, events.name, events.dur_ns, events.self_ns, events.device_ns, root_ns, hidden
    FROM shown
    JOIN events USING (event_id)
    ORDER BY place"""  # noqa: E501 - read as SQL
_EVENT: Final = """
    SELECT kind, name, preorder, depth, launch_id, last_descendant_id
    FROM events WHERE event_id = ?"""
_PLACE: Final = "SELECT preorder FROM events WHERE event_id = ?"
_BEFORE_NEXT: Final = """
    SELECT coalesce(min(preorder) - 1, ?) FROM events WHERE preorder > ? AND depth <= ?"""


def _check_single(connection: duckdb.DuckDBPyConnection) -> None:
    traces = connection.sql("SELECT DISTINCT run, rank FROM events ORDER BY ALL").fetchall()
    if len(traces) > 1:
        raise ParameterError(
            f"a tree covers one (run, rank), and there are {len(traces):,} "
            f"({some_traces(traces, 3)}); choose a run and a rank"
        )


def _range(connection: duckdb.DuckDBPyConnection, event_id: int | None) -> tuple[int, int]:
    """First and last preorder position of an event and its descendants."""
    if event_id is None:
        return 0, _ALL
    event = connection.execute(_EVENT, [event_id]).fetchone()
    if event is None:
        ends = connection.sql("SELECT min(event_id), max(event_id) FROM events").fetchall()
        [(least, most)] = ends
        choices = "there are none" if least is None else f"they are {least} to {most}"
        raise UnknownNameError(f"no event {event_id}; {choices}")
    kind, name, first, depth, launch, last_id = event
    if first is None:
        launcher = "" if launch is None else f"; event {launch} launched it"
        raise ParameterError(
            f"event {event_id} ({name!r}, {kind}) is not a host slice that nests, so it has no "
            f"tree{launcher}"
        )
    last = connection.execute(_PLACE, [last_id]).fetchone()
    if last is None:  # filtered out: up to the next slice that is not deeper
        last = connection.execute(_BEFORE_NEXT, [_ALL, first, depth]).fetchone()
    return first, first if last is None else last[0]


def _depth(levels: list[tuple[int, int]], limit: int) -> int:
    """The deepest level down to which all slices fit, from the number of slices per level.

    Examples
    --------
    >>> _depth([(0, 2), (1, 8), (3, 90), (4, 900)], 100), _depth([(0, 300), (1, 1)], 100)
    (3, 0)
    """
    totals = accumulate(size for _, size in levels)
    fit = [level for (level, _), total in zip(levels, totals, strict=True) if total <= limit]
    return max(fit, default=0)


def _threads(connection: duckdb.DuckDBPyConnection) -> dict[int, str]:
    rows = connection.sql("SELECT thread, pid, tid, thread_name FROM threads").fetchall()
    return {
        thread: f"pid {pid}, tid {tid}" + (f", {name}" if name else "")
        for thread, pid, tid, name in rows
    }
