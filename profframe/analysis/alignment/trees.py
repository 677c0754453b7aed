"""Pairs of nodes of two forests that are the same call.

Equal subtrees are paired as a whole. Where they differ, their children are aligned in order, in two
ways: first those that are equal, then those alike down to the leaves, then those with the same
label; or, if that leaves some of each side alone, by labels, calls that do work first. The way that
pairs more is used. A node without a counterpart on the other side, but with descendants that have
some, is a wrapper: its children take its place. What is left is paired if it does the same work
under another name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profframe.analysis.alignment.forest import Forest
from profframe.analysis.alignment.sequences import common
from profframe.intervals import Ints

Gap = tuple[list[int], list[int]]
"""Nodes of both sides that are between the same pairs."""
Memo = dict[tuple[int, int], list[tuple[int, int]]]
"""Pairs below two nodes, by the hashes of the nodes, and relative to them."""
_NEAR: Final = 256
"""How far below a node its counterparts are searched."""


def align(
    left: Forest, right: Forest, roots: Sequence[tuple[int, int]], memo: Memo | None = None
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
    left: Forest, right: Forest, nodes: list[int], others: list[int]
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
    left: Forest, right: Forest, columns: Sequence[str], gap: Gap
) -> tuple[list[tuple[int, int]], list[Gap]]:
    """Pair by one column after the other; each stage works in the gaps that the one before left."""
    pairs: list[tuple[int, int]] = []
    gaps = [gap]
    for column in columns:
        keys = getattr(left, column), getattr(right, column)
        gaps = [rest for part in gaps for rest in _divided(*keys, part, pairs)]
    return pairs, gaps


def _paired(left: Forest, right: Forest, pairs: list[tuple[int, int]]) -> int:
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


def _opened(of: Forest, other: Forest, nodes: list[int], others: list[int]) -> list[int]:
    """Replace nodes by their children if a descendant has a label of the other side."""
    labels = np.unique(other.label[others])
    opened: list[int] = []
    for node in nodes:
        # The root of a step contains every label: without a bound each level would search all of it
        # again.
        end = node + min(int(of.size[node]), _NEAR)
        inside = bool(np.isin(of.label[node + 1 : end], labels).any())
        opened += of.children(node) if inside else [node]
    return opened
