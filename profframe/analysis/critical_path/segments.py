"""A critical path as rows: its segments, with columns of their events."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import duckdb
import numpy as np
import polars as pl

from profframe.analysis.critical_path.graph import (
    BETWEEN,
    LAUNCH,
    NONE,
    SLICE,
    SYNC,
    UNKNOWN,
    WORK,
    Graph,
)
from profframe.intervals import Ints, Mask
from profframe.query.run import select, selected

LEAP: Final = -2
"""Pseudo-edge: from one point of a thread to another, across any number of slices."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Parts of the path in time order; each starts where the previous one ends."""

    event: Ints
    edge: Ints
    start: Ints
    end: Ints


def walk(graph: Graph, *, work: int = NONE, point: int = NONE) -> Stretches:
    """Walk back from a piece of work or from a point of a thread.

    Each iteration moves to another thread or stream: along one thread the path takes one leap.
    """
    works, points = graph.works, graph.points
    event, call = works.event.data, works.call.data
    start, end, call_start = works.start.data, works.end.data, works.call_start.data
    edge_of, before_of, latest_of = graph.edge.data, graph.before.data, graph.latest.data
    stops = (points.edge >= 0) | (points.time == 0)
    stop_of = np.maximum.accumulate(np.where(stops, np.arange(stops.size), 0))
    slices = np.append(graph.slices.event, NONE)

    stretches: list[tuple[int, int, int, int]] = []
    time = max(end[work] if work >= 0 else int(points.time[point]), 0)
    while time > 0:
        if work >= 0:
            # In a collective the path leaves to the rank that came last, if that came before the
            # path's moment.
            latest = latest_of[work] if start[latest_of[work]] < time else work
            stretches.append((event[work], WORK, start[latest], time))
            edge, before, time = edge_of[latest], before_of[latest], start[latest]
            if edge == LAUNCH:
                since, waiting, work, point = call_start[latest], call[latest], NONE, before
            elif edge == UNKNOWN:
                since, waiting = 0, NONE
            else:
                since, waiting, work = end[before], event[latest], before
        else:
            stop = int(stop_of[point])
            stretches.append((NONE, LEAP, stop, point))
            edge, before = int(points.edge[stop]), int(points.before[stop])
            time, waiting = int(points.time[stop]), int(slices[points.via[stop]])
            if edge == SYNC:
                since, work = end[before], before
            else:
                since, point = int(points.time[before]), before
        if time > 0:
            stretches.append((waiting, edge, since, time))
            # Clocks of host and device may disagree by a little: the path never goes forward in
            # time.
            time = min(since, time)
    expanded, _ = expand(graph, *np.array([(NONE, UNKNOWN, 0, 0), *stretches[::-1]]).T)
    return _merged(expanded)


def expand(graph: Graph, event: Ints, edge: Ints, start: Ints, end: Ints) -> tuple[Stretches, Ints]:
    """Segments with each leap replaced by the slices that it crosses; the row of each before."""
    points, slices = graph.points, graph.slices
    count = np.where(edge == LEAP, end - start, 1)
    leap = np.repeat(edge == LEAP, count)
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    place = np.where(leap, np.repeat(start, count) + within, 0)
    inside, since, until = points.inside[place], points.time[place], np.roll(points.time, -1)[place]
    thread_edge = np.where(inside >= 0, SLICE, np.where(since == 0, UNKNOWN, BETWEEN))
    expanded = Stretches(
        np.where(leap, np.append(slices.event, NONE)[inside], np.repeat(event, count)),
        np.where(leap, thread_edge, np.repeat(edge, count)),
        np.where(leap, since, np.maximum(np.repeat(start, count), 0)),
        np.where(leap, until, np.repeat(end, count)),
    )
    return expanded, np.repeat(np.arange(count.size), count)


def _merged(stretches: Stretches) -> Stretches:
    """Segments that take time; consecutive parts of one slice are merged."""
    lasting = stretches.end > stretches.start
    event, edge, start, end = (
        values[lasting]
        for values in (stretches.event, stretches.edge, stretches.start, stretches.end)
    )
    size = event.size
    new = np.append(True, (event[1:] != event[:-1]) | (edge[1:] != edge[:-1]))[:size]
    last = np.append(new[1:], True)[:size]
    return Stretches(event[new], edge[new], start[new], end[last])


BOUNDS: Final = ("host", "launch", "compute", "communication", "copy", "sync", "idle")
"""Bounds of a segment of the path."""

