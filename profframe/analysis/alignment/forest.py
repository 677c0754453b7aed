"""A call forest as columns, with hashes that say which of its subtrees are equal."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profframe.intervals import Ints, Mask

Hashes = NDArray[np.uint64]

_MULTIPLIERS: Final = tuple(
    np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_SHIFTS: Final = tuple(np.uint64(n) for n in (30, 27, 31))


@dataclass(frozen=True, slots=True)
class Forest:
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


def forest(depth: Ints, label: Ints, detail: Ints, is_work: Mask) -> Forest:
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
    return Forest(parent, size, label, alike, equal, work, np.where(work > 0, label, 0))


def mixed(values: Hashes) -> Hashes:
    """Numbers that look random, and are equal if the values are (splitmix64)."""
    with np.errstate(over="ignore"):
        values = values + _MULTIPLIERS[0]
        values = (values ^ (values >> _SHIFTS[0])) * _MULTIPLIERS[1]
        values = (values ^ (values >> _SHIFTS[1])) * _MULTIPLIERS[2]
        return values ^ (values >> _SHIFTS[2])
