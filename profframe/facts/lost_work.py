"""Lost work: calls whose work is not in the trace, and when it may have run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import (
    column,
    combined,
    is_kind,
    nulls,
    numbers,
    present,
    stream_codes,
    words,
)
from profframe.facts.fact import (
    Note,
    Output,
    Tables,
    any_of,
    columns,
    fact,
    listed,
    note,
    of_events,
)
from profframe.facts.graph_captures.recorded_captures import (
    BEGIN,
    COPY,
    END,
    FILL,
    KERNEL,
    REPLAY,
    is_call,
    outermost,
    without_work,
)
from profframe.intervals import Ints, Mask, last_until, nearest, open_at

_LAUNCHES: Final = (KERNEL, COPY, REPLAY)
_COLUMNS: Final = ("lost_device", "lost_stream", "lost_start_ns", "lost_end_ns")
_NONE: Final = -1
_ALWAYS: Final = np.iinfo(np.int64).max


@fact(
    inputs=columns(
        events="kind name start_ns dur_ns pid thread device stream correlation launch_id parent_id "
        "preorder step",
        counters="event_id",
    ),
    outputs=columns(events=" ".join(_COLUMNS)),
    needs=any_of(kinds=schema.LAUNCH_KINDS),
)
def lost_work(tables: Tables) -> Output:
    """Add ``lost_device lost_stream lost_start_ns lost_end_ns``.

    A call that launches a kernel, a copy or a graph has lost it if none with a time is in the
    trace; but not while a graph was captured, and not if as much later work has no correlation: if
    less has none, all of these calls may have lost it, and ``quality`` counts how many have. Fills
    say nothing: those of some sizes are never recorded. Nor does a launch of a graph with any work,
    though it may have lost a part: only others of its graph tell, which `graphs` counts. The stream
    is that of all that its thread launched in the same op, if that is one; else it may be any of
    its thread's. The work may have run from its launch, and the end of the work before it on its
    stream, until the start of the work after it there; without any work, until the end of the
    trace.
    """
    events = tables["events"]
    lost, fills = lost_calls(events), tuple(_fills(events))
    nothing = {name: nulls(events, name) for name in _COLUMNS}
    if not lost.size:
        return of_events(*fills, **nothing)
    work = _Launched.of(events)
    if not work.row.size:
        # CUPTI's range profiler writes slices with counters in place of kernels: these are not
        # lost.
        if present(tables["counters"], "event_id").any():  # a slice for each kernel
            return of_events(**nothing)
        ran = is_kind(events, schema.DEVICE_KINDS) & present(events, "start_ns", "dur_ns")
        if ran.any():
            return of_events(*_notes(events, lost, np.full(lost.size, _NONE)), *fills, **nothing)
    places = work.places(events, lost)
    values = np.full((len(_COLUMNS), events.num_rows), _NONE, np.int64)
    values[:, lost] = places
    is_lost = np.zeros(events.num_rows, np.bool_)
    is_lost[lost] = True
    is_known = (is_lost & (values[0] >= 0), is_lost & (values[1] >= 0), is_lost, is_lost)
    arrays = {
        name: column(name, of, has)
        for name, of, has in zip(_COLUMNS, values, is_known, strict=True)
    }
    return of_events(*_notes(events, lost, places[1]), *fills, **arrays)


def lost_spans(events: pa.Table, chosen: Mask | None = None) -> tuple[Ints, Ints]:
    """Starts and ends of when work that is not in the trace may have run, of some of the calls."""
    lost = present(events, "lost_start_ns")
    lost = lost if chosen is None else lost & chosen
    return numbers(events, "lost_start_ns")[lost], numbers(events, "lost_end_ns")[lost]


def lost_calls(events: pa.Table) -> Ints:
    """Calls, by their start, whose work is not in the trace although it must have run."""
    rows = _without_timed_work(events, *_LAUNCHES)
    kept = np.zeros(rows.size, np.bool_)
    for of_kind, later in _without_call(events, rows):
        # With as much unlinked work as calls, the records are probably there and only lost their
        # link.
        kept |= of_kind & (np.count_nonzero(of_kind) > np.count_nonzero(later))
    return rows[kept]


def _without_timed_work(events: pa.Table, *patterns: re.Pattern[str]) -> Ints:
    """Calls with these names, by start, that launched nothing with a time, nor captured it."""
    timed = present(events, "start_ns", "dur_ns")
    launch = np.where(timed, numbers(events, "launch_id", missing=_NONE), _NONE)
    rows = without_work(events, launch, *patterns)
    return rows[~_is_captured(events, rows)] if rows.size else rows


def _fills(events: pa.Table) -> Iterator[Note]:
    """How many fills are not in the trace of a device whose kernels are."""
    # A trace of copies alone may have been recorded without kernels and fills.
    if is_kind(events, ("kernel", "memset")).any():
        yield from note("fill_without_work", _without_timed_work(events, FILL))


def _without_call(events: pa.Table, rows: Ints) -> Iterator[tuple[Mask, Mask]]:
    """For kernels and for copies: the mask of calls, and of unlinked work that may be theirs.

    Such work has neither a correlation nor a launch, and began after the first of these calls.
    """
    unlinked = present(events, "start_ns", "dur_ns") & ~present(events, "launch_id")
    unlinked &= numbers(events, "correlation") == 0
    start = numbers(events, "start_ns")
    for patterns, kind in (((KERNEL, REPLAY), "kernel"), ((COPY,), "memcpy")):
        of_kind = is_call(events, *patterns)[rows]
        if of_kind.any():
            began = start > start[rows[of_kind][0]]
            yield of_kind, unlinked & is_kind(events, (kind,)) & began


def _is_captured(events: pa.Table, rows: Ints) -> Mask:
    """Mask of calls that were made while their process captured a graph, on any thread."""
    captured = np.zeros(rows.size, np.bool_)
    begins, ends = (np.flatnonzero(is_call(events, mark)) for mark in (BEGIN, END))
    if not begins.size and not ends.size:
        return captured
    start, thread = numbers(events, "start_ns"), numbers(events, "thread")
    process, _ = words(events, "pid")
    # From a begin to the next end of its thread, and to an end without a begin.
    closed = last_until(thread[ends], -start[ends], thread[begins], -start[begins])
    opened = last_until(thread[begins], start[begins], thread[ends], start[ends])
    until = np.where(closed >= 0, start[np.append(ends, 0)[closed]], _ALWAYS)
    loose = ends[opened < 0]
    since = np.concatenate([start[begins], np.full(loose.size, -_ALWAYS)])
    until = np.concatenate([until, start[loose]])
    owner = process[np.concatenate([begins, loose])]
    for pid in np.unique(owner):
        own, mine = owner == pid, process[rows] == pid
        captured[mine] = open_at(since[own], until[own], start[rows[mine]]) > 0
    return captured


@dataclass(frozen=True, slots=True)
class _Launched:
    """Work of devices whose launch is known, by its stream, its launch and its start."""

    row: Ints
    stream: Ints
    queued: Ints
    start: Ints
    end: Ints

    @classmethod
    def of(cls, events: pa.Table) -> _Launched:
        launch = numbers(events, "launch_id", missing=_NONE)
        start = numbers(events, "start_ns")
        timed = is_kind(events, schema.DEVICE_KINDS) & present(events, "start_ns", "dur_ns")
        row = np.flatnonzero(timed & (launch >= 0))
        # By launch and not by start: a stream runs in launch order, which brackets when lost work
        # ran.
        code = combined(stream_codes(events)[row])
        queued = start[launch[row]]
        order = np.lexsort((start[row], queued, code))
        row, code, queued = row[order], code[order], queued[order]
        return cls(row, code, queued, start[row], start[row] + numbers(events, "dur_ns")[row])

    def places(self, events: pa.Table, lost: Ints) -> Ints:
        """Device, stream, start and end of each lost piece of work; -1 where not known."""
        # Without any linked work no stream is known: the work may have run until the end of the
        # trace.
        at = numbers(events, "start_ns")[lost]
        if not self.row.size:
            unknown = np.full(lost.size, _NONE)
            return np.stack([unknown, unknown, at, np.maximum(at, _end(events))])
        call, stream, is_certain = self._candidates(events, lost)
        before = last_until(self.stream, self.queued, stream, at[call])
        after = last_until(self.stream[::-1], -self.queued[::-1], stream, -at[call] - 1)
        ended = np.append(self.end, 0)[before]
        began = np.append(self.start[::-1], _end(events))[after]
        since, until = np.full(lost.size, _ALWAYS), at.copy()
        np.minimum.at(since, call, np.where(before >= 0, ended, at[call]))
        np.maximum.at(until, call, began)
        since = np.maximum(since, at)
        rows = self.row[np.searchsorted(self.stream, np.arange(self.stream[-1] + 1))]
        device, on = (numbers(events, name, missing=_NONE)[rows] for name in ("device", "stream"))
        device, on = (_common(lost.size, call, of[stream]) for of in (device, on))
        on = np.where(is_certain, on, _NONE)
        return np.stack([device, on, since, np.maximum(since, until)])

    def _candidates(self, events: pa.Table, lost: Ints) -> tuple[Ints, Ints, Mask]:
        """Pairs of lost call and possible stream, and which calls have a certain stream."""
        calls = np.concatenate([numbers(events, "launch_id")[self.row], lost])
        thread, process = numbers(events, "thread")[calls], words(events, "pid")[0][calls]
        anything = np.zeros(calls.size, np.int64)
        # The streams of the same op are a closer guess than those of its thread, these than those
        # of its process.
        in_op = combined(thread, _labels(events, calls))
        streams = [_Streams.of(key, self.stream) for key in (in_op, thread, process, anything)]
        counts = np.stack([of.count[self.row.size :] for of in streams])
        # The one stream of the op decides; else it is any of the thread, or what there is.
        level = np.where(counts[0] == 1, 0, 1 + (counts[1:] > 0).argmax(axis=0))
        chosen = [
            of.all_of(np.flatnonzero(level == n), self.row.size) for n, of in enumerate(streams)
        ]
        call, stream = (np.concatenate(part) for part in zip(*chosen, strict=True))
        return call, stream, level == 0


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams of the work of each key: from ``first`` on ``count`` of ``streams``."""

    streams: Ints
    first: Ints
    count: Ints

    @classmethod
    def of(cls, key: Ints, stream: Ints) -> _Streams:
        """Group streams by key; ``key`` has the keys of the work, then those of the calls."""
        distinct = np.unique(np.stack([key[: stream.size], stream]), axis=1)
        first, last = (np.searchsorted(distinct[0], key, side) for side in ("left", "right"))
        return cls(distinct[1], first, last - first)

    def all_of(self, calls: Ints, work: int) -> tuple[Ints, Ints]:
        """Repeat calls for each of their streams; their keys follow those of ``work`` pieces."""
        count, first = self.count[work + calls], self.first[work + calls]
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return np.repeat(calls, count), self.streams[np.repeat(first, count) + place]


