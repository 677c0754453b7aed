"""Array kernels for intervals on a line: nesting, stabbing, coverage, sums over windows.

Everything here works on int64 arrays, without column names. An interval has a ``start`` and an
``end`` with ``start <= end`` and belongs to a ``group`` (a thread, a process); intervals of
different groups never meet. Results are row numbers of the arrays that were passed; -1 is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)

_KEY_BITS: Final = 62
_ROUNDS: Final = 32  # of pointer doubling: a row of 200,000 siblings takes 24
_FEW: Final = 256  # rows that are finished faster one by one than by another round


@dataclass(frozen=True, slots=True)
class Forest:
    """How intervals nest; one entry per row of the input, in the input's order.

    Attributes
    ----------
    parent : Ints
        Row of the interval around it, or -1.
    root : Ints
        Row of its outermost ancestor; its own for a root.
    last : Ints
        Row of its last descendant in preorder; its own for a leaf.
    preorder : Ints
        Place in depth-first order over all groups; a subtree is contiguous.
    depth : Ints
        Number of ancestors.
    crossing : Mask
        It starts before its previous sibling has ended, so the two overlap and neither is
        inside the other.
    """

    parent: Ints
    root: Ints
    last: Ints
    preorder: Ints
    depth: Ints
    crossing: Mask


def nest(group: Ints, start: Ints, end: Ints, tie: Ints | None = None) -> Forest:
    """Find which interval is inside which.

    Rows are taken by (group, start, longest first, ``tie``, row). The parent of a row is the
    nearest earlier one of its group that ends no earlier, and that ends later where the row has no
    length. This is what a stack does that pops while ``start >= top.end or end > top.end``: of
    partly overlapping intervals neither is inside the other, equal ones nest in their order, and
    one without length is never a parent.

    All rows between a row and its parent end before the row does, so they are inside the parent,
    too: the order of the rows is a preorder.

    Parameters
    ----------
    group, start, end : Ints
        The intervals, in any order.
    tie : Ints, optional
        Order of intervals that have the same group, start and end.

    Returns
    -------
    Forest
        One entry per row.

    Examples
    --------
    >>> start, end = np.array([0, 10, 12, 30]), np.array([50, 20, 15, 40])
    >>> forest = nest(np.zeros(4, np.int64), start, end)
    >>> forest.parent.tolist(), forest.depth.tolist(), forest.last.tolist()
    ([-1, 0, 1, 0], [0, 1, 2, 1], [3, 2, 2, 3])
    """
    (key,) = _keys((group, start))
    rows = _order(key, end, tie)
    del key, tie  # this is the peak of memory while facts are computed
    group, start, end = group[rows], start[rows], end[rows]
    parent = _parents(group, start, end)
    last = _last_descendants(parent)
    crossing = _crossing(_siblings_before(parent, last), group, start, end)
    del group, start, end
    is_root = parent < 0
    root = np.maximum.accumulate(np.where(is_root, np.arange(rows.size), 0))
    return Forest(
        parent=_scatter(rows, np.where(is_root, -1, rows[parent])),
        root=_scatter(rows, rows[root]),
        last=_scatter(rows, rows[last]),
        preorder=_scatter(rows, np.arange(rows.size)),
        depth=_scatter(rows, _depths(last)),
        crossing=_scatter(rows, crossing),
    )


def replanted(forest: Forest, parent: Ints, group: Ints, start: Ints, end: Ints) -> Forest:
    """Change the parents of intervals; siblings keep their order.

    Parameters
    ----------
    forest : Forest
        How they nest by time.
    parent : Ints
        Row of the other parent of each, or -1; no row may be its own ancestor.
    group, start, end : Ints
        The intervals.

    Returns
    -------
    Forest
        One entry per row.

    Examples
    --------
    >>> intervals = np.zeros(3, np.int64), np.array([0, 10, 12]), np.array([50, 20, 15])
    >>> forest = replanted(nest(*intervals), np.array([-1, 0, 0]), *intervals)
    >>> forest.depth.tolist(), forest.last.tolist(), forest.crossing.tolist()
    ([0, 1, 1], [2, 1, 2], [False, False, True])
    """
    depth = depths(parent)
    size = _subtree_sizes(parent, depth)
    preorder = _preorder(parent, forest.preorder, size)
    rows = _scatter(preorder, np.arange(parent.size))
    last = preorder + size - 1
    before = _siblings_before(_places(preorder, parent[rows]), last[rows])
    return Forest(
        parent=parent,
        root=nearest(parent, parent < 0),
        last=rows[last],
        preorder=preorder,
        depth=depth,
        crossing=_scatter(rows, _crossing(before, group[rows], start[rows], end[rows])),
    )


def stab(group: Ints, start: Ints, end: Ints, at_group: Ints, at: Ints) -> Ints:
    """Find the innermost interval around each point, both ends included.

    Innermost is the one that starts last; of those, the one that ends first.

    Parameters
    ----------
    group, start, end : Ints
        The intervals, in any order.
    at_group, at : Ints
        The points: the group to look in, and where.

    Returns
    -------
    Ints
        Row of an interval for each point, or -1.

    Examples
    --------
    >>> group, start, end = np.array([0, 0]), np.array([0, 10]), np.array([50, 20])
    >>> stab(group, start, end, np.array([0, 0, 0, 1]), np.array([15, 20, 21, 15])).tolist()
    [1, 1, 0, -1]
    """
    matches = np.full(at.size, -1, np.int64)
    # Where points are many, nearly all intervals hold one: to look for the others takes longer.
    holding = _holding(start, end, at) if 2 * at.size < start.size else np.arange(start.size)
    if not holding.size:
        return matches
    group, start, end = group[holding], start[holding], end[holding]
    key, at_key = _keys((group, start), (at_group, at))
    rows = _order(key, end, None)
    place = np.searchsorted(key[rows], at_key, side="right") - 1
    del key, at_key
    group, start, end = group[rows], start[rows], end[rows]
    parent = _parents(group, start, end)
    pending = np.flatnonzero((place >= 0) & (group[place] == at_group))
    place = place[pending]
    while pending.size:
        inside = end[place] >= at[pending]
        matches[pending[inside]] = holding[rows[place[inside]]]
        place = parent[place]
        outward = ~inside & (place >= 0)
        pending, place = pending[outward], place[outward]
    return matches


def _holding(start: Ints, end: Ints, at: Ints) -> Ints:
    """Rows of the intervals with some point inside, of any group."""
    at = np.sort(at)
    before = np.searchsorted(at, start, side="left")
    return np.flatnonzero(before < np.searchsorted(at, end, side="right"))


def last_until(group: Ints, at: Ints, in_group: Ints, until: Ints) -> Ints:
    """Find the last point of a group that is no later than a moment.

    Parameters
    ----------
    group, at : Ints
        The points, in any order.
    in_group, until : Ints
        The group to look in, and the moment.

    Returns
    -------
    Ints
        Row of a point for each moment, or -1; of points at once the last row.

    Examples
    --------
    >>> group, at = np.array([0, 0, 1]), np.array([10, 20, 5])
    >>> last_until(group, at, np.array([0, 0, 0, 1]), np.array([9, 10, 99, 99])).tolist()
    [-1, 0, 1, 2]
    """
    if not at.size or not until.size:
        return np.full(until.size, -1, np.int64)
    key, moment_key = _keys((group, at), (in_group, until))
    rows = np.argsort(key, kind="stable")
    place = np.searchsorted(key[rows], moment_key, side="right") - 1
    row = rows[place]
    return np.where((place >= 0) & (group[row] == in_group), row, -1)


def window_sums(at: Ints, values: Sequence[Ints], start: Ints, end: Ints) -> list[Ints]:
    """Sum, for each window, the values at the points in it, both ends included.

    Parameters
    ----------
    at : Ints
        The points, in any order.
    values : sequence of Ints
        What to sum: arrays with one value per point.
    start, end : Ints
        The windows.

    Returns
    -------
    list of Ints
        One array per array of ``values``, with one sum per window.

    Examples
    --------
    >>> points, bytes_ = np.array([5, 1, 9]), np.array([50, 10, 90])
    >>> [
    ...     sums.tolist()
    ...     for sums in window_sums(points, [bytes_], np.array([1, 6]), np.array([5, 8]))
    ... ]
    [[60, 0]]
    """
    order = np.argsort(at, kind="stable")
    at = at[order]
    first = np.searchsorted(at, start, side="left")
    past = np.searchsorted(at, end, side="right")
    totals = (np.concatenate(([0], np.cumsum(of[order], dtype=np.int64))) for of in values)
    return [total[past] - total[first] for total in totals]


def open_at(start: Ints, end: Ints, at: Ints) -> Ints:
    """Count the intervals that are open at each point: that have started, and not ended.

    Parameters
    ----------
    start, end : Ints
        The intervals, in any order.
    at : Ints
        The points, in ascending order.

    Returns
    -------
    Ints
        A count for each point.

    Examples
    --------
    >>> open_at(np.array([5, 0, 7]), np.array([7, 10, 7]), np.array([-1, 0, 5, 7, 10])).tolist()
    [0, 1, 2, 1, 0]
    """
    return _reached(start, at) - _reached(end, at)


def covered(start: Ints, end: Ints, since: Ints, until: Ints) -> Ints:
    """Measure how much of each window the intervals cover; overlaps count once.

    Parameters
    ----------
    start, end : Ints
        The intervals, in any order.
    since, until : Ints
        The windows.

    Returns
    -------
    Ints
        A length for each window.

    Examples
    --------
    >>> start, end = np.array([20, 0, 5, 12]), np.array([30, 10, 12, 13])
    >>> covered(start, end, np.array([0, 3, 15]), np.array([50, 21, 20])).tolist()
    [23, 11, 0]
    """
    spans = union(start, end)
    return _covered_before(*spans, until) - _covered_before(*spans, since)


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Starts and ends of the union of the intervals, in ascending order.

    Examples
    --------
    >>> start, end = union(np.array([20, 0, 5, 12]), np.array([30, 10, 12, 13]))
    >>> start.tolist(), end.tolist()
    ([0, 20], [13, 30])
    """
    order = np.argsort(start)
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.append(True, start[1:] > reach[:-1])[: start.size])
    last = np.append(first[1:], start.size)[: first.size] - 1
    return start[first], reach[last]


