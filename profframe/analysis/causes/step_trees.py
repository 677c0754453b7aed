"""Call trees of the steps of a side: ops, modules, annotations, and the work they launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import duckdb
import numpy as np

from profframe.analysis.alignment import CallForest, forest
from profframe.facts.arrays import last_equal, numbers
from profframe.intervals import Ints, Mask, depths, nearest
from profframe.query.run import select, selected

MACROS: Final = "call_nodes() steady_steps()"
"""The macros that the queries of this module call."""
OP, ANNOTATION, MODULE, FRAME, CALL, SYNC, LOAD, COMPILE, RESUME = range(1, 10)
"""What the host does in a slice; `call_sort` in SQL."""
_CALLS: Final = (OP, ANNOTATION, MODULE, SYNC, LOAD, COMPILE, RESUME)
_LATEST: Final = 2**62
COMPUTE, COMMUNICATION, COPY = range(1, 4)
"""What a device does."""


@dataclass(frozen=True, slots=True)
class StepSlices:
    """Slices by event_id; references are rows, -1 is none.

    Attributes
    ----------
    event_id, parent, launch, thread, device, step, depth, start_ns, dur_ns : Ints
        As in ``events``.
    work, sort, label, backward, detail, category, graph_position : Ints
        As in `call_nodes` in SQL.
    is_call : Mask
        Nodes of a call tree: what a program calls, not how it gets there.
    call : Ints
        The innermost call that each slice is in; itself where it is one.
    """

    event_id: Ints
    parent: Ints
    launch: Ints
    thread: Ints
    device: Ints
    step: Ints
    depth: Ints
    start_ns: Ints
    dur_ns: Ints
    work: Ints
    sort: Ints
    label: Ints
    backward: Ints
    detail: Ints
    category: Ints
    graph_position: Ints
    is_call: Mask = field(init=False)
    call: Ints = field(init=False)

    def __post_init__(self) -> None:
        """Find the calls."""
        is_call = np.isin(self.sort, _CALLS) & (self.work == 0)
        object.__setattr__(self, "is_call", is_call)
        object.__setattr__(self, "call", nearest(self.parent, is_call))

    @property
    def end_ns(self) -> Ints:
        """Ends."""
        return self.start_ns + self.dur_ns


@dataclass(frozen=True, slots=True)
class Windows:
    """Disjoint steps of one (run, rank): their times and their thread."""

    step: Ints
    start_ns: Ints
    end_ns: Ints
    thread: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Work that is not in the trace, by its launches: their rows, and when it may have run."""

    row: Ints
    start_ns: Ints
    end_ns: Ints

    def in_windows(self, slices: StepSlices, steps: Windows) -> int:
        """How many launches are in windows, or have work that may have run in them."""
        since = np.where(self.row >= 0, np.append(slices.start_ns, 0)[self.row], self.start_ns)
        is_launched = _may_meet(since, since + 1, steps)
        return int(np.count_nonzero(is_launched | _may_meet(self.start_ns, self.end_ns, steps)))


def slices(connection: duckdb.DuckDBPyConnection) -> StepSlices:
    """Read the slices of a connection that has one (run, rank)."""
    table = selected(connection, "FROM call_nodes(events)")
    columns = {of.name: numbers(table, of.name) for of in fields(StepSlices) if of.init}
    event_id = columns["event_id"]
    if (np.diff(event_id) < 0).any():
        order = np.argsort(event_id, kind="stable")  # few runs: of each thread of the query
        columns = {name: values[order] for name, values in columns.items()}
        event_id = columns["event_id"]
    for name in ("parent", "launch"):
        columns[name] = last_equal(event_id, np.arange(event_id.size), columns[name])
    return StepSlices(**columns)


def lost(connection: duckdb.DuckDBPyConnection, slices: StepSlices) -> Lost:
    """Read the launches whose work is not in the trace."""
    table = selected(
        connection,
        """SELECT event_id, lost_start_ns AS start_ns, lost_end_ns AS end_ns FROM events
        WHERE lost_start_ns IS NOT NULL ORDER BY event_id""",
    )
    event_id, start, end = (numbers(table, name) for name in ("event_id", "start_ns", "end_ns"))
    return Lost(last_equal(slices.event_id, np.arange(slices.event_id.size), event_id), start, end)


