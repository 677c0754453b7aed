"""Find the op that ran when the allocator made a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import is_kind, is_text, numbers, present, words
from profframe.intervals import Ints, Mask, last_until, nearest, open_at, stab

_TOLERANCE_NS: Final = 100_000
"""Furthest that a record of the allocator may be from that of the profiler of the same memory: each
turns ticks into time on its own."""
_LATER_NS: Final = 999
"""The allocator's times are cut to microseconds: what it recorded was later by up to this."""
_SIGNS: Final = (("alloc", 1), ("free_requested", -1))
"""Records that the profiler has, too, and the sign of their bytes there."""
_OOM: Final = "oom"
_OUT_OF_MEMORY: Final = "[OutOfMemory]"
_STEP: Final = "ProfilerStep#"


@dataclass(frozen=True, slots=True)
class Matches:
    """Op, step and profiler record of each allocator record; -1 if unknown.

    ``several`` marks records whose op is unknown because several threads were inside ops.
    """

    op: Ints
    step: Ints
    memory: Ints
    """Row of `memory` that is about the same."""
    several: Mask


def match(events: pa.Table, memory: pa.Table, instants: pa.Table, records: pa.Table) -> Matches:
    """Match the rows of `allocator_events` with a trace.

    A record that the profiler also has (with the same address, a size that holds its own, and the
    nearest time) is in the innermost host op of that thread. Any other is in the innermost host op
    of the only thread that is inside an op at that time.
    """
    has_time, at = present(records, "time_ns"), numbers(records, "time_ns")
    thread, exact_at, row = _of_profiler(memory, instants, records)
    ops = _Ops.of(events)
    op = np.full(records.num_rows, -1, np.int64)
    exact = np.flatnonzero(thread >= 0)
    op[exact] = ops.on_thread(thread[exact], exact_at[exact])
    left = np.flatnonzero(has_time & (thread < 0))
    several = np.zeros(records.num_rows, np.bool_)
    op[left], several[left] = ops.alone(at[left])
    step = np.full(records.num_rows, -1, np.int64)
    step[op >= 0] = numbers(events, "step", missing=-1)[op[op >= 0]]
    unknown = np.flatnonzero(has_time & (step < 0))
    step[unknown] = _steps_at(events, at[unknown])
    return Matches(op, step, row, several)


@dataclass(frozen=True, slots=True)
class _Ops:
    """Host ops of all threads, and which of them are in no other op."""

    row: Ints
    thread: Ints
    start: Ints
    end: Ints
    depth: Ints
    is_outermost: Mask

    @classmethod
    def of(cls, events: pa.Table) -> _Ops:
        is_op = is_kind(events, ("host_op",)) & present(events, "start_ns", "dur_ns")
        parent = numbers(events, "parent_id", missing=-1)
        around = np.append(nearest(parent, is_op), -1)[parent]
        row = np.flatnonzero(is_op)
        start = numbers(events, "start_ns")[row]
        return cls(
            row,
            numbers(events, "thread")[row],
            start,
            start + numbers(events, "dur_ns")[row],
            numbers(events, "depth", missing=-1)[row],
            around[row] < 0,
        )

    def on_thread(self, thread: Ints, at: Ints) -> Ints:
        """Event of the innermost op of a thread at each moment, or -1."""
        return self._events(stab(self.thread, self.start, self.end, thread, at))

    def alone(self, at: Ints) -> tuple[Ints, Mask]:
        """Event of the innermost op at each moment, -1 where several threads are in one."""
        early, is_shared_early = self._at(at)
        late, is_shared_late = self._at(at + _LATER_NS)
        both = (early >= 0) & (late >= 0)
        thread, depth = np.append(self.thread, -1), np.append(self.depth, -1)
        is_shared = is_shared_early | is_shared_late | (both & (thread[early] != thread[late]))
        # An op that begins or ends within the microsecond: the memory is most likely its own.
        deepest = np.where(depth[early] > depth[late], early, late)
        return np.where(is_shared, -1, self._events(deepest)), is_shared

    def _at(self, at: Ints) -> tuple[Ints, Mask]:
        nobody = np.zeros_like(at)
        hit = stab(np.zeros_like(self.start), self.start, self.end, nobody, at)
        order = np.argsort(at, kind="stable")
        count = np.empty_like(at)
        outer = self.is_outermost
        count[order] = open_at(self.start[outer], self.end[outer] + 1, at[order])
        return hit, count > 1

    def _events(self, rows: Ints) -> Ints:
        return np.append(self.row, -1)[rows]


