"""The critical path of a job: through all ranks of a run, on one clock.

The path of one rank ends where it waits for another one: in a collective. Here it continues on the
rank that came last. What is left of the collective is its transfer, and the waiting of the others
is replaced by what that rank did meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe.analysis.clocks import offsets
from profframe.analysis.critical_path import graph, rank_rows
from profframe.analysis.critical_path.busy import split_idle
from profframe.analysis.critical_path.graph import (
    MEETING,
    NONE,
    WORK,
    Graph,
    HostSlices,
    Points,
    Works,
)
from profframe.analysis.critical_path.segments import (
    CALLS,
    CriticalPath,
    RankedStretches,
    Stretches,
    described,
    walk,
)
from profframe.analysis.critical_path.source import RankSource, SingleRank, of_several
from profframe.facts.arrays import last_equal
from profframe.intervals import Ints
from profframe.query.header import Answer
from profframe.query.run import prepare, select
from profframe.query.selection import integer

Connect = Callable[[int | None], AbstractContextManager[duckdb.DuckDBPyConnection]]
"""A connection to the rows of one rank, or of all."""

_EVENTS: Final = 1 << 40
_THREADS: Final = 1 << 24
"""Maximum events and threads of a rank: those of the next rank are numbered from there on."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Meetings:
    """Who takes part in collectives of two ranks or more, and by how much clocks are ahead.

    Attributes
    ----------
    match, rank, event : Ints
        One row per rank of a collective: which one, place of the rank among all, ``event_id``.
    start, end : Ints
        From its start to its end, on the clock of the job.
    numbered : Ints
        1: a number from the source says which belong together; 0: their order does.
    message : Ints
        1: it is a message between two ranks.
    bus_bytes : Ints
        Minimum bytes that pass the slowest link; -1 if not known.
    ahead : list of int
        By how much the clock of each rank is ahead of that of the job; 0 if not known.
    """

    match: Ints
    rank: Ints
    event: Ints
    start: Ints
    end: Ints
    numbered: Ints
    message: Ints
    bus_bytes: Ints
    ahead: list[int]

    @property
    def last(self) -> Ints:
        """For each row, that of the rank which came last to the collective, the lowest on a tie."""
        order = np.lexsort((-self.rank, self.start, self.match))
        match = self.match[order]
        is_last = np.append(match[1:] != match[:-1], True)[: match.size]
        last: Ints = order[is_last][np.searchsorted(match[is_last], self.match)]
        return last


def find(
    connect: Connect, gathered: JobWindow, run: str | None, step: int | None, annotation: str | None
) -> CriticalPath:
    """Find the critical path across the ranks of a run: of a step, an annotation, or all.

    Its window is that of `gather`.
    """
    start, end, ranks = gathered.start_ns, gathered.end_ns, gathered.ranks
    path = _path(gathered) if any(gathered.windows) else _empty()
    with connect(None) as opened:
        events = described(prepared(opened), run, path, start)
    starts = pl.DataFrame(
        {"run": [run] * len(ranks), "rank": ranks, "start_ns": [start] * len(ranks)},
        {"run": pl.String, "rank": pl.Int32, "start_ns": pl.Int64},
    )
    is_corrected = any(gathered.meetings.ahead)
    return CriticalPath(run, None, step, annotation, start, end, events, starts, is_corrected)


@dataclass(frozen=True, slots=True)
class JobWindow:
    """Activities of all ranks in a window, on one clock, from ``start_ns`` to ``end_ns``.

    For each rank: its own window (None if nothing takes time), its activities, what each of them
    waited for last, and works that others of their graph waited for, if the source recorded them.
    """

    ranks: list[int]
    start_ns: int
    end_ns: int
    meetings: Meetings
    windows: list[rank_rows.Window | None]
    activities: list[graph.Rows]
    graphs: list[Graph]
    graph_waits: list[tuple[Ints, Ints]]


