"""The forward op of each backward op."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import ids, is_kind, last_equal, numbers, present, source_order
from profframe.facts.fact import Output, Tables, any_of, columns, fact, of_events
from profframe.facts.flow_ends import ARROW_COLUMNS, arrows, starting_at
from profframe.facts.kinds import FORWARD_ARROWS
from profframe.facts.scopes import backward_functions, evaluations
from profframe.intervals import Ints, Mask

_NONE: Final = np.empty(0, np.int64)


@fact(
    inputs=ARROW_COLUMNS
    | columns(
        events="kind name scope sequence_nr fwd_thread captured_fwd_id", threads="thread tid"
    ),
    outputs=columns(events="fwd_id"),
    needs=any_of(events="sequence_nr captured_fwd_id"),
)
def forward(tables: Tables) -> Output:
    """Add ``fwd_id``: of a backward op the forward op with its sequence number.

    A backward op names a forward thread, or is a backward function. An arrow of the source decides.
    Without an arrow, it is the op that torch would draw one from: among those with that number on
    the forward thread that ended no later, the one that started last. Sequence numbers start again
    on each thread. If neither an arrow nor a thread's id identifies the forward thread, it is the
    only thread with ops of that number, if there is just one.
    """
    events = tables["events"]
    forward_op = np.full(events.num_rows, -1, np.int64)
    has_number = is_kind(events, ("host_op",)) & present(
        events, "sequence_nr", "start_ns", "dur_ns"
    )
    backward = has_number & backward_ops(events)
    if backward.any():
        # Arrows come first as they are recorded; on the real traces that have them, numbers agree
        # for all 8,077 backward ops.
        starts, ends = _arrows(tables, has_number, backward)
        undecided = backward.copy()
        undecided[ends] = False
        rows = np.flatnonzero(undecided)
        threads_of_forward = forward_threads(tables, rows, starts, ends)
        # The engine's evaluation of a backward function has the number, too, and is no forward op.
        # Backward ops that an arrow decides are excluded as well: an op inside one could take it
        # for its forward op.
        forwards = np.flatnonzero(has_number & ~backward & ~evaluations(events))
        forward_op[rows] = _by_number(events, forwards, rows, threads_of_forward)
        forward_op[ends] = starts
    # Captured rows have no times, so neither arrows nor order say anything; the capture did.
    if "captured_fwd_id" in events.column_names:
        captured = numbers(events, "captured_fwd_id", missing=-1)
        forward_op = np.where(captured >= 0, captured, forward_op)
    return of_events(fwd_id=ids(forward_op))


def backward_ops(events: pa.Table) -> Mask:
    """Slices that are backward ops by their own fields."""
    return (numbers(events, "fwd_thread") > 0) | backward_functions(events)


def _arrows(tables: Tables, has_number: Mask, backward: Mask) -> tuple[Ints, Ints]:
    """Rows of events where the arrows from forward to backward ops start and end.

    Arrows between different sequence numbers are ignored: in whole microseconds many ops start
    together.
    """
    events = tables["events"]
    tails, heads = arrows(tables["flows"], FORWARD_ARROWS)
    if not tails.num_rows:
        return _NONE, _NONE
    start = starting_at(events, np.flatnonzero(has_number & ~backward), tails)
    end = starting_at(events, np.flatnonzero(backward), heads)
    sequence = numbers(events, "sequence_nr")
    agree = (start >= 0) & (end >= 0) & (sequence[start] == sequence[end])
    return start[agree], end[agree]


def forward_threads(tables: Tables, rows: Ints, forwards: Ints, backwards: Ints) -> Ints:
    """For each backward op the thread of its forward op; -1 where unknown.

    The source has its own numbers for threads. Pairs of forward and backward ops map them to
    threads; otherwise it is the thread whose id is that number.
    """
    events, threads = tables["events"], tables["threads"]
    thread, number = numbers(events, "thread"), numbers(events, "fwd_thread")
    thread_of_id = dict(zip(threads["tid"].to_pylist(), threads["thread"].to_pylist(), strict=True))
    distinct, place = np.unique(number[rows], return_inverse=True)
    by_id = [thread_of_id.get(str(n), -1) for n in distinct.tolist()]
    of_pairs = last_equal(number[backwards], thread[forwards], distinct)
    thread_of = np.where(of_pairs >= 0, of_pairs, np.array(by_id, np.int64))
    return np.where(distinct > 0, thread_of, -1)[place]


def _by_number(events: pa.Table, forwards: Ints, rows: Ints, thread: Ints) -> Ints:
    """For each backward op the last forward op with its number on its forward thread."""
    sequence = numbers(events, "sequence_nr")
    forwards = forwards[np.isin(sequence[forwards], sequence[rows])]
    if not forwards.size:
        return np.full(rows.size, -1, np.int64)
    distinct, number = np.unique(sequence[forwards], return_inverse=True)
    forward_thread = numbers(events, "thread")[forwards]
    code = np.searchsorted(distinct, sequence[rows])
    exists = distinct[np.minimum(code, distinct.size - 1)] == sequence[rows]
    code = np.where(exists, code, 0)
    low, high = np.full((2, distinct.size), -1, np.int64)
    low[:] = np.iinfo(np.int64).max
    np.minimum.at(low, number, forward_thread)
    np.maximum.at(high, number, forward_thread)
    only_thread = np.where(low == high, low, -1)
    thread = np.where(thread < 0, only_thread[code], thread)

    start = numbers(events, "start_ns")
    end = start + numbers(events, "dur_ns")
    moments = np.sort(np.concatenate([end[forwards], end[rows]]))
    group = forward_thread * distinct.size + number
    key = group * moments.size + np.searchsorted(moments, end[forwards])
    order = np.lexsort((source_order(events)[forwards], key))
    forwards, key, group = forwards[order], key[order], group[order]
    # Within a group, by end: the last of those that started last, up to each place.
    rank = np.empty(forwards.size, np.int64)
    by_start = np.lexsort((np.arange(forwards.size), start[forwards], group))
    rank[by_start] = np.arange(forwards.size)
    last_started = by_start[np.maximum.accumulate(rank)]

    row_group = thread * distinct.size + code
    at_end = row_group * moments.size + np.searchsorted(moments, end[rows])
    place = np.searchsorted(key, at_end, side="right") - 1
    is_match = exists & (thread >= 0) & (place >= 0)
    is_match &= group[place] == row_group
    return np.where(is_match, forwards[last_started[place]], -1)
