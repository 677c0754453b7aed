"""Backward walk through the graph, from the end of a window to its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

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
from profframe.intervals import Ints

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
    event, call = works.event.tolist(), works.call.tolist()
    start, end, call_start = works.start.tolist(), works.end.tolist(), works.call_start.tolist()
    edge_of, before_of = graph.edge.tolist(), graph.before.tolist()
    latest_of = graph.latest.tolist()
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