def gather(
    connect: Connect,
    matches: Callable[[], pa.Table],
    ranks: Sequence[int],
    what: tuple[int | None, str | None, int],
    *,
    corrected: bool = True,
) -> JobWindow:
    """Read the activities of all ranks in a step, in an annotation, or in the whole trace.

    Times are on their own clocks, unless these are ``corrected``. The window is from the first
    start to the last end on any rank. A step that is whole on all ranks begins, as in `runs`, when
    the one before it was completed: what a rank did for it earlier is no part of it. ``matches``
    has rows of collective_matches, and is asked only where there are several ranks.
    """
    meetings = Meetings(*(np.empty(0, np.int64),) * 8, [0])  # a single rank meets no other
    intervals: dict[int, int] = {}
    if len(ranks) > 1:
        with connect(None) as of_all:
            meetings = _meetings(prepared(of_all), matches(), ranks, corrected=corrected)
            intervals = _intervals(of_all, ranks, meetings.ahead, what[0])
    with _sources(connect, ranks, meetings.ahead) as sources:
        windows: list[rank_rows.Window | None] = []
        for source in sources:
            window = rank_rows.window(source, *what)
            windows.append(window and window.moved(-source.ahead_ns))
        end = max((window.end_ns for window in windows if window is not None), default=0)
        # A step of a job begins when the job completed the one before, not when its first rank
        # launched it: hosts run ahead.
        if end in intervals:
            windows = [window and window.since(intervals[end]) for window in windows]
        start = min((window.start_ns for window in windows if window is not None), default=0)

        def read(place: int) -> tuple[graph.Rows, Graph, tuple[Ints, Ints]]:
            own = windows[place] or rank_rows.Window(start, end, 0, 0, NONE, 0, start)
            source = sources[place]
            whole = replace(own, start_ns=start, end_ns=end).moved(source.ahead_ns)
            members = meetings.event[meetings.rank == place]
            activities = with_helpers(rank_rows.read(source, whole), members)
            del whole
            own = replace(own, events=None)  # which takes memory
            windows[place] = windows[place] and own
            wait_graph = graph.build(activities, (own.thread, own.end_ns - start))
            return activities, wait_graph, rank_rows.graph_waits(source, activities.works.event)

        parts = of_each(len(ranks), read)
    return JobWindow(
        [*ranks],
        start,
        end,
        meetings,
        windows,
        activities=[activities for activities, _, _ in parts],
        graphs=[wait_graph for _, wait_graph, _ in parts],
        graph_waits=[waits for _, _, waits in parts],
    )


@contextmanager
def _sources(
    connect: Connect, ranks: Sequence[int], ahead: Sequence[int]
) -> Iterator[list[RankSource]]:
    """The rows of each rank: those of many small ones are read together."""
    with ExitStack() as stack:
        sources = None
        if len(ranks) > 1:
            of_all = stack.enter_context(connect(None))
            sources = stack.enter_context(of_several(of_all, ranks, ahead))
        if sources is None:
            connections = [stack.enter_context(connect(rank)) for rank in ranks]
            for connection in connections:
                prepare(connection, Answer("critical_path", CALLS), {})
            sources = [*map(SingleRank, connections, ahead)]
        yield sources


def of_each(count: int, compute: Callable[[int], Value]) -> list[Value]:
    """Map a function over ranks, two at a time: NumPy and DuckDB release the GIL."""
    with ThreadPoolExecutor(2, "profframe-ranks") as pool:
        return [*pool.map(compute, range(count))]


