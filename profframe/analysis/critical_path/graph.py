"""Dependency graph of one rank: each work and each point of a thread with its last dependency.

Arrays only. Time is relative to the start of the window, and clipped to it. Activities that take no
time are not in the graph, so a walk from each activity to what it waited for ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from profframe.facts.arrays import last_equal
from profframe.intervals import Ints, Mask, last_until, stab

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SLICE: Final = 0
"""A host slice, in none of its children."""
BETWEEN: Final = 1
"""A thread between two slices."""
THREAD: Final = 2
"""A thread that continued, or began, after another one."""
SYNC: Final = 3
"""A call that waited for a device, after the device was done."""
LAUNCH: Final = 4
"""From the call that launched work to the work's beginning."""
WORK: Final = 5
"""Work of a device."""
QUEUE: Final = 6
"""From the end of the previous work on its stream to the work's beginning."""
WAIT: Final = 7
"""From the end of work that a stream waited for, or of the same graph, to the work's beginning."""
UNKNOWN: Final = 8
"""Nothing in the window shows what was waited for."""

MEETING: Final = 9
"""A collective on the host, after its last rank came."""

NONE: Final = -1
UNSET: Final = -(2**62)
"""An unknown moment."""


_Columns = TypeVar("_Columns", bound="DataclassInstance")


def concatenated(kind: type[_Columns], parts: Iterable[_Columns]) -> _Columns:
    """Arrays of several instances of a dataclass, those of each after the previous ones."""
    columns = [[getattr(part, field.name) for field in fields(kind)] for part in parts]
    return kind(*map(np.concatenate, zip(*columns, strict=True)))


@dataclass(frozen=True, slots=True)
class HostSlices:
    """Host slices that take time."""

    event: Ints
    thread: Ints
    start: Ints
    end: Ints
    root: Mask


@dataclass(frozen=True, slots=True)
class Works:
    """Work of devices that takes time; ``call_start`` below zero is before the window.

    ``call`` is -1 if the launch is not in the trace; then ``call_start`` is the work's start.
    ``whole`` is its duration; without what ran under the end of other work of its stream, it is
    from ``start`` to ``end``. A copy is ``by_host`` if a host makes it in the call.
    """

    event: Ints
    stream: Ints
    start: Ints
    end: Ints
    whole: Ints
    copy: Mask
    by_host: Mask
    call: Ints
    call_thread: Ints
    call_start: Ints
    call_end: Ints


@dataclass(frozen=True, slots=True)
class DisjointSpans:
    """Disjoint spans of time, ascending."""

    start: Ints
    end: Ints


@dataclass(frozen=True, slots=True)
class StreamWaits:
    """Calls that make a stream wait for work put on another one before a moment."""

    stream: Ints
    issued: Ints
    on_stream: Ints
    recorded: Ints


@dataclass(frozen=True, slots=True)
class WaitCalls:
    """Stream waits that are only known as calls: their thread and time, but not the streams."""

    thread: Ints
    issued: Ints


@dataclass(frozen=True, slots=True)
class HostWaits:
    """Calls that make their thread wait, for a stream or (-1) any work.

    Work put on the stream before ``recorded`` counts; if that is UNSET, everything that had ended
    when the call returned.
    """

    event: Ints
    on_stream: Ints
    recorded: Ints


@dataclass(frozen=True, slots=True)
class Threads:
    """The main thread, and pairs of threads in which one works for the other."""

    main: int
    pairs: tuple[tuple[int, int], ...]
    """(forward thread, backward thread)."""

    def callers(self, threads: Iterable[int]) -> dict[int, int]:
        """The thread that wakes each thread except the main one, without cycles."""
        # Nothing records who wakes a thread: unless a pair says otherwise, it is taken to be the
        # main one.
        callers = {thread: self.main for thread in threads if thread != self.main}
        for forward, backward in self.pairs:
            caller = forward
            # A pair that would close a circle is left out: a walk from thread to thread has to end.
            while caller not in {self.main, backward} and caller in callers:
                caller = callers[caller]
            if backward in callers and caller == self.main:
                callers[backward] = forward
        return callers


