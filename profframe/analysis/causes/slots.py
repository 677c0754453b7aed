"""Slots: a number for each call site, shared by all steps of both sides.

One step of each side represents the others, which are aligned to it: the earliest of those that are
equal most often. The two are then aligned to each other. Unmatched calls are keyed by parent slot,
label and occurrence number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.analysis.alignment.forest import Forest
from profframe.analysis.alignment.sequences import common
from profframe.analysis.alignment.trees import Memo, align
from profframe.analysis.causes.trees import Trees
from profframe.intervals import Ints, Mask, nearest

NONE: Final = -1
_ALIKE: Final = 4
"""Calls that do more than this many times the work of others are not the same."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of the nodes of both sides, and how many there are.

    Attributes
    ----------
    base, other : Ints
        Slot of each node.
    count : int
        Number of slots.
    gap : Ints
        For each slot that one side lacks: the number of its place on both sides; else -1. The place
        is that of the call around it and of what comes before it there, on both sides.
    """

    base: Ints
    other: Ints
    count: int
    gap: Ints


def slots(base: Trees, other: Trees) -> Slots:
    """Give the nodes of two sides slots; they are the same with the sides exchanged."""
    # Aligning is greedy, so its result may depend on the order of the sides; an explanation must
    # only change its signs when they are exchanged.
    if _order(other) < _order(base):
        turned = slots(other, base)
        return Slots(turned.other, turned.base, turned.count, turned.gap)
    sides = base, other
    of = [np.full(side.row.size, NONE, np.int64) for side in sides]
    count = 0
    # What is in no step (setup, the end) is never the counterpart of a step.
    for in_steps in (True, False):
        kinds = [_roots(side, in_steps) for side in sides]
        chosen = [_representative(side, roots) for side, roots in zip(sides, kinds, strict=True)]
        count = _shared(sides, of, chosen, count)
        for side, own, roots, one in zip(sides, of, kinds, chosen, strict=True):
            if one >= 0:
                _spread(side.forest, own, roots, one)
    count = _left_over(sides, of, count)
    return Slots(of[0], of[1], count, _gaps(sides, of, count))


def _order(of: Trees) -> tuple[int, int]:
    """A sort key for the two sides, so that results do not depend on their order."""
    return of.row.size, int(np.bitwise_xor.reduce(of.forest.equal[of.root], initial=np.uint64(0)))


def _roots(of: Trees, in_steps: bool) -> Ints:
    """Roots of steps, or of what is in no step; a side without steps has one root of a step."""
    if (of.step < 0).all():
        return of.root if in_steps else np.empty(0, np.int64)
    rows: Ints = of.root[(of.step >= 0) == in_steps]
    return rows


def _representative(of: Trees, roots: Ints) -> int:
    """The root of the step that represents the others, or -1."""
    if not roots.size:
        return NONE
    _, first, count = np.unique(of.forest.equal[roots], return_index=True, return_counts=True)
    # Warm-up, logging and validation make single steps different: the most frequent form is
    # typical.
    return int(roots[first[np.lexsort((first, -count))[0]]])


def _shared(
    sides: tuple[Trees, Trees],
    of: list[Ints],
    chosen: list[int],
    count: int,
) -> int:
    """Give slots to the nodes of the two representative steps; returns the number of slots."""
    base, other = sides
    node, counterpart = chosen
    if counterpart >= 0:
        size = int(other.forest.size[counterpart])
        of[1][counterpart : counterpart + size] = count + np.arange(size)
        count += size
    if node < 0:
        return count
    end = node + int(base.forest.size[node])
    if counterpart >= 0:
        pairs = align(base.forest, other.forest, [(node, counterpart)])
        # Work is paired last: another release may launch the same kernels from other calls.
        _pair_work(sides, pairs, (node, counterpart))
        paired = np.flatnonzero(pairs >= 0)
        of[0][paired] = of[1][pairs[paired]]
    alone = node + np.flatnonzero(of[0][node:end] < 0)
    of[0][alone] = count + np.arange(alone.size)
    return count + alone.size


def _pair_work(sides: tuple[Trees, Trees], pairs: Ints, roots: tuple[int, int]) -> None:
    """Pair work that other calls launch on the other side, in place.

    In order, within the innermost call that both sides have: first work of the same name in calls
    of the same shapes, then of the same name, then work that does the same by its category. What is
    then left of the first kind has moved elsewhere in the step.
    """
    base, other = sides
    node, counterpart = roots
    ends = (node + int(base.forest.size[node]), counterpart + int(other.forest.size[counterpart]))
    back = np.full(other.row.size, NONE, np.int64)
    back[pairs[pairs >= 0]] = np.flatnonzero(pairs >= 0)
    regions = [
        np.where(pairs >= 0, pairs, NONE)[nearest(base.forest.parent, pairs >= 0)],
        nearest(other.forest.parent, back >= 0),
    ]
    work, other_work = base.is_work, other.is_work
    shapes = [side.detail[side.forest.parent] for side in sides]
    keys = [
        # Shifted, so that a detail equal to that of its call does not give 0, which means no key.
        (base.detail ^ (shapes[0] >> 1), other.detail ^ (shapes[1] >> 1)),
        (base.detail, other.detail),
        (base.category, other.category),
    ]
    everywhere = [np.zeros(side.row.size, np.int64) for side in sides]
    for (own, others), places in [*((key, regions) for key in keys), (keys[0], everywhere)]:
        rows = node + np.flatnonzero((work & (pairs < 0) & (own != 0))[node : ends[0]])
        rest = counterpart + np.flatnonzero(
            (other_work & (back < 0) & (others != 0))[counterpart : ends[1]]
        )
        for some, counterparts in _by_region(rows, places[0][rows], rest, places[1][rest]):
            for i, j in common(own[some].tolist(), others[counterparts].tolist()):
                pairs[some[i]], back[counterparts[j]] = counterparts[j], some[i]
    _pair_around(sides, pairs, back, roots)


def _pair_around(
    sides: tuple[Trees, Trees], pairs: Ints, back: Ints, roots: tuple[int, int]
) -> None:
    """Pair parents of paired work if their work is within 4x. Modifies the arguments."""
    parents = [side.forest.parent for side in sides]
    work = [np.append(0, np.cumsum(side.is_work)) for side in sides]
    end = roots[0] + int(sides[0].forest.size[roots[0]])
    rows = roots[0] + np.flatnonzero((sides[0].is_work & (pairs >= 0))[roots[0] : end])
    # From the last to the first, so that inner calls are paired before those around them.
    for row in rows[::-1].tolist():
        node, other = parents[0][row], parents[1][pairs[row]]
        while node >= 0 and other >= 0 and pairs[node] < 0 and back[other] < 0:
            counts = [
                int(total[at + side.forest.size[at]] - total[at])
                for total, at, side in zip(work, (node, other), sides, strict=True)
            ]
            if max(counts) > _ALIKE * min(counts):
                break
            pairs[node], back[other] = other, node
            node, other = parents[0][node], parents[1][other]


def _by_region(
    rows: Ints, region: Ints, others: Ints, other_region: Ints
) -> list[tuple[Ints, Ints]]:
    """Rows of both sides that share a region."""
    parts = []
    order, other_order = np.argsort(region, kind="stable"), np.argsort(other_region, kind="stable")
    rows, region, others, other_region = (
        rows[order],
        region[order],
        others[other_order],
        other_region[other_order],
    )
    for value in np.intersect1d(region, other_region).tolist():
        begin, end = np.searchsorted(region, [value, value + 1])
        other_begin, other_end = np.searchsorted(other_region, [value, value + 1])
        parts.append((rows[begin:end], others[other_begin:other_end]))
    return parts


def _spread(of: Forest, own: Ints, roots: Ints, chosen: int) -> None:
    """Give the nodes of other steps of a side the slots of the chosen one, in place."""
    _, first, kind = np.unique(of.equal[roots], return_index=True, return_inverse=True)
    memo: Memo = {}
    for number, place in enumerate(first.tolist()):
        root, size = int(roots[place]), int(of.size[roots[place]])
        # Steps of one form are aligned once, with the first of them, and copied.
        if root != chosen:
            pairs = align(of, of, [(root, chosen)], memo)[root : root + size]
            own[root : root + size] = np.where(pairs >= 0, own[pairs], NONE)
        for same in roots[kind == number].tolist():
            own[same : same + size] = own[root : root + size]


def _left_over(sides: tuple[Trees, Trees], of: list[Ints], count: int) -> int:
    """Give all other nodes slots, in place; returns the number of all."""
    keys, places = [], []
    for side, own in zip(sides, of, strict=True):
        rows = np.flatnonzero(own < 0)
        around = nearest(side.forest.parent, own >= 0)[rows]
        inside = np.where(around >= 0, own[around], NONE)
        label, tree = side.forest.label[rows], side.tree[rows]
        # Per tree, so that the n-th extra call of a label has the same slot in all steps of both
        # sides.
        order = np.lexsort((rows, label, inside, tree))
        same = (tree, inside, label)
        new = np.zeros(rows.size, np.bool_)
        new[:1] = True
        for column in same:
            new[1:] |= column[order][1:] != column[order][:-1]
        first = np.flatnonzero(new)
        turn = np.empty(rows.size, np.int64)
        turn[order] = np.arange(rows.size) - np.repeat(first, np.diff(np.append(first, rows.size)))
        keys.append(np.stack([inside, label, turn], axis=1))
        places.append(rows)
    everything = np.concatenate(keys)
    if not everything.size:
        return count
    _, number = np.unique(everything, axis=0, return_inverse=True)
    number = number.ravel() + count
    split = places[0].size
    of[0][places[0]], of[1][places[1]] = number[:split], number[split:]
    return int(number.max()) + 1


def _gaps(sides: tuple[Trees, Trees], of: list[Ints], count: int) -> Ints:
    """Number the gaps of unmatched slots; those of both sides in one place share a number."""
    there = [np.zeros(count, np.bool_) for _ in sides]
    for own, mask in zip(of, there, strict=True):
        mask[own] = True
    both = there[0] & there[1]
    gap = np.full(count, NONE, np.int64)
    for side, own in zip(sides, of, strict=True):
        gap[own] = np.where(both[own], NONE, _places(side.forest, own, both))
    return gap


def _places(of: Forest, own: Ints, both: Mask) -> Ints:
    """For each node the nearest enclosing matched call, and the last matched child before it."""
    is_shared = both[own]
    around = nearest(of.parent, is_shared)
    rows = np.arange(own.size)
    top = nearest(np.where(is_shared, NONE, of.parent), ~is_shared & is_shared[of.parent])
    top = np.where(top >= 0, top, rows)
    order = np.lexsort((rows, of.parent))
    before = np.where(is_shared[order], order, NONE)
    parent = of.parent[order]
    begin = np.searchsorted(parent, parent)
    latest = np.maximum.accumulate(np.where(before >= 0, np.arange(order.size), NONE))
    previous = np.where(latest >= begin, order[latest], NONE)
    of_node = np.empty(own.size, np.int64)
    of_node[order] = previous
    sibling = of_node[top]
    numbers = np.where(around >= 0, own[around], NONE), np.where(sibling >= 0, own[sibling], NONE)
    place: Ints = (numbers[0] + 1) * (np.int64(own.max(initial=0)) + 2) + numbers[1] + 1
    return place
