"""Critical path of one rank, walked backwards from given times."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from profframe.analysis.critical_path.graph import (
    LAUNCH,
    NONE,
    SYNC,
    UNKNOWN,
    WORK,
    Graph,
)
from profframe.analysis.critical_path.walk import LEAP, Stretches, expand
from profframe.facts.columns import last_equal
from profframe.intervals import Ints


def before(graph: Graph, event: Ints, moment: Ints, since: Ints) -> tuple[Stretches, Ints]:
    """The paths from the start of each event, at a moment, back to another moment.

    The segments of a path add up to the time between its two moments. Time before the window of the
    graph is an unknown segment, and so is the whole path of an event that is not in the graph. Each
    segment comes with the row of the event that its path leads to.
    """
    works, slices = graph.works, graph.slices
    work = last_equal(works.event, np.arange(works.event.size), event)
    row = last_equal(slices.event, np.arange(slices.event.size), event)
    at = np.full(event.size, NONE, np.int64)
    at[row >= 0] = graph.points.at(slices.thread[row[row >= 0]], slices.start[row[row >= 0]])
    steps = _Steps(graph)
    for path, places in enumerate(
        zip(work.tolist(), at.tolist(), moment.tolist(), since.tolist(), strict=True)
    ):
        steps.walk(path, *places)
    numbers = np.array(steps.taken, np.int64).reshape(-1, 5).T
    stretches, taken = expand(graph, *numbers[1:])
    path = numbers[0][taken]
    start = np.maximum(stretches.start, since[path])
    start = np.where(numbers[2][taken] == UNKNOWN, numbers[3][taken], start)
    lasting = stretches.end > start
    return Stretches(
        stretches.event[lasting], stretches.edge[lasting], start[lasting], stretches.end[lasting]
    ), path[lasting]


class _Steps:
    """The steps of walks through one graph, whose columns are read once for all of them."""

    def __init__(self, graph: Graph) -> None:
        works, points = graph.works, graph.points
        self.taken: list[tuple[int, int, int, int, int]] = []
        """(path, event, edge, start, end); for a leap, start and end are points."""
        self._event, self._call = works.event.tolist(), works.call.tolist()
        self._start, self._end = works.start.tolist(), works.end.tolist()
        self._call_start = works.call_start.tolist()
        self._edge, self._before = graph.edge.tolist(), graph.before.tolist()
        self._time, self._point_edge = points.time.tolist(), points.edge.tolist()
        self._point_before = points.before.tolist()
        self._via = np.append(graph.slices.event, NONE)[points.via].tolist()
        stops = (points.edge >= 0) | (points.time == 0)
        last_stop = np.maximum.accumulate(np.where(stops, np.arange(stops.size), 0))
        self._stop = last_stop.tolist()

    def walk(self, path: int, work: int, point: int, moment: int, since: int) -> None:
        """Take the steps of one path, from the last to the first."""
        taken, limit = self.taken, max(since, 0)
        time = moment if work >= 0 or point >= 0 else limit
        if work < 0 and point < 0:
            taken.append((path, NONE, UNKNOWN, limit, moment))
        is_first = True
        while time > limit:
            if work >= 0:
                start, event = self._start[work], self._event[work]
                # The path ends where the event begins, so the event is not on it.
                if not is_first:
                    taken.append((path, event, WORK, max(start, limit), time))
                edge, came_from, time = self._edge[work], self._before[work], min(start, time)
                if edge == LAUNCH:
                    begun, waiting = self._call_start[work], self._call[work]
                    work, point = NONE, came_from
                elif edge == UNKNOWN:
                    begun, waiting = 0, NONE
                else:
                    begun, waiting, work = self._end[came_from], event, came_from
            else:
                stop = self._stop[point]
                stop = max(stop, bisect_right(self._time, limit, stop, point + 1) - 1)
                taken.append((path, NONE, LEAP, stop, point))
                time, edge = self._time[stop], self._point_edge[stop]
                waiting, came_from = self._via[stop], self._point_before[stop]
                if edge == SYNC:
                    begun, work = self._end[came_from], came_from
                else:
                    begun, point = self._time[came_from], came_from
            is_first = False
            if time > limit:
                taken.append((path, waiting, edge, max(begun, limit), time))
                time = min(begun, time)
        if since < 0:
            taken.append((path, NONE, UNKNOWN, since, 0))
