"""Lags of dependencies: from the end of what was waited for until what waited goes on.

A binding dependency shows its lag: all the time since its source ended. Other lags are hidden. They
are assumed to be what is usual for their kind, or the available time if that is less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from profframe.analysis.critical_path import graph as paths
from profframe.analysis.critical_path.edges import (
    GRAPH,
    KINDS,
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
_DELAY_NS: Final = 30_000
"""A delay that needs no cause, as between two kernels in `gaps`."""


@dataclass(frozen=True, slots=True)
class Lags:
    """One row per edge.

    Attributes
    ----------
    edges : Edges
        The edges; a launch comes from the end of its call if that says more.
    slack : Ints
        From what came first to what waited for it.
    usual, most : Ints
        What is usual for its kind, and the value from which a lag is unusual.
    binds : Mask
        It was waited for last.
    lag : Ints
        How long it takes.
    called : Ints
        For a launch, the point at which its call began; else -1.
    """

    edges: Edges
    slack: Ints
    usual: Ints
    most: Ints
    binds: Mask
    lag: Ints
    called: Ints


def lags(parts: Sequence[tuple[Graph, Edges]]) -> list[Lags]:
    """Find how long each edge of each rank takes; what is usual is the same for all ranks."""
    timed = []
    for graph, edges in parts:
        binds = _binding(graph, edges)
        moved = _from_call_ends(graph, edges, binds)
        slack = _slack(graph, moved)
        timed.append((graph, edges, moved, slack, binds))
    groups = [_groups(graph, moved) for graph, _, moved, _, _ in timed]
    free = [_free(graph, moved, binds) for graph, _, moved, _, binds in timed]
    slacks = [slack for *_, slack, _ in timed]
    usual, most = _usual(np.concatenate(groups), np.concatenate(slacks), np.concatenate(free))
    timed_edges = []
    for (_, edges, moved, slack, binds), group in zip(timed, groups, strict=True):
        usual_of, most_of = usual[group], most[group]
        own = edges.kind == THREAD
        # How long a thread takes to wake is between any two different things, so nothing is usual.
        usual_of[own] = most_of[own] = slack[own]
        lag = np.where(binds, slack, np.minimum(slack, usual_of))
        called = np.where(edges.kind == LAUNCH, edges.source, NONE)
        timed_edges.append(Lags(moved, slack, usual_of, most_of, binds, lag, called))
    return timed_edges


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


def _moments(graph: Graph, rows: Ints, of_point: Mask, of_works: Ints) -> Ints:
    """Moments of rows that are points, or else works."""
    time = np.empty(rows.size, np.int64)
    time[of_point] = graph.points.time[rows[of_point]]
    time[~of_point] = of_works[rows[~of_point]]
    return time


def _slack(graph: Graph, edges: Edges) -> Ints:
    """Time from the source to the target of each edge."""
    from_point = np.isin(edges.kind, (LAUNCH, THREAD))
    to_point = np.isin(edges.kind, (SYNC, THREAD))
    source = _moments(graph, edges.source, from_point, graph.works.end)
    return _moments(graph, edges.target, to_point, graph.works.start) - source


def _from_call_ends(graph: Graph, edges: Edges, binds: Mask) -> Edges:
    """Launches from the ends of their calls, unless work follows the starts more closely."""
    works, points = graph.works, graph.points
    rows = edges.of(LAUNCH)
    work = edges.target[rows]
    start, called, returned = works.start[work], works.call_start[work], works.call_end[work]
    free = binds[rows] & (_ready(graph, edges)[work] <= called) & (called >= 0)
    after_start, after_end = (start - called)[free], (start - returned)[free]
    # If work begins while its call still runs, the call's end says nothing about it.
    if after_end.size and np.quantile(after_end, 0.05) < 0:
        return edges
    # The moment that work follows more regularly is the one that it waits for.
    if after_end.size and _spread(after_end) > _spread(after_start):
        return edges
    moved = (returned <= start) & (returned >= 0)
    source = edges.source.copy()
    source[rows[moved]] = points.at(works.call_thread[work[moved]], returned[moved])
    return replace(edges, source=source)


def _ready(graph: Graph, edges: Edges) -> Ints:
    """When everything but its launch was ready, for each work."""
    works = graph.works
    ready = np.full(works.event.size, NONE, np.int64)
    rows = edges.of(STREAM, WAIT, GRAPH)
    np.maximum.at(ready, edges.target[rows], works.end[edges.source[rows]])
    return ready


def _spread(values: Ints) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)


def _groups(graph: Graph, edges: Edges) -> Ints:
    """Kinds of edges; copies are launched differently from kernels, so they have their own."""
    to_work = ~np.isin(edges.kind, (SYNC, THREAD))
    copies = np.zeros(edges.kind.size, np.int64)
    copies[to_work] = graph.works.copy[edges.target[to_work]]
    return edges.kind * 2 + copies


def _free(graph: Graph, edges: Edges, binds: Mask) -> Mask:
    """Edges that nothing else can have held up."""
    works, free = graph.works, binds.copy()
    rows = edges.of(LAUNCH)
    target = edges.target[rows]
    free[rows] &= _ready(graph, edges)[target] <= works.call_start[target]
    rows = edges.of(STREAM, WAIT, GRAPH)
    target, source = edges.target[rows], edges.source[rows]
    free[rows] &= works.call_end[target] <= works.end[source]
    rows = edges.of(SYNC)
    free[rows] &= works.end[edges.source[rows]] > graph.slices.start[edges.call[rows]]
    return free


def _usual(group: Ints, slack: Ints, free: Mask) -> tuple[Ints, Ints]:
    """The median of the free edges of each group, and Tukey's fence above it, or `_DELAY_NS`.

    If all edges of a group were held up, the free ones of its kind count; if there are none of
    these either, both are 0.
    """
    usual, most = np.zeros((2, 2 * len(KINDS)), np.int64)
    for number in np.unique(group).tolist():
        for alike in (group == number, group // 2 == number // 2):
            values = slack[alike & free]
            if values.size:
                low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), method="lower")
                fence = high + 3 * (high - low) // 2
                # Tukey's fence alone took one gap of 6 us behind 70 ms of kernels for a wait, and
                # made 2.0 to 78.7 ms of a prediction of 78.7.
                usual[number], most[number] = middle, max(fence, middle + _DELAY_NS)
                break
    return usual, most