def prepared(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The connection with the macros of this folder."""
    text = CALLS + _AHEAD + _MEMBERS + _INTERVALS
    prepare(connection, Answer("critical_path", text), {})
    return connection


def _path(gathered: JobWindow) -> RankedStretches:
    """Walk back from the end of the rank that ends last."""
    start, end = gathered.start_ns, gathered.end_ns
    graphs = [_numbered(own, place) for place, own in enumerate(gathered.graphs)]
    whole = _with_meetings(_joined(graphs), gathered.meetings, start)
    place, last = next(
        (place, window)
        for place, window in enumerate(gathered.windows)
        if window is not None and window.end_ns == end
    )
    stretches = walk(whole, **_last(whole, place, last, end - start))
    path = _ranked(stretches, whole, np.asarray(gathered.ranks))
    activities = zip(gathered.ranks, gathered.activities, strict=True)
    return split_idle(path, {rank: own.busy for rank, own in activities})


def _meetings(
    connection: duckdb.DuckDBPyConnection,
    matches: pa.Table,
    ranks: Sequence[int],
    *,
    corrected: bool,
) -> Meetings:
    connection.register("_matches", matches)
    clocks = select(connection, _AHEAD).fetchall() if corrected else []
    ahead = {rank: offset_ns for _, rank, offset_ns in clocks}
    table = select(connection, _MEMBERS).to_arrow_table()
    connection.unregister("_matches")
    columns: Mapping[str, Ints] = {
        name: table[name].to_numpy().astype(np.int64, copy=False) for name in table.column_names
    }
    of_ranks = np.array([ahead.get(rank, 0) for rank in ranks], np.int64)
    place = np.searchsorted(np.asarray(ranks), columns["rank"])
    start, end = (columns[name] - of_ranks[place] for name in ("start_ns", "end_ns"))
    return Meetings(
        columns["match"],
        place,
        columns["event_id"],
        start,
        end,
        columns["numbered"],
        columns["message"],
        columns["bus_bytes"],
        of_ranks.tolist(),
    )


def _intervals(
    connection: duckdb.DuckDBPyConnection,
    ranks: Sequence[int],
    ahead: Sequence[int],
    step: int | None,
) -> dict[int, int]:
    """When the job began a step, by when it had completed it, each time that it is whole."""
    if step is None:
        return {}
    columns = {"rank": pa.array(ranks, pa.int32()), "ahead_ns": pa.array(ahead, pa.int64())}
    connection.register("_clocks", pa.table(columns))
    connection.execute("SET VARIABLE path_step = ?::BIGINT", [integer("step", step)])
    rows = select(connection, _INTERVALS).fetchall()
    connection.unregister("_clocks")
    return dict(rows)


def with_helpers(activities: graph.Rows, events: Ints) -> graph.Rows:
    """Threads that run host collectives run them for the main thread, which waits for them."""
    slices, threads = activities.slices, activities.threads
    row = last_equal(slices.event, np.arange(slices.event.size), events)
    helpers = np.unique(slices.thread[row[row >= 0]]).tolist()
    pairs = [(threads.main, helper) for helper in helpers if helper != threads.main]
    together = tuple(dict.fromkeys((*threads.pairs, *pairs)))
    return replace(activities, threads=replace(threads, pairs=together))


def _numbered(own: Graph, place: int) -> Graph:
    """The graph of a rank, with numbers of events and threads that no other rank has."""

    def event(number: Ints) -> Ints:
        return np.where(number < 0, NONE, number + place * _EVENTS)

    works, slices, points = own.works, own.slices, own.points
    threads = place * _THREADS
    return replace(
        own,
        works=replace(works, event=event(works.event), call=event(works.call)),
        slices=replace(slices, event=event(slices.event), thread=slices.thread + threads),
        points=replace(points, thread=points.thread + threads),
    )


def _joined(graphs: Sequence[Graph]) -> Graph:
    """Graphs as one: the rows of each follow those of the previous ones."""
    parts, works, points, slices = [], 0, 0, 0
    for own in graphs:
        parts.append(_behind(own, works, points, slices))
        works += own.works.event.size
        points += own.points.time.size
        slices += own.slices.event.size
    return Graph(
        graph.concatenated(HostSlices, (part.slices for part in parts)),
        graph.concatenated(Works, (part.works for part in parts)),
        graph.concatenated(Points, (part.points for part in parts)),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("edge", "before", "latest")
        ),
    )


def _behind(own: Graph, works: int, points: int, slices: int) -> Graph:
    """Shift the row numbers of a graph, so that it can follow others."""

    def behind(row: Ints, others: Ints | int) -> Ints:
        return np.where(row < 0, row, row + others)

    moments = own.points
    return replace(
        own,
        before=behind(own.before, np.where(own.edge == graph.LAUNCH, points, works)),
        latest=own.latest + works,
        points=replace(
            moments,
            inside=behind(moments.inside, slices),
            before=behind(moments.before, np.where(moments.edge == graph.SYNC, works, points)),
            via=behind(moments.via, slices),
        ),
    )


def _with_meetings(whole: Graph, meetings: Meetings, origin: int) -> Graph:
    """Each member of a collective, on a device or a host, with the one that came last.

    A rank that left before that one came, or just then, did not wait for it: otherwise two ranks
    that leave two collectives at one moment would wait for each other in a circle.
    """
    event = meetings.event + meetings.rank * _EVENTS
    start, end = meetings.start - origin, meetings.end - origin
    last = meetings.last
    # Strictly: ranks that left two collectives in one nanosecond waited for each other without an
    # end.
    waits = (start[last] > start) & (end > start[last])
    member, last = np.flatnonzero(waits), last[waits]

    works, slices, points = whole.works, whole.slices, whole.points
    own, other = _both(works.event, event, member, last)
    latest = whole.latest.copy()
    latest[own] = other

    own, other = _both(slices.event, event, member, last)
    at = points.at(slices.thread[own], slices.end[own])
    edge, before, via = points.edge.copy(), points.before.copy(), points.via.copy()
    edge[at], via[at] = MEETING, own
    before[at] = points.at(slices.thread[other], slices.start[other])
    return replace(whole, latest=latest, points=replace(points, edge=edge, before=before, via=via))


def _both(events: Ints, event: Ints, member: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Rows of the events of members, and of those that came last, if both are among them."""
    row = last_equal(events, np.arange(events.size), event)
    own, other = row[member], row[last]
    is_there = (own >= 0) & (other >= 0)
    return own[is_there], other[is_there]


def _last(whole: Graph, place: int, window: rank_rows.Window, length: int) -> dict[str, int]:
    """Where the walk begins."""
    if window.event >= 0:
        number = window.event + place * _EVENTS
        return {"work": int(np.flatnonzero(whole.works.event == number)[0])}
    thread = np.array([window.thread + place * _THREADS])
    return {"point": int(whole.points.at(thread, np.array([length]))[0])}


def _ranked(path: Stretches, whole: Graph, ranks: Ints) -> RankedStretches:
    """The path with the rank that it is on, and the rank that waited meanwhile.

    Segments without an event are on the rank of the segment after them.
    """
    waits = _waits(path, whole)
    cuts = np.setdiff1d(np.array([start for start, _, _ in waits], np.int64), path.start)
    row = np.searchsorted(path.start, np.sort(np.append(path.start, cuts)), side="right") - 1
    start = np.sort(np.append(path.start, cuts))
    end = np.append(start[1:], path.end[-1:])
    place = np.where(path.event < 0, NONE, path.event // _EVENTS)
    after = np.where(place >= 0, np.arange(place.size), place.size - 1)
    # Segments without an event belong to what follows them.
    place = place[np.minimum.accumulate(after[::-1])[::-1]]
    waiting = np.full(start.size, NONE, np.int64)
    for since, until, rank in waits:  # from the last to the first: the nearest wait counts
        waiting[np.searchsorted(start, since) : np.searchsorted(start, until)] = rank
    waiting = np.where(waiting == place[row], NONE, waiting)
    event = np.where(path.event < 0, NONE, path.event % _EVENTS)[row]
    numbers = np.append(ranks, NONE)
    stretches = Stretches(event, path.edge[row], start, end)
    is_busy = np.zeros(start.size, np.bool_)
    return RankedStretches(stretches, numbers[place[row]], numbers[waiting], is_busy)


def _waits(path: Stretches, whole: Graph) -> list[tuple[int, int, int]]:
    """Start, end and rank of each wait for another rank that the path leaves out, last first."""
    works, slices = whole.works, whole.slices
    is_work, is_slice = path.edge == WORK, path.edge == MEETING
    of_work = last_equal(works.event, np.arange(works.event.size), path.event[is_work])
    of_slice = last_equal(slices.event, np.arange(slices.event.size), path.event[is_slice])
    came = np.zeros(path.event.size, np.int64)
    came[is_work], came[is_slice] = works.start[of_work], slices.start[of_slice]
    is_waiting = np.flatnonzero((is_work | is_slice) & (np.maximum(came, 0) < path.start))
    columns = np.maximum(came, 0), path.start, path.event // _EVENTS
    return [*zip(*(column[is_waiting[::-1]].tolist() for column in columns), strict=True)]


def _empty() -> RankedStretches:
    nothing: Any = np.empty(0, np.int64)
    stretches = Stretches(nothing, nothing, nothing, nothing)
    return RankedStretches(stretches, nothing, nothing, nothing)


_INTERVALS: Final = """
    WITH on_one_clock AS (
        SELECT steps.* REPLACE (
            steps.start_ns - ahead_ns AS start_ns, began_ns - ahead_ns AS began_ns,
            completed_ns - ahead_ns AS completed_ns
        )
        FROM profiler_steps AS steps JOIN _clocks AS clocks ON steps.rank = clocks.rank
    )
    SELECT completed_ns, completed_ns - step_ns
    FROM job_steps(on_one_clock)
    WHERE step = getvariable('path_step') AND step_ns > 0
"""
_AHEAD: Final = offsets("FROM _matches").sql
_MEMBERS: Final = """
    SELECT match, member.rank AS rank, member.event_id AS event_id, member.start_ns AS start_ns,
        member.end_ns AS end_ns, (matched_by = 'seq')::BIGINT AS numbered,
        coalesce(kind IN ('send', 'recv'), false)::BIGINT AS message,
        coalesce(round(bytes * bus_factor(kind, expected_ranks))::BIGINT, -1) AS bus_bytes
    FROM (
        SELECT *, unnest(members) AS member FROM _matches WHERE ranks > 1
    )
"""
