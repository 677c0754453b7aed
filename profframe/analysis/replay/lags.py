"""How long after what it waited for something goes on, when nothing else holds it up.

What was waited for last tells it: all the time from its end on is its lag. Of all else the lag is
hidden, so it is taken to be what is usual for its kind, or the time that there was, if that is
less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from profframe.analysis.critical_path import graph as paths
from profframe.analysis.critical_path.edges import (
    GRAPH,
    LAUNCH,
    STREAM,
    SYNC,
    THREAD,
    WAIT,
    Edges,
)
from profframe.analysis.critical_path.graph import NONE, Graph
from profframe.intervals import Ints, Mask

_EDGE_OF: dict[int, int] = {
    LAUNCH: paths.LAUNCH,
    STREAM: paths.QUEUE,
    WAIT: paths.WAIT,
    GRAPH: paths.WAIT,
}


@dataclass(frozen=True, slots=True)
class Lags:
    """One row per edge.

    Attributes
    ----------
    edges : Edges
        The edges; a launch comes from the end of its call, where that says more.
    slack : Ints
        From what came first to what waited for it.
    usual : Ints
        What is usual for its kind.
    binds : Mask
        It was waited for last.
    lag : Ints
        How long it takes.
    called : Ints
        Of a launch the point at which its call began; else -1.
    """

    edges: Edges
    slack: Ints
    usual: Ints
    binds: Mask
    lag: Ints
    called: Ints


def lags(graph: Graph, edges: Edges) -> Lags:
    """Find how long each edge of a rank takes."""
    binds = _binding(graph, edges)
    called = np.where(edges.kind == LAUNCH, edges.source, NONE)
    edges = _from_call_ends(graph, edges, binds)
    slack = _target_times(graph, edges) - _source_times(graph, edges)
    usual = _usual(graph, edges, slack, binds)
    lag = np.where(binds, slack, np.minimum(slack, usual))
    return Lags(edges, slack, usual, binds, lag, called)


def _binding(graph: Graph, edges: Edges) -> Mask:
    """Edges that the critical path takes from their targets."""
    works, points = graph.works, graph.points
    binds = np.zeros(edges.kind.size, np.bool_)
    for kind, edge in _EDGE_OF.items():
        rows = edges.of(kind)
        target, source = edges.target[rows], edges.source[rows]
        is_last = graph.edge[target] == edge
        binds[rows] = is_last if kind == LAUNCH else is_last & (graph.before[target] == source)
    binds[edges.of(LAUNCH)] &= works.start[edges.target[edges.of(LAUNCH)]] >= 0
    for kind, edge in ((SYNC, paths.SYNC), (THREAD, paths.THREAD)):
        rows = edges.of(kind)
        target, source = edges.target[rows], edges.source[rows]
        binds[rows] = (points.edge[target] == edge) & (points.before[target] == source)
    return binds


def _source_times(graph: Graph, edges: Edges) -> Ints:
    points, works = graph.points, graph.works
    of_point = np.isin(edges.kind, (LAUNCH, THREAD))
    time = np.empty(edges.kind.size, np.int64)
    time[of_point] = points.time[edges.source[of_point]]
    time[~of_point] = works.end[edges.source[~of_point]]
    return time


def _target_times(graph: Graph, edges: Edges) -> Ints:
    points, works = graph.points, graph.works
    of_point = np.isin(edges.kind, (SYNC, THREAD))
    time = np.empty(edges.kind.size, np.int64)
    time[of_point] = points.time[edges.target[of_point]]
    time[~of_point] = works.start[edges.target[~of_point]]
    return time


def _from_call_ends(graph: Graph, edges: Edges, binds: Mask) -> Edges:
    """Launches from the ends of their calls, if work follows these more closely than the starts."""
    works, points = graph.works, graph.points
    rows = edges.of(LAUNCH)
    work = edges.target[rows]
    start, called, returned = works.start[work], works.call_start[work], works.call_end[work]
    free = binds[rows] & (_ready(graph, edges)[work] <= called) & (called >= 0)
    after_start, after_end = (start - called)[free], (start - returned)[free]
    if not after_end.size or np.quantile(after_end, 0.05) < 0:
        return edges
    if _spread(after_end) >= _spread(after_start):
        return edges
    moved = (returned <= start) & (returned >= 0)
    source = edges.source.copy()
    source[rows[moved]] = points.at(works.call_thread[work[moved]], returned[moved])
    return replace(edges, source=source)


def _ready(graph: Graph, edges: Edges) -> Ints:
    """When all but its launch was there, for each work."""
    works = graph.works
    ready = np.full(works.event.size, NONE, np.int64)
    rows = edges.of(STREAM, WAIT, GRAPH)
    np.maximum.at(ready, edges.target[rows], works.end[edges.source[rows]])
    return ready


def _spread(values: Ints) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)


def _usual(graph: Graph, edges: Edges, slack: Ints, binds: Mask) -> Ints:
    """The median of those edges of a kind that nothing else can have held up.

    Copies are launched by other means than kernels; they are a kind of their own. Where all were
    held up, it is the least slack.
    """
    works = graph.works
    usual = np.zeros(edges.kind.size, np.int64)
    for kind in (LAUNCH, STREAM, WAIT, GRAPH):
        rows = edges.of(kind)
        target, source = edges.target[rows], edges.source[rows]
        if kind == LAUNCH:
            free = _ready(graph, edges)[target] <= works.call_start[target]
        else:
            free = works.call_end[target] <= works.end[source]
        free &= binds[rows] & (works.start[target] >= 0)
        copies = works.copy[target]
        for group in (copies, ~copies):
            usual[rows[group]] = _median(slack[rows[group]], free[group])
    rows = edges.of(SYNC)
    blocked = graph.works.end[edges.source[rows]] > graph.slices.start[edges.call[rows]]
    usual[rows] = _median(slack[rows], blocked & binds[rows])
    rows = edges.of(THREAD)
    usual[rows] = slack[rows]
    return usual


def _median(values: Ints, known: Mask) -> int:
    if known.any():
        return int(np.quantile(values[known], 0.5, method="lower"))
    return int(values.min(initial=2**62)) if values.size else 0