BOUNDS_OF_EDGES: Final = {
    "slice": "host",
    "between": "host",
    "thread": "host",
    "sync": "sync",
    "launch": "launch",
    "work": "",
    "queue": "idle",
    "wait": "idle",
    "unknown": "idle",
    "collective": "communication",
}
"""For work, its class."""
EDGES: Final = (*BOUNDS_OF_EDGES,)
"""Kinds of segments, in the order of the constants of `graph`."""


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The critical path of a step, from its start to the end of its last activity.

    Attributes
    ----------
    run, rank
        The trace; None if it is empty. Across ranks, ``rank`` is None.
    step
        N of the profiler step; None for an annotation or the whole trace.
    annotation
        Name of the annotation, or None.
    start_ns, end_ns
        The window, on the clock of ``traces.clock``.
    events : polars.DataFrame
        One row per segment of the path, in time order; each starts where the previous one ends.
        ``run rank event_id name kind thread device stream`` are of the event (no event if nothing
        was recorded), ``start_ns dur_ns`` of the segment, ``bound`` is one of ``BOUNDS``,
        ``waiting_rank`` is NULL, and ``edge`` tells how the segment is part of the path:

        ========  =============  ==================================================================
        edge      bound          the segment is
        ========  =============  ==================================================================
        slice     host           a host slice, outside its children
        between   host           a thread between two slices
        thread    host           until a thread continued, or began, after another one
        sync      sync           a call that waited for a device, after the device was done
        launch    launch         from the start of the launching call to the start of the work
        work      compute, ...   device work: ``compute``, ``communication`` or ``copy``
        queue     idle, sync     between the previous work on its stream and the work ``event_id``
        wait      idle, sync     between other awaited work (an event, a graph) and ``event_id``
        unknown   idle, sync     nothing in the window shows what was waited for
        ========  =============  ==================================================================

        The last three are ``sync`` while a device of the rank worked on something else: only while
        none was busy is the path ``idle``.

        Across ranks, ``start_ns`` is on the clock of the lowest rank, and the row has the ``rank``
        that the segment is on. A collective goes from the start of the last rank to the end: its
        transfer (on the host its edge is ``collective``). Before that, the path follows what the
        last rank did instead of the others' waiting; ``waiting_rank`` is the rank that waited
        meanwhile, NULL if none did.
    starts : polars.DataFrame
        ``run rank start_ns`` of the trace.
    is_corrected : bool
        Whether clocks of ranks differ, and were corrected: then a step may be longer or shorter
        than `runs` has it, whose times are on the clock of each rank.
    """

    run: str | None
    rank: int | None
    step: int | None
    annotation: str | None
    start_ns: int
    end_ns: int
    events: pl.DataFrame
    starts: pl.DataFrame
    is_corrected: bool = False

    @property
    def length_ns(self) -> int:
        """Length of the path: that of the window, and the sum of ``events["dur_ns"]``."""
        return self.end_ns - self.start_ns

    @cached_property
    def waits(self) -> pl.DataFrame:
        """Waits for other ranks along the path: one row per awaited rank, bound and name.

        ``rank bound name total_ns share``, the longest first; their time is a part of `bounds`.
        """
        waited = self.events.filter(pl.col("waiting_rank").is_not_null())
        total = pl.col("dur_ns").sum()
        return (
            waited.group_by("rank", "bound", "name", maintain_order=True)
            .agg(total_ns=total, share=total / max(self.length_ns, 1))
            .sort("total_ns", descending=True, maintain_order=True)
        )

    @cached_property
    def bounds(self) -> pl.DataFrame:
        """One row for each of ``BOUNDS``: ``bound total_ns share``; they add up to the length."""
        totals_ns = dict(self.events.group_by("bound").agg(pl.col("dur_ns").sum()).iter_rows())
        totals = [int(totals_ns.get(bound, 0)) for bound in BOUNDS]
        shares = [total / self.length_ns if self.length_ns else None for total in totals]
        types = {"bound": pl.String, "total_ns": pl.Int64, "share": pl.Float64}
        return pl.DataFrame([BOUNDS, totals, shares], schema=types)


@dataclass(frozen=True, slots=True)
class RankedStretches:
    """Segments with the rank of each, and the rank that waited meanwhile (-1: none).

    ``is_busy``: nothing on the path ran, but devices of the rank did something else.
    """

    stretches: Stretches
    rank: Ints
    waiting_rank: Ints
    is_busy: Mask


def described(
    connection: duckdb.DuckDBPyConnection, run: str | None, path: RankedStretches, origin: int
) -> pl.DataFrame:
    """The segments with columns of their events."""
    stretches = path.stretches
    segments = pl.DataFrame(
        {
            "rank": pl.Series(path.rank, dtype=pl.Int32),
            "event_id": _unless_negative(stretches.event),
            "start_ns": stretches.start + origin,
            "dur_ns": stretches.end - stretches.start,
            "edge": pl.Series(EDGES).gather(stretches.edge),
            "bound": pl.Series([*BOUNDS_OF_EDGES.values()]).gather(stretches.edge),
            "is_busy": pl.Series(path.is_busy, dtype=pl.Boolean),
            "waiting_rank": _unless_negative(path.waiting_rank).cast(pl.Int32),
        }
    )
    on = ["rank", "event_id"]
    connection.register("_path", segments.select(on).to_arrow())
    events = pl.DataFrame(selected(connection, _DESCRIBED))
    connection.unregister("_path")
    bound = (
        pl.when(pl.col("edge") == "work").then("class")
        .when("is_busy").then(pl.lit("sync"))
        .otherwise("bound")
    )  # fmt: skip
    return segments.join(events, on=on, how="left", maintain_order="left").select(
        pl.lit(run, pl.String).alias("run"), *on, "name", "kind", "thread", "device", "stream",
        "start_ns", "dur_ns", bound.alias("bound"), "edge", "waiting_rank",
    )  # fmt: skip


def _unless_negative(values: Ints) -> pl.Series:
    series = pl.Series(values)
    return series.set(series < 0, None)


def starts(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """``run rank start_ns`` of the traces."""
    return pl.DataFrame(select(connection, _STARTS).to_arrow_table())


CALLS: Final = (
    "path_works() path_calls() path_annotations() path_events() path_waits() flow_pairs() "
    "device_class()"
)
"""The macros that the queries of this folder call."""
_STARTS: Final = "SELECT run::VARCHAR AS run, rank, start_ns FROM traces"
_DESCRIBED: Final = """
    SELECT
        rank, event_id, name, kind, thread, device, stream,
        device_class(kind, kernel_category) AS class
    FROM events
    SEMI JOIN _path ON events.rank = _path.rank AND events.event_id = _path.event_id
"""
