"""Several ranks in one Chrome trace: a process group each, on one clock, and arrows between them.

Processes get new numbers, and ids that are known outside their process get the place of their trace
(`profframe.readers.chrome.job` reverts both). Times are on one clock. The events of a trace are
written like those of a file with one trace, from views that have all this already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import duckdb
import polars as pl
import pyarrow as pa

from profframe.errors import ParameterError
from profframe.export.lines.batches import Lines, batches
from profframe.export.lines.chrome_events import (
    ALONE,
    ChromeEvents,
    TracePlace,
    chrome_events,
    track_lines,
)
from profframe.export.lines.forms import JSON, Event, Form
from profframe.export.lines.highlight import NOTHING_MARKED, arrows_between
from profframe.export.lines.json_macros import MACROS
from profframe.query.header import Answer
from profframe.readers.chrome.columns import OWN_KEY
from profframe.readers.chrome.job import BIND_ID

COLLECTIVE: Final = "collective"
"""Category of the arrows between the ranks of a collective."""
CLOCKS: Final = ("corrected", "recorded")
_STRIDE: Final = 1000
"""Maximum processes of a trace, or ten times as many, and so on."""
_LATE_NS: Final = 10**15
"""Times beyond this get a base in the file: viewers keep them as floating-point microseconds."""

STREAMS: Final = Answer(
    "streams",
    """
    SELECT run, rank, thread, min(stream) AS stream
    FROM events
    WHERE stream IS NOT NULL
    GROUP BY run, rank, thread
    ORDER BY run, rank, thread""",
)
ARRIVALS: Final = """
    WITH matches AS (FROM collective_matches(events, traces)),
    waits AS (FROM collective_waits(matches, traces, {corrected}))
    SELECT
        waits.run, waits.match, waits.kind, waits.rank, waits.last_rank, events.thread, events.tid,
        events.start_ns, events.start_ns + events.dur_ns AS end_ns
    FROM waits
    JOIN events
        ON waits.run = events.run AND waits.rank = events.rank AND waits.event_id = events.event_id
    WHERE waits.last_rank IS NOT NULL
    ORDER BY waits.run, waits.match, waits.rank"""
"""Where the ranks of each collective are, and which one came last."""

_VIEWS: Final = f"""
    CREATE OR REPLACE TEMP MACRO pid_of(thread) AS
        coalesce(getvariable('pids')[thread + 1], getvariable('pids')[1]);
    CREATE OR REPLACE TEMP MACRO shared_json(id) AS CASE
        WHEN json_type(id) IN ('UBIGINT', 'BIGINT') THEN shared_id(id::VARCHAR)
        ELSE to_json(concat(getvariable('place'), '/', id->>'$')) END;
    CREATE OR REPLACE TEMP MACRO bound_args(args) AS replace(
        args, regexp_extract(args, '{BIND_ID}', 0),
        concat(regexp_extract(args, '{BIND_ID}', 1), shared_json(args->'$.bind_id')));
    ALTER VIEW events RENAME TO events_of_trace;
    ALTER VIEW threads RENAME TO threads_of_trace;
    CREATE TEMP VIEW events AS
    SELECT * REPLACE (
        {{args}} start_ns - getvariable('ahead_ns') AS start_ns, pid_of(thread) AS pid)
    FROM events_of_trace;
    CREATE TEMP VIEW threads AS
    SELECT threads_of_trace.* REPLACE (
        lines.pid AS pid, lines.process_name AS process_name,
        lines.process_sort_index AS process_sort_index, lines.thread_name AS thread_name)
    FROM threads_of_trace JOIN _lines AS lines ON threads_of_trace.thread = lines.thread;"""
_BOUND_ARGS: Final = """
    CASE WHEN event_id IN (SELECT event_id FROM flows WHERE binding_point = 'bind_id')
    THEN bound_args(args) ELSE args END AS args,"""
_OTHER_VIEWS: Final = "".join(
    f"""
    ALTER VIEW {table} RENAME TO {table}_of_trace;
    CREATE TEMP VIEW {table} AS
    SELECT * REPLACE (time_ns - getvariable('ahead_ns') AS time_ns{pid}) FROM {table}_of_trace;"""
    for table, pid in {
        "memory": "",
        **dict.fromkeys(("flows", "counters", "instants"), ", pid_of(thread) AS pid"),
    }.items()
)
_ARRIVED: Final = Event(
    "'s'",
    "last.start_ns",
    category=f"'{COLLECTIVE}'",
    name="own.kind",
    pid="last.pid",
    tid="last.tid",
    id="arrow_id::VARCHAR",
)
_AWAITED: Final = replace(
    _ARRIVED, phase="'f'", time_ns="at_ns", pid="own.pid", tid="own.tid", binding_point="'e'"
)
_COLLECTIVES: Final = """
    WITH pairs AS (
        SELECT last, own, greatest(own.start_ns, least(last.start_ns, own.end_ns - 1)) AS at_ns
        FROM _arrivals AS own
        JOIN _arrivals AS last
            ON own.run = last.run AND own.match = last.match AND own.last_rank = last.rank
        WHERE own.rank <> own.last_rank
    ),
    arrows AS (
        SELECT *, getvariable('first_id') + row_number() OVER (
            ORDER BY own.run, own.match, own.rank, own.start_ns, own.end_ns, own.pid, own.tid
        ) AS arrow_id
        FROM pairs WHERE at_ns >= last.start_ns
    )
    SELECT {names} FROM (
        SELECT {arrived}, arrow_id, 0 AS part FROM arrows
        UNION ALL
        SELECT {awaited}, arrow_id, 1 FROM arrows
    )
    ORDER BY arrow_id, part"""
"""From where the last rank came to where the others were then; those that had left get none."""

Row = Mapping[str, Any]
Streams = Mapping[int, int]
"""Stream of a thread, by its number."""


@dataclass(frozen=True, slots=True)
class RankPart:
    """One of the traces of a file."""

    trace: Row
    """Its row of `traces`."""
    place: TracePlace
    offset_ns: int | None
    """By how much its clock is ahead, and what is subtracted from its times; None if not known."""
    threads: Sequence[Row]
    """Its rows of `threads`."""
    lines: Sequence[Row]
    """Its threads by their names in the file."""
    processes: Sequence[Row]
    """The ids of its processes in the file, and the original ones."""
    named_threads: Sequence[tuple[str, str]]
    """Threads without their own name."""

    @property
    def pids(self) -> list[str]:
        """Process in the file by number of a thread."""
        pids = [""] * (1 + max((line["thread"] for line in self.lines), default=0))
        for line in self.lines:
            pids[line["thread"]] = line["pid"]
        return pids


Connect: TypeAlias = "Callable[[Row | None], AbstractContextManager[duckdb.DuckDBPyConnection]]"
"""Returns a connection with a view per table of one (run, rank), or of all for None."""


@dataclass(slots=True)
class MergedFile:
    """The content of one file; call `events` for each part, and then `between`."""

    parts: Sequence[RankPart]
    clocks: str
    base_ns: int | None
    """The moment that the times in the file count from."""
    connect: Connect
    watch: Callable[[Lines, str], Lines]
    """Gets each batch of lines as it is written."""
    is_whole: bool
    form: Form = JSON
    marked: pl.DataFrame | None = None
    tracks: Mapping[int | None, pl.DataFrame] | None = None
    """Rows of tracks by the place of the trace; None for those of no trace."""
    arrivals: pl.DataFrame | None = None
    _places: list[pa.Table] = field(default_factory=list)
    _is_marked: bool = False

    @property
    def first_ns(self) -> int:
        """A moment on the clock of the file before which there is nothing."""
        tracks = self.tracks or {}
        times = [first_time({}, tracks.get(None))]
        for part in self.parts:
            place = part.place
            times.append(first_time(part.trace, tracks.get(place.number), place.ahead_ns))
        return min((ns for ns in times if ns is not None), default=0)

    @contextmanager
    def events(self, part: RankPart) -> Iterator[ChromeEvents]:
        """The events of one trace, while the block lasts."""
        with self.connect(part.trace) as connection:
            _prepare(connection, part)
            trace = {**part.trace, "base_ns": self.base_ns}
            added = None if self.tracks is None else self.tracks.get(part.place.number)
            events = chrome_events(
                connection,
                trace,
                is_whole=self.is_whole,
                marked=self.marked,
                tracks=added,
                place=part.place,
                form=self.form,
            )
            self._is_marked |= events.is_marked
            if events.places is not None:
                self._places.append(events.places)
            title = f"rank {part.trace['rank']}"
            yield replace(events, lines=self.watch(events.lines, title))

    @contextmanager
    def between(self) -> Iterator[Lines]:
        """Content of no single trace: arrows between traces, and tracks of the whole job.

        Raises
        ------
        ParameterError
            Nothing of what was to be highlighted is in the file.
        """
        if self.marked is not None and not self._is_marked:
            raise ParameterError(NOTHING_MARKED.replace("this trace", "these traces"))
        with self.connect(None) as connection:
            connection.execute(MACROS)
            connection.execute("SET VARIABLE base_ns = ?::BIGINT", [self.base_ns])
            ALONE.set_variables(connection)
            yield self._between(connection)

    def _between(self, connection: duckdb.DuckDBPyConnection) -> Lines:
        arrows = 0
        if self._places:
            for batch in arrows_between(connection, pa.concat_tables(self._places), self.form):
                arrows += len(batch) // 2
                yield batch
        if self.arrivals is not None:
            connection.execute("SET VARIABLE first_id = ?::BIGINT", [arrows])
            connection.register("_arrivals", self._arrivals(self.arrivals).to_arrow())
            form = self.form
            query = _COLLECTIVES.format(
                names=form.names, arrived=form.selected(_ARRIVED), awaited=form.selected(_AWAITED)
            )
            yield from batches(connection.sql(query))
        if self.tracks is not None and None in self.tracks:
            yield from track_lines(connection, self.tracks[None], self.form)

    def _arrivals(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Places of collectives in the file: on its clock, by its processes."""
        threads = pl.DataFrame(
            [
                {
                    "run": part.trace["run"],
                    "rank": part.trace["rank"],
                    "thread": line["thread"],
                    "pid": line["pid"],
                    "ahead": part.place.ahead_ns,
                }
                for part in self.parts
                for line in part.lines
            ],
            schema={
                "run": pl.String,
                "rank": pl.Int32,
                "thread": pl.Int32,
                "pid": pl.String,
                "ahead": pl.Int64,
            },
        )
        times = [pl.col(name) - pl.col("ahead") for name in ("start_ns", "end_ns")]
        joined = rows.join(threads, on=["run", "rank", "thread"], maintain_order="left")
        return joined.with_columns(times)


