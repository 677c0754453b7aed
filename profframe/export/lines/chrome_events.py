"""The events of a trace as Chrome trace JSON, in Kineto's layout.

The arguments of an event are written as they were read. If its source had none, such as a live
profile or a database, its columns are written there under Kineto's names, and columns that Kineto
has no name for under our own member, which the reader removes again.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from profframe.export.lines.batches import Lines, batches
from profframe.export.lines.forms import COLUMNS, JSON, Event, Form
from profframe.export.lines.highlight import Highlight, highlight
from profframe.export.lines.json_macros import MACROS
from profframe.export.lines.overlap_lanes import NO_ENDS, Ends, ends_of_slices
from profframe.readers.chrome.columns import (
    ALLOCATOR_DEVICES,
    INSTANT_CATEGORY,
    MEMORY_NAME,
    OWN_ARGS_KEY,
    OWN_CATEGORY,
    OWN_COLUMNS,
    OWN_KEY,
)
from profframe.schema import DEVICE_KINDS

if TYPE_CHECKING:
    import polars as pl

LONE_ENDS: Final = ("E", "e", "F")
"""Phases of ends among the instants: those without a beginning."""
JSON_FORMATS: Final = ("kineto", "chrome")
"""What `args` hold all columns of."""
_INTEGERS: Final = {
    "external_id": "External id",
    "correlation": "correlation",
    "sequence_nr": "Sequence number",
    "fwd_thread": "Fwd thread id",
    "python_id": "Python id",
    "python_parent_id": "Python parent id",
    "python_module_id": "Python module id",
    "device": "device",
    "stream": "stream",
}
_LISTS: Final = {
    "input_dims": "Input Dims",
    "input_types": "Input type",
    "input_strides": "Input Strides",
    "concrete_inputs": "Concrete Inputs",
}
_TEXTS: Final = {"module_hierarchy": "Module Hierarchy", "stack": "Call stack"}
_MEMORY: Final = {
    "Addr": "address",
    "Bytes": "bytes",
    "Device Type": f"CASE WHEN device_type IS NOT NULL THEN coalesce(list_position("
    f"{list(ALLOCATOR_DEVICES)!r}, device_type::VARCHAR), {len(ALLOCATOR_DEVICES)}) - 1 END",
    "Device Id": "CASE WHEN device_type = 'CPU' THEN -1 ELSE device END",
    "Total Allocated": "total_allocated_bytes",
    "Total Reserved": "total_reserved_bytes",
}
_VARIABLES: Final = f"""
    SET VARIABLE no_device = (
        SELECT count(*) = 0 FROM events WHERE kind IN {DEVICE_KINDS!r} AND dur_ns IS NOT NULL);"""
_OF_LIST: Final = f"""
    SELECT e.*, op_row, CASE WHEN device IS NULL THEN coalesce(charged_ns, 0) END AS charged_ns
    FROM events AS e
    LEFT JOIN (
        SELECT event_id AS op_id, row_number() OVER (ORDER BY event_id) - 1 AS op_row FROM events
    ) USING (op_id)
    LEFT JOIN (
        SELECT coalesce(op_id, launch_id) AS event_id, sum(dur_ns)::BIGINT AS charged_ns
        FROM events WHERE kind IN {DEVICE_KINDS!r} GROUP BY ALL
    ) USING (event_id)
    ORDER BY event_id"""
"""Slices of a list of torch's events, the place of their op, and what is charged to them.