@dataclass(frozen=True, slots=True)
class Rows:
    """Activities in a window.

    ``works`` end in it; ``busy`` are the spans in which any work ran, also beyond its end.
    """

    slices: HostSlices
    works: Works
    busy: DisjointSpans
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
        Every thread has a point at the start of the window.
    inside : Ints
        The innermost slice from there to the next point of the thread, or -1.
    edge : Ints
        SYNC, THREAD or MEETING if the thread waited for something other than itself; else -1.
    before : Ints
        Row of the work (SYNC) or else of the point that it waited for.
    via : Ints
        The slice that the thread was in since then.
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
    """Activities with the dependency of each that ended last.

    ``edge`` and ``before`` belong to works: LAUNCH and a point, QUEUE or WAIT and a work, or
    UNKNOWN. ``latest`` is the work before whose start each work cannot end: for a collective, that
    of its last rank; for everything else, and with one rank, the work itself.
    """

    slices: HostSlices
    works: Works
    points: Points
    edge: Ints
    before: Ints
    latest: Ints


def build(rows: Rows, last: tuple[int, int]) -> Graph:
    """Find what each activity waited for last.

    Work waits for the previous work on its stream, for what its stream had to wait for since the
    previous launch on it, for work of the same graph, and for its own launch: until the call
    returned if that was before the work began, else until the call began. A thread waits for
    itself; a call that synchronises for the device; a thread for the threads of its backward pass;
    and a thread outside all slices for the thread that gives it work. ``last`` is the thread and
    moment at which a walk may begin.
    """
    works = rows.works
    order = launch_order(works)
    before, edge = _predecessors(rows, order)
    points = _with_joins(_points(rows, last), rows, order)
    launch = edge == LAUNCH
    before[launch] = points.at(works.call_thread[launch], arrivals(works)[launch])
    return Graph(rows.slices, works, points, edge, before, np.arange(edge.size))


def arrivals(works: Works) -> Ints:
    """When the path leaves the host for the work: at the start of its launch, or at its own."""
    return np.clip(works.call_start, 0, works.start)


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """Works by (stream, launch): rows, streams, launches, and the last work to end so far."""

    row: Ints
    stream: Ints
    launched: Ints
    last: Ints


def launch_order(works: Works) -> LaunchOrder:
    """Works in the order of their launches on each stream."""
    # Clocks that disagree may put a launch after its work; a stream's order must not.
    launched = np.minimum(works.call_start, works.start)
    row = np.lexsort((works.start, launched, works.stream))
    stream, size = works.stream[row], row.size
    # Kernels of one stream may overlap, so the last in launch order need not be the last to end.
    by_end = np.argsort(works.end, kind="stable")
    rank = np.empty(size, np.int64)
    rank[by_end] = np.arange(size)
    last = by_end[np.maximum.accumulate(stream * size + rank[row]) - stream * size]
    return LaunchOrder(row, stream, launched[row], last)


def last_put(order: LaunchOrder, stream: Ints, moment: Ints) -> Ints:
    """Row of the last work to end among those put on a stream before a moment; -1 is none."""
    place = last_until(order.stream, order.launched, stream, moment - 1)
    return np.where(place < 0, NONE, np.append(order.last, NONE)[place])


def _predecessors(rows: Rows, order: LaunchOrder) -> tuple[Ints, Ints]:
    """The work that each work waited for, and how; its launch if that came later."""
    works = rows.works
    queued = last_until(works.stream, works.end, works.stream, works.start)
    awaited = _last_awaited(rows, order)
    ends = np.append(works.end, NONE)
    # On a tie the stream's own order is the certain one.
    by_queue = ends[queued] >= ends[awaited]
    before = np.where(by_queue, queued, awaited)
    edge = np.where(by_queue, QUEUE, WAIT)
    has_call = works.call >= 0
    # While a call goes on its work may begin: then the launch took from the call's start.
    returned = works.call_end <= works.start
    arrival = np.where(returned, works.call_end, works.call_start)
    arrival[~has_call | (works.call_start > works.start)] = NONE
    edge[arrival >= ends[before]] = LAUNCH
    edge[before < 0] = LAUNCH
    edge[(edge == LAUNCH) & ~has_call] = UNKNOWN
    ready = np.where(
        edge == LAUNCH, np.where(arrival >= 0, arrival, works.call_start), ends[before]
    )
    late, cause = ordered_targets(works, ready, edge)
    before[late], edge[late] = cause, WAIT
    return before, edge


