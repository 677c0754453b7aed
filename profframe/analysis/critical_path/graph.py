"""What each piece of work, and each moment of a thread, waited for.

Arrays only. Time is counted from the start of the window, and clipped to it. What takes no time is
no part of the graph: so a walk that goes from everything to what it waited for ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.facts.columns import last_equal
from profframe.intervals import Ints, Mask, last_until, stab

SLICE: Final = 0
"""A host slice, in none of its children."""
BETWEEN: Final = 1
"""A thread between two slices."""
THREAD: Final = 2
"""A thread that went on, or began, after another one."""
SYNC: Final = 3
"""A call that waited for a device, after that was done."""
LAUNCH: Final = 4
"""From the call that launched work to the work's beginning."""
WORK: Final = 5
"""Work of a device."""
QUEUE: Final = 6
"""From the end of the work before on its stream to the work's beginning."""
WAIT: Final = 7
"""From the end of work that a stream waited for, or of the same graph, to the work's beginning."""
UNKNOWN: Final = 8
"""Nothing in the window tells what was waited for."""

NONE: Final = -1
UNSET: Final = -(2**62)
"""In place of a moment that is not known."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Host slices that take time."""

    event: Ints
    thread: Ints
    start: Ints
    end: Ints
    root: Mask


@dataclass(frozen=True, slots=True)
class Works:
    """Work of devices that takes time; ``call_start`` below zero is before the window.

    ``call`` is -1 where the launch is not in the trace; then ``call_start`` is the work's start.
    """

    event: Ints
    stream: Ints
    start: Ints
    end: Ints
    copy: Mask
    call: Ints
    call_thread: Ints
    call_start: Ints
    call_end: Ints


@dataclass(frozen=True, slots=True)
class StreamWaits:
    """Calls that let a stream wait for what was put on another one before some moment."""

    stream: Ints
    issued: Ints
    on_stream: Ints
    recorded: Ints