def _labels(events: pa.Table, calls: Ints) -> Ints:
    """The name of the op around each call, or its own."""
    name, _ = words(events, "name")
    around = nearest(numbers(events, "parent_id", missing=_NONE), is_kind(events, ("host_op",)))
    return name[np.where(around >= 0, around, np.arange(around.size))[calls]]


def _end(events: pa.Table) -> int:
    """The end of the trace."""
    timed = present(events, "start_ns", "dur_ns")
    ends = (numbers(events, "start_ns") + numbers(events, "dur_ns"))[timed]
    return int(ends.max(initial=-_ALWAYS))


def _common(size: int, group: Ints, values: Ints) -> Ints:
    """The value of all members of each group; -1 if they differ."""
    least, most = np.full(size, _ALWAYS), np.full(size, _NONE)
    np.minimum.at(least, group, values)
    np.maximum.at(most, group, values)
    return np.where(least == most, most, _NONE)


def _notes(events: pa.Table, lost: Ints, stream: Ints) -> Iterator[Note]:
    """Notes with the number of lost calls by step and stream."""
    step = numbers(events, "step", missing=_NONE)[lost]
    (steps, streams), counts = np.unique(np.stack([step, stream]), axis=1, return_counts=True)
    parts = [
        f"{count}{f' in step {number}' * (number >= 0)}{f' on stream {on}' * (on >= 0)}"
        for number, on, count in zip(steps.tolist(), streams.tolist(), counts.tolist(), strict=True)
    ]
    calls = np.count_nonzero(outermost(events, *_LAUNCHES))
    there = sum(int(np.count_nonzero(later)) for _, later in _without_call(events, lost))
    either = f" of these {lost.size:,} calls, some work has no correlation: " if there else " "
    detail = f"{lost.size - there:,} of {calls:,}:{either}{listed(parts)}"
    yield "launch_without_work", lost.size - there, detail, int(lost[0])
