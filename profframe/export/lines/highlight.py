"""Highlighted events in a Chrome trace: marked in their arguments, in red, joined by arrows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe.errors import ParameterError
from profframe.export.lines.batches import Lines, batches
from profframe.export.lines.forms import Event, Form

MARK: Final = '"critical":1'
"""The argument that marks an event."""
CATEGORY: Final = "critical_path"
"""Category of the arrows."""

NOTHING_MARKED: Final = "highlight: none of its events are in this trace"
_PATH: Final = ("start_ns", "dur_ns", "edge")
_MACROS: Final = f"""
    -- Bits, as a join would not keep the order of the events.
    CREATE TEMP MACRO is_marked(id) AS
        coalesce(getvariable('marked')[(id >> 5) + 1] >> (id & 31) & 1 = 1, false);
    CREATE TEMP MACRO with_mark(args) AS
        CASE WHEN contains(args, '{MARK}') THEN args ELSE with_added(args, '{MARK}') END;"""
_PLACES: Final = """
    SELECT number, edge, begin_ns - getvariable('ahead_ns') AS begin_ns,
           end_ns - getvariable('ahead_ns') AS end_ns, pid, tid,
           coalesce(getvariable('place')::BIGINT << 32, 0) + thread AS line, start_ns AS from_ns,
           greatest(start_ns + dur_ns - 1, start_ns) AS to_ns
    FROM _path AS path JOIN events ON path.event_id = events.event_id"""
_LAST_ID: Final = "(SELECT coalesce(max(try_cast(flow_id AS BIGINT)), 0) FROM flows)"
_ARROW_ID: Final = "arrow_id::VARCHAR"
_START: Final = Event(
    "'s'",
    "greatest(a.from_ns, least(a.end_ns, a.to_ns))",
    category=f"'{CATEGORY}'",
    name="a.edge",
    pid="a.pid",
    tid="a.tid",
    id=_ARROW_ID,
)
_END: Final = replace(
    _START,
    phase="'f'",
    time_ns="greatest(b.from_ns, least(b.begin_ns, b.to_ns))",
    pid="b.pid",
    tid="b.tid",
    binding_point="'e'",
)


def _arrows(places: str, last_id: str, form: Form) -> str:
    """A query for the arrows of a path, by the places of its segments; ids follow a given one."""
    return f"""
        WITH places AS ({places}),
        pairs AS (SELECT places AS a, lead(places) OVER (ORDER BY number) AS b FROM places),
        arrows AS (
            SELECT a, b, {last_id} + row_number() OVER (ORDER BY a.number) AS arrow_id
            FROM pairs WHERE a.line <> b.line
        )
        SELECT {form.names} FROM (
            SELECT {form.selected(_START)}, arrow_id, 0 AS part FROM arrows
            UNION ALL
            SELECT {form.selected(_END)}, arrow_id, 1 FROM arrows
        )
        ORDER BY arrow_id, part"""


@dataclass(frozen=True, slots=True)
class Highlight:
    """SQL that highlights events; by default none.

    Attributes
    ----------
    args, member
        Patterns for the arguments of an event, and for what follows them.
    places
        A query for where the segments of a path are, or None.
    """

    args: str = "{}"
    member: str = "NULL"
    places: str | None = None

    def arrows(self, form: Form) -> str | None:
        """A query for the arrows of a path in one trace; None if there is none."""
        return None if self.places is None else _arrows(self.places, _LAST_ID, form)


def highlight(
    connection: duckdb.DuckDBPyConnection,
    events: pl.DataFrame,
    trace: Mapping[str, Any],
    *,
    is_part: bool = False,
) -> Highlight:
    """Prepare a connection that has `MACROS` for marks.

    Events have an ``event_id``, and ``run`` and ``rank`` if they belong to several traces. Rows
    with ``start_ns``, ``dur_ns`` and ``edge`` are a path: arrows join each to the next one on
    another line. With ``is_part``, none of them has to be in this trace.
    """
    if "event_id" not in events.columns or not events.schema["event_id"].is_integer():
        columns = ", ".join(events.columns)
        raise ParameterError(f"highlight: needs a column event_id of integers, found ({columns})")
    events = events.with_columns(pl.int_range(pl.len()).alias("_number"))
    for key in ("run", "rank"):
        if key in events.columns and key in trace:
            events = events.filter(pl.col(key) == trace[key])
    chosen = events.filter(pl.col("event_id") >= 0)
    ids = chosen["event_id"].unique().sort().to_numpy().astype(np.int64)
    last_id = connection.sql("SELECT max(event_id) FROM events").fetchall()[0][0]
    ids = ids[ids <= (-1 if last_id is None else last_id)]
    if not ids.size and is_part:
        return Highlight()
    if not ids.size:
        raise ParameterError(NOTHING_MARKED)
    words = np.bincount(ids >> 5, 2.0 ** (ids & 31)).astype(np.int64)
    connection.execute("SET VARIABLE marked = ?::BIGINT[]", [words.tolist()])
    connection.execute(_MACROS)
    places = None
    if set(_PATH) <= set(chosen.columns):
        end = pl.col("start_ns") + pl.col("dur_ns")
        path = chosen.select("event_id", "edge", number="_number", begin_ns="start_ns", end_ns=end)
        connection.register("_path", path.to_arrow())
        places = _PLACES
    return Highlight(
        "CASE WHEN is_marked(event_id) THEN with_mark({0}) ELSE {0} END",
        """CASE WHEN is_marked(event_id) THEN ',"cname":"terrible"' END""",
        places,
    )


def arrows_between(connection: duckdb.DuckDBPyConnection, places: pa.Table, form: Form) -> Lines:
    """Arrows of a path over several traces, on a connection that has `MACROS`.

    ``places`` has the rows of the query `Highlight.places` of each.
    """
    connection.register("_places", places)
    return batches(connection.sql(_arrows("FROM _places", "0", form)))
