"""The rows of one (run, rank) that a critical path needs, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from profframe.analysis.critical_path.graph import (
    NONE,
    UNSET,
    DisjointSpans,
    HostSlices,
    HostWaits,
    Rows,
    StreamWaits,
    Threads,
    WaitCalls,
    Works,
)
from profframe.analysis.critical_path.source import Columns, RankSource
from profframe.analysis.critical_path.turns import in_turns
from profframe.errors import ParameterError, UnknownNameError
from profframe.facts.arrays import last_equal
from profframe.intervals import Ints, union
from profframe.query.selection import check_numbers, integer


@dataclass(frozen=True, slots=True)
class RankEvents:
    """Rows of path_events that a path has a use for, and pairs of threads; see `_pairs`."""

    rows: Columns
    pairs: Mapping[str, Ints]


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a path, to the end of its last activity.

    ``main`` is the main thread. The last activity is a slice of ``thread``, or the work ``event``
    if that is not -1. The host is done at ``host_end_ns`` on ``host_thread``. ``events`` are those
    of the rank, if the window is of all of them.
    """

    start_ns: int
    end_ns: int
    main: int
    thread: int
    event: int
    host_thread: int
    host_end_ns: int
    events: RankEvents | None = None

    def moved(self, by_ns: int) -> Window:
        """The window on another clock."""
        moments = (self.start_ns, self.end_ns, self.host_end_ns)
        start, end, host_end = (moment + by_ns for moment in moments)
        return replace(self, start_ns=start, end_ns=end, host_end_ns=host_end)

    def since(self, moment_ns: int) -> Window | None:
        """The window from a later start on; None if it had ended by then."""
        if self.end_ns <= moment_ns:
            return None
        start, host_end = (max(at, moment_ns) for at in (self.start_ns, self.host_end_ns))
        return replace(self, start_ns=start, host_end_ns=host_end)


def window(
    source: RankSource, step: int | None, annotation: str | None, instance: int
) -> Window | None:
    """Find the window of a step, of an annotation, or of all; None if nothing takes time."""
    if step is not None and annotation is not None:
        raise ParameterError("step and annotation: give one of them, not both")
    if step is not None:
        return _step_window(source, step)
    if annotation is not None:
        return _annotation_window(source, annotation, instance)
    return _whole_window(source)


def _step_window(source: RankSource, step: int) -> Window | None:
    """Find the interval of a profiler step, to its completion; None if it takes no time.

    Where it is not known, it is from the start on the host to the end of the work launched in it.
    """
    steps = source.ints(
        """SELECT
            steps.event_id, steps.step, thread, steps.start_ns + host_ns AS host_end_ns,
            coalesce(began_ns, steps.start_ns) AS began_ns,
            coalesce(
                completed_ns,
                greatest(steps.start_ns + host_ns, device_start_ns + device_window_ns)
            ) AS completed_ns
        FROM profiler_steps AS steps JOIN events USING (run, rank, event_id)
        WHERE steps.start_ns IS NOT NULL AND host_ns > 0
        ORDER BY steps.start_ns, steps.event_id""",
    )
    number = integer("step", step)
    check_numbers("step", (number,), steps["step"].tolist())
    at = int(np.flatnonzero(steps["step"] == number)[0])
    names = ("began_ns", "completed_ns", "host_end_ns", "thread")
    began, completed, host_end, thread = (int(steps[name][at]) for name in names)
    if completed <= began:
        return None
    works = source.ints(
        "SELECT event_id, step FROM path_works(events) WHERE end_ns = getvariable('path_end_ns')",
        path_end_ns=completed,
    )
    event = NONE
    # If the host ends later than the devices, the path begins on the host.
    if completed > host_end and works["event_id"].size:
        # Several works may end in this nanosecond; the one of the latest step is this step's.
        event = int(works["event_id"][np.argmax(works["step"])])
    return Window(began, completed, thread, thread, event, thread, max(host_end, began))


def _annotation_window(source: RankSource, annotation: str, instance: int) -> Window:
    """Find the window of an annotation: to the end of the work that was launched in it."""
    marks = source.ints(
        """SELECT start_ns, end_ns, thread FROM path_annotations(events)
        WHERE name = getvariable('path_annotation') ORDER BY start_ns, event_id""",
        path_annotation=annotation,
    )
    count = marks["start_ns"].size
    if not count:
        choices = source.texts("SELECT DISTINCT name FROM path_annotations(events)")
        raise UnknownNameError.among("annotation", annotation, choices)
    check_numbers("instance", (integer("instance", instance),), range(count))
    start, end = (int(marks[name][instance]) for name in ("start_ns", "end_ns"))
    works = source.ints(
        """SELECT works.event_id, works.end_ns, calls.start_ns AS call_ns
        FROM path_works(events) AS works
        JOIN path_calls(events) AS calls ON works.launch_id = calls.event_id"""
    )
    inside = (works["call_ns"] >= start) & (works["call_ns"] < end)
    return _window(marks, instance, {name: values[inside] for name, values in works.items()})


