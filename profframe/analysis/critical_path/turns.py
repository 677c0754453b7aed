"""Streams as queues: overlapping work of a stream is serialised.

A stream does one thing after the other, whatever times are recorded: a kernel that begins before
the one before it has ended (programmatic dependent launch, or the ticks of a clock) waits for what
that still has to do. And the work of one graph launch stands in the order of the stream that it was
launched into, whichever streams its nodes show: what follows there waits for all of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from profframe.analysis.critical_path.graph import NONE, Works
from profframe.intervals import Ints, last_until


def in_turns(works: Works) -> Works:
    """Clip the start of each work to the end of the work before it on its stream.

    A work that ends no later than those before it is not clipped: it ran beside them.
    """
    if not works.event.size:
        return works
    stream = _launch_streams(works)
    order = np.lexsort((works.event, works.end, works.start, stream))
    of_stream, start, end = stream[order], works.start[order], works.end[order]
    step = int(end.max()) - min(int(start.min()), 0) + 1
    # One running maximum for all streams: a step is longer than the window, so none reaches the
    # next.
    reach = np.maximum.accumulate(of_stream * step + end) - of_stream * step
    before = np.append(NONE, reach[:-1])
    before[np.append(True, of_stream[1:] != of_stream[:-1])] = start.min()
    after = np.where(end > before, np.maximum(start, before), start)
    starts = np.empty(order.size, np.int64)
    starts[order] = after
    return replace(works, stream=stream, start=starts)


def beside(works: Works) -> tuple[Ints, Ints]:
    """Works that ended no later than an earlier one of their stream, and their followers."""
    if not works.event.size:
        return works.event, works.event
    recorded = works.end - works.whole
    order = np.lexsort((works.event, works.end, recorded, works.stream))
    stream, end = works.stream[order], works.end[order]
    step = int(end.max()) - min(int(recorded.min()), 0) + 1
    reach = np.maximum.accumulate(stream * step + end) - stream * step
    same = stream[1:] == stream[:-1]
    rows = order[1:][same & (end[1:] <= reach[:-1])]
    key = works.stream * step + works.start
    order = np.argsort(key, kind="stable")
    place = np.searchsorted(key[order], works.stream[rows] * step + works.end[rows])
    follower = np.append(order, NONE)[place]
    there = (follower >= 0) & (works.stream[follower] == works.stream[rows])
    return rows[there], follower[there]


def _launch_streams(works: Works) -> Ints:
    """The stream that each work was launched into.

    A graph with several streams was launched into one of them: the stream of the last kernel that
    the same thread launched outside a graph before it, if the graph uses that stream; else the
    stream of the graph's first work.
    """
    launched = np.flatnonzero(works.call >= 0)
    if not launched.size:
        return works.stream
    calls, call, count = np.unique(works.call[launched], return_inverse=True, return_counts=True)
    by_start = np.lexsort((works.start[launched], call))
    first = launched[by_start[np.searchsorted(call[by_start], np.arange(calls.size))]]
    low = np.full(calls.size, np.iinfo(np.int64).max)
    high = np.full(calls.size, NONE)
    np.minimum.at(low, call, works.stream[launched])
    np.maximum.at(high, call, works.stream[launched])
    several = np.flatnonzero(low != high)
    if not several.size:
        return works.stream
    # Copies may have a stream of their own; a kernel shows the stream that its thread works in.
    alone = launched[(count[call] == 1) & ~works.copy[launched]]
    thread, since = works.call_thread[first[several]], works.call_start[first[several]]
    nearest = last_until(works.call_thread[alone], works.call_start[alone], thread, since)
    into = np.where(nearest >= 0, np.append(works.stream[alone], NONE)[nearest], NONE)
    bits = int(works.stream.max()) + 1
    own = np.unique(call * bits + works.stream[launched])
    is_own = np.isin(several * bits + into, own) & (into >= 0)
    stream = works.stream.copy()
    target = np.full(calls.size, NONE, np.int64)
    target[several] = np.where(is_own, into, works.stream[first[several]])
    moved = target[call] >= 0
    stream[launched[moved]] = target[call[moved]]
    return stream