def child_sums(parent: Ints, values: Ints) -> Ints:
    """Sum the values of each row's direct children.

    Examples
    --------
    >>> child_sums(np.array([-1, 0, 0]), np.array([9, 2, 3])).tolist()
    [5, 0, 0]
    """
    sums = np.zeros(parent.size + 1, np.int64)
    np.add.at(sums, parent, values)  # -1 is the spare last place
    return sums[:-1]


def child_overlaps(parent: Ints, last: Ints, preorder: Ints, start: Ints, end: Ints) -> Ints:
    """Overlap of each row's direct children: their summed lengths minus the time that they cover.

    Parameters
    ----------
    parent, last, preorder : Ints
        As in `Forest`; siblings are in the order of their starts.
    start, end : Ints
        The intervals; none begins before its parent or ends after it.

    Returns
    -------
    Ints
        A length for each row; 0 where no two children overlap.

    Examples
    --------
    >>> start, end = np.array([0, 10, 12]), np.array([50, 20, 30])
    >>> forest = nest(np.zeros(3, np.int64), start, end)
    >>> child_overlaps(forest.parent, forest.last, forest.preorder, start, end).tolist()
    [8, 0, 0]
    """
    overlaps = np.zeros(parent.size, np.int64)
    rows = _scatter(preorder, np.arange(parent.size))
    above = parent[rows]
    before = _siblings_before(_places(preorder, above), preorder[last[rows]])
    both = _crossing(before, above, start[rows], end[rows]) & (above >= 0)
    crossed = np.zeros(parent.size, np.bool_)
    crossed[above[both]] = True
    rows = rows[(above >= 0) & crossed[above]]
    rows = rows[np.argsort(parent[rows], kind="stable")]
    if rows.size:
        reach = _reach_before(parent[rows], end[rows])
        twice = np.maximum(np.minimum(reach, end[rows]), start[rows]) - start[rows]
        np.add.at(overlaps, parent[rows], twice)
    return overlaps