def _prepare(connection: duckdb.DuckDBPyConnection, part: RankPart) -> None:
    """Views of a trace as it is in the file."""
    part.place.set_variables(connection)
    connection.execute(MACROS)
    connection.execute("SET VARIABLE pids = ?::VARCHAR[]", [part.pids])
    connection.register("_lines", pa.Table.from_pylist([*part.lines], _LINES))
    bound = "FROM flows WHERE binding_point = 'bind_id' LIMIT 1"
    args = _BOUND_ARGS if connection.sql(bound).fetchall() else ""
    connection.execute(_VIEWS.format(args=args) + _OTHER_VIEWS)


_LINES: Final = pa.schema(
    {
        "thread": pa.int32(),
        "pid": pa.string(),
        "process_name": pa.string(),
        "process_sort_index": pa.int64(),
        "thread_name": pa.string(),
    }
)


PROCESS_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "process_name": "name",
        "process_labels": "labels",
        "process_sort_index": "sort_index",
    }
)
"""Labels of a process, and the argument of each."""


def parts_of(
    traces: Sequence[Row],
    threads: Sequence[Row],
    streams: Mapping[tuple[str, int, int], int],
    offsets: Mapping[tuple[str, int], int],
) -> list[RankPart]:
    """How each of the traces is written, by run and rank.

    Parameters
    ----------
    traces, threads
        Rows of these tables, in order.
    streams
        Stream of a thread, by run, rank and number, for threads that are streams.
    offsets
        What to subtract from the times, by run and rank.
    """
    with_runs = len({trace["run"] for trace in traces}) > 1
    by_trace: dict[tuple[str, int], list[Row]] = {_of(trace): [] for trace in traces}
    for thread in threads:
        by_trace.setdefault(_of(thread), []).append(thread)
    most = max((len({row["pid"] for row in rows}) for rows in by_trace.values()), default=0)
    stride = _STRIDE
    while stride <= most + 1:
        stride *= 10
    parts = []
    for number, trace in enumerate(traces, 1):
        key = _of(trace)
        title = f"rank {trace['rank']}"
        if with_runs:
            title = f"{trace['run']} {title}"
        own = by_trace[key]
        streams_of = {line: stream for (*at, line), stream in streams.items() if tuple(at) == key}
        place = TracePlace(number, offsets.get(key, 0), str(number * stride), f"{title}: {OWN_KEY}")
        parts.append(_part(trace, place, offsets.get(key), own, streams_of))
    return parts


