"""Call trees of the steps of a side: ops, modules, annotations, and the work they launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profframe.analysis.alignment.forest import Forest, forest
from profframe.analysis.causes.rows import Slices, Windows
from profframe.intervals import Ints, Mask, depths

_DEEPEST = np.int64(1) << 40


@dataclass(frozen=True, slots=True)
class Trees:
    """Nodes in preorder, a tree per step of a rank.

    Attributes
    ----------
    forest : Forest
        How they nest; the root of a tree is not a slice.
    part, row : Ints
        Number of the (run, rank), and row of its slice; -1 for roots.
    root : Ints
        Rows of the roots.
    step : Ints
        Step of each root; -1 for what is in no step.
    is_work : Mask
        It is device work.
    detail, category : Ints
        As of slices.
    """

    forest: Forest
    part: Ints
    row: Ints
    root: Ints
    step: Ints
    is_work: Mask
    detail: Ints
    category: Ints

    @property
    def tree(self) -> Ints:
        """Number of the tree of each node."""
        return np.cumsum(self.row < 0) - 1

    def node_of(self, part: int, slices: int) -> Ints:
        """Node of each of this many slices of a rank, and of row -1; -1 is none."""
        own = np.flatnonzero((self.part == part) & (self.row >= 0))
        nodes = np.full(slices + 1, -1, np.int64)
        nodes[self.row[own]] = own
        return nodes


def trees(parts: Sequence[tuple[Slices, Windows]]) -> Trees:
    """Make the trees of all ranks of a side."""
    nodes = [_nodes(of, steps) for of, steps in parts]
    part = np.repeat(np.arange(len(nodes)), [row.size for row, _, _ in nodes])
    row, depth, step = (np.concatenate(column) for column in zip(*nodes, strict=True))
    label, detail, category = np.zeros((3, row.size), np.int64)
    is_work = np.zeros(row.size, np.bool_)
    for number, (of, _) in enumerate(parts):
        here = np.flatnonzero((part == number) & (row >= 0))
        label[here], detail[here] = of.label[row[here]], of.detail[row[here]]
        category[here], is_work[here] = of.category[row[here]], of.work[row[here]] > 0
    root = np.flatnonzero(row < 0)
    made = forest(depth, label, detail, is_work)
    return Trees(made, part, row, root, step[root], is_work, detail, category)


def _nodes(of: Slices, steps: Windows) -> tuple[Ints, Ints, Ints]:
    """Rows, depths and steps of the nodes of a rank in preorder, with a root for each step."""
    call = of.is_call
    node = np.flatnonzero(call | (of.work > 0))
    work = of.work[node] > 0
    launch = np.where(work, of.launch[node], node)
    step = of.step[node]
    parent = np.where(work, np.where(launch >= 0, of.call[launch], -1), of.call[of.parent[node]])
    parent[~work & (of.parent[node] < 0)] = -1
    # An annotation around several steps is in none of their trees: each begins anew.
    parent = np.where((parent >= 0) & (of.step[parent] == step), parent, -1)
    above = np.full(of.event_id.size, -1, np.int64)
    above[node] = parent
    depth = depths(above)[node]
    thread = np.where(launch >= 0, of.thread[launch], -2)
    time = np.where(launch >= 0, of.start_ns[launch], of.start_ns[node])
    role = np.where(thread == steps.thread, 0, 2)
    backward = np.unique(of.thread[(of.backward > 0) & (of.work == 0)])
    # Threads have other numbers in each process; their role is the same: main, backward, others.
    role[(role > 0) & np.isin(thread, backward)] = 1
    place = _places(step, thread, time, np.stack([role, of.label[node]]))
    # Work comes after the calls of its moment, so that it becomes a leaf of the call that launched
    # it.
    raw = np.where(work, _DEEPEST, of.depth[node])
    order = np.lexsort((node, of.graph_position[node], of.start_ns[node], raw, time, place, step))
    node, depth, step = node[order], depth[order] + 1, step[order]
    if not node.size:
        none = np.full(1, -1, np.int64)
        return none, none + 1, none
    first = np.flatnonzero(np.append(True, step[1:] != step[:-1])[: step.size])
    return (
        np.insert(node, first, -1),
        np.insert(depth, first, 0),
        np.insert(step, first, step[first]),
    )


def _places(step: Ints, thread: Ints, time: Ints, role: Ints) -> Ints:
    """Order of threads in each step: by role, what they begin with, and when."""
    order = np.lexsort((time, thread, step))
    new = np.append(True, (np.diff(step[order]) != 0) | (np.diff(thread[order]) != 0))
    first = order[np.flatnonzero(new[: order.size])]
    rank = np.lexsort((thread[first], time[first], *role[::-1, first], step[first]))
    place_of = np.empty(first.size, np.int64)
    place_of[rank] = np.arange(first.size)
    places = np.empty(order.size, np.int64)
    places[order] = place_of[np.cumsum(new[: order.size]) - 1]
    return places