def union_lengths(size: int, group: Ints, start: Ints, end: Ints) -> Ints:
    """Measure how much the intervals of each group cover; overlaps count once.

    Examples
    --------
    >>> group, start, end = np.array([1, 1, 0]), np.array([5, 0, 3]), np.array([9, 6, 4])
    >>> union_lengths(3, group, start, end).tolist()
    [1, 9, 0]
    """
    lengths = np.zeros(size, np.int64)
    if group.size:
        order = np.lexsort((start, group))
        group, start, end = group[order], start[order], end[order]
        added = end - np.clip(_reach_before(group, end), start, end)
        np.add.at(lengths, group, added)
    return lengths


def subtree_sums(preorder: Ints, last: Ints, values: Ints) -> Ints:
    """Sum the values of each row and all its descendants.

    Examples
    --------
    >>> preorder, last = np.array([0, 1, 2]), np.array([2, 1, 2])
    >>> subtree_sums(preorder, last, np.array([9, 2, 3])).tolist()
    [14, 2, 3]
    """
    total = np.zeros(preorder.size + 1, np.int64)
    total[preorder + 1] = values
    np.cumsum(total, out=total)
    return total[preorder[last] + 1] - total[preorder]


def rows_by_value(values: Ints) -> list[Ints]:
    """Rows of each value, the smallest value first; each group in the order of the rows.

    Examples
    --------
    >>> [rows.tolist() for rows in rows_by_value(np.array([7, 3, 7, 5]))]
    [[1], [3], [0, 2]]
    """
    order = np.argsort(values, kind="stable")
    begins = np.flatnonzero(np.diff(values[order])) + 1
    return np.split(order, begins) if order.size else []


