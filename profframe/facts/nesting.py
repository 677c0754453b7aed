"""How host slices nest on their threads."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import (
    column,
    flags,
    ids,
    is_kind,
    numbers,
    present,
    source_order,
)
from profframe.facts.fact import Output, Tables, columns, fact, note, of_events
from profframe.facts.python_frames import by_node, callers, is_frame
from profframe.intervals import Forest, Ints, Mask, last_until, nearest, nest, replanted

BY_TIME: Final = columns(events="kind start_ns dur_ns is_async thread node_id ev_idx")
"""Columns that say how slices nest by time alone."""


@fact(
    inputs=BY_TIME | columns(events="python_id python_parent_id"),
    outputs=columns(events="parent_id depth root_id preorder last_descendant_id"),
)
def nesting(tables: Tables) -> Output:
    """Add ``parent_id depth root_id preorder last_descendant_id``.

    All synchronous host slices with a start and a duration nest, by thread and node, as in torch
    (see :func:`profframe.intervals.nest`); ties are broken by the profiler's own order, then the
    source's. Of Python frames the profiler says which called which: no other frame is between
    the two, whatever their times. Slices that overlap the one before them without being inside it
    are counted in ``quality`` as ``crossing_slices``.
    """
    events = tables["events"]
    group = by_node(events, numbers(events, "thread"))
    return nesting_columns(events, group, callers(events))


def nesting_columns(events: pa.Table, group: Ints, caller: Ints | None = None) -> Output:
    """The columns, where slices of a group nest, and each frame in the one that called it."""
    nests = nesting_rows(events)
    rows = np.flatnonzero(nests)
    start, dur = numbers(events, "start_ns")[rows], numbers(events, "dur_ns")[rows]
    intervals = group[rows], start, start + dur
    forest = nest(*intervals, source_order(events)[rows])
    # By time alone, a frame whose return the profiler missed swallows what follows it: such frames
    # made self times of seconds, and negative ones around them. The profiler's own numbers say who
    # called.
    if caller is not None and (caller >= 0).any():
        calling = np.append(_spread(nests, np.arange(rows.size)), -1)[caller[rows]]
        parent = _called(forest, calling, is_frame(events)[rows], start, start + dur)
        if (parent != forest.parent).any():
            forest = replanted(forest, parent, *intervals)
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


def _called(forest: Forest, caller: Ints, frames: Mask, start: Ints, end: Ints) -> Ints:
    """Parents, where a frame with a caller has no other frame between the two.

    A frame inside another callee of its caller is moved beside that callee. A frame that another
    slice took out of its caller, because the two overlap, is moved into the caller itself.
    """
    around = np.append(nearest(forest.parent, frames), -1)[forest.parent]
    inside = (start[caller] <= start) & (end <= end[caller])
    equal = (start[caller] == start) & (end == end[caller])
    moved = (caller >= 0) & (around != caller) & inside
    moved &= ~equal | (forest.preorder[caller] < forest.preorder)  # else two could swap for ever
    rows = np.flatnonzero(moved)
    caller, place = caller[rows], forest.preorder[rows]
    inner = np.flatnonzero(frames & (around >= 0))
    # The last frame that began before it directly inside the caller: the two become siblings.
    beside = last_until(around[inner], forest.preorder[inner], caller, place)
    below = (forest.preorder[caller] < place) & (place <= forest.preorder[forest.last[caller]])
    within = np.append(forest.parent[inner], -1)[beside]
    parent = forest.parent.copy()
    parent[rows] = np.where(below & (beside >= 0), within, caller)
    return parent


def _spread(nests: Mask, values: Ints) -> Ints:
    """Values of the nesting rows on all rows; -1 for others."""
    out = np.full(nests.size, -1, np.int64)
    out[nests] = values
    return out