def _window(marks: Mapping[str, Ints], at: int, works: Mapping[str, Ints]) -> Window:
    """The window of a mark, to the end of the last of some works, sorted by ``event_id``."""
    start, end, thread = (int(marks[name][at]) for name in ("start_ns", "end_ns", "thread"))
    if works["event_id"].size:
        last = int(np.argmax(works["end_ns"]))
        done, event = int(works["end_ns"][last]), int(works["event_id"][last])
        if done > end:
            return Window(start, done, thread, thread, event, thread, end)
    return Window(start, end, thread, thread, NONE, thread, end)


def _whole_window(source: RankSource) -> Window | None:
    """Find the window from the first start to the last end; None if nothing takes time.

    The main thread is the one with the forward ops of most backward ops. If none are known, it is
    the one with the most slices among those without backward passes, or among all.
    """
    events = _events(source)
    rows, pairs = events.rows, events.pairs
    takes_time = rows["dur_ns"] > 0
    host = np.flatnonzero(takes_time & (rows["role"] <= _CALL))
    work = np.flatnonzero(takes_time & (rows["role"] >= _WORK) & (rows["role"] < _SYNC))
    if not host.size + work.size:
        return None
    starts, ends = (
        np.append(values[host], values[work])
        for values in (rows["start_ns"], rows["start_ns"] + rows["dur_ns"])
    )
    start, end = int(starts.min()), int(ends.max())
    host_ends, work_ends = np.split(ends, [host.size])
    lines, slices = np.unique(rows["thread"][host], return_counts=True)
    threads = lines[np.lexsort((lines, lines == UNSET, -slices))].tolist()
    linked = [thread for thread in pairs["forward_thread"].tolist()[-1:] if thread >= 0]
    others = [thread for thread in threads if thread not in set(pairs["thread"].tolist())]
    main = next(iter((*linked, *others, *threads)), 0)
    host_end = int(host_ends.max(initial=start))
    last = np.unique(rows["thread"][host[host_ends == host_end]]).tolist() or [main]
    # On a tie the main thread, which has more to tell.
    thread = main if main in last else min(last)
    if host_end == end:
        return Window(start, end, main, thread, NONE, thread, host_end, events)
    event = int(rows["event_id"][work[np.argmax(work_ends)]])
    return Window(start, end, main, main, event, thread, host_end, events)


_SLICE, _CALL, _WORK, _COPY, _SYNC = range(5)
"""Roles of rows of path_events."""
_SYNCHRONISES, _AWAITS, _BY_HOST, _BACKWARD, _OP = (1 << bit for bit in range(5))
"""Hints of rows of path_events."""
_WAITS: Final = ("of_stream", "device", "stream", "on_stream", "call", "issued_ns", "recorded_ns")
"""Columns of path_waits."""


def read(source: RankSource, window: Window) -> Rows:
    """Read what happened in the window."""
    events = _events(source) if window.events is None else window.events
    rows = events.rows
    event, role, hints = rows["event_id"], rows["role"], rows["hints"]
    if (role == _SYNC).any():
        waits = source.ints("FROM path_waits(events)", window_start_ns=window.start_ns)
    else:
        waits = dict.fromkeys(_WAITS, np.empty(0, np.int64))
    start = rows["start_ns"] - window.start_ns
    length = window.end_ns - window.start_ns
    takes_time = (rows["dur_ns"] > 0) & (start < length) & (start + rows["dur_ns"] > 0)
    host = np.flatnonzero(takes_time & (role <= _CALL))
    # Later work keeps devices busy, but nothing in the window waits for its end.
    work = np.flatnonzero(takes_time & (role >= _WORK) & (role < _SYNC))
    work_stream, wait_stream, on_stream = _streams(
        (rows["device"][work], rows["stream"][work]),
        (waits["device"], waits["stream"]),
        (waits["device"], waits["on_stream"]),
    )
    on_stream = np.where(waits["on_stream"] < 0, NONE, on_stream)
    end = start + rows["dur_ns"]
    done = end[work] <= length
    slices = HostSlices(
        event[host],
        rows["thread"][host],
        np.maximum(start[host], 0),
        np.minimum(end[host], length),
        rows["root"][host] > 0,
    )
    synchronising = slices.event[hints[host] & _SYNCHRONISES > 0]
    return Rows(
        slices,
        in_turns(_works(rows, start, work[done], work_stream[done])),
        DisjointSpans(*union(start[work], end[work])),
        _stream_waits(waits, wait_stream, on_stream),
        _wait_calls(rows, start),
        _host_waits(waits, on_stream, synchronising),
        _threads(events.pairs, window.main),
    )


def _works(rows: Columns, start: Ints, work: Ints, stream: Ints) -> Works:
    """Some rows of path_events, with the calls that launched them."""
    event, role = rows["event_id"], rows["role"]
    calls = np.flatnonzero(role == _CALL)
    call = last_equal(event[calls], calls, rows["launch_id"][work])
    is_known, begun = call >= 0, start[work]
    return Works(
        event=event[work],
        stream=stream,
        start=begun,
        end=begun + rows["dur_ns"][work],
        whole=rows["dur_ns"][work],
        copy=role[work] == _COPY,
        by_host=rows["hints"][work] & _BY_HOST > 0,
        call=np.where(is_known, event[call], NONE),
        call_thread=np.where(is_known, np.maximum(rows["thread"][call], NONE), NONE),
        call_start=np.where(is_known, start[call], begun),
        call_end=np.where(is_known, (start + rows["dur_ns"])[call], begun),
    )