def depths(parent: Ints) -> Ints:
    """Number of ancestors, by pointer doubling.

    Examples
    --------
    >>> depths(np.array([-1, 0, 1, 2, 0])).tolist()
    [0, 1, 2, 3, 1]
    """
    return _path_sums(parent, (parent >= 0).astype(np.int64))


def nearest(parent: Ints, marked: Mask) -> Ints:
    """Find the nearest marked row among each row and its ancestors, by pointer doubling.

    Parameters
    ----------
    parent : Ints
        Row of the parent of each row, or -1.
    marked : Mask
        Where to stop.

    Returns
    -------
    Ints
        A marked row for each row, the row itself if it is marked, or -1.

    Examples
    --------
    >>> nearest(np.array([-1, 0, 1, -1]), np.array([True, False, False, False])).tolist()
    [0, 0, 0, -1]
    """
    if not marked.any():
        return np.full(parent.size, -1, np.int64)
    ancestor = np.where(marked, np.arange(parent.size), parent)
    rows = np.flatnonzero(ancestor >= 0)
    while (rows := rows[~marked[ancestor[rows]]]).size:
        ancestor[rows] = ancestor[ancestor[rows]]
        rows = rows[ancestor[rows] >= 0]
    return ancestor


def _covered_before(start: Ints, end: Ints, at: Ints) -> Ints:
    """Length of a union before each point."""
    if not start.size:
        return np.zeros(at.size, np.int64)
    before = np.cumsum(end - start) - end
    order = np.argsort(at, kind="stable")
    at = np.maximum(at[order], start[0])
    place = _reached(start, at) - 1
    return _scatter(order, before[place] + np.minimum(at, end[place]))


