"""The critical path: what the end of a step had to wait for, back to its beginning.

Each activity of the window is a node of a graph: work of the devices, and the stretches of every
thread between two moments at which one of its slices begins or ends. Each begins after the last
activity that it waited for has ended. The critical path leads back from the last activity, always
to the one that it waited for last; everything on it delays the end. It has no gaps, so its
stretches add up to the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe.analysis.critical_path import graph, rows
from profframe.analysis.critical_path.walk import Stretches, walk
from profframe.analysis.selecting import some_traces
from profframe.errors import ParameterError
from profframe.query.header import Answer
from profframe.query.run import prepare, select

_Trace: TypeAlias = tuple[str | None, int | None]
"""Run and rank."""

BOUNDS: Final = ("host", "launch", "compute", "communication", "copy", "sync", "idle")
"""Bounds of a stretch of the path."""

EDGES: Final = ("slice", "between", "thread", "sync", "launch", "work", "queue", "wait", "unknown")
"""Kinds of stretches; in the order of the constants of `graph`."""
_BOUNDS_OF_EDGES: Final = ("host", "host", "host", "sync", "launch", "", "idle", "idle", "idle")
"""In the order of `EDGES`; that of work is its class."""


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """What a step of one (run, rank) waited for, from its start to the end of its last activity.

    Attributes
    ----------
    run, rank
        The trace; None where it is empty.
    step
        N of the profiler step; None for an annotation or the whole trace.
    annotation
        Name of the annotation, or None.
    start_ns, end_ns
        The window, on the clock of ``traces.clock``.
    events : polars.DataFrame
        One row per stretch of the path, in time order; each starts where the one before ends.
        ``run rank event_id name kind thread device stream`` are of the event (no event where
        nothing was recorded), ``start_ns dur_ns`` of the stretch, ``bound`` is one of ``BOUNDS``,
        and ``edge`` tells how the stretch is part of the path:

        ========  =============  ==================================================================
        edge      bound          the stretch is
        ========  =============  ==================================================================
        slice     host           a host slice, in none of its children
        between   host           a thread between two slices
        thread    host           until a thread went on, or began, after another one
        sync      sync           a call that waited for a device, after that was done
        launch    launch         from the beginning of the launching call to that of the work
        work      compute, ...   work of a device: ``compute``, ``communication`` or ``copy``
        queue     idle           between the work before on its stream and the work ``event_id``
        wait      idle           between other work waited for (an event, a graph) and ``event_id``
        unknown   idle           nothing in the window tells what was waited for
        ========  =============  ==================================================================
    starts : polars.DataFrame
        ``run rank start_ns`` of the trace.
    """

    run: str | None
    rank: int | None
    step: int | None
    annotation: str | None
    start_ns: int
    end_ns: int
    events: pl.DataFrame
    starts: pl.DataFrame

    @property
    def length_ns(self) -> int:
        """Length of the path: of the window, and the sum of ``events["dur_ns"]``."""
        return self.end_ns - self.start_ns

    @cached_property
    def bounds(self) -> pl.DataFrame:
        """One row for each of ``BOUNDS``: ``bound total_ns share``; they add up to the length."""
        totals_ns = dict(self.events.group_by("bound").agg(pl.col("dur_ns").sum()).iter_rows())
        totals = [int(totals_ns.get(bound, 0)) for bound in BOUNDS]
        shares = [total / self.length_ns if self.length_ns else None for total in totals]
        types = {"bound": pl.String, "total_ns": pl.Int64, "share": pl.Float64}
        return pl.DataFrame([BOUNDS, totals, shares], schema=types)


def find(
    connection: duckdb.DuckDBPyConnection,
    step: int | None = None,
    annotation: str | None = None,
    instance: int = 0,
) -> CriticalPath:
    """Find the critical path of a step, of an annotation, or of the whole trace.

    ``instance`` is the index among the annotations of that name.
    """
    if step is not None and annotation is not None:
        raise ParameterError("step and annotation: give one of them, not both")
    prepare(connection, Answer("critical_path", _CALLS), {})
    trace = _single_trace(connection)
    if step is not None:
        window: rows.Window | None = rows.step_window(connection, step)
    elif annotation is not None:
        window = rows.annotation_window(connection, annotation, instance)
    else:
        window = rows.whole_window(connection)
    if window is None:
        empty = np.empty(0, np.int64)
        no_stretches = Stretches(empty, empty, empty, empty)
        return CriticalPath(
            *trace, step, annotation, 0, 0, *_events(connection, trace, no_stretches, 0)
        )
    activities = rows.read(connection, window)
    last = window.thread, window.end_ns - window.start_ns
    wait_graph = graph.build(activities, last)
    if window.event >= 0:
        work = int(np.flatnonzero(activities.works.event == window.event)[0])
        path = walk(wait_graph, work=work)
    else:
        point = wait_graph.points.at(*(np.array([value]) for value in last))
        path = walk(wait_graph, point=int(point[0]))
    events = _events(connection, trace, path, window.start_ns)
    return CriticalPath(*trace, step, annotation, window.start_ns, window.end_ns, *events)


def _single_trace(connection: duckdb.DuckDBPyConnection) -> _Trace:
    traces = connection.sql("SELECT DISTINCT run, rank FROM events ORDER BY ALL").fetchall()
    if len(traces) > 1:
        raise ParameterError(
            f"a critical path is of one (run, rank), and there are {len(traces)} "
            f"({some_traces(traces)}); choose one: run=..., rank=..."
        )
    return traces[0] if traces else (None, None)


def _events(
    connection: duckdb.DuckDBPyConnection, trace: _Trace, stretches: Stretches, origin: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The stretches with columns of their events, and the start of the trace."""
    event = pa.array(stretches.event, mask=stretches.event < 0)
    path = pa.table(
        {
            "number": np.arange(stretches.event.size),
            "event_id": event,
            "start_ns": stretches.start + origin,
            "dur_ns": stretches.end - stretches.start,
            "edge": np.array(EDGES, np.object_)[stretches.edge],
            "bound": np.array(_BOUNDS_OF_EDGES, np.object_)[stretches.edge],
        },
        schema=_PATH,
    )
    connection.register("_path", path)
    described = pl.DataFrame(select(connection, _DESCRIBED).to_arrow_table())
    connection.unregister("_path")
    keys = (pl.lit(trace[0], pl.String).alias("run"), pl.lit(trace[1], pl.Int32).alias("rank"))
    starts = pl.DataFrame(select(connection, _STARTS).to_arrow_table())
    return described.select(*keys, pl.all()), starts


_CALLS: Final = (
    "path_slices() path_works() path_calls() path_annotations() path_host() path_work() "
    "path_waits() path_wait_calls() backward_threads() step_marks() device_class()"
)
"""The macros that the queries of this folder call."""
_PATH: Final = pa.schema(
    dict.fromkeys(("number", "event_id", "start_ns", "dur_ns"), pa.int64())
    | dict.fromkeys(("edge", "bound"), pa.string())
)
_STARTS: Final = "SELECT run::VARCHAR AS run, rank, start_ns FROM traces"
_DESCRIBED: Final = """
    WITH described AS MATERIALIZED (
        SELECT
            event_id, name, kind, thread, device, stream,
            device_class(kind, kernel_category) AS class
        FROM events
        SEMI JOIN _path ON events.event_id = _path.event_id
    )
    SELECT
        _path.event_id, described.name, described.kind, described.thread, described.device,
        described.stream, _path.start_ns, _path.dur_ns,
        CASE WHEN edge = 'work' THEN class ELSE bound END AS bound, edge
    FROM _path
    LEFT JOIN described ON _path.event_id = described.event_id
    ORDER BY number
"""