def _wait_calls(rows: Columns, start: Ints) -> WaitCalls:
    """Calls that make a stream wait, if no sync says which stream waits for what."""
    in_syncs = rows["launch_id"][rows["role"] == _SYNC]
    calls = np.flatnonzero(rows["hints"] & _AWAITS > 0)
    at = calls[~np.isin(rows["event_id"][calls], in_syncs)]
    return WaitCalls(rows["thread"][at], start[at])


def graph_waits(source: RankSource, events: Ints) -> tuple[Ints, Ints]:
    """Dependencies between nodes of graphs: rows of the source and of the target."""
    pairs = source.ints("FROM flow_pairs(flows, 'graph_dependency')")
    rows = np.arange(events.size)
    first, then = (last_equal(events, rows, pairs[name]) for name in ("source", "target"))
    there = (first >= 0) & (then >= 0)
    return first[there], then[there]


def _stream_waits(waits: Mapping[str, Ints], stream: Ints, on_stream: Ints) -> StreamWaits:
    """Waits of streams; if the recorded moment is unknown, all work before the call counts."""
    rows = np.flatnonzero((waits["of_stream"] > 0) & (on_stream >= 0))
    issued, recorded = waits["issued_ns"][rows], waits["recorded_ns"][rows]
    recorded = np.where(recorded == UNSET, issued, recorded)
    return StreamWaits(stream[rows], issued, on_stream[rows], recorded)


def _host_waits(waits: Mapping[str, Ints], on_stream: Ints, synchronising: Ints) -> HostWaits:
    """Waits of threads: from synchronisation events, else from calls by their names."""
    rows = np.flatnonzero((waits["of_stream"] == 0) & (waits["call"] >= 0))
    # A recorded wait knows its stream; names of calls are for sources without such records.
    calls = np.setdiff1d(synchronising, waits["call"][rows])
    on = on_stream[rows]
    recorded = np.where(on < 0, UNSET, waits["recorded_ns"][rows])
    return HostWaits(
        np.append(waits["call"][rows], calls),
        np.append(on, np.full(calls.size, NONE)),
        np.append(recorded, np.full(calls.size, UNSET)),
    )


def _threads(columns: Mapping[str, Ints], main: int) -> Threads:
    """Pairs of forward and backward threads; an unknown forward thread is the main one."""
    pairs = zip(columns["forward_thread"].tolist(), columns["thread"].tolist(), strict=True)
    complete = [(main if forward < 0 else forward, backward) for forward, backward in pairs]
    return Threads(main, tuple(dict.fromkeys(pair for pair in complete if pair[0] != pair[1])))


def _events(source: RankSource) -> RankEvents:
    """The events of a rank; only syncs may lack a start."""
    rows = source.ints("FROM path_events(events)")
    pairs, role = _pairs(rows), rows["role"]
    is_used = (role >= 0) & ((rows["start_ns"] != UNSET) | (role == _SYNC))
    if not is_used.all():
        rows = {name: values[is_used] for name, values in rows.items()}
    return RankEvents(rows, pairs)


def _pairs(rows: Columns) -> Mapping[str, Ints]:
    """Each thread with backward passes, and that of the forward ops; the most links come last.

    A forward thread of -1 is not known, and then no op says that the thread runs any forward.
    """
    backward = np.flatnonzero(rows["hints"] & _BACKWARD)
    ops = np.flatnonzero(rows["hints"] & _OP)
    op = last_equal(rows["event_id"][ops], ops, rows["fwd_id"][backward])
    forward = np.maximum(np.append(rows["thread"], NONE)[op], NONE)
    thread = rows["thread"][backward]
    is_pair = (thread >= 0) & (forward != thread)
    is_pair &= (forward >= 0) | ~np.isin(thread, forward)
    key, links = np.unique((((forward + 1) << 32) + thread)[is_pair], return_counts=True)
    threads, forwards = key & ((1 << 32) - 1), (key >> 32) - 1
    order = np.lexsort((threads, forwards, links, forwards >= 0))
    return {"thread": threads[order], "forward_thread": forwards[order]}


def _streams(*places: tuple[Ints, Ints]) -> list[Ints]:
    """A number for each (device, stream), the same in all arrays."""
    devices = np.concatenate([device for device, _ in places])
    streams = np.concatenate([stream for _, stream in places])
    _, device = np.unique(devices, return_inverse=True)
    distinct, stream = np.unique(streams, return_inverse=True)
    _, code = np.unique(device * distinct.size + stream, return_inverse=True)
    bounds = np.cumsum([device.size for device, _ in places])[:-1]
    return np.split(code.astype(np.int64), bounds)