@dataclass(frozen=True, slots=True)
class WaitCalls:
    """Such calls of which is known only which thread made them, and when."""

    thread: Ints
    issued: Ints


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Calls that let their thread wait, for a stream or (-1) any work.

    ``recorded`` is the moment before which work was put on the stream that counts, or UNSET: all
    that had ended as the call returned.
    """

    event: Ints
    on_stream: Ints
    recorded: Ints


@dataclass(frozen=True, slots=True)
class Threads:
    """The thread that leads, and for each that works for another the pair of both."""

    main: int
    pairs: tuple[tuple[int, int], ...]
    """(forward thread, backward thread)."""

    def callers(self, threads: Iterable[int]) -> dict[int, int]:
        """The thread that wakes each thread but the main one; none wakes itself, however far."""
        callers = {thread: self.main for thread in threads if thread != self.main}
        for forward, backward in self.pairs:
            above = forward
            while above not in {self.main, backward} and above in callers:
                above = callers[above]
            if backward in callers and above == self.main:
                callers[backward] = forward
        return callers


@dataclass(frozen=True, slots=True)
class Rows:
    """What happened in a window."""

    slices: Slices
    works: Works
    stream_waits: StreamWaits
    wait_calls: WaitCalls
    host_waits: HostWaits
    threads: Threads


@dataclass(frozen=True, slots=True)
class Points:
    """Moments of threads at which something begins or ends, in order of (thread, time).

    Attributes
    ----------
    thread, time : Ints
        Where and when. Every thread has one at the start of the window.
    inside : Ints
        The innermost slice from there to the next point of the thread, or -1.
    edge : Ints
        SYNC or THREAD where the thread waited for something else than itself; else -1.
    before : Ints
        What it waited for: the row of a piece of work (SYNC) or of a point (THREAD).
    via : Ints
        The slice that the thread was in from then on.
    """

    thread: Ints
    time: Ints
    inside: Ints
    edge: Ints
    before: Ints
    via: Ints

    def at(self, thread: Ints, time: Ints) -> Ints:
        """Row of the last point of a thread up to a time."""
        return last_until(self.thread, self.time, thread, time)


@dataclass(frozen=True, slots=True)
class Graph:
    """Each thing with the last of all that it waited for.

    ``edge`` and ``before`` are of works: LAUNCH and a point, QUEUE or WAIT and a work, or UNKNOWN.
    """

    slices: Slices
    works: Works
    points: Points
    edge: Ints
    before: Ints


def build(rows: Rows, last: tuple[int, int]) -> Graph:
    """Find for everything the last that it waited for.

    Work waits for the work before on its stream, for what its stream was told to wait for since
    the launch before on the stream, for work of the same graph, and for its own launch: until the
    call returned if that was before the work began, else until the call began. A thread waits for
    itself; a call that synchronises for the device; a thread for the threads that do its backward
    pass; and a thread that was in no slice for the thread that gives it work. ``last`` is the
    thread and moment that a walk may begin at.
    """
    works = rows.works
    order = _launch_order(works)
    before, edge = _predecessors(rows, order)
    points = _with_joins(_points(rows, last), rows, order)
    launch = edge == LAUNCH
    before[launch] = points.at(works.call_thread[launch], _arrivals(works)[launch])
    return Graph(rows.slices, works, points, edge, before)


def _arrivals(works: Works) -> Ints:
    """When the path leaves the host for the work: as its launch begins, at the latest with it."""
    return np.clip(works.call_start, 0, works.start)


@dataclass(frozen=True, slots=True)
class _LaunchOrder:
    """Works by (stream, launch): rows, their streams and launches, and the last to end so far."""

    row: Ints
    stream: Ints
    launched: Ints
    last: Ints


def _launch_order(works: Works) -> _LaunchOrder:
    launched = np.minimum(works.call_start, works.start)
    row = np.lexsort((works.start, launched, works.stream))
    stream, size = works.stream[row], row.size
    by_end = np.argsort(works.end, kind="stable")
    rank = np.empty(size, np.int64)
    rank[by_end] = np.arange(size)
    last = by_end[np.maximum.accumulate(stream * size + rank[row]) - stream * size]
    return _LaunchOrder(row, stream, launched[row], last)


def _put_before(order: _LaunchOrder, stream: Ints, moment: Ints) -> Ints:
    """Of what was put on a stream before a moment, the row of the last to end; -1 is none."""
    place = last_until(order.stream, order.launched, stream, moment - 1)
    return np.where(place < 0, NONE, np.append(order.last, NONE)[place])


def _predecessors(rows: Rows, order: _LaunchOrder) -> tuple[Ints, Ints]:
    """The work that each work waited for, and how; its launch where that came later."""
    works = rows.works
    queued = last_until(works.stream, works.end, works.stream, works.start)
    waited = _waited(rows, order)
    ends = np.append(works.end, NONE)
    by_queue = ends[queued] >= ends[waited]
    before = np.where(by_queue, queued, waited)
    edge = np.where(by_queue, QUEUE, WAIT)
    known = works.call >= 0
    returned = works.call_end <= works.start
    arrival = np.where(returned, works.call_end, works.call_start)
    arrival[~known | (works.call_start > works.start)] = NONE
    edge[arrival >= ends[before]] = LAUNCH
    edge[before < 0] = LAUNCH
    edge[(edge == LAUNCH) & ~known] = UNKNOWN
    return before, edge


def _waited(rows: Rows, order: _LaunchOrder) -> Ints:
    """The last work on any stream that each work waited for."""
    works = rows.works
    pairs = (
        _told(rows.stream_waits, order),
        _guessed(works, rows.wait_calls),
        _of_one_launch(works),
    )
    work, target = (np.concatenate(of) for of in zip(*pairs, strict=True))
    met = (target >= 0) & (works.end[target] <= works.start[work]) if target.size else target >= 0
    work, target = work[met], target[met]
    latest = np.lexsort((target, works.end[target]))
    found = np.full(works.event.size, NONE, np.int64)
    found[work[latest]] = target[latest]
    return found


def _told(waits: StreamWaits, order: _LaunchOrder) -> tuple[Ints, Ints]:
    """The next work on the stream of each wait, and what that has to wait for."""
    target = _put_before(order, waits.on_stream, waits.recorded)
    place = last_until(order.stream, order.launched, waits.stream, waits.issued - 1) + 1
    place = np.maximum(place, np.searchsorted(order.stream, waits.stream))
    there = np.append(order.stream, NONE)[place] == waits.stream
    return order.row[place[there]], target[there]


def _guessed(works: Works, calls: WaitCalls) -> tuple[Ints, Ints]:
    """The next work that the thread of each call launched, and what had ended when that began.

    Whatever that is, it counts if it was put on its stream before the call.
    """
    row = np.flatnonzero(works.call >= 0)
    row = row[np.lexsort((works.start[row], works.call_start[row], works.call_thread[row]))]
    thread = works.call_thread[row]
    place = last_until(thread, works.call_start[row], calls.thread, calls.issued - 1) + 1
    place = np.maximum(place, np.searchsorted(thread, calls.thread))
    there = np.append(thread, NONE)[place] == calls.thread
    work, issued = row[place[there]], calls.issued[there]
    nowhere = np.zeros(works.event.size, np.int64)
    target = last_until(nowhere, works.end, np.zeros(work.size, np.int64), works.start[work])
    launched = np.append(np.minimum(works.call_start, works.start), NONE)
    known = (target >= 0) & (launched[target] < issued)
    return work[known], target[known]


def _of_one_launch(works: Works) -> tuple[Ints, Ints]:
    """Works of a graph, and what of it ended last before each began: its edges are not known."""
    work = np.flatnonzero(works.call >= 0)
    call = works.call[work]
    target = last_until(call, works.end[work], call, works.start[work])
    return work[target >= 0], work[target[target >= 0]]


def _points(rows: Rows, last: tuple[int, int]) -> Points:
    """All points, with nothing but their own thread to wait for."""
    slices, works = rows.slices, rows.works
    launched = works.call >= 0
    call_thread = works.call_thread[launched]
    lines = np.unique(np.concatenate([slices.thread, call_thread, [rows.threads.main, last[0]]]))
    thread = np.concatenate([slices.thread, slices.thread, call_thread, lines, [last[0]]])
    start = np.zeros(lines.size, np.int64)
    time = np.concatenate([slices.start, slices.end, _arrivals(works)[launched], start, [last[1]]])
    order = np.lexsort((time, thread))
    thread, time = thread[order], time[order]
    new = np.append(True, (thread[1:] != thread[:-1]) | (time[1:] != time[:-1]))
    thread, time = thread[new], time[new]
    inside = stab(slices.thread, slices.start, slices.end - 1, thread, time)
    none = np.full(time.size, NONE, np.int64)
    return Points(thread, time, inside, none, none, none)


def _with_joins(points: Points, rows: Rows, order: _LaunchOrder) -> Points:
    """Points with what else than their own thread they waited for, where that came last."""
    works, threads = rows.works, rows.threads
    size = points.time.size
    previous = np.append(NONE, points.time[:-1])
    first = np.append(True, points.thread[1:] != points.thread[:-1])
    inside_before = np.append(NONE, points.inside[:-1])
    inside_before[first] = NONE
    arrival, edge = np.where(first, 0, previous), np.full(size, NONE, np.int64)
    before, via = edge.copy(), inside_before.copy()

    at, work = _synced(points, rows, order)
    later = ~first[at] & (works.end[work] >= arrival[at])
    at, work = at[later], work[later]
    arrival[at], edge[at], before[at] = works.end[work], SYNC, work
    for forward, backward in threads.pairs:
        at = np.flatnonzero((points.thread == forward) & ~first)
        at, done = _joined(points, rows.slices, at, backward)
        later = points.time[done] > arrival[at]
        at, done = at[later], done[later]
        arrival[at], edge[at], before[at] = points.time[done], THREAD, done
    at, cause = _woken(points, ~first & (inside_before < 0), threads)
    later = points.time[cause] > arrival[at]
    at, cause = at[later], cause[later]
    edge[at], before[at], via[at] = THREAD, cause, points.inside[cause]
    return Points(points.thread, points.time, points.inside, edge, before, via)


def _synced(points: Points, rows: Rows, order: _LaunchOrder) -> tuple[Ints, Ints]:
    """Points at which calls return that waited for a device, and the last work of each wait."""
    slices, works, waits = rows.slices, rows.works, rows.host_waits
    row = np.arange(slices.event.size)
    call = last_equal(slices.event, row, waits.event)
    known = call >= 0
    call, on, recorded = call[known], waits.on_stream[known], waits.recorded[known]
    nowhere = np.zeros(works.event.size + call.size, np.int64)
    until, stream = slices.end[call], np.maximum(on, 0)
    anywhere = last_until(nowhere[call.size :], works.end, nowhere[: call.size], until)
    on_stream = last_until(works.stream, works.end, stream, until)
    work = np.where(on < 0, anywhere, on_stream)
    work = np.where(recorded == UNSET, work, _put_before(order, stream, recorded))
    own = np.flatnonzero(works.copy & (works.call >= 0))  # a copy that ended before its call did
    own_call = last_equal(slices.event, row, works.call[own])
    own, own_call = own[own_call >= 0], own_call[own_call >= 0]
    call, work = np.append(call, own_call), np.append(work, own)
    ends = np.append(works.end, NONE)[work]
    blocked = (work >= 0) & (ends > slices.start[call]) & (ends <= slices.end[call])
    call, work = call[blocked], work[blocked]
    at = points.at(slices.thread[call], slices.end[call])
    latest = np.lexsort((work, works.end[work], at))
    at, work = at[latest], work[latest]
    last = np.append(at[1:] != at[:-1], True)[: at.size]
    return at[last], work[last]


def _joined(points: Points, slices: Slices, at: Ints, backward: int) -> tuple[Ints, Ints]:
    """Points of a thread before which the thread of its backward pass did something, and its end.

    What begins and ends there while the forward thread begins and ends nothing, that thread waits
    for. ``at`` has the points of the forward thread but its first.
    """
    done = np.flatnonzero(slices.root & (slices.thread == backward))
    zero = np.zeros(done.size, np.int64)
    place = last_until(zero, slices.end[done], np.zeros(at.size, np.int64), points.time[at] - 1)
    row = np.append(done, NONE)[place]
    within = (row >= 0) & (np.append(slices.start, NONE)[row] >= points.time[at - 1])
    row = row[within]
    return at[within], points.at(slices.thread[row], slices.end[row])


def _woken(points: Points, idle: Mask, threads: Threads) -> tuple[Ints, Ints]:
    """Points of threads that were in no slice before, and the last point of who gives them work."""
    callers = threads.callers(np.unique(points.thread).tolist())
    lookup = np.full(1 + max(callers, default=0), NONE, np.int64)
    lookup[list(callers)] = list(callers.values())
    at = np.flatnonzero(idle & (points.thread != threads.main))
    cause = points.at(lookup[points.thread[at]], points.time[at])
    return at[cause >= 0], cause[cause >= 0]