An op's other device time comes from kernels that are not in the trace.
"""
_OF_OTHERS: Final = """
    SELECT *, NULL AS op_row, CASE WHEN getvariable('no_device') THEN 0 END AS charged_ns
    FROM events"""

_WITHOUT_CAPTURES: Final = """
    ALTER VIEW events RENAME TO events_and_captures;
    ALTER VIEW threads RENAME TO threads_and_captures;
    CREATE TEMP VIEW events AS FROM events_and_captures WHERE replays IS NULL;
    CREATE TEMP VIEW threads AS
    FROM threads_and_captures
    WHERE thread NOT IN (SELECT thread FROM events_and_captures WHERE replays IS NOT NULL);"""
"""Captured rows are not exported: they belong to another time, or another file."""


@dataclass(frozen=True, slots=True)
class ChromeEvents:
    """The events of one trace, and the header of its file."""

    trace: Mapping[str, Any]
    """The row of `traces`; empty if there is none."""
    threads: Sequence[Mapping[str, Any]]
    """Rows of `threads`."""
    lines: Lines
    """Events after the names of processes and threads, in the requested form."""
    is_whole: bool
    """Whether all events of the source are there, and no others."""
    places: pa.Table | None = None
    """Where the segments of a path are, for arrows between traces; only for a part of a file."""
    is_marked: bool = False
    """Whether some events are highlighted."""
    ends: Ends = NO_ENDS
    """Ends of slices, for events in columns."""


@dataclass(frozen=True, slots=True)
class TracePlace:
    """The place of a trace among several in one file; by default it is alone.

    Attributes
    ----------
    number
        From 1 on; it is a part of ids that are known outside their process.
    ahead_ns
        By how much the times of what is added are ahead of those in the file.
    tracks_pid, tracks_name
        Process of tracks.
    """

    number: int | None = None
    ahead_ns: int = 0
    tracks_pid: str = OWN_KEY
    tracks_name: str = OWN_KEY

    def set_variables(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set the variables that macros of a connection read."""
        connection.execute("SET VARIABLE place = ?::BIGINT", [self.number])
        connection.execute("SET VARIABLE ahead_ns = ?::BIGINT", [self.ahead_ns])
        connection.execute("SET VARIABLE tracks_pid = ?::VARCHAR", [self.tracks_pid])
        connection.execute("SET VARIABLE tracks_name = ?::VARCHAR", [self.tracks_name])


ALONE: Final = TracePlace()


def chrome_events(
    connection: duckdb.DuckDBPyConnection,
    trace: Mapping[str, Any],
    *,
    is_whole: bool,
    marked: pl.DataFrame | None = None,
    tracks: pl.DataFrame | None = None,
    place: TracePlace = ALONE,
    form: Form = JSON,
) -> ChromeEvents:
    """Prepare the lines of the one trace of a connection.

    ``is_whole`` says that all events are there, so that the file counts as many as its source.
    ``marked`` is for `highlight`, ``tracks`` are rows of `profframe.export.lines.added_tracks`.
    """
    is_part = place.number is not None
    connection.execute("SET preserve_insertion_order = true")
    if connection.sql("SELECT count(replays) > 0 FROM events").fetchall() == [(True,)]:
        connection.execute(_WITHOUT_CAPTURES)
    connection.execute(_VARIABLES if is_part else MACROS + _VARIABLES)  # a part has them already
    connection.execute("SET VARIABLE base_ns = ?::BIGINT", [trace.get("base_ns")])
    place.set_variables(connection)
    marks = Highlight()
    if marked is not None:
        marks = highlight(connection, marked, trace, is_part=is_part)
    threads = connection.sql("FROM threads ORDER BY thread").to_arrow_table().to_pylist()
    _set_lines(connection, threads)
    rare = _Rare.of(connection)
    arrows = None if is_part else marks.arrows(form)
    is_json = trace.get("format") in JSON_FORMATS
    queries = [*_queries(_rows(trace), is_json, rare, marks, arrows, form)]
    lines: Lines = (batch for query in queries for batch in batches(connection.sql(query)))
    if tracks is not None and not tracks.is_empty():
        lines = itertools.chain(lines, track_lines(connection, tracks, form))
    is_whole = is_whole and marks.places is None and tracks is None
    places = None
    if is_part and marks.places is not None:
        places = connection.sql(marks.places).to_arrow_table()
    ends = ends_of_slices(connection, threads) if form is COLUMNS else NO_ENDS
    return ChromeEvents(trace, threads, lines, is_whole, places, marks != Highlight(), ends)


