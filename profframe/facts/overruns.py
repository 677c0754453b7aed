"""Device work with an end that cannot be: after that of what ran behind it on its stream."""

from __future__ import annotations

import numpy as np

from profframe import schema
from profframe.facts.columns import column, combined, is_kind, numbers, present, words
from profframe.facts.fact import Output, Tables, columns, fact, note, of_events


@fact(
    inputs=columns(events="kind start_ns dur_ns pid device stream correlation"),
    outputs=columns(events="dur_ns"),
)
def overruns(tables: Tables) -> Output:
    """Take ``dur_ns`` from work that ends after the next two on its stream have ended.

    A stream runs one piece after the other; the next may begin before the end of the one before,
    but not be done. Pieces of one graph launch may be on branches, and say nothing.
    """
    events = tables["events"]
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    is_placed = present(events, "start_ns", "dur_ns", "stream", "correlation")
    rows = np.flatnonzero(is_kind(events, schema.DEVICE_KINDS) & is_placed)
    if rows.size < 3:
        return Output()
    line = combined(
        words(events, "pid")[0][rows],
        *(numbers(events, name, missing=-1)[rows] for name in ("device", "stream")),
    )
    order = np.lexsort((-dur[rows], start[rows], line))
    rows, line = rows[order], line[order]
    end, call = start[rows] + dur[rows], numbers(events, "correlation")[rows]
    is_over = np.ones(rows.size - 2, np.bool_)
    for later in (slice(1, -1), slice(2, None)):
        is_over &= (line[:-2] == line[later]) & (call[:-2] != call[later])
        is_over &= end[:-2] > end[later]
    over = np.sort(rows[:-2][is_over])
    if not over.size:
        return Output()
    keeps = present(events, "dur_ns").copy()
    keeps[over] = False
    return of_events(*note("overrun", over), dur_ns=column("dur_ns", dur, keeps))
