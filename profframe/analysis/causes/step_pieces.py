"""Partition of each step's time: every nanosecond belongs to device work or a host slice.

While devices are busy, a moment belongs to their work: computation takes precedence over
communication, and communication over copies, and among equals, what began first. While none is
busy, it belongs to what the thread that launched the next work did, up to that launch, and after
that to the launch. A thread that does nothing waits for the main thread of the steps. But while
work may have run that is not in the trace, nobody knows whether a device was busy.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Final

import numpy as np

from profframe.analysis.causes.step_trees import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    Lost,
    StepSlices,
    Windows,
)
from profframe.intervals import Ints, open_at

BUSY, WAIT, LAUNCH, HOST, NOTHING, UNRECORDED = range(6)
"""Device work, a collective's wait for a rank, a launch until its work begins, the host, none, and
time in which work may have run that is not in the trace."""
_TIME_BITS: Final = 48


@dataclass(frozen=True, slots=True)
class StepPieces:
    """Pieces of windows; those of a window add up to its length.

    Attributes
    ----------
    window, row : Ints
        Number of the window, and row of the slice that it belongs to, or -1.
    what : Ints
        BUSY, LAUNCH, HOST, NOTHING or UNRECORDED; WAIT is a part of BUSY, as `with_waits` finds.
    start_ns, ns : Ints
        When it begins, and how long it is.
    """

    window: Ints
    row: Ints
    what: Ints
    start_ns: Ints
    ns: Ints


def pieces(slices: StepSlices, steps: Windows, lost: Lost) -> StepPieces:
    """Divide windows among slices."""
    works = np.flatnonzero(slices.work > 0)
    # Of works that begin at once, content decides and not the row, so that all steps divide alike.
    ties = (
        works,
        slices.detail[works],
        slices.label[works],
        slices.end_ns[works],
        slices.start_ns[works],
    )
    works = works[np.lexsort(ties)]
    marks = [steps.start_ns, steps.end_ns, lost.start_ns, lost.end_ns]
    grid, owner = _busy(slices, works, marks)
    is_lost = open_at(lost.start_ns, lost.end_ns, grid[:-1]) > 0
    window = np.searchsorted(steps.start_ns, grid[:-1], side="right") - 1
    inside = (window >= 0) & (grid[:-1] < steps.end_ns[np.maximum(window, 0)])
    start, end, owner, window = grid[:-1][inside], grid[1:][inside], owner[inside], window[inside]
    is_lost = is_lost[inside] & (owner < 0)
    busy, idle = owner >= 0, (owner < 0) & ~is_lost
    parts = [
        (window[of_them], owner[of_them], what, start[of_them], end[of_them])
        for of_them, what in ((busy, BUSY), (is_lost, UNRECORDED))
    ]
    parts += _idle(slices, works, steps, window[idle], start[idle], end[idle])
    columns = [
        *zip(*((w, r, np.full(w.size, what), s, e - s) for w, r, what, s, e in parts), strict=True)
    ]
    made = StepPieces(*(np.concatenate(column) for column in columns))
    kept = made.ns > 0
    return StepPieces(
        made.window[kept], made.row[kept], made.what[kept], made.start_ns[kept], made.ns[kept]
    )


def _busy(slices: StepSlices, works: Ints, marks: list[Ints]) -> tuple[Ints, Ints]:
    """Boundaries of busy time, and the work that owns each interval between two of them."""
    stretches = []
    # The most important class last: it overwrites the owner of what it overlaps.
    for number in (COPY, COMMUNICATION, COMPUTE):
        rows = works[slices.work[works] == number]
        start, end = slices.start_ns[rows], slices.end_ns[rows]
        start = np.maximum(
            start, np.append(start[:1], np.maximum.accumulate(end)[:-1])[: start.size]
        )
        own = start < end
        stretches.append((rows[own], start[own], end[own]))
    bounds = [*marks, *(column for part in stretches for column in part[1:])]
    grid = np.sort(np.concatenate(bounds))
    grid = grid[np.append(True, grid[1:] != grid[:-1])[: grid.size]]
    owner = np.full(max(grid.size - 1, 0), -1, np.int64)
    for rows, start, end in stretches:
        change = np.zeros(grid.size + 1, np.int64)
        change[np.searchsorted(grid, start)] += rows + 1
        np.subtract.at(change, np.searchsorted(grid, end), rows + 1)
        own = np.cumsum(change)[: owner.size] - 1
        owner = np.where(own >= 0, own, owner)
    return grid, owner


def _idle(  # noqa: PLR0917 -- three of them are the columns of gaps
    slices: StepSlices, works: Ints, steps: Windows, window: Ints, start: Ints, end: Ints
) -> list[tuple[Ints, Ints, int, Ints, Ints]]:
    """Divide idle gaps: host time until the next work is launched, launch latency after that."""
    # A gap belongs to the work that ends it: until that was launched, devices waited for its
    # thread.
    after = np.searchsorted(slices.start_ns[works], end)
    following = np.append(works, -1)[after]
    launch = np.where(following >= 0, slices.launch[following], -1)
    has_launch = launch >= 0
    launched = np.where(has_launch, slices.start_ns[launch], end)
    launched = np.clip(launched, start, end)
    thread = np.where(has_launch, slices.thread[launch], steps.thread)
    parts = [(window, following, LAUNCH, launched, end)]
    threads = _Threads(slices)
    gap, row, begun, ended = threads.inside(thread, start, launched)
    # A thread in no slice does nothing itself: what the main thread did meanwhile counts.
    lost = (row < 0) & (thread[gap] != steps.thread)
    parts.append((window[gap[~lost]], row[~lost], HOST, begun[~lost], ended[~lost]))
    main = np.full(np.count_nonzero(lost), steps.thread)
    again, row, begun, ended = threads.inside(main, begun[lost], ended[lost])
    parts.append((window[gap[lost][again]], row, HOST, begun, ended))
    return [part for whole in parts for part in _with_nothing(whole)]


def _with_nothing(
    part: tuple[Ints, Ints, int, Ints, Ints],
) -> list[tuple[Ints, Ints, int, Ints, Ints]]:
    """The part, with the time that no slice owns separated."""
    window, row, what, start, end = part
    own = row >= 0
    return [
        (window[own], row[own], what, start[own], end[own]),
        (window[~own], row[~own], NOTHING, start[~own], end[~own]),
    ]


class _Threads:
    """The innermost slice of each host thread, at any moment."""

    def __init__(self, slices: StepSlices) -> None:
        host = np.flatnonzero((slices.work == 0) & (slices.thread >= 0) & (slices.dur_ns > 0))
        self._origin = int(slices.start_ns.min()) if slices.start_ns.size else 0
        parent = slices.parent[host]
        parent = np.where(
            (parent >= 0) & (slices.thread[parent] == slices.thread[host]), parent, -1
        )
        thread = np.tile(slices.thread[host], 2)
        time = np.concatenate([slices.start_ns[host], slices.end_ns[host]])
        inside = np.concatenate([host, parent])
        # At one moment, ends come before begins: inner slices first, then outer ones.
        level = np.concatenate([slices.depth[host] + 1, -slices.depth[host]])
        key = self._keys(thread, time)
        order = np.lexsort((level, key))
        self._key = key[order]
        self._thread, self._time, self._inside = thread[order], time[order], inside[order]

    def _keys(self, thread: Ints, time: Ints) -> Ints:
        return (thread << _TIME_BITS) + (time - self._origin)

    def inside(self, thread: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Parts of intervals by innermost slice: number of the interval, row or -1, start, end."""
        first = np.searchsorted(self._key, self._keys(thread, start), side="right") - 1
        behind = np.searchsorted(self._key, self._keys(thread, end), side="left")
        count = np.where(end > start, np.maximum(behind - first, 1), 0)
        number = np.repeat(np.arange(thread.size), count)
        at = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(number.size)
        own = (at >= 0) & (np.append(self._thread, -2)[at] == thread[number])
        row = np.where(own, np.append(self._inside, -1)[at], -1)
        begun = np.where(own, np.append(self._time, 0)[at], start[number])
        following = np.append(self._time, 0)[np.minimum(at + 1, self._time.size)]
        is_last = np.append(number[1:] != number[:-1], True)[: number.size]
        ended = np.where(is_last, end[number], following)
        return number, row, np.maximum(begun, start[number]), np.minimum(ended, end[number])


def with_waits(made: StepPieces, waits_until: Ints) -> StepPieces:
    """Pieces, with the waits for another rank separated; each slice says until when it waited."""
    until = np.where(made.what == BUSY, np.append(waits_until, 0)[made.row], 0)
    waited = np.clip(until - made.start_ns, 0, made.ns)
    rows = np.flatnonzero(waited > 0)
    rest = replace(made, start_ns=made.start_ns + waited, ns=made.ns - waited)
    waits = StepPieces(
        made.window[rows],
        made.row[rows],
        np.full(rows.size, WAIT),
        made.start_ns[rows],
        waited[rows],
    )
    columns = zip(*(astuple(part) for part in (rest, waits)), strict=True)
    return StepPieces(*(np.concatenate(column) for column in columns))
