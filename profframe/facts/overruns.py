"""Overruns: device work with an impossible end, after that of later work on its stream."""

from __future__ import annotations

from typing import Final

import numpy as np

from profframe import schema
from profframe.facts.arrays import column, combined, is_kind, numbers, present, stream_codes, words
from profframe.facts.fact import Output, Tables, any_of, columns, fact, note, of_events
from profframe.intervals import Ints

_ROUNDED_NS: Final = 2_000
"""By less, ends may differ because a profiler wrote whole microseconds."""


@fact(
    inputs=columns(events="kind start_ns dur_ns pid device stream correlation"),
    outputs=columns(events="dur_ns"),
    needs=any_of(kinds=schema.DEVICE_KINDS),
)
def overruns(tables: Tables) -> Output:
    """Take ``dur_ns`` from work that ends after two pieces behind it on its stream have ended.

    A stream runs one piece after the other; the next may begin before the end of the one before, as
    with programmatic dependent launch, but not be done. If only one has ended, the times of either
    may be wrong: ``quality`` counts it as ``doubtful_overrun``. Pieces of one graph launch may be
    on branches, and say nothing; nor do those that took no time.
    """
    events = tables["events"]
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    is_placed = present(events, "start_ns", "dur_ns", "stream", "correlation")
    rows = np.flatnonzero(is_kind(events, schema.DEVICE_KINDS) & is_placed & (dur > 0))
    if rows.size < 2:
        return Output()
    line = combined(words(events, "pid")[0][rows], stream_codes(events)[rows])
    order = np.lexsort((-dur[rows], start[rows], line))
    rows, line = rows[order], line[order]
    end, call = start[rows] + dur[rows], numbers(events, "correlation")[rows]
    # Two later pieces must contradict the end: one alone may itself be the wrong record.
    first, second = _first_ends(line, end)
    is_over = end[:-2] > end[second]
    for later in (slice(1, -1), slice(2, None)):
        # Branches of one graph launch may run side by side on what is recorded as one stream.
        is_over &= (line[:-2] == line[later]) & (call[:-2] != call[later])
    is_doubtful = (end[:-1] - end[first] > _ROUNDED_NS) & (call[:-1] != call[first])
    is_doubtful &= line[:-1] == line[first]
    is_doubtful[:-1] &= ~is_over
    notes = note("doubtful_overrun", np.sort(rows[:-1][is_doubtful]))
    over = np.sort(rows[:-2][is_over])
    if not over.size:
        return Output(notes=tuple(notes))
    keeps = present(events, "dur_ns").copy()
    keeps[over] = False
    return of_events(*notes, *note("overrun", over), dur_ns=column("dur_ns", dur, keeps))


def _first_ends(line: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Which of all later pieces on the line of each piece end first and second.

    The first is of each piece but the last, the second of each but the last two. Pieces are sorted
    by line; where a line has no later ones, the value is a piece of another line, so a caller has
    to ignore it.
    """
    by_end = np.lexsort((end, line))
    rank = np.empty_like(by_end)
    rank[by_end] = np.arange(by_end.size)
    rank = rank[::-1]
    first = np.minimum.accumulate(rank)
    second = np.minimum.accumulate(np.maximum(first[:-1], rank[1:]))
    return by_end[first[:-1]][::-1], by_end[second[:-1]][::-1]
