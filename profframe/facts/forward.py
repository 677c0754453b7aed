"""Which forward op a backward op belongs to."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.columns import ids, is_kind, numbers, present, source_order
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.facts.flow_links import LINKED, arrows, starting
from profframe.facts.kinds import FORWARD_ARROWS
from profframe.facts.scopes import backward_functions, evaluations
from profframe.intervals import Ints, Mask

_NONE: Final = np.empty(0, np.int64)


@fact(
    inputs=LINKED | columns(events="kind name scope sequence_nr fwd_thread", threads="thread tid"),
    outputs=columns(events="fwd_id"),
)
def forward(tables: Tables) -> Output:
    """Add ``fwd_id``: of a backward op the forward op with its sequence number.

    A backward op is one that names a forward thread, or that is a backward function. Where the
    source drew an arrow, that decides. Else it is, as where torch draws one, of the ops with that
    number on the forward thread that ended no later, the one that started last: sequence numbers
    are handed out anew on each thread. A forward thread that no arrow and no thread's own id
    explains is any thread, if only one has ops of that number.
    """
    events = tables["events"]
    found = np.full(events.num_rows, -1, np.int64)
    numbered = is_kind(events, ("host_op",)) & present(events, "sequence_nr", "start_ns", "dur_ns")
    backward = numbered & backward_ops(events)
    if backward.any():
        starts, ends = _arrows(tables, numbered, backward)
        undecided = backward.copy()
        undecided[ends] = False
        rows = np.flatnonzero(undecided)
        of_thread = forward_threads(tables, rows, starts, ends)
        forwards = np.flatnonzero(numbered & ~backward & ~evaluations(events))
        found[rows] = _by_number(events, forwards, rows, of_thread)
        found[ends] = starts
    return of_events(fwd_id=ids(found))


def backward_ops(events: pa.Table) -> Mask:
    """Slices that say that they are the backward of something."""
    return (numbers(events, "fwd_thread") > 0) | backward_functions(events)


def _arrows(tables: Tables, numbered: Mask, backward: Mask) -> tuple[Ints, Ints]:
    """Rows of events where the arrows from forward to backward ops start and end.

    An arrow between different sequence numbers is none: in whole microseconds many ops begin at
    once.
    """
    events = tables["events"]
    tails, heads = arrows(tables["flows"], FORWARD_ARROWS)
    if not tails.num_rows:
        return _NONE, _NONE
    start = starting(events, np.flatnonzero(numbered & ~backward), tails)
    end = starting(events, np.flatnonzero(backward), heads)
    sequence = numbers(events, "sequence_nr")
    agree = (start >= 0) & (end >= 0) & (sequence[start] == sequence[end])
    return start[agree], end[agree]


def forward_threads(tables: Tables, rows: Ints, forwards: Ints, backwards: Ints) -> Ints:
    """For each backward op the thread of its forward op; -1 where that is not known.

    The source has its own numbers for threads. Each pair of a forward and its backward op says
    which is which; else it is the thread whose id is that number.
    """
    events, threads = tables["events"], tables["threads"]
    thread, number = numbers(events, "thread"), numbers(events, "fwd_thread")
    known = dict(zip(threads["tid"].to_pylist(), threads["thread"].to_pylist(), strict=True))
    distinct, which = np.unique(number[rows], return_inverse=True)
    thread_of = {n: known.get(str(n), -1) if n > 0 else -1 for n in distinct.tolist()}
    pairs = zip(number[backwards].tolist(), thread[forwards].tolist(), strict=True)
    thread_of |= {n: found for n, found in pairs if n > 0}
    return np.array([thread_of[n] for n in distinct.tolist()], np.int64)[which]


def _by_number(events: pa.Table, forwards: Ints, rows: Ints, thread: Ints) -> Ints:
    """For each backward op the last forward op of its number on its forward thread."""
    sequence = numbers(events, "sequence_nr")
    forwards = forwards[np.isin(sequence[forwards], sequence[rows])]
    if not forwards.size:
        return np.full(rows.size, -1, np.int64)
    distinct, number = np.unique(sequence[forwards], return_inverse=True)
    of_forward = numbers(events, "thread")[forwards]
    wanted = np.searchsorted(distinct, sequence[rows])
    there = distinct[np.minimum(wanted, distinct.size - 1)] == sequence[rows]
    wanted = np.where(there, wanted, 0)
    low, high = np.full((2, distinct.size), -1, np.int64)
    low[:] = np.iinfo(np.int64).max
    np.minimum.at(low, number, of_forward)
    np.maximum.at(high, number, of_forward)
    only = np.where(low == high, low, -1)
    thread = np.where(thread < 0, only[wanted], thread)

    start = numbers(events, "start_ns")
    end = start + numbers(events, "dur_ns")
    moments = np.sort(np.concatenate([end[forwards], end[rows]]))
    group = of_forward * distinct.size + number
    key = group * moments.size + np.searchsorted(moments, end[forwards])
    order = np.lexsort((source_order(events)[forwards], key))
    forwards, key, group = forwards[order], key[order], group[order]
    # Within a group, by end: the last of those that started last, up to each place.
    rank = np.empty(forwards.size, np.int64)
    by_start = np.lexsort((np.arange(forwards.size), start[forwards], group))
    rank[by_start] = np.arange(forwards.size)
    best = by_start[np.maximum.accumulate(rank)]

    of_row = thread * distinct.size + wanted
    at_end = of_row * moments.size + np.searchsorted(moments, end[rows])
    place = np.searchsorted(key, at_end, side="right") - 1
    found = there & (thread >= 0) & (place >= 0)
    found &= group[place] == of_row
    return np.where(found, forwards[best[place]], -1)