def track_lines(
    connection: duckdb.DuckDBPyConnection, tracks: pl.DataFrame, form: Form = JSON
) -> Lines:
    """Lines of tracks, on a connection that has `MACROS` and the variables of a `TracePlace`."""
    connection.register("_tracks", tracks.with_row_index("number").to_arrow())
    return (batch for query in _tracks(form) for batch in batches(connection.sql(query)))


def ident(text: str) -> str:
    """A name or an id as JSON; what was a number becomes one again."""
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 19
    return text if is_number and str(int(text)) == text else json.dumps(text)


def _set_lines(connection: duckdb.DuckDBPyConnection, threads: Sequence[Mapping[str, Any]]) -> None:
    """Give a connection the process and thread by thread number, also as members of JSON."""
    keys = [""] * (1 + max((row["thread"] for row in threads), default=0))
    pids: list[str | None] = [None] * len(keys)
    tids: list[str | None] = [None] * len(keys)
    for row in threads:
        pids[row["thread"]], tids[row["thread"]] = row["pid"], row["tid"]
        keys[row["thread"]] = "".join(
            f',"{key}":{ident(row[key])}' for key in ("pid", "tid") if row[key] is not None
        )
    for name, values in {"thread_keys": keys, "thread_pids": pids, "thread_tids": tids}.items():
        connection.execute(f"SET VARIABLE {name} = ?::VARCHAR[]", [values])


@dataclass(frozen=True, slots=True)
class _Rare:
    """Flags of rare kinds of rows, whose queries are skipped where there are none."""

    lone_ends: bool
    """Ends without a beginning."""
    on_stack: bool
    """The subset of slices on a stack."""
    apart: bool
    """Asynchronous slices with ids."""
    bound: bool
    """Arrows that slices name."""

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection) -> _Rare:
        """The trace of a connection."""
        rows = (
            f"instants WHERE phase IN {LONE_ENDS!r}",
            "instants WHERE phase = 'E'",
            "events WHERE async_id IS NOT NULL",
            _BOUND,
        )
        query = ", ".join(f"EXISTS (FROM {row})" for row in rows)
        [are_there] = connection.sql(f"SELECT {query}").fetchall()
        return cls(*are_there)


def _queries(  # noqa: PLR0917
    rows: str, is_json: bool, rare: _Rare, marks: Highlight, arrows: str | None, form: Form
) -> Iterator[str]:
    """One query for each table, in a form."""
    args = marks.args.format("json_text(args)" if is_json else f"({_FILLED_ARGS})")
    # What never ended is a begin event; but it must not meet an end that never began.
    unended = "X" if rare.on_stack else "B"
    slice_ = replace(
        _OF_LINE,
        phase=f"CASE WHEN dur_ns IS NULL THEN '{unended}' ELSE 'X' END",
        name=_JOINED_NAME,
        time_ns="start_ns",
        dur_ns="dur_ns",
        arrow=_IS_BOUND if rare.bound else None,
        mark=marks.member,
        args=args,
        number="event_id",
    )
    mark = replace(
        _OF_LINE,
        phase="phase",
        dur_ns="dur_ns",
        scope="scope",
        operation="instant_id",
        args="json_text(args)",
    )
    if rare.lone_ends or rare.apart:
        yield _in_order_of_ends(rows, slice_, mark, rare, form)
    else:
        # If arrows are looked up, rows may come in another order.
        order = "ORDER BY event_id" * rare.bound
        yield f"SELECT {form.selected(slice_)} FROM ({rows}) {order}"
    yield f"SELECT {form.selected(_ALLOCATION)} FROM memory"
    yield f"""
        SELECT {form.selected(_END_OF_ARROW)}
        FROM flows
        WHERE binding_point IS DISTINCT FROM 'bind_id'"""
    if arrows is not None:
        yield arrows
    # An event has a row for each value, and the row of the first is written.
    yield f"""
        SELECT {form.selected(_VALUE)}
        FROM counters
        WHERE event_id IS NULL AND (series IS NULL OR args IS NULL OR NOT json_valid(args)
              OR series = CASE
                  WHEN json_keys(args) = [''] THEN coalesce(name, '') ELSE json_keys(args)[1]
              END)"""
    yield f"""
        SELECT {form.selected(mark)}
        FROM instants WHERE coalesce(phase NOT IN {LONE_ENDS!r}, true)"""


