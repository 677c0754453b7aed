"""Self time of host slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import column, is_kind, numbers, present
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.facts.python_frames import by_node
from profframe.intervals import Ints, Mask, child_overlaps, child_sums, last_until, union_lengths


@fact(
    inputs=columns(
        events="kind start_ns dur_ns thread node_id parent_id depth preorder last_descendant_id"
    ),
    outputs=columns(events="self_ns shared_ns"),
)
def self_time(tables: Tables) -> Output:
    """Add ``self_ns``: the duration without the time that direct children cover, and ``shared_ns``.

    Where two children overlap, their common time counts once. What a slice shares with a Python
    frame beside it is the frame's: a region begins in one frame and ends in another. Device slices
    have no children: their self time is their duration.
    """
    events = tables["events"]
    rows = np.flatnonzero(present(events, "depth"))
    place = np.full(events.num_rows + 1, -1, np.int64)
    place[rows] = np.arange(rows.size)
    start, dur = (numbers(events, name)[rows] for name in ("start_ns", "dur_ns"))
    # A record_function may begin in one Python frame and end in the next: what two children share
    # was subtracted twice from the frame around both, which made negative self times.
    parent = place[numbers(events, "parent_id", missing=-1)[rows]]
    twice, shared = np.zeros((2, events.num_rows), np.int64)
    twice[rows] = child_overlaps(
        parent,
        place[numbers(events, "last_descendant_id")[rows]],
        numbers(events, "preorder")[rows],
        start,
        start + dur,
    )
    frames = is_kind(events, ("python",))[rows]
    if frames.any():
        thread = by_node(events, numbers(events, "thread"))[rows]
        shared[rows] = _of_frames(parent, thread, frames, start, start + dur)
    return self_columns(events, twice - shared, shared)


def _of_frames(parent: Ints, thread: Ints, frames: Mask, start: Ints, end: Ints) -> Ints:
    """Time of each slice that Python frames beside it have, and nothing in it.

    These are the last that began before it and the first that did not: frames exclude each other.
    """
    beside = np.where(parent >= 0, parent, parent.size + thread)
    of, others = np.flatnonzero(frames), np.flatnonzero(~frames)
    before = last_until(beside[of], start[of], beside[others], start[others] - 1)
    after = last_until(beside[of][::-1], -start[of][::-1], beside[others], -start[others])
    row = np.concatenate([others[before >= 0], others[after >= 0]])
    frame = np.concatenate([of[before[before >= 0]], of[::-1][after[after >= 0]]])
    meets = (start[row] < end[frame]) & (start[frame] < end[row])
    row, frame = row[meets], frame[meets]
    shares = np.zeros(parent.size + 1, np.bool_)
    shares[row] = True
    child = np.flatnonzero(shares[parent])
    inside = union_lengths(parent.size, parent[child], start[child], end[child])
    both = union_lengths(
        parent.size,
        np.append(parent[child], row),
        np.append(start[child], np.maximum(start[row], start[frame])),
        np.append(end[child], np.minimum(end[row], end[frame])),
    )
    return both - inside


def self_columns(events: pa.Table, twice: Ints, shared: Ints) -> Output:
    """Durations without the sums of those of the children, and what that has twice."""
    dur = numbers(events, "dur_ns")
    own = dur - child_sums(numbers(events, "parent_id", missing=-1), dur) + twice
    busy = is_kind(events, schema.DEVICE_KINDS) & present(events, "dur_ns")
    return of_events(
        self_ns=column("self_ns", own, present(events, "depth") | busy),
        shared_ns=column("shared_ns", shared, shared > 0),
    )