def _reached(values: Ints, at: Ints) -> Ints:
    """For each point, in ascending order, the number of values up to it.

    The points are many more than the values: so each value, in any order, is searched among the
    points and not the other way round.
    """
    first = np.bincount(np.searchsorted(at, values), minlength=at.size + 1)
    return np.cumsum(first[:-1])


def _keys(*places: tuple[Ints, Ints]) -> list[Ints]:
    """One number per (group, time), in the order of the pairs, comparable across ``places``."""
    times = [time for _, time in places if time.size]
    if not times:
        return [time for _, time in places]
    low = min(int(time.min()) for time in times)
    span = max(int(time.max()) for time in times) - low
    groups = 1 + max(int(group.max()) for group, _ in places if group.size)
    bits = span.bit_length()
    if bits + groups.bit_length() <= _KEY_BITS:
        return [(group.astype(np.int64) << bits) | (time - low) for group, time in places]
    distinct = np.unique(np.concatenate(times))  # times too far apart to share 64 bits with a group
    return [
        group.astype(np.int64) * distinct.size + np.searchsorted(distinct, time)
        for group, time in places
    ]


def _order(key: Ints, end: Ints, tie: Ints | None) -> Ints:
    """Rows by (key, longest first, tie, row); only rows with equal keys are sorted by more."""
    rows = np.argsort(key)
    ordered = key[rows]
    equal = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.insert(equal, 0, False))
    tied_rows = rows[tied]
    sort_keys = (
        (tied_rows, -end[tied_rows])
        if tie is None
        else (tied_rows, tie[tied_rows], -end[tied_rows])
    )
    rows[tied] = tied_rows[np.lexsort((*sort_keys, key[tied_rows]))]
    return rows


def _parents(group: Ints, start: Ints, end: Ints) -> Ints:
    """Place of the parent of each place of rows in order, by pointer doubling.

    All rows between a place and its candidate end too early to hold it. A candidate that fails ends
    too early, too, and so do all rows between it and its own candidate: so the place can take over
    that one.
    """
    size = start.size
    need = end + (end == start)
    reach = np.append(end, np.iinfo(np.int64).max)  # place -1 is beyond every root: never fails
    parent = np.arange(-1, size)
    parent[:-1][np.append(True, group[1:] != group[:-1])[:size]] = -1
    parent[-1] = -1
    failing = np.flatnonzero(reach[parent[:-1]] < need)
    for _ in range(_ROUNDS):
        if failing.size <= _FEW:
            break
        further = parent[parent[failing]]
        parent[failing] = further
        failing = failing[reach[further] < need[failing]]
    _walk(parent, reach, need, failing)
    return parent[:-1]


def _walk(parent: Ints, reach: Ints, need: Ints, failing: Ints) -> None:
    """Finish the rest one by one, as a stack would: each climbs from the place before it.

    Doubling shortens long rows of siblings, but not a climb out of a deep chain, which many places
    would repeat. Here no place is climbed past twice.
    """
    parents, reaches, needs = parent.data, reach.data, need.data
    for place in failing.tolist():
        needed, candidate = needs[place], place - 1
        while reaches[candidate] < needed:
            candidate = parents[candidate]
        parents[place] = candidate


def _last_descendants(parent: Ints) -> Ints:
    """For places in preorder: the last place of the subtree, along the last children."""
    size = parent.size
    last = np.arange(size + 1)
    last[parent] = np.arange(size)  # of equal indices the last one counts: the last child
    last = last[:size]
    inner = np.flatnonzero(last != np.arange(size))
    while inner.size:
        further = last[last[inner]]
        inner, further = inner[further != last[inner]], further[further != last[inner]]
        last[inner] = further
    return last