def _in_order_of_ends(rows: str, slice_: Event, mark: Event, rare: _Rare, form: Form) -> str:
    """Slices, some of which are operations with a begin and an end, and ends without a begin.

    Readers number threads as they appear, so the end of an operation comes before any event of a
    later thread. It also comes before begins at its time, which it would close otherwise, and
    before ends without a begin, which would close its own begin.
    """
    begun, ends = form.selected(slice_), ""
    if rare.apart:
        is_apart = "async_id IS NOT NULL"
        begin = replace(slice_, phase="'b'", dur_ns=None, operation="async_id")
        end = replace(
            _OF_LINE,
            phase="'e'",
            name=_JOINED_NAME,
            time_ns="start_ns + dur_ns",
            operation="async_id",
            number="event_id",
        )
        ends = f"""
                UNION ALL
                SELECT {form.selected(begin)}, seen, 2, event_id, 0 FROM slices WHERE {is_apart}
                UNION ALL
                SELECT {form.selected(end)}, seen, CASE WHEN dur_ns = 0 THEN 2 ELSE 0 END, event_id,
                       1
                FROM slices WHERE {is_apart} AND dur_ns >= 0"""
    return f"""
            WITH slices AS (
                SELECT *, max(thread) OVER (ORDER BY event_id) AS seen FROM ({rows}))
            SELECT {form.names} FROM (
                SELECT {begun}, seen, 2 AS part, event_id AS place, 0 AS nth
                FROM slices WHERE async_id IS NULL{ends}
                UNION ALL
                SELECT {form.selected(mark)}, max(thread) OVER (ORDER BY place), 1, place, 0
                FROM (SELECT *, row_number() OVER () AS place FROM instants)
                WHERE phase IN {LONE_ENDS!r})
            ORDER BY seen, part, place, nth"""


_BOUND: Final = "flows WHERE binding_point = 'bind_id'"
_IS_BOUND: Final = f"event_id IN (SELECT event_id FROM {_BOUND})"
_OF_LINE: Final = Event("phase", "time_ns", category="category", name="name", pid="pid", tid="tid")
_ALLOCATED: Final = ", ".join(f"""',"{key}":' || ({value})""" for key, value in _MEMORY.items())
_OWN_OF_MEMORY: Final = f"""
    ',"{OWN_ARGS_KEY}":{{"{OWN_CATEGORY}":' || to_json(category) || '}}'"""
_ALLOCATION: Final = Event(
    "'i'",
    "time_ns",
    category=f"'{INSTANT_CATEGORY}'",
    name=f"'{MEMORY_NAME}'",
    thread="thread",
    scope="'t'",
    args=f"'{{' || concat({_ALLOCATED}, {_OWN_OF_MEMORY})[2:] || '}}'",
)
_END_OF_ARROW: Final = replace(
    _OF_LINE, id="flow_id", binding_point="binding_point", args="json_text(args)"
)
_VALUE: Final = replace(
    _OF_LINE,
    phase="'C'",
    counter_id="counter_id",
    args="""coalesce(json_text(args), '{' || to_json(series) || ':' || value || '}')""",
)
_OF_TRACK: Final = Event(
    "phase",
    "time_ns - getvariable('ahead_ns')",
    category=f"'{OWN_KEY}'",
    name="name",
    pid="getvariable('tracks_pid')",
    args="args",
)


