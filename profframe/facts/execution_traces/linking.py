"""Find the slice of each execution trace node: by an id, or else by the order of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from profframe.intervals import Ints, Mask

_AGREEING: Final = 0.9
"""Share of the ids in both nodes and slices that must have the same name in both.

Ids of another recording of the same program agree by chance now and then.
"""
_ALIKE: Final = 0.5
"""Share of a thread's nodes that must be at a place of the trace, in their order."""
_LONGEST_KEY: Final = 16
"""Number of consecutive names by which places of a sequence are searched."""
_MOST_PLACES: Final = 512
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class ThreadSlices:
    """Host ops and annotations of a trace, by thread and, within it, in depth-first order."""

    event: Ints
    name: Ints
    thread: Ints
    start: Ints
    record_function: Ints
    """-1 where it is not known, here and in ``external``."""
    external: Ints


@dataclass(frozen=True, slots=True)
class ThreadNodes:
    """Nodes of ops and annotations, by thread and, within it, in the order of their beginnings."""

    row: Ints
    node: Ints
    name: Ints
    thread: Ints
    record_function: Ints


@dataclass(frozen=True, slots=True)
class NodeLinks:
    """The slice of each node, as a row of the slices, or -1; and how it was found.

    ``places`` is the number of other places in the trace that fit, if it was found by order.
    """

    slices: Ints
    how: str
    places: int = 1


def link(nodes: ThreadNodes, slices: ThreadSlices) -> NodeLinks:
    """The slices of nodes, by the method that fits best."""
    ways = (
        ("record_function", nodes.record_function, slices.record_function),
        ("external_id", nodes.record_function, slices.external),
        ("external_id", nodes.node, slices.external),
    )
    best = NodeLinks(np.full(nodes.row.size, -1), "none")
    count = 0
    for how, left, right in ways:
        chosen, shared = _by_id(left, right, nodes.name, slices.name)
        # Forked processes write into the same file, with ids that continue from the same number.
        agreeing = np.unique(left[chosen >= 0]).size
        if agreeing > count and agreeing >= _AGREEING * shared:
            best, count = NodeLinks(_claimed_once(chosen), how), agreeing
    return best if count else _by_order(nodes, slices)


def _by_id(left: Ints, right: Ints, left_name: Ints, right_name: Ints) -> tuple[Ints, int]:
    """For each node the first slice of its id and name, or -1; and how many ids are shared."""
    given = np.flatnonzero(right >= 0)
    chosen = np.full(left.size, -1, np.int64)
    if not given.size or not left.size:
        return chosen, 0
    shared = np.isin(left, right[given]) & (left >= 0)
    order = given[np.lexsort((given, right_name[given], right[given]))]
    keys = np.stack([right[order], right_name[order]], axis=1)
    distinct, first = np.unique(keys, axis=0, return_index=True)
    place = _places(distinct, np.stack([left, left_name], axis=1))
    is_same = place >= 0
    chosen[is_same] = order[first[place[is_same]]]
    chosen[~shared] = -1
    return chosen, np.unique(left[shared]).size


def _claimed_once(chosen: Ints) -> Ints:
    """Links without slices that several nodes claim: nothing says which of them is right."""
    linked = np.flatnonzero(chosen >= 0)
    _, place, counts = np.unique(chosen[linked], return_inverse=True, return_counts=True)
    once = chosen.copy()
    once[linked[counts[place] > 1]] = -1
    return once


def _places(sorted_pairs: Ints, wanted: Ints) -> Ints:
    """Row of each wanted pair among sorted distinct ones; -1 if it is none of them."""
    both = np.concatenate([sorted_pairs, wanted])
    _, code = np.unique(both, axis=0, return_inverse=True)
    code = code.reshape(-1)
    row_of = np.full(int(code.max(initial=0)) + 1, -1, np.int64)
    row_of[code[: len(sorted_pairs)]] = np.arange(len(sorted_pairs))
    return row_of[code[len(sorted_pairs) :]]


