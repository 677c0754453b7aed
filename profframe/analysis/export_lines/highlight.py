"""Events that stand out in a Chrome trace: marked in their arguments, in red, joined by arrows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
import polars as pl

from profframe.errors import ParameterError

MARK: Final = '"critical":1'
"""What the arguments of a marked event have."""
CATEGORY: Final = "critical_path"
"""Category of the arrows."""

_PATH: Final = ("start_ns", "dur_ns", "edge")
_MACROS: Final = f"""
    -- Bits, as a join would not keep the order of the events.
    CREATE TEMP MACRO is_marked(id) AS
        coalesce(getvariable('marked')[(id >> 5) + 1] >> (id & 31) & 1 = 1, false);
    CREATE TEMP MACRO with_mark(args) AS
        CASE WHEN contains(args, '{MARK}') THEN args ELSE with_added(args, '{MARK}') END;"""
_ARROWS: Final = f"""
    WITH places AS (
        SELECT path.*, events.pid, events.tid, events.thread, events.start_ns AS from_ns,
               greatest(events.start_ns + events.dur_ns - 1, events.start_ns) AS to_ns
        FROM _path AS path JOIN events ON path.event_id = events.event_id
    ),
    pairs AS (SELECT places AS a, lead(places) OVER (ORDER BY number) AS b FROM places),
    used AS (SELECT coalesce(max(try_cast(flow_id AS BIGINT)), 0) AS id FROM flows),
    arrows AS (
        SELECT a, b, used.id + row_number() OVER (ORDER BY a.number) AS id
        FROM pairs, used WHERE a.thread <> b.thread
    )
    SELECT line FROM (
        SELECT id, 0 AS part,
               concat(',\n{{"ph":"s"', common('{CATEGORY}', a.edge, a.pid, a.tid),
                      at_time(greatest(a.from_ns, least(a.end_ns, a.to_ns)), NULL), ',"id":', id,
                      '}}') AS line
        FROM arrows
        UNION ALL
        SELECT id, 1,
               concat(',\n{{"ph":"f"', common('{CATEGORY}', a.edge, b.pid, b.tid),
                      at_time(greatest(b.from_ns, least(b.begin_ns, b.to_ns)), NULL), ',"id":', id,
                      ',"bp":"e"}}')
        FROM arrows
    )
    ORDER BY id, part"""


@dataclass(frozen=True, slots=True)
class Highlight:
    """SQL that makes the events stand out; as it is, none do.

    Attributes
    ----------
    args, member
        Patterns for the arguments of an event, and for what follows them.
    arrows
        A query of lines, or None.
    """

    args: str = "{}"
    member: str = "NULL"
    arrows: str | None = None


def highlight(
    connection: duckdb.DuckDBPyConnection, events: pl.DataFrame, trace: Mapping[str, Any]
) -> Highlight:
    """Prepare a connection that has `MACROS` for marks.

    Events have an ``event_id``, and ``run`` and ``rank`` where they are of several traces. Rows
    with ``start_ns``, ``dur_ns`` and ``edge`` are a path: arrows join each to the next on another
    line.
    """
    if "event_id" not in events.columns or not events.schema["event_id"].is_integer():
        columns = ", ".join(events.columns)
        raise ParameterError(f"highlight: needs a column event_id of integers, found ({columns})")
    for key in ("run", "rank"):
        if key in events.columns and key in trace:
            events = events.filter(pl.col(key) == trace[key])
    chosen = events.filter(pl.col("event_id") >= 0)
    ids = chosen["event_id"].unique().sort().to_numpy().astype(np.int64)
    last_id = connection.sql("SELECT max(event_id) FROM events").fetchall()[0][0]
    ids = ids[ids <= (-1 if last_id is None else last_id)]
    if not ids.size:
        raise ParameterError("highlight: none of its events is in this trace")
    words = np.bincount(ids >> 5, 2.0 ** (ids & 31)).astype(np.int64)
    connection.execute("SET VARIABLE marked = ?::BIGINT[]", [words.tolist()])
    connection.execute(_MACROS)
    arrows = None
    if set(_PATH) <= set(chosen.columns):
        end = pl.col("start_ns") + pl.col("dur_ns")
        path = chosen.select("event_id", "edge", begin_ns="start_ns", end_ns=end)
        connection.register("_path", path.with_row_index("number").to_arrow())
        arrows = _ARROWS
    return Highlight(
        "CASE WHEN is_marked(event_id) THEN with_mark({0}) ELSE {0} END",
        """CASE WHEN is_marked(event_id) THEN ',"cname":"terrible"' END""",
        arrows,
    )