def _steps_at(events: pa.Table, at: Ints) -> Ints:
    """The profiler step at each moment, or -1; a step excludes its end."""
    name, texts = words(events, "name")
    is_step = np.array([*(text.startswith(_STEP) for text in texts), False])[name]
    is_mark = is_kind(events, ("annotation", "host_op")) & present(
        events, "step", "start_ns", "dur_ns"
    )
    marks = np.flatnonzero(is_step & is_mark & (numbers(events, "dur_ns") > 0))
    start = numbers(events, "start_ns")[marks]
    last = start + numbers(events, "dur_ns")[marks] - 1
    hit = stab(np.zeros_like(marks), start, last, np.zeros_like(at), at)
    return np.append(numbers(events, "step", missing=-1)[marks], -1)[hit]


def _of_profiler(
    memory: pa.Table, instants: pa.Table, records: pa.Table
) -> tuple[Ints, Ints, Ints]:
    """Thread and time of each record in the profiler's own record of it, and its row in `memory`.

    Each is -1 where there is none.
    """
    count = records.num_rows
    thread, at, row = (np.full(count, -1, np.int64) for _ in range(3))
    is_placed = present(records, "time_ns", "address", "bytes")
    theirs = present(memory, "time_ns", "address", "bytes")
    size = numbers(memory, "bytes")
    device = numbers(memory, "device", missing=-1)
    for action, sign in _SIGNS:
        wanted = np.flatnonzero(is_placed & is_text(records["action"], action))
        theirs_of_sign = np.flatnonzero(theirs & (np.sign(size) == sign))
        nearest_row = _nearest(
            numbers(memory, "address")[theirs_of_sign],
            numbers(memory, "time_ns")[theirs_of_sign],
            numbers(records, "address")[wanted],
            numbers(records, "time_ns")[wanted],
        )
        candidate = np.append(theirs_of_sign, -1)[nearest_row]
        fits = candidate >= 0
        # The profiler has the size of the block, the snapshot the requested size.
        fits &= np.abs(size)[candidate] >= numbers(records, "bytes")[wanted] if size.size else False
        if size.size:
            own = device[candidate]
            fits &= (own < 0) | (own == numbers(records, "device", missing=-1)[wanted])
        row[wanted[fits]] = candidate[fits]
    is_matched = row >= 0
    thread[is_matched] = numbers(memory, "thread", missing=-1)[row[is_matched]]
    at[is_matched] = numbers(memory, "time_ns")[row[is_matched]]
    failed = np.flatnonzero(present(records, "time_ns") & is_text(records["action"], _OOM))
    marks = np.flatnonzero(
        is_text(instants["name"], _OUT_OF_MEMORY) & present(instants, "time_ns", "thread")
    )
    nearest_row = _nearest(
        np.zeros_like(marks),
        numbers(instants, "time_ns")[marks],
        np.zeros_like(failed),
        numbers(records, "time_ns")[failed],
    )
    is_seen = nearest_row >= 0
    seen = marks[nearest_row[is_seen]]
    thread[failed[is_seen]] = numbers(instants, "thread")[seen]
    at[failed[is_seen]] = numbers(instants, "time_ns")[seen]
    return thread, at, row


def _nearest(key: Ints, at: Ints, in_key: Ints, moment: Ints) -> Ints:
    """The nearest point with the same key, for one moment each; -1 if it is too far away."""
    before = last_until(key, at, in_key, moment + _LATER_NS)
    after = last_until(key, -at, in_key, -moment)
    times = np.append(at, np.iinfo(np.int64).max >> 2)
    distances = [np.abs(times[rows] - moment) for rows in (before, after)]
    nearest_row = np.where(distances[0] <= distances[1], before, after)
    distance = np.minimum(*distances)
    nearest_row[distance > _TOLERANCE_NS + _LATER_NS] = -1
    # Of several moments, the nearest one has the point.
    order = np.lexsort((distance, nearest_row))
    again = np.append(False, nearest_row[order][1:] == nearest_row[order][:-1])[: order.size]
    nearest_row[order[again]] = -1
    return nearest_row