def _depths(last: Ints) -> Ints:
    """For places in preorder: how many subtrees have begun before and not ended."""
    ended = np.cumsum(np.bincount(last, minlength=last.size), dtype=np.int64)
    depth: Ints = np.arange(last.size) - np.append(0, ended[:-1])[: last.size]
    return depth


def _siblings_before(parent: Ints, last: Ints) -> Ints:
    """For places in preorder: the child of the same parent before, or -1; of a root, the root."""
    before = np.full(parent.size, -1, np.int64)
    place = np.flatnonzero(last + 1 < parent.size)
    place = place[parent[last[place] + 1] == parent[place]]
    before[last[place] + 1] = place
    return before


def _crossing(before: Ints, group: Ints, start: Ints, end: Ints) -> Mask:
    """For places in order: the one given before it has not ended when it starts."""
    crossing: Mask = (before >= 0) & (end[before] > start) & (group[before] == group)
    return crossing


def _subtree_sizes(parent: Ints, depth: Ints) -> Ints:
    """Number of rows of each subtree, level by level from the deepest."""
    size = np.ones(parent.size, np.int64)
    for level in rows_by_value(depth)[:0:-1]:
        np.add.at(size, parent[level], size[level])
    return size


def _preorder(parent: Ints, order: Ints, size: Ints) -> Ints:
    """Place of each row in depth-first order, with siblings in an order of all rows."""
    rows = np.lexsort((order, parent))
    before = np.cumsum(size[rows]) - size[rows]
    above = parent[rows]
    first = np.maximum.accumulate(
        np.where(np.diff(above, prepend=-2) != 0, np.arange(rows.size), 0)
    )
    return _path_sums(parent, _scatter(rows, before - before[first] + (above >= 0)))


def _path_sums(parent: Ints, values: Ints) -> Ints:
    """Sums of the values of each row and all its ancestors, by pointer doubling."""
    above, sums = parent.copy(), values.copy()
    rows = np.flatnonzero(above >= 0)
    while rows.size:
        through = above[rows]
        sums[rows], above[rows] = sums[rows] + sums[through], above[through]
        rows = rows[above[rows] >= 0]
    return sums


def _places(preorder: Ints, rows: Ints) -> Ints:
    """Places of rows; -1 of none."""
    return np.append(preorder, -1)[rows]


def _reach_before(group: Ints, end: Ints) -> Ints:
    """For rows in the order of their groups: the latest end of those before in the group.

    The first row of a group has none: it gets the smallest int64.
    """
    ends, rank = np.unique(end, return_inverse=True)
    first = np.diff(group, prepend=-1) != 0
    base = np.cumsum(first) * ends.size
    reach = ends[np.maximum.accumulate(base + rank) - base]
    return np.where(first, np.iinfo(np.int64).min, np.append(0, reach[:-1]))


def _scatter(rows: Ints, values: NDArray[Scalar]) -> NDArray[Scalar]:
    out = np.empty_like(values)
    out[rows] = values
    return out


def pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Pair equal numbers of two arrays: the first with the first, the second with the second.

    Parameters
    ----------
    left, right : Ints
        Numbers from 0, each less than the number of all of them.

    Returns
    -------
    tuple[Ints, Ints]
        Places on the left, and those of their partners on the right.

    Examples
    --------
    >>> [places.tolist() for places in pairs(np.array([1, 0, 1, 1]), np.array([1, 2, 1]))]
    [[0, 2], [0, 2]]
    """
    size = left.size + right.size + 1
    keys, right_keys = (values * size + _occurrence(values) for values in (left, right))
    _, at_left, at_right = np.intersect1d(keys, right_keys, True, return_indices=True)
    return at_left, at_right


def _occurrence(values: Ints) -> Ints:
    """How many equal values are before each."""
    order = np.argsort(values, kind="stable")
    _, first = np.unique(values[order], return_index=True)
    occurrence = np.empty(values.size, np.int64)
    occurrence[order] = np.arange(values.size) - np.repeat(first, np.diff([*first, values.size]))
    return occurrence