def ordered_targets(works: Works, ready: Ints, edge: Ints) -> tuple[Ints, Ints]:
    """Works that came late after all that is known, and the last one to end before each.

    A work is late if its lag is above Tukey's fence for its kind of edge. The last to end counts if
    it is on another stream and ended after everything else was ready. No record says that it was
    waited for: only the order suggests it.
    """
    lag = works.start - ready
    is_late = np.zeros(lag.size, np.bool_)
    for kind in (LAUNCH, QUEUE, WAIT):
        rows = np.flatnonzero((edge == kind) & (lag >= 0) & (ready >= 0))
        if rows.size:
            low, high = np.quantile(lag[rows], (0.25, 0.75), method="lower")
            # Work that comes late waited for something: in a run-ahead ResNet whose streams wait
            # without a record, 23 of 87 ms of the path were idle while the devices worked.
            is_late[rows] = lag[rows] > high + 3 * (high - low) // 2
    late = np.flatnonzero(is_late)
    anywhere = np.zeros(works.event.size, np.int64)
    cause = last_until(anywhere, works.end, anywhere[late], works.start[late])
    late, cause = late[cause >= 0], cause[cause >= 0]
    end = works.end[cause]
    fits = (works.stream[cause] != works.stream[late]) & (end > ready[late])
    return late[fits], cause[fits]


def _last_awaited(rows: Rows, order: LaunchOrder) -> Ints:
    """The last work on any stream that each work waited for."""
    works = rows.works
    pairs = (
        stream_targets(rows.stream_waits, order),
        call_targets(works, rows.wait_calls),
        launch_targets(works),
    )
    work, target = (np.concatenate(column) for column in zip(*pairs, strict=True))
    ended = (target >= 0) & (works.end[target] <= works.start[work]) if target.size else target >= 0
    work, target = work[ended], target[ended]
    latest = np.lexsort((target, works.end[target]))
    latest_work = np.full(works.event.size, NONE, np.int64)
    latest_work[work[latest]] = target[latest]
    return latest_work


def stream_targets(waits: StreamWaits, order: LaunchOrder) -> tuple[Ints, Ints]:
    """The next work on the stream of each wait, and the work that it has to wait for."""
    target = last_put(order, waits.on_stream, waits.recorded)
    place = last_until(order.stream, order.launched, waits.stream, waits.issued - 1) + 1
    place = np.maximum(place, np.searchsorted(order.stream, waits.stream))
    exists = np.append(order.stream, NONE)[place] == waits.stream
    return order.row[place[exists]], target[exists]


def call_targets(works: Works, calls: WaitCalls) -> tuple[Ints, Ints]:
    """The next work that the thread of each call launched, and the last work to end before it.

    The latter counts if it was put on its stream before the call.
    """
    row = np.flatnonzero(works.call >= 0)
    row = row[np.lexsort((works.start[row], works.call_start[row], works.call_thread[row]))]
    thread = works.call_thread[row]
    place = last_until(thread, works.call_start[row], calls.thread, calls.issued - 1) + 1
    place = np.maximum(place, np.searchsorted(thread, calls.thread))
    exists = np.append(thread, NONE)[place] == calls.thread
    work, issued = row[place[exists]], calls.issued[exists]
    group = np.zeros(works.event.size, np.int64)
    target = last_until(group, works.end, np.zeros(work.size, np.int64), works.start[work])
    launched = np.append(np.minimum(works.call_start, works.start), NONE)
    is_target = (target >= 0) & (launched[target] < issued)
    return work[is_target], target[is_target]


def launch_targets(works: Works) -> tuple[Ints, Ints]:
    """Works of a graph, and the last one to end before each: edges of graphs are not known."""
    work = np.flatnonzero(works.call >= 0)
    call = works.call[work]
    target = last_until(call, works.end[work], call, works.start[work])
    return work[target >= 0], work[target[target >= 0]]


def _points(rows: Rows, last: tuple[int, int]) -> Points:
    """All points, which wait only for their own thread."""
    slices, works = rows.slices, rows.works
    launched = works.call >= 0
    call_thread = works.call_thread[launched]
    lines = np.unique(np.concatenate([slices.thread, call_thread, [rows.threads.main, last[0]]]))
    thread = np.concatenate([slices.thread, slices.thread, call_thread, lines, [last[0]]])
    start = np.zeros(lines.size, np.int64)
    time = np.concatenate([slices.start, slices.end, arrivals(works)[launched], start, [last[1]]])
    order = np.lexsort((time, thread))
    thread, time = thread[order], time[order]
    new = np.append(True, (thread[1:] != thread[:-1]) | (time[1:] != time[:-1]))
    thread, time = thread[new], time[new]
    # Ends are excluded: at the end of a slice its thread is in the next one already.
    inside = stab(slices.thread, slices.start, slices.end - 1, thread, time)
    none = np.full(time.size, NONE, np.int64)
    return Points(thread, time, inside, none, none, none)


