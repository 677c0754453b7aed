"""When devices of a rank were busy, and when something waited for them.

Work that nothing recorded held up may still have waited for what ran beside it. So a path is idle
only while no device of the rank was busy; in the rest of such a part it waited for a device.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from profframe.analysis.critical_path.graph import QUEUE, UNKNOWN, WAIT, DisjointSpans, Graph, Rows
from profframe.analysis.critical_path.segments import RankedStretches, Stretches
from profframe.facts.arrays import last_equal
from profframe.intervals import union


def waiting(rows: Rows, graph: Graph, done: int, until: int) -> DisjointSpans:
    """When something waits for devices of a rank: launched work, a call, or the end of its window.

    From ``done`` on, the host of the rank only waits for the end of the window, ``until``. A call
    that ends after its copy has waited for the copy.
    """
    works, slices = graph.works, graph.slices
    queued = np.flatnonzero((works.call >= 0) & (works.call_start < works.start))
    calls = last_equal(slices.event, np.arange(slices.event.size), rows.host_waits.event)
    calls = calls[calls >= 0]
    copied = np.flatnonzero(works.copy & (works.call >= 0) & (works.call_end >= works.end))
    since = (works.call_start[queued], slices.start[calls], works.start[copied], [done])
    to = (works.start[queued], slices.end[calls], works.call_end[copied], [max(done, until)])
    return DisjointSpans(*union(np.concatenate(since), np.concatenate(to)))


def split_idle(path: RankedStretches, busy: Mapping[int, DisjointSpans]) -> RankedStretches:
    """Split idle segments of a path where a device of their rank became busy or idle.

    ``busy`` is by rank, from the start of the window.
    """
    of = path.stretches
    is_idle = np.isin(of.edge, (QUEUE, WAIT, UNKNOWN))
    before, cuts = np.zeros((2, of.edge.size), np.int64)
    moments = {rank: np.ravel((spans.start, spans.end), "F") for rank, spans in busy.items()}
    for rank, at in moments.items():
        rows = np.flatnonzero(is_idle & (path.rank == rank))
        # Starts and ends of busy spans alternate, so an odd number before a moment means busy.
        before[rows] = np.searchsorted(at, of.start[rows], "right")
        cuts[rows] = np.searchsorted(at, of.end[rows], "left") - before[rows]
    cuts = np.maximum(cuts, 0)
    row = np.repeat(np.arange(of.edge.size), cuts + 1)
    piece = np.arange(row.size) - np.repeat(np.cumsum(cuts + 1) - cuts - 1, cuts + 1)
    start = of.start[row]
    for rank, at in moments.items():
        later = np.flatnonzero((piece > 0) & (path.rank[row] == rank))
        start[later] = at[before[row[later]] + piece[later] - 1]
    end = np.append(start[1:], 0)[: start.size]
    last = np.append(piece[1:] == 0, True)[: start.size]
    end[last] = of.end[row[last]]
    return RankedStretches(
        Stretches(of.event[row], of.edge[row], start, end),
        path.rank[row],
        path.waiting_rank[row],
        is_idle[row] & ((before[row] + piece) % 2 == 1),
    )
