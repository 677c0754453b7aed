"""How host slices nest on their threads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import (
    column,
    flags,
    ids,
    is_kind,
    numbers,
    present,
    source_order,
)
from profframe.facts.fact import Output, Tables, columns, fact, note, of_events
from profframe.intervals import Ints, Mask, nest


@fact(
    inputs=columns(events="kind start_ns dur_ns is_async thread node_id ev_idx"),
    outputs=columns(events="parent_id depth root_id preorder last_descendant_id"),
)
def nesting(tables: Tables) -> Output:
    """Add ``parent_id depth root_id preorder last_descendant_id``.

    All synchronous host slices with a start and a duration nest, by thread and node, as in torch
    (see :func:`profframe.intervals.nest`); ties are broken by the profiler's own order, then the
    source's. Slices that overlap the one before them without being inside it are counted in
    ``quality`` as ``crossing_slices``.
    """
    events = tables["events"]
    return nesting_columns(events, by_node(events, numbers(events, "thread")))


def nesting_columns(events: pa.Table, group: Ints) -> Output:
    """The columns, where slices of a group nest."""
    nests = nesting_rows(events)
    rows = np.flatnonzero(nests)
    start, dur = numbers(events, "start_ns")[rows], numbers(events, "dur_ns")[rows]
    forest = nest(group[rows], start, start + dur, source_order(events)[rows])
    return of_events(
        *note("crossing_slices", rows[forest.crossing]),
        parent_id=ids(_spread(nests, np.where(forest.parent < 0, -1, rows[forest.parent]))),
        depth=column("depth", _spread(nests, forest.depth), nests),
        root_id=ids(_spread(nests, rows[forest.root])),
        preorder=ids(_spread(nests, forest.preorder)),
        last_descendant_id=ids(_spread(nests, rows[forest.last])),
    )


def nesting_rows(events: pa.Table) -> Mask:
    """Synchronous host slices with a start and a duration."""
    timed = present(events, "start_ns", "dur_ns")
    return is_kind(events, schema.HOST_KINDS) & timed & ~flags(events, "is_async")


def by_node(events: pa.Table, thread: Ints) -> Ints:
    """Numbers of the pairs of thread and node: threads of different nodes may share a number."""
    if events["node_id"].null_count == events.num_rows:
        return thread
    node, number = np.unique(numbers(events, "node_id", missing=-1), return_inverse=True)
    return thread * node.size + number


def _spread(nests: Mask, values: Ints) -> Ints:
    """Values of the nesting rows on all rows; -1 for others."""
    out = np.full(nests.size, -1, np.int64)
    out[nests] = values
    return out
