"""Callers of Python frames by the profiler's own numbers; frames end with their callers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import column, flags, is_kind, numbers, present, words
from profframe.facts.fact import Output, Tables, any_of, columns, fact, note, of_events
from profframe.intervals import Ints, Mask, last_until


@fact(
    inputs=columns(
        events="kind start_ns dur_ns is_async thread node_id pid python_id python_parent_id"
    ),
    outputs=columns(events="dur_ns"),
    needs=any_of(events="python_parent_id"),
)
def python_frames(tables: Tables) -> Output:
    """End each Python frame no later than the frame that called it.

    A profiler that misses the return of a frame lets it last until something else returns, at worst
    until the end of the profile. What is cut is counted in ``quality`` as ``cut_frame``; frames
    whose caller is on another thread, or was over when they began, as ``frame_of_another_thread``.
    """
    events = tables["events"]
    if not present(events, "python_parent_id").any():
        return Output()
    caller = callers(events)
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    until = _until(caller, start + dur)
    # A caller that is over, once it is cut itself, called nothing: such pairs go, and ends are
    # found again without them.
    over = (caller >= 0) & (start > until[caller])
    caller = np.where(over, -1, caller)
    until = _until(caller, start + dur)
    cut = until < start + dur
    notes = (
        *note("cut_frame", np.flatnonzero(cut)),
        *note("frame_of_another_thread", _without(events, caller)),
    )
    if not cut.any():
        return Output(notes=notes)
    valid = present(events, "dur_ns")
    return of_events(*notes, dur_ns=column("dur_ns", np.where(cut, until - start, dur), valid))


def callers(events: pa.Table) -> Ints:
    """Row of the frame that called each Python frame; -1 for none, or none that was open.

    It is on the same thread. If several have the number, as in cycles of one file, it is the last
    that began before.
    """
    caller = np.full(events.num_rows, -1, np.int64)
    frames = np.flatnonzero(is_frame(events))
    rows = frames[present(events, "python_parent_id")[frames]]
    if not rows.size:
        return caller
    start, end = (
        numbers(events, "start_ns"),
        numbers(events, "start_ns") + numbers(events, "dur_ns"),
    )
    own, above = numbers(events, "python_id"), numbers(events, "python_parent_id")
    thread = by_node(events, numbers(events, "thread"))
    places = [(thread[some], of[some]) for some, of in ((frames, own), (rows, above))]
    number, number_above = _pair_numbers(*places)
    place = last_until(number, start[frames], number_above, start[rows])
    chosen = frames[place]
    # Of frames that begin at once, the caller has the lower number: numbers are given out in order.
    earlier = (start[chosen] < start[rows]) | (own[chosen] < own[rows])
    is_open = (place >= 0) & earlier & (end[chosen] >= start[rows])
    caller[rows] = np.where(is_open, chosen, -1)
    return caller


def is_frame(events: pa.Table) -> Mask:
    """Python frames that nest and have a number: a garbage collection has none."""
    timed = present(events, "start_ns", "dur_ns", "python_id")
    return is_kind(events, ("python",)) & timed & ~flags(events, "is_async")


def by_node(events: pa.Table, thread: Ints) -> Ints:
    """Numbers of the pairs of thread and node: threads of different nodes may share a number."""
    if events["node_id"].null_count == events.num_rows:
        return thread
    node, number = np.unique(numbers(events, "node_id", missing=-1), return_inverse=True)
    return thread * node.size + number


def _pair_numbers(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Numbers for the pairs of two lists: the same for the same pair."""
    left, right = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    _, code = np.unique(right, return_inverse=True)
    both = left * (code.max(initial=0) + 1) + code
    _, number = np.unique(both, return_inverse=True)
    return number[: first[0].size], number[first[0].size :]


def _until(caller: Ints, end: Ints) -> Ints:
    """The earliest end among each row and all its callers, by pointer doubling."""
    until, above = end.copy(), caller.copy()
    rows = np.flatnonzero(above >= 0)
    while rows.size:
        through = above[rows]
        until[rows], above[rows] = np.minimum(until[rows], until[through]), above[through]
        rows = rows[above[rows] >= 0]
    return until


def _without(events: pa.Table, caller: Ints) -> Ints:
    """Frames whose named caller is on another thread, or closed."""
    named = is_frame(events) & present(events, "python_parent_id") & (caller < 0)
    own, above = numbers(events, "python_id"), numbers(events, "python_parent_id")
    rows = np.flatnonzero(named & (own != above))
    frames = np.flatnonzero(is_frame(events))
    if not rows.size or not frames.size:
        return rows[:0]
    process = words(events, "pid")[0] + 1
    number, number_above = _pair_numbers(
        (process[frames], own[frames]), (process[rows], above[rows])
    )
    return rows[np.isin(number_above, number)]
