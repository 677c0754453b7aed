"""Pairs of nodes of two forests that are the same call.

Equal subtrees are paired as a whole. Where they differ, their children are aligned in order, in two
ways: first those that are equal, then those alike down to the leaves, then those with the same
label; or, if that leaves some of each side alone, by labels, calls that do work first. The way that
pairs more is used. A node without a counterpart on the other side, but with descendants that have
some, is a wrapper: its children take its place. What is left is paired if it does the same work
under another name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profframe.intervals import Ints, Mask

Pairs = list[tuple[int, int]]

_MOST_CELLS: Final = 250_000
"""Larger parts are aligned by how often a value occurred before, not by trying all ways."""


def common(left: Sequence[int], right: Sequence[int]) -> Pairs:
    """Pairs of places with equal values, ascending on both sides; long, but not always the longest.

    What both begin and end with is paired first. Values that occur once on each side divide the
    rest (Cohen's patience diff), and what is left between them is compared as a whole.

    Examples
    --------
    >>> common([1, 2, 3, 4], [1, 3, 9, 4])
    [(0, 0), (2, 1), (3, 3)]
    """
    pairs: Pairs = []
    todo = [(0, len(left), 0, len(right))]
    while todo:
        begin, end, other_begin, other_end = todo.pop()
        while begin < end and other_begin < other_end and left[begin] == right[other_begin]:
            pairs.append((begin, other_begin))
            begin, other_begin = begin + 1, other_begin + 1
        while begin < end and other_begin < other_end and left[end - 1] == right[other_end - 1]:
            end, other_end = end - 1, other_end - 1
            pairs.append((end, other_end))
        if begin == end or other_begin == other_end:
            continue
        here, there = left[begin:end], right[other_begin:other_end]
        if set(here).isdisjoint(there):
            continue
        anchors = _once_in_both(here, there)
        if not anchors:
            pairs += [(begin + i, other_begin + j) for i, j in _repeated(here, there)]
            continue
        bounds = [(-1, -1), *anchors, (len(here), len(there))]
        pairs += [(begin + i, other_begin + j) for i, j in anchors]
        for (i, j), (next_i, next_j) in pairwise(bounds):
            todo.append((begin + i + 1, begin + next_i, other_begin + j + 1, other_begin + next_j))
    return sorted(pairs)


def _once_in_both(left: Sequence[int], right: Sequence[int]) -> Pairs:
    counts, others = Counter(left), Counter(right)
    places = {value: place for place, value in enumerate(right) if others[value] == 1}
    pairs = [
        (i, places[value]) for i, value in enumerate(left) if counts[value] == 1 and value in places
    ]
    return _ascending(pairs)


def _repeated(left: Sequence[int], right: Sequence[int]) -> Pairs:
    """Values that come several times."""
    if len(left) * len(right) <= _MOST_CELLS:
        # autojunk would ignore values that are frequent, which kernels of repeated layers are.
        blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
        return [(i + k, j + k) for i, j, size in blocks for k in range(size)]
    places: dict[tuple[int, int], int] = {}
    times: Counter[int] = Counter()
    for place, value in enumerate(right):
        places[value, times[value]] = place
        times[value] += 1
    # Too many ways to try: the n-th of a value on the left is taken for the n-th on the right.
    times.clear()
    pairs = []
    for i, value in enumerate(left):
        if (value, times[value]) in places:
            pairs.append((i, places[value, times[value]]))
        times[value] += 1
    return _ascending(pairs)


def _ascending(pairs: Pairs) -> Pairs:
    """The longest part of pairs, which ascend on the left, that also ascends on the right."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(tails, place)
        before.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [place]
        ends[at : at + 1] = [number]
    chain: Pairs = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


Hashes = NDArray[np.uint64]

_MULTIPLIERS: Final = tuple(
    np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_SHIFTS: Final = tuple(np.uint64(n) for n in (30, 27, 31))


@dataclass(frozen=True, slots=True)
class CallForest:
    """Nodes in preorder: a node's children follow it, and each is followed by its own.

    Attributes
    ----------
    parent : Ints
        Row of the parent, or -1.
    size : Ints
        Number of nodes of the subtree, with its own.
    label : Ints
        What makes two nodes the same call, as a number.
    alike : Hashes
        Hash of the subtree: equal if the labels are, node by node.
    equal : Hashes
        The same with the details of all nodes.
    work : Hashes
        Hash of the leaves that are work, in any order; 0 if there are none.
    heavy : Ints
        The label of nodes that are or do work, else 0.
    """

    parent: Ints
    size: Ints
    label: Ints
    alike: Hashes
    equal: Hashes
    work: Hashes
    heavy: Ints

    def children(self, node: int) -> list[int]:
        """Rows of the children of a node, in their order."""
        children, child, end = [], node + 1, node + int(self.size[node])
        while child < end:
            children.append(child)
            child += int(self.size[child])
        return children


def forest(depth: Ints, label: Ints, detail: Ints, is_work: Mask) -> CallForest:
    """Make a forest of nodes in preorder.

    Parameters
    ----------
    depth : Ints
        Number of ancestors of each node.
    label, detail : Ints
        What the node is, and what else must be equal in equal subtrees.
    is_work : Mask
        Leaves that are work of a device.
    """
    order = np.argsort(depth, kind="stable")
    counts = np.bincount(depth) if depth.size else np.zeros(0, np.int64)
    ends = np.cumsum(counts)
    levels = [order[end - count : end] for end, count in zip(ends, counts, strict=True)]
    parent = np.full(depth.size, -1, np.int64)
    for above, level in pairwise(levels):
        parent[level] = above[np.searchsorted(above, level) - 1]
    size = np.ones(depth.size, np.int64)
    alike = mixed(label.view(np.uint64))
    equal = mixed(alike + detail.view(np.uint64))
    work = np.where(is_work, mixed(detail.view(np.uint64)), np.uint64(0))
    for level in levels[:0:-1]:
        above = parent[level]
        first = np.flatnonzero(np.append(True, above[1:] != above[:-1]))
        into = above[first]
        place = (
            np.arange(level.size) - np.repeat(first, np.diff(np.append(first, level.size)))
        ).astype(np.uint64)
        size[into] += np.add.reduceat(size[level], first)
        work[into] += np.add.reduceat(work[level], first)
        for of in (alike, equal):
            of[into] += np.add.reduceat(mixed(of[level] + mixed(place)), first)
            of[into] = mixed(of[into])
    work = np.where(is_work, mixed(work), work)  # a call is not the work that it launched
    return CallForest(parent, size, label, alike, equal, work, np.where(work > 0, label, 0))


def mixed(values: Hashes) -> Hashes:
    """Numbers that look random, and are equal if the values are (splitmix64)."""
    with np.errstate(over="ignore"):
        values = values + _MULTIPLIERS[0]
        values = (values ^ (values >> _SHIFTS[0])) * _MULTIPLIERS[1]
        values = (values ^ (values >> _SHIFTS[1])) * _MULTIPLIERS[2]
        return values ^ (values >> _SHIFTS[2])


Gap = tuple[list[int], list[int]]
"""Nodes of both sides that are between the same pairs."""
Memo = dict[tuple[int, int], list[tuple[int, int]]]
"""Pairs below two nodes, by the hashes of the nodes, and relative to them."""
_NEAR: Final = 256
"""How far below a node its counterparts are searched."""


def align(
    left: CallForest, right: CallForest, roots: Sequence[tuple[int, int]], memo: Memo | None = None
) -> Ints:
    """Find for each node of the left forest the same call in the right one, or -1.

    ``roots`` are pairs of nodes that are taken to be the same; only nodes below them are paired. No
    node has two counterparts, and pairs keep their order. A ``memo`` for the same two forests keeps
    the pairs of subtrees that occur again.
    """
    memo = {} if memo is None else memo
    pairs = np.full(left.size.size, -1, np.int64)
    todo = list(roots)
    while todo:
        node, other = todo.pop()
        size = int(left.size[node])
        # Most of two steps is equal: a hash pairs whole layers without looking into them.
        if left.alike[node] == right.alike[other] and size == right.size[other]:
            pairs[node : node + size] = np.arange(other, other + size)
            continue
        pairs[node] = other
        # Layers repeat: the same two different subtrees are aligned once, and moved to each place.
        key = int(left.equal[node]), int(right.equal[other])
        if key not in memo:
            below = _siblings(left, right, left.children(node), right.children(other))
            memo[key] = [(child - node, counterpart - other) for child, counterpart in below]
        todo += [(node + child, other + counterpart) for child, counterpart in memo[key]]
    return pairs


def _siblings(
    left: CallForest, right: CallForest, nodes: list[int], others: list[int]
) -> list[tuple[int, int]]:
    """Pairs among children of two nodes that are the same call, and below wrappers among them."""
    pairs: list[tuple[int, int]] = []
    todo = [(nodes, others)]
    while todo:
        gap = todo.pop()
        by_equality = _in_stages(left, right, ("equal", "alike", "label"), gap)
        ways = [by_equality]
        # Equal calls may be paired far apart, which leaves what is between them alone; by labels
        # alone, with the calls that do work first, more may fit.
        if len(by_equality[0]) < min(map(len, gap)):
            ways.append(_in_stages(left, right, ("heavy", "label"), gap))
        some, gaps = max(ways, key=lambda way: _paired(left, right, way[0]))
        pairs += some
        rest: list[Gap] = []
        for gap in gaps:
            opened = _opened(left, right, *gap), _opened(right, left, *gap[::-1])
            (rest if opened == gap else todo).append(opened)
        for gap in rest:
            pairs += _in_stages(left, right, ("work",), gap)[0]
    return pairs


def _in_stages(
    left: CallForest, right: CallForest, columns: Sequence[str], gap: Gap
) -> tuple[list[tuple[int, int]], list[Gap]]:
    """Pair by one column after the other; each stage works in the gaps that the one before left."""
    pairs: list[tuple[int, int]] = []
    gaps = [gap]
    for column in columns:
        keys = getattr(left, column), getattr(right, column)
        gaps = [rest for part in gaps for rest in _divided(*keys, part, pairs)]
    return pairs, gaps


def _paired(left: CallForest, right: CallForest, pairs: list[tuple[int, int]]) -> int:
    """Number of paired nodes."""
    if not pairs:
        return 0
    nodes, others = map(list, zip(*pairs, strict=True))
    return int(np.minimum(left.size[nodes], right.size[others]).sum())


def _divided(
    left_key: NDArray[np.integer],
    right_key: NDArray[np.integer],
    gap: Gap,
    pairs: list[tuple[int, int]],
) -> list[Gap]:
    """Split a gap at pairs with equal keys, which are added to ``pairs``; returns smaller gaps."""
    nodes, others = gap
    if not nodes or not others:
        return []
    values, other_values = left_key[nodes].tolist(), right_key[others].tolist()
    # A key of 0 means that there is none, as for calls without work.
    matched = [(i, j) for i, j in common(values, other_values) if values[i]]
    pairs += [(nodes[i], others[j]) for i, j in matched]
    bounds = [(-1, -1), *matched, (len(nodes), len(others))]
    gaps = [
        (nodes[i + 1 : next_i], others[j + 1 : next_j])
        for (i, j), (next_i, next_j) in pairwise(bounds)
    ]
    return [(some, rest) for some, rest in gaps if some and rest]


def _opened(
    forest: CallForest, other: CallForest, nodes: list[int], others: list[int]
) -> list[int]:
    """Replace nodes by their children if a descendant has a label of the other side."""
    labels = np.unique(other.label[others])
    opened: list[int] = []
    for node in nodes:
        # The root of a step contains every label: without a bound each level would search all of it
        # again.
        end = node + min(int(forest.size[node]), _NEAR)
        inside = bool(np.isin(forest.label[node + 1 : end], labels).any())
        opened += forest.children(node) if inside else [node]
    return opened
