"""Longest paths through a network of dependencies: when each node is reached.

Arrays only. Many arrows lead from one node to another; only the longest counts, so those are found
in arrays, and a loop goes over what is left: nodes at which something waited for something other
than itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.intervals import Ints

ORIGIN: Final = 0
"""The node at which everything begins, at time 0."""
NEVER: Final = -(2**62)
"""A time that comes after nothing."""


@dataclass(frozen=True, slots=True)
class Network:
    """Nodes and the arrows between them, grouped by source and target.

    Attributes
    ----------
    size : int
        Number of nodes; the first is ORIGIN.
    arrows : Ints
        Rows of the arrows in the order of ``source`` and ``target``.
    first : Ints
        Place in ``arrows`` of the first of those with the same source and target.
    source, target : Ints
        Nodes of these groups, in order of the target.
    begin : Ints
        Place in the groups of the first with each node as its target, and their number.
    order : Ints
        Nodes, each after everything that it waits for.
    """

    size: int
    arrows: Ints
    first: Ints
    source: Ints
    target: Ints
    begin: Ints
    order: Ints


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """When each node is reached, and the group of arrows that it was reached by last (-1: none)."""

    reached: list[int]
    by: list[int]


def network(size: int, source: Ints, target: Ints, order: Ints, preference: Ints) -> Network:
    """Group arrows by source and target.

    ``order`` has all nodes, in the order of their times. Of equally long arrows, the one with the
    greatest ``preference`` counts.
    """
    arrows = np.lexsort((-preference, source, target))
    sources, targets = source[arrows], target[arrows]
    new = np.append(True, (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1]))
    first = np.flatnonzero(new[: arrows.size])
    groups = np.lexsort((-preference[arrows[first]], targets[first]))
    count = np.diff(np.append(first, arrows.size))[groups]
    begin = np.cumsum(count) - count
    arrows = arrows[np.repeat(first[groups] - begin, count) + np.arange(arrows.size)]
    sources, targets, first = sources[first[groups]], targets[first[groups]], begin
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)
    # The order of recorded times fits, unless times are equal or contradict a dependency.
    if (place[sources] >= place[targets]).any():
        order = _sorted(size, sources, targets, place)
    begin = np.searchsorted(targets, np.arange(size + 1))
    return Network(size, arrows, first, sources, targets, begin, order)


def _sorted(size: int, source: Ints, target: Ints, place: Ints) -> Ints:
    """Nodes after everything that they wait for; if they wait in a cycle, in the order of times."""
    missing = np.bincount(target, minlength=size)
    by_source = np.argsort(source, kind="stable")
    begin = np.searchsorted(source[by_source], np.arange(size + 1)).tolist()
    targets, left = target[by_source].tolist(), missing.tolist()
    ready = [*np.flatnonzero(missing == 0)[::-1].tolist()]
    done: list[int] = []
    is_done = [False] * size
    rest = iter(np.argsort(place, kind="stable").tolist())
    while len(done) < size:
        # Contradicting clocks may close a circle: the earliest node breaks it.
        node = ready.pop() if ready else next(rest)
        if is_done[node]:
            continue
        is_done[node] = True
        done.append(node)
        for next_node in targets[begin[node] : begin[node + 1]]:
            left[next_node] -= 1
            if left[next_node] == 0:
                ready.append(next_node)
    return np.array(done, np.int64)


def times(net: Network, length: Ints) -> NodeTimes:
    """When each node is reached, with these lengths of arrows."""
    longest = np.maximum.reduceat(length[net.arrows], net.first) if net.first.size else net.first
    lengths, source, begin = longest.tolist(), net.source.tolist(), net.begin.tolist()
    reached, by = [NEVER] * net.size, [-1] * net.size
    reached[ORIGIN] = 0
    for node in net.order.tolist():
        latest, latest_by = reached[node], -1
        for group in range(begin[node], begin[node + 1]):
            time = reached[source[group]] + lengths[group]
            # On a tie the first group counts: groups are in the order of their preference.
            if time > latest:
                latest, latest_by = time, group
        reached[node], by[node] = latest, latest_by
    return NodeTimes(reached, by)


def longest_arrow(net: Network, length: Ints, group: int) -> int:
    """Row of the longest arrow of a group."""
    end = int(net.first[group + 1]) if group + 1 < net.first.size else net.arrows.size
    rows = net.arrows[int(net.first[group]) : end]
    return int(rows[np.argmax(length[rows])])
