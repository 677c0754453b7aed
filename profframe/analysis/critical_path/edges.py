"""All dependencies of a rank's activities, not only the binding ones that `graph` keeps.

Arrays only, as in `graph`: sources and targets are rows of its works and points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from profframe.analysis.critical_path.graph import (
    NONE,
    UNSET,
    Graph,
    LaunchOrder,
    Rows,
    call_targets,
    last_put,
    launch_order,
    launch_targets,
    stream_targets,
)
from profframe.analysis.critical_path.graph import THREAD as THREAD_EDGE
from profframe.analysis.critical_path.graph import WAIT as PATH_WAIT
from profframe.analysis.critical_path.turns import beside
from profframe.facts.arrays import last_equal
from profframe.intervals import Ints, Mask, last_until

LAUNCH: Final = 0
"""From a point of a thread, at which the call begins, to the start of the work that it launched."""
STREAM: Final = 1
"""From the end of work to the start of the next work on its stream."""
WAIT: Final = 2
"""From the end of work to the start of work on another stream, which had to wait for it."""
GRAPH: Final = 3
"""From the end of work to the start of work of the same graph."""
SYNC: Final = 4
"""From the end of work to the point at which a call returned that waited for it."""
THREAD: Final = 5
"""From a point of a thread to one of another thread, which waited for it."""
KINDS: Final = ("launch", "stream", "wait", "graph", "sync", "thread")
"""Names of these kinds."""

RECORDED: Final = 0
"""The source says so."""
IMPLIED: Final = 1
"""The order of a stream, or what a call does, implies it."""
ORDERED: Final = 2
"""Only the order of what happened suggests it."""

_Columns: TypeAlias = tuple[int, Ints, Ints, Ints, Ints]
"""Kind, source, target, certainty, and call."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Dependencies of one rank.

    Attributes
    ----------
    kind : Ints
        LAUNCH, STREAM, WAIT, GRAPH, SYNC or THREAD.
    source, target : Ints
        The end of a work and the start of a work; but LAUNCH and THREAD come from a point, and SYNC
        and THREAD lead to one.
    certainty : Ints
        RECORDED, IMPLIED or ORDERED.
    call : Ints
        For SYNC, the slice that waited; else -1.
    """

    kind: Ints
    source: Ints
    target: Ints
    certainty: Ints
    call: Ints

    def of(self, *kinds: int) -> Ints:
        """Rows of some kinds."""
        return np.flatnonzero(np.isin(self.kind, kinds))


def edges(rows: Rows, graph: Graph, dependencies: tuple[Ints, Ints]) -> Edges:
    """Find all dependencies between activities of a rank.

    ``dependencies`` are recorded ones between works of a graph: rows of what came first, and of
    what had to wait. Work of the same launch waits for these, or if there are none, for the last
    that ended before it.
    """
    order = launch_order(rows.works)
    parts = (
        _launches(rows, graph),
        _queued(rows),
        *_awaited(rows, order),
        *_in_graphs(rows, dependencies),
    )
    return _together(
        *parts,
        _suggested(graph, parts),
        _synchronised(rows, graph, order),
        _joined_threads(graph),
    )


def _together(*parts: _Columns) -> Edges:
    kinds = [np.full(part[1].size, part[0], np.int64) for part in parts]
    columns = (np.concatenate(column) for column in zip(*(part[1:] for part in parts), strict=True))
    return Edges(np.concatenate(kinds), *columns)


def _part(
    kind: int, source: Ints, target: Ints, certainty: int | Ints, call: Ints | None = None
) -> _Columns:
    nowhere = np.full(source.size, NONE, np.int64)
    sure = np.broadcast_to(np.asarray(certainty, np.int64), source.shape)
    return kind, source, target, sure, nowhere if call is None else call


def _launches(rows: Rows, graph: Graph) -> _Columns:
    works = rows.works
    work = np.flatnonzero(works.call >= 0)
    called = np.clip(works.call_start[work], 0, works.start[work])
    return _part(LAUNCH, graph.points.at(works.call_thread[work], called), work, RECORDED)


def _queued(rows: Rows) -> _Columns:
    works = rows.works
    before = last_until(works.stream, works.end, works.stream, works.start)
    work = np.flatnonzero(before >= 0)
    aside, follower = beside(works)
    other = before[follower] != aside
    source, target = np.append(before[work], aside[other]), np.append(work, follower[other])
    return _part(STREAM, source, target, IMPLIED)


def _awaited(rows: Rows, order: LaunchOrder) -> tuple[_Columns, _Columns]:
    works = rows.works
    work, before = _ended(rows, *stream_targets(rows.stream_waits, order))
    other = works.stream[work] != works.stream[before]
    recorded = _part(WAIT, before[other], work[other], RECORDED)
    work, before = _ended(rows, *call_targets(works, rows.wait_calls))
    other = works.stream[work] != works.stream[before]
    return recorded, _part(WAIT, before[other], work[other], ORDERED)


def _suggested(graph: Graph, parts: Iterable[_Columns]) -> _Columns:
    """Dependencies on other streams that only the order of the work suggests."""
    size = graph.edge.size
    work = np.flatnonzero(graph.edge == PATH_WAIT)
    pairs = [source * size + target for kind, source, target, *_ in parts if kind != LAUNCH]
    # The path has pairs that are listed above with a better certainty.
    is_new = ~np.isin(graph.before[work] * size + work, np.concatenate(pairs))
    return _part(WAIT, graph.before[work[is_new]], work[is_new], ORDERED)


def _in_graphs(rows: Rows, dependencies: tuple[Ints, Ints]) -> tuple[_Columns, _Columns]:
    before, work = dependencies
    work, before = _ended(rows, work, before)
    recorded = _part(GRAPH, before, work, RECORDED)
    work, before = _ended(rows, *launch_targets(rows.works))
    calls = rows.works.call
    # Recorded edges of a graph are complete: guesses from the order would add false ones.
    is_marked = np.isin(calls[work], calls[recorded[2]])
    other = ~is_marked & (rows.works.stream[work] != rows.works.stream[before])
    return recorded, _part(GRAPH, before[other], work[other], ORDERED)


def _ended(rows: Rows, work: Ints, before: Ints) -> tuple[Ints, Ints]:
    """Keep pairs whose second member ended before the first began."""
    works = rows.works
    work, before = work[before >= 0], before[before >= 0]
    fits = works.end[before] <= works.start[work]
    return work[fits], before[fits]


def _synchronised(rows: Rows, graph: Graph, order: LaunchOrder) -> _Columns:
    """The last work of each stream that a call waited for; and copies within their calls.

    What a thread has already waited for is not repeated.
    """
    works, slices, waits = rows.works, rows.slices, rows.host_waits
    call = last_equal(slices.event, np.arange(slices.event.size), waits.event)
    there = call >= 0
    call, on, recorded = call[there], waits.on_stream[there], waits.recorded[there]
    is_marked = recorded != UNSET
    marked = last_put(order, on[is_marked], recorded[is_marked])
    parts = [(call[is_marked], marked, RECORDED)]
    one = ~is_marked & (on >= 0)
    until = slices.end[call]
    parts.append((call[one], last_until(works.stream, works.end, on[one], until[one]), IMPLIED))
    every = np.flatnonzero(~is_marked & (on < 0))
    # A synchronisation of the device waits for the last work of each stream, not only for the last
    # of all.
    streams = np.unique(works.stream)
    waiting = np.repeat(every, streams.size)
    of_each = last_until(works.stream, works.end, np.tile(streams, every.size), until[waiting])
    parts.append((call[waiting], of_each, IMPLIED))
    copies = np.flatnonzero(works.copy & (works.call >= 0))
    copy_call = last_equal(slices.event, np.arange(slices.event.size), works.call[copies])
    parts.append((copy_call, copies, IMPLIED))
    joined = _together(*(_sync_part(rows, graph, *part) for part in parts))
    thread = graph.points.thread[joined.target]
    # A thread that waited for a work once need not wait for it in each later synchronisation.
    first = np.lexsort((joined.target, joined.source, thread))  # recorded ones come first already
    source, thread = joined.source[first], thread[first]
    new = np.append(True, (source[1:] != source[:-1]) | (thread[1:] != thread[:-1]))
    kept = first[new[: first.size]]
    return _part(
        SYNC, joined.source[kept], joined.target[kept], joined.certainty[kept], joined.call[kept]
    )


def _sync_part(rows: Rows, graph: Graph, call: Ints, work: Ints, certainty: int) -> _Columns:
    """Calls that returned after the end of the work."""
    works, slices = rows.works, rows.slices
    there = (call >= 0) & (work >= 0)
    call, work = call[there], work[there]
    fits: Mask = works.end[work] <= slices.end[call]
    call, work = call[fits], work[fits]
    at = graph.points.at(slices.thread[call], slices.end[call])
    return _part(SYNC, work, at, certainty, call)


def _joined_threads(graph: Graph) -> _Columns:
    points = graph.points
    at = np.flatnonzero(points.edge == THREAD_EDGE)
    return _part(THREAD, points.before[at], at, ORDERED)