def _of(row: Row) -> tuple[str, int]:
    return row["run"], row["rank"]


def _part(
    trace: Row, place: TracePlace, offset_ns: int | None, threads: Sequence[Row], streams: Streams
) -> RankPart:
    title = place.tracks_name.removesuffix(f": {OWN_KEY}")
    first: dict[str | None, Row] = {}
    for row in threads:
        first.setdefault(row["pid"], row)

    def order(pid: str | None) -> tuple[bool, int]:
        index = first[pid]["process_sort_index"]
        return index is None, index or 0

    base = int(place.tracks_pid)
    pids = {pid: base + k for k, pid in enumerate(sorted(first, key=order), 1)}
    processes: list[Row] = [
        {"pid": base, "was": OWN_KEY, "labels": {"process_name": {"name": OWN_KEY}}}
    ]
    processes += [
        {"pid": pids[pid], "was": pid, "labels": _labels_of(row)} for pid, row in first.items()
    ]
    lines, named = [], []
    for row in threads:
        name = row["thread_name"]
        if name is None and row["tid"] is not None and row["thread"] in streams:
            name = f"stream {streams[row['thread']]}"
            named.append((str(pids[row["pid"]]), row["tid"]))
        lines.append(
            {
                "thread": row["thread"],
                "pid": str(pids[row["pid"]]),
                "process_name": f"{title}: {_name_of(first[row['pid']])}",
                "process_sort_index": pids[row["pid"]],
                "thread_name": name,
            }
        )
    return RankPart(trace, place, offset_ns, threads, lines, processes, named)


