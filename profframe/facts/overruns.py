"""Overruns: device work with an impossible end, after that of later work on its stream."""

from __future__ import annotations

import numpy as np

from profframe import schema
from profframe.facts.columns import column, combined, is_kind, numbers, present, stream_codes, words
from profframe.facts.fact import Output, Tables, columns, fact, note, of_events
from profframe.intervals import Ints


@fact(
    inputs=columns(events="kind start_ns dur_ns pid device stream correlation"),
    outputs=columns(events="dur_ns"),
)
def overruns(tables: Tables) -> Output:
    """Take ``dur_ns`` from work that ends after two pieces behind it on its stream have ended.

    A stream runs one piece after the other; the next may begin before the end of the one before,
    but not be done. Pieces of one graph launch may be on branches, and say nothing; nor do those
    that took no time.
    """
    events = tables["events"]
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    is_placed = present(events, "start_ns", "dur_ns", "stream", "correlation")
    rows = np.flatnonzero(is_kind(events, schema.DEVICE_KINDS) & is_placed & (dur > 0))
    if rows.size < 3:
        return Output()
    line = combined(words(events, "pid")[0][rows], stream_codes(events)[rows])
    order = np.lexsort((-dur[rows], start[rows], line))
    rows, line = rows[order], line[order]
    end, call = start[rows] + dur[rows], numbers(events, "correlation")[rows]
    # Two later pieces must contradict the end: one alone may itself be the wrong record.
    is_over = end[:-2] > _second_end(line, end)
    for later in (slice(1, -1), slice(2, None)):
        # Branches of one graph launch may run side by side on what is recorded as one stream.
        is_over &= (line[:-2] == line[later]) & (call[:-2] != call[later])
    over = np.sort(rows[:-2][is_over])
    if not over.size:
        return Output()
    keeps = present(events, "dur_ns").copy()
    keeps[over] = False
    return of_events(*note("overrun", over), dur_ns=column("dur_ns", dur, keeps))


def _second_end(line: Ints, end: Ints) -> Ints:
    """The second of the ends of all later pieces on the line of each piece but the last two.

    Pieces are sorted by line. For a piece with fewer than two later ones on its line, the value is
    an end of another line, so a caller has to ignore it.
    """
    ends, rank = np.unique(end, return_inverse=True)
    key = (line * ends.size + rank.reshape(-1))[::-1]
    first = np.minimum.accumulate(key)
    second = np.minimum.accumulate(np.maximum(first[:-1], key[1:]))
    latest: Ints = ends[second % ends.size][:-1][::-1]
    return latest