def _with_joins(points: Points, rows: Rows, order: LaunchOrder) -> Points:
    """Points with waits for other activities, if these came last."""
    works, threads = rows.works, rows.threads
    size = points.time.size
    previous = np.append(NONE, points.time[:-1])
    first = np.append(True, points.thread[1:] != points.thread[:-1])
    inside_before = np.append(NONE, points.inside[:-1])
    inside_before[first] = NONE
    arrival, edge = np.where(first, 0, previous), np.full(size, NONE, np.int64)
    before, via = edge.copy(), inside_before.copy()

    at, work = _sync_joins(points, rows, order)
    is_later = ~first[at] & (works.end[work] >= arrival[at])
    at, work = at[is_later], work[is_later]
    arrival[at], edge[at], before[at] = works.end[work], SYNC, work
    for forward, backward in threads.pairs:
        at = np.flatnonzero((points.thread == forward) & ~first)
        at, root_point = _backward_joins(points, rows.slices, at, backward)
        is_later = points.time[root_point] > arrival[at]
        at, root_point = at[is_later], root_point[is_later]
        arrival[at], edge[at], before[at] = points.time[root_point], THREAD, root_point
    at, cause = _wakes(points, ~first & (inside_before < 0), threads)
    is_later = points.time[cause] > arrival[at]
    at, cause = at[is_later], cause[is_later]
    edge[at], before[at], via[at] = THREAD, cause, points.inside[cause]
    return Points(points.thread, points.time, points.inside, edge, before, via)


def _sync_joins(points: Points, rows: Rows, order: LaunchOrder) -> tuple[Ints, Ints]:
    """Points at which calls that waited for a device return, and the last work of each wait."""
    slices, works, waits = rows.slices, rows.works, rows.host_waits
    row = np.arange(slices.event.size)
    call = last_equal(slices.event, row, waits.event)
    in_slices = call >= 0
    call, on, recorded = call[in_slices], waits.on_stream[in_slices], waits.recorded[in_slices]
    group = np.zeros(works.event.size + call.size, np.int64)
    until, stream = slices.end[call], np.maximum(on, 0)
    anywhere = last_until(group[call.size :], works.end, group[: call.size], until)
    on_stream = last_until(works.stream, works.end, stream, until)
    work = np.where(on < 0, anywhere, on_stream)
    work = np.where(recorded == UNSET, work, last_put(order, stream, recorded))
    copies = np.flatnonzero(works.copy & (works.call >= 0))  # a copy that ended before its call did
    copy_call = last_equal(slices.event, row, works.call[copies])
    copies, copy_call = copies[copy_call >= 0], copy_call[copy_call >= 0]
    call, work = np.append(call, copy_call), np.append(work, copies)
    ends = np.append(works.end, NONE)[work]
    # A call that came after the end of the work, or returned before it, did not wait for it.
    blocked = (work >= 0) & (ends > slices.start[call]) & (ends <= slices.end[call])
    call, work = call[blocked], work[blocked]
    at = points.at(slices.thread[call], slices.end[call])
    latest = np.lexsort((work, works.end[work], at))
    at, work = at[latest], work[latest]
    last = np.append(at[1:] != at[:-1], True)[: at.size]
    return at[last], work[last]


def _backward_joins(
    points: Points, slices: HostSlices, at: Ints, backward: int
) -> tuple[Ints, Ints]:
    """Points of a thread after activity of its backward thread, and the end of that activity.

    The forward thread waits for slices of the backward thread that begin and end between two of
    its own points. ``at`` has the points of the forward thread except its first.
    """
    roots = np.flatnonzero(slices.root & (slices.thread == backward))
    zero = np.zeros(roots.size, np.int64)
    place = last_until(zero, slices.end[roots], np.zeros(at.size, np.int64), points.time[at] - 1)
    row = np.append(roots, NONE)[place]
    # backward() blocks its caller: all that the other thread begins and ends meanwhile is waited
    # for.
    within = (row >= 0) & (np.append(slices.start, NONE)[row] >= points.time[at - 1])
    row = row[within]
    return at[within], points.at(slices.thread[row], slices.end[row])


def _wakes(points: Points, idle: Mask, threads: Threads) -> tuple[Ints, Ints]:
    """Points of threads that were in no slice, and the last point of the thread that wakes them."""
    callers = threads.callers(np.unique(points.thread).tolist())
    lookup = np.full(1 + max(callers, default=0), NONE, np.int64)
    lookup[list(callers)] = list(callers.values())
    at = np.flatnonzero(idle & (points.thread != threads.main))
    cause = points.at(lookup[points.thread[at]], points.time[at])
    return at[cause >= 0], cause[cause >= 0]