def _tracks(form: Form) -> Iterator[str]:
    """Queries of added tracks; they come last, so that event_ids of the trace stay."""
    label = replace(_OF_TRACK, phase="'M'", time_ns="NULL", category=None)
    process = replace(
        label,
        name="'process_name'",
        tid="'0'",
        args="""'{"name":' || to_json(getvariable('tracks_name')) || '}'""",
    )
    yield f"SELECT {form.selected(process)} FROM (FROM _tracks LIMIT 1)"
    thread = replace(
        label, name="'thread_name'", tid="line", args="""'{"name":' || to_json(line) || '}'"""
    )
    yield f"""
        SELECT {form.selected(thread)}
        FROM _tracks WHERE dur_ns IS NOT NULL GROUP BY line ORDER BY min(number)"""
    counter = replace(_OF_TRACK, phase="'C'")
    yield f"SELECT {form.selected(counter)} FROM _tracks WHERE dur_ns IS NULL ORDER BY number"
    slice_ = replace(_OF_TRACK, phase="'X'", tid="line", dur_ns="dur_ns")
    yield f"SELECT {form.selected(slice_)} FROM _tracks WHERE dur_ns IS NOT NULL ORDER BY number"


_JOINS: Final = r"""(
    kind = 'host_op' AND regexp_full_match(name, '\w+::\w+')
    AND regexp_full_match(overload_name, '\w+'))"""
_JOINED_NAME: Final = f"CASE WHEN {_JOINS} THEN name || '.' || overload_name ELSE name END"
"""If overloads were recorded, Kineto's name of an operator ends in its overload."""
_OWN_VALUES: Final = {
    "overload_name": f"CASE WHEN NOT {_JOINS} THEN overload_name END",
    "kernel_ns": """
        nullif(CASE WHEN is_legacy THEN device_ns
                    ELSE greatest(self_device_ns - charged_ns, 0) END, 0)""",
    "named_by": "CASE WHEN launch_id IS NULL THEN op_row END",
}
"""Columns without the plain value: `kernel_ns` belongs to kernels that are not in the trace."""


def _rows(trace: Mapping[str, Any]) -> str:
    """Slices; those not from JSON, with what their arguments already contain."""
    if trace.get("format") in JSON_FORMATS:
        return "FROM events"
    is_list = (trace.get("format"), trace.get("clock")) == ("torch", "relative")
    keys = json.dumps(dict.fromkeys((_INTEGERS | _LISTS | _TEXTS).values(), "JSON"))
    return f"""
        SELECT * REPLACE (trim(args, E' \\t\\r\\n') AS args),
               from_json(CASE WHEN json_valid(args) THEN args END, '{keys}') AS given
        FROM ({_OF_LIST if is_list else _OF_OTHERS})"""


def _added(columns: Mapping[str, str], text: str) -> list[str]:
    return [
        f"""CASE WHEN given."{key}" IS NULL THEN ',"{key}":' || {text.format(column)} END"""
        for column, key in columns.items()
    ]


def _filled_args() -> str:
    """Arguments of a slice without Kineto's: its own, then those made from columns."""
    added = ", ".join(
        [
            *_added(_INTEGERS, "{}"),
            *_added(_LISTS, "list_text({}::VARCHAR)"),
            *_added(_TEXTS, "to_json({})"),
        ]
    )
    own = ", ".join(
        f"""',"{column}":' || to_json({_OWN_VALUES.get(column, column)})"""
        for column in OWN_COLUMNS
    )
    is_object = r"args[1] = '{' AND json_valid(args) AND NOT regexp_full_match(args, '\{\s*\}')"
    kept = f"""CASE WHEN {is_object} THEN args[:-2] || ',' ELSE '{{' END"""
    other = f"""CASE WHEN NOT ({is_object}) THEN ',"args":' || json_text(args) END"""
    return f"""
        {kept} || '"{OWN_ARGS_KEY}":{{' || concat({other}, {own})[2:] || '}}'
        || concat({added}) || '}}'
    """


_FILLED_ARGS: Final = _filled_args()