def _labels_of(row: Row) -> dict[str, object]:
    return {
        label: {argument: row[label]}
        for label, argument in PROCESS_LABELS.items()
        if row[label] is not None
    }


def _name_of(process: Row) -> str:
    """The name of a process after its rank."""
    name, labels = process["process_name"], process["process_labels"]
    if name is None:
        name = "no process" if process["pid"] is None else f"process {process['pid']}"
    return name if not labels or labels.strip() in name else f"{name} ({labels.strip()})"


def first_time(trace: Row, tracks: pl.DataFrame | None, ahead_ns: int = 0) -> int | None:
    """The earliest time of a trace and of tracks; None if there is none."""
    times = [trace.get("start_ns")]
    if tracks is not None:
        times += tracks.select(pl.col("time_ns").min())["time_ns"].to_list()
    return min((ns - ahead_ns for ns in times if ns is not None), default=None)


def base_of(parts: Sequence[RankPart]) -> int | None:
    """The moment that times in a file count from: the earliest base, else the first late time."""
    bases: list[int] = [
        part.trace["base_ns"] for part in parts if part.trace["base_ns"] is not None
    ]
    if bases:
        return min(bases)
    starts: list[int] = [
        part.trace["start_ns"] - part.place.ahead_ns
        for part in parts
        if part.trace["start_ns"] is not None
    ]
    first = min(starts, default=0)
    return first // 1000 * 1000 if first > _LATE_NS else None


def check_clocks(parts: Sequence[RankPart]) -> None:
    """Raise an error for clocks with different origins that nothing compares."""
    clocks = {part.trace["clock"] for part in parts}
    unknown = [part for part in parts if part.offset_ns is None]
    if len(clocks) > 1 and unknown:
        trace = unknown[0].trace
        raise ParameterError(
            f"the traces are on different clocks ({', '.join(sorted(clocks))}), and no collective "
            "says "
            f"by how much that of run {trace['run']!r}, rank {trace['rank']} differs: choose some "
            "with .filter(runs=..., ranks=...), or keep times as they are with clocks='recorded'"
        )