def _by_order(nodes: ThreadNodes, slices: ThreadSlices) -> NodeLinks:
    """The place of each thread's sequence of names in the trace, the longest thread first."""
    chosen = np.full(nodes.row.size, -1, np.int64)
    threads, counts = np.unique(nodes.thread, return_counts=True)
    window: tuple[int, int] | None = None
    places = 1
    # The longest thread fits in the fewest places; it says when the others ran.
    for thread in threads[np.argsort(-counts, kind="stable")]:
        rows = np.flatnonzero(nodes.thread == thread)
        shifts, scores = _shifts(nodes.name[rows], slices)
        if not shifts.size or scores.max() < _ALIKE * rows.size:
            continue
        fitting = shifts[scores == scores.max()]
        shift = int(fitting[0])
        if window is None:
            places = fitting.size
        else:
            shift = _nearest(fitting, nodes.name[rows], slices, window)
        at, is_same = _aligned(nodes.name[rows], slices, shift)
        chosen[rows[is_same]] = at[is_same]
        if window is None:
            starts = slices.start[at[is_same]]
            window = int(starts.min()), int(starts.max())
    return NodeLinks(chosen, "order", places)


def _nearest(shifts: Ints, names: Ints, slices: ThreadSlices, window: tuple[int, int]) -> int:
    """The shift whose slices share most of a window, or are the nearest to it.

    A shift is the place among the slices where the first of the names would be.
    """

    def distance(shift: int) -> int:
        at, is_same = _aligned(names, slices, shift)
        starts = slices.start[at[is_same]]
        first, last = int(starts.min()), int(starts.max())
        shared = min(last, window[1]) - max(first, window[0])
        return -shared  # positive if they do not overlap: the gap

    return min((int(shift) for shift in shifts), key=distance)


def _aligned(names: Ints, slices: ThreadSlices, shift: int) -> tuple[Ints, Mask]:
    """The slice for each name at a shift, and whether it has that name, on one thread."""
    at = np.arange(names.size) + shift
    inside = (at >= 0) & (at < slices.name.size)
    at = np.clip(at, 0, slices.name.size - 1)
    is_same: Mask = inside & (slices.name[at] == names)
    if is_same.any():
        threads, counts = np.unique(slices.thread[at[is_same]], return_counts=True)
        is_same &= slices.thread[at] == threads[counts.argmax()]
    return at, is_same


def _shifts(names: Ints, slices: ThreadSlices) -> tuple[Ints, Ints]:
    """Shifts between a sequence of names and the slices that may fit, and how many names do."""
    length = min(_LONGEST_KEY, names.size)
    if not length or slices.name.size < length:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    own, theirs = _keys(names, length), _keys(slices.name, length)
    distinct, first, counts = np.unique(own, return_index=True, return_counts=True)
    # Keys that are rare in the nodes vote for few shifts; those of a loop would vote for each turn.
    rare = counts == counts.min()
    distinct, first = distinct[rare], first[rare]
    place = np.searchsorted(distinct, theirs).clip(max=distinct.size - 1)
    hits = np.flatnonzero(distinct[place] == theirs)
    shifts, votes = np.unique(hits - first[place[hits]], return_counts=True)
    top = np.sort(np.argsort(-votes, kind="stable")[:_MOST_PLACES])
    scores = [int(np.count_nonzero(_aligned(names, slices, int(s))[1])) for s in shifts[top]]
    return shifts[top], np.array(scores, np.int64)


def _keys(names: Ints, length: int) -> npt.NDArray[np.uint64]:
    """A hash of each run of names of a length."""
    codes = names.astype(np.uint64) + np.uint64(1)
    keys: npt.NDArray[np.uint64] = np.zeros(names.size - length + 1, np.uint64)
    for offset in range(length):
        keys = keys * _BASE + codes[offset : offset + keys.size]
    return keys