def windows(connection: duckdb.DuckDBPyConnection, slices: StepSlices) -> Windows:
    """The steady profiler steps; without any step the whole trace is one."""
    table = select(
        connection,
        """SELECT step, began_ns AS start_ns, completed_ns AS end_ns, event_id
        FROM steady_steps(profiler_steps)
        WHERE step_ns > 0 AND is_steady IS NOT FALSE
        ORDER BY start_ns, event_id""",
    ).to_arrow_table()
    step, start, end = (numbers(table, name) for name in ("step", "start_ns", "end_ns"))
    row = last_equal(slices.event_id, np.arange(slices.event_id.size), numbers(table, "event_id"))
    # Of steps that overlap the first counts: their common time must not count twice.
    kept = (row >= 0) & (
        start >= np.append(start[:1], np.maximum.accumulate(end)[:-1])[: start.size]
    )
    if kept.any():
        return Windows(step[kept], start[kept], end[kept], int(slices.thread[row[kept][0]]))
    # Without steps, the thread with most host time stands for the main one.
    host = np.flatnonzero(slices.work == 0)
    thread = (
        int(np.bincount(slices.thread[host] + 1, slices.dur_ns[host]).argmax()) - 1
        if host.size
        else -1
    )
    whole = np.zeros(min(slices.start_ns.size, 1), np.int64)
    begin = whole + slices.start_ns.min(initial=_LATEST)
    return Windows(whole - 1, begin, whole + slices.end_ns.max(initial=-_LATEST), thread)


def _may_meet(start: Ints, end: Ints, steps: Windows) -> Mask:
    """Which intervals have time in common with a window."""
    after = np.searchsorted(steps.end_ns, start, side="right")
    meets: Mask = (start < end) & (np.append(steps.start_ns, _LATEST)[after] < end)
    return meets


_DEEPEST = np.int64(1) << 40


@dataclass(frozen=True, slots=True)
class Trees:
    """Nodes in preorder, a tree per step of a rank.

    Attributes
    ----------
    forest : CallForest
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

    forest: CallForest
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


def trees(parts: Sequence[tuple[StepSlices, Windows]]) -> Trees:
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


def _nodes(slices: StepSlices, steps: Windows) -> tuple[Ints, Ints, Ints]:
    """Rows, depths and steps of the nodes of a rank in preorder, with a root for each step.

    Roots have row -1 and depth 0. Work is below the call that its launch is in; work without a
    launch is on thread -2.
    """
    call = slices.is_call
    node = np.flatnonzero(call | (slices.work > 0))
    work = slices.work[node] > 0
    launch = np.where(work, slices.launch[node], node)
    step = slices.step[node]
    # A parent of -1 takes the last row here, and is put right behind.
    parent = np.where(
        work, np.where(launch >= 0, slices.call[launch], -1), slices.call[slices.parent[node]]
    )
    parent[~work & (slices.parent[node] < 0)] = -1
    # An annotation around several steps is in none of their trees: each begins anew.
    parent = np.where((parent >= 0) & (slices.step[parent] == step), parent, -1)
    above = np.full(slices.event_id.size, -1, np.int64)
    above[node] = parent
    depth = depths(above)[node]
    thread = np.where(launch >= 0, slices.thread[launch], -2)
    time = np.where(launch >= 0, slices.start_ns[launch], slices.start_ns[node])
    role = np.where(thread == steps.thread, 0, 2)
    backward = np.unique(slices.thread[(slices.backward > 0) & (slices.work == 0)])
    # Threads have other numbers in each process; their role is the same: main, backward, others.
    role[(role > 0) & np.isin(thread, backward)] = 1
    place = _places(step, thread, time, np.stack([role, slices.label[node]]))
    # Work comes after the calls of its moment, so that it becomes a leaf of the call that launched
    # it.
    raw = np.where(work, _DEEPEST, slices.depth[node])
    order = np.lexsort(
        (node, slices.graph_position[node], slices.start_ns[node], raw, time, place, step)
    )
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
