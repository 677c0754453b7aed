"""Arrows from slice to slice that a source records."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.facts.columns import is_text, last_equal, numbers, present, source_order
from profframe.facts.fact import columns
from profframe.intervals import Ints

ARROW_COLUMNS: Final = columns(
    flows="category flow_id name phase thread time_ns", events="thread start_ns dur_ns ev_idx"
)
"""Columns for following arrows."""


def arrows(flows: pa.Table, category: str) -> tuple[pa.Table, pa.Table]:
    """Rows of ``flows`` where the arrows of a category start, and those where they end, in pairs.

    Arrows without a start or an end are left out; of several with one id, only one counts.
    """
    flows = flows.select(["category", "flow_id", "name", "time_ns", "thread", "phase"])
    flows = flows.take(np.flatnonzero(is_text(flows["category"], category)))
    identity = pc.fill_null(flows["flow_id"].combine_chunks().dictionary_encode().indices, -1)
    number: Ints = identity.to_numpy().astype(np.int64)
    valid = present(flows, "time_ns") & (number >= 0)
    tails = np.flatnonzero(valid & is_text(flows["phase"], "s"))
    heads = np.flatnonzero(valid & is_text(flows["phase"], "f"))
    _, at_tail, at_head = np.intersect1d(number[tails], number[heads], return_indices=True)
    return flows.take(tails[at_tail]), flows.take(heads[at_head])


def starting_at(events: pa.Table, rows: Ints, marks: pa.Table) -> Ints:
    """For each mark the one of these rows that starts there, or -1.

    If there are several, it is the outermost, as sources bind their arrows.
    """
    if not rows.size:
        return np.full(marks.num_rows, -1, np.int64)
    thread, start = numbers(events, "thread"), numbers(events, "start_ns")
    shortest_first = numbers(events, "dur_ns")[rows]
    # `last_equal` takes the last of equal keys: the longest slice, or of equal ones the first in
    # the source.
    rows = rows[np.lexsort((-source_order(events)[rows], shortest_first))]
    moments = np.sort(start[rows])
    keys = thread[rows] * moments.size + np.searchsorted(moments, start[rows])
    at = numbers(marks, "time_ns")
    moment = np.minimum(np.searchsorted(moments, at), moments.size - 1)
    mark_key = numbers(marks, "thread") * moments.size + moment
    return last_equal(keys, rows, np.where(moments[moment] == at, mark_key, -1))
