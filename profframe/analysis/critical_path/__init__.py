"""The critical path of a step: the chain of dependencies that determines when it ends.

Each activity of the window is a node of a graph: device work, and the segments of every thread
between two moments at which one of its slices begins or ends. Each begins after the last activity
that it waited for has ended. The critical path leads back from the last activity, always to the one
that it waited for last; everything on it delays the end. It has no gaps, so its segments add up to
the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import duckdb
import numpy as np

from profframe.analysis.critical_path import graph, rank_rows
from profframe.analysis.critical_path.busy import split_idle
from profframe.analysis.critical_path.graph import DisjointSpans
from profframe.analysis.critical_path.segments import (
    BOUNDS,
    CALLS,
    EDGES,
    CriticalPath,
    RankedStretches,
    Stretches,
    described,
    starts,
    walk,
)
from profframe.analysis.critical_path.source import SingleRank
from profframe.analysis.run_selection import some_traces
from profframe.errors import ParameterError
from profframe.query.header import Answer
from profframe.query.run import prepare

__all__ = ["BOUNDS", "EDGES", "CriticalPath", "find"]

_Trace: TypeAlias = tuple[str | None, int | None]
"""Run and rank."""


def find(
    connection: duckdb.DuckDBPyConnection,
    step: int | None = None,
    annotation: str | None = None,
    instance: int = 0,
) -> CriticalPath:
    """Find the critical path of a step, of an annotation, or of the whole trace.

    ``instance`` is the index among the annotations of that name.
    """
    prepare(connection, Answer("critical_path", CALLS), {})
    trace = _single_trace(connection)
    source = SingleRank(connection)
    window = rank_rows.window(source, step, annotation, instance)
    if window is None:
        empty = np.empty(0, np.int64)
        no_stretches = Stretches(empty, empty, empty, empty)
        events = described(connection, trace[0], _of_one(trace, no_stretches, {}), 0)
        return CriticalPath(*trace, step, annotation, 0, 0, events, starts(connection))
    activities = rank_rows.read(source, window)
    last = window.thread, window.end_ns - window.start_ns
    wait_graph = graph.build(activities, last)
    if window.event >= 0:
        work = int(np.flatnonzero(activities.works.event == window.event)[0])
        path = walk(wait_graph, work=work)
    else:
        point = wait_graph.points.at(*(np.array([value]) for value in last))
        path = walk(wait_graph, point=int(point[0]))
    ranked = _of_one(trace, path, {trace[1] or 0: activities.busy})
    events = described(connection, trace[0], ranked, window.start_ns)
    bounds = window.start_ns, window.end_ns
    return CriticalPath(*trace, step, annotation, *bounds, events, starts(connection))


def _single_trace(connection: duckdb.DuckDBPyConnection) -> _Trace:
    traces = connection.sql("SELECT DISTINCT run, rank FROM events ORDER BY ALL").fetchall()
    if len(traces) > 1:
        raise ParameterError(
            f"a critical path covers one (run, rank), and there are {len(traces)} "
            f"({some_traces(traces)}); choose a run and a rank"
        )
    return traces[0] if traces else (None, None)


def _of_one(
    trace: _Trace, stretches: Stretches, busy: Mapping[int, DisjointSpans]
) -> RankedStretches:
    size = stretches.event.size
    rank, nobody = np.full(size, trace[1] or 0), np.full(size, -1)
    path = RankedStretches(stretches, rank, nobody, np.zeros(size, np.bool_))
    return split_idle(path, busy)
