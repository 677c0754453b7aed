"""Host slices inside one another, as indented lines."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import duckdb

from profframe.errors import ParameterError, UnknownNameError
from profframe.query.selection import integer
from profframe.show import units
from profframe.show.lines import Lines

_GAP: Final = "  "
_INDENT: Final = "  "
_LONGEST_NAME: Final = 120
_ALL: Final = 2**63 - 1


class Tree(Lines):
    """Text of a tree; it shows itself as it is, also where a value is shown without ``print``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Options:
    """What of a tree is shown; None is the whole forest, and as many levels as fit."""

    event_id: int | None = None
    depth: int | None = None
    row_limit: int = 200


@dataclass(frozen=True, slots=True)
class Line:
    """One slice that is shown."""

    event_id: int
    level: int
    thread: int
    name: str | None
    dur_ns: int
    self_ns: int | None
    device_ns: int | None
    root_ns: int | None
    hidden: int
    """Slices inside it that are deeper than what is shown."""


def text(connection: duckdb.DuckDBPyConnection, options: Options) -> Tree:
    """Draw the host slices of one trace, depth first.

    A last line counts the slices that are not shown.
    """
    options = _checked(options)
    _check_single(connection)
    first, last = _range(connection, options.event_id)
    connection.execute(_PLACED, [options.event_id, first, last])
    levels = connection.sql(
        "SELECT level, count(*) FROM placed GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    limit = options.row_limit if options.row_limit >= 0 else _ALL
    depth = _depth(levels, limit) if options.depth is None else options.depth
    lines = [Line(*row) for row in connection.execute(_SHOWN, [depth, limit]).fetchall()]
    names = _threads(connection) if len({line.thread for line in lines}) > 1 else {}
    return Tree("\n".join(_drawn(lines, names, sum(size for _, size in levels) - len(lines))))


_PLACED: Final = """
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
        row_number() OVER (ORDER BY thread_ns DESC, roots.thread, preorder) AS place
    FROM slices
    JOIN roots ON slices.root_id = roots.root_id
    JOIN threads ON roots.thread = threads.thread"""

_SHOWN: Final = """
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


def _checked(options: Options) -> Options:
    """The options as plain integers."""
    event_id, depth = options.event_id, options.depth
    checked = Options(
        event_id=None if event_id is None else integer("event_id", event_id),
        depth=None if depth is None else integer("depth", depth),
        row_limit=integer("row_limit", options.row_limit),
    )
    if checked.depth is not None and checked.depth < 0:
        raise ParameterError(f"depth: needs 0 or more levels, got {depth}")
    return checked


def _check_single(connection: duckdb.DuckDBPyConnection) -> None:
    traces = connection.sql("SELECT DISTINCT run, rank FROM events ORDER BY ALL").fetchall()
    if len(traces) > 1:
        some = ", ".join(f"{units.visible(run)!r} {rank}" for run, rank in traces[:3])
        raise ParameterError(
            f"a tree is of one (run, rank), and there are {len(traces):,} ({some}"
            f"{', ...' if len(traces) > 3 else ''}); choose one with run and rank"
        )


def _range(connection: duckdb.DuckDBPyConnection, event_id: int | None) -> tuple[int, int]:
    """First and last place in preorder of what is inside an event, itself included."""
    if event_id is None:
        return 0, _ALL
    found = _one(
        connection,
        "SELECT kind, name, preorder, depth, launch_id, last_descendant_id FROM events"
        " WHERE event_id = ?",
        event_id,
    )
    if found is None:
        ends = _one(connection, "SELECT min(event_id), max(event_id) FROM events")
        known = (
            "there are none"
            if ends is None or ends[0] is None
            else f"they are {ends[0]} to {ends[1]}"
        )
        raise UnknownNameError(f"no event {event_id}; {known}")
    kind, name, first, depth, launch, last_id = found
    if first is None:
        launched = "" if launch is None else f"; event {launch} launched it"
        raise ParameterError(
            f"event {event_id} ({_name(name)!r}, {kind}) is no host slice that nests, so it has no "
            f"tree{launched}"
        )
    last = _one(connection, "SELECT preorder FROM events WHERE event_id = ?", last_id)
    if last is None:  # filtered out: up to the next slice that is not deeper
        last = _one(
            connection,
            "SELECT coalesce(min(preorder) - 1, ?) FROM events WHERE preorder > ? AND depth <= ?",
            _ALL,
            first,
            depth,
        )
    return first, first if last is None else last[0]


def _one(
    connection: duckdb.DuckDBPyConnection, query: str, *values: object
) -> tuple[Any, ...] | None:
    return next(iter(connection.execute(query, [*values]).fetchall()), None)


def _depth(levels: list[tuple[int, int]], limit: int) -> int:
    """The deepest level down to which all slices fit, of the levels and the slices of each.

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
        thread: units.visible(f"pid {pid}, tid {tid}" + (f", {name}" if name else ""))
        for thread, pid, tid, name in rows
    }


def _drawn(lines: list[Line], threads: dict[int, str], more: int) -> list[str]:
    """Lines of text; numbers to the left, so that names may be of any length."""
    if not lines and not more:
        return ["no host slices"]
    cells = {
        "total": [units.duration(line.dur_ns) for line in lines],
        "self": [_time(line.self_ns) for line in lines],
        "device": [_time(line.device_ns) for line in lines],
        "%": [_share(line) for line in lines],
        "event": [str(line.event_id) for line in lines],
    }
    if not any(line.device_ns for line in lines):
        del cells["device"]
    widths = {name: max(map(len, [name, *column])) for name, column in cells.items()}
    head = _GAP.join([*(f"{name:>{width}}" for name, width in widths.items()), "name"])
    drawn = [head]
    thread = None
    for number, line in enumerate(lines):
        if threads and line.thread != thread:
            thread = line.thread
            drawn.append(f"thread {thread}: {threads.get(thread, 'unknown')}")
        left = (f"{cells[name][number]:>{width}}" for name, width in widths.items())
        inside = f"  (+{line.hidden:,} inside)" if line.hidden else ""
        drawn.append(_GAP.join([*left, _INDENT * line.level + _name(line.name) + inside]))
    if more:
        hidden = units.plural(more, "slice")
        drawn.append(f"not shown: {hidden}; ask for more depth or rows, or for one event")
    return drawn


def _time(ns: int | None) -> str:
    return "" if ns is None else units.duration(ns)


def _share(line: Line) -> str:
    return units.share(line.dur_ns / line.root_ns) if line.root_ns else ""


def _name(name: str | None) -> str:
    """A name on one line, cut where it is very long."""
    if name is None:
        return "(no name)"
    shown = units.visible(name[: _LONGEST_NAME + 1])
    return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "…"
