"""A job as a network of dependencies, and its end for given durations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.analysis.critical_path import edges as waits
from profframe.analysis.critical_path.busy import waiting
from profframe.analysis.critical_path.edges import (
    GRAPH,
    LAUNCH,
    ORDERED,
    RECORDED,
    STREAM,
    SYNC,
    THREAD,
    WAIT,
    Edges,
)
from profframe.analysis.critical_path.graph import NONE, DisjointSpans, Graph, Rows
from profframe.analysis.critical_path.path_across_ranks import Meetings, of_each
from profframe.analysis.critical_path.segments import BOUNDS
from profframe.analysis.simulation.lags import lags
from profframe.analysis.simulation.network import (
    ORIGIN,
    Network,
    NodeTimes,
    longest_arrow,
    network,
    times,
)
from profframe.analysis.simulation.rank import (
    ALONE,
    ARRIVAL,
    BEGIN,
    HOLD,
    SELF,
    TRANSFER,
    CollectiveMembers,
    Lengths,
    Rank,
    lengths,
    rank,
)
from profframe.facts.arrays import last_equal
from profframe.intervals import Ints

CLASSES: Final = ("compute", "communication", "copy")
"""Bounds of work, by its class."""
_BOUNDS: Mapping[int, str] = {
    LAUNCH: "launch",
    STREAM: "idle",
    WAIT: "idle",
    GRAPH: "idle",
    SYNC: "sync",
    THREAD: "host",
    BEGIN: "idle",
    SELF: "host",
    ARRIVAL: "communication",
    TRANSFER: "communication",
    ALONE: "communication",
    HOLD: "idle",
}
"""Bounds of the lags of arrows."""


@dataclass(frozen=True, slots=True)
class RankActivity:
    """One rank: its activities, recorded dependencies in graphs, and its window.

    ``until`` is the end of the window, ``host`` the thread and moment at which its host was done.
    """

    rows: Rows
    graph: Graph
    dependencies: tuple[Ints, Ints]
    until: int
    host: tuple[int, int]


@dataclass(frozen=True, slots=True)
class JobNetwork:
    """The ranks of a job as one network.

    ``rows`` has the first arrow of each rank, and their number; ``meetings`` a member of each
    collective, whose nodes are those from 1 on; ``waiting`` when something waited for devices of
    each rank.
    """

    ranks: tuple[Rank, ...]
    net: Network
    rows: Ints
    meetings: Ints
    waiting: tuple[DisjointSpans, ...]


@dataclass(frozen=True, slots=True)
class JobEnd:
    """When the job is done, and where: the rank, and a point of it or the work (-1: not it)."""

    end: int
    place: int
    point: int
    node: int
    times: NodeTimes
    lengths: Ints


def job(parts: Sequence[RankActivity], meetings: Meetings, origin: int) -> JobNetwork:
    """Make a network of ranks. ``origin`` is the start of the window on the clock of the job."""
    match, ranked, several = _meetings_in(parts, meetings, origin)
    nodes = 1 + match.size
    ranks: list[Rank] = []

    def edges_of(place: int) -> Edges:
        part = parts[place]
        return waits.edges(part.rows, part.graph, part.dependencies)

    edges = of_each(len(parts), edges_of)
    graphs = [part.graph for part in parts]
    timed = lags([*zip(graphs, edges, strict=True)])
    for part, members, its in zip(parts, ranked, timed, strict=True):
        end = part.graph.points.at(*(np.array([value]) for value in part.host))
        ends = part.until, int(end[0])
        ranks.append(rank(part.graph, part.rows.busy, its, members, nodes, ends))
        nodes += ranks[-1].nodes.moment.size
    source = np.concatenate([of.arrows.source for of in ranks])
    target = np.concatenate([of.arrows.target for of in ranks])
    moment = np.concatenate([[-(2**61)], match, *(of.nodes.moment for of in ranks)])
    phase = np.concatenate(
        [[0], np.full(match.size, 3, np.int64), *(of.nodes.phase for of in ranks)]
    )
    # At one moment ends of work come first, then threads, starts of collectives, and their
    # meetings: each may wait for those before it.
    order = np.lexsort((phase, moment))
    rows = np.cumsum([0, *(of.arrows.source.size for of in ranks)])
    preference = np.concatenate([_preference(own) for own in ranks])
    net = network(nodes, source, target, order, preference)
    awaited = (waiting(part.rows, part.graph, part.host[1], part.until) for part in parts)
    return JobNetwork(tuple(ranks), net, rows, several, tuple(awaited))


def _preference(own: Rank) -> Ints:
    """A tie-breaker for arrows: binding ones first; of several into one stretch, the last."""
    arrows = own.arrows
    place = np.append(own.streams.place, 0)[arrows.into]
    return np.where(arrows.binds, 1 + place, 0)


def _meetings_in(
    parts: Sequence[RankActivity], meetings: Meetings, origin: int
) -> tuple[Ints, list[CollectiveMembers], Ints]:
    """When the last rank came to each collective, the members of each rank, and one of each."""
    rows = []
    for place, part in enumerate(parts):
        mine = np.flatnonzero(meetings.rank == place)
        event = meetings.event[mine]
        works, slices = part.graph.works, part.graph.slices
        work = last_equal(works.event, np.arange(works.event.size), event)
        call = last_equal(slices.event, np.arange(slices.event.size), event)
        begun = works.start[np.maximum(work, 0)] < 0 if works.event.size else work < 0
        # A host collective that began before the window is no meeting in it: with these, 64 gloo
        # ranks were replayed 47 % too long.
        begun = np.where(work >= 0, begun, meetings.start[mine] < origin)
        there = ((work >= 0) | (call >= 0)) & ~begun
        rows.append((mine[there], work[there], np.where(work < 0, call, NONE)[there]))
    member = np.concatenate([mine for mine, _, _ in rows])
    match, one, number, count = np.unique(
        meetings.match[member], return_index=True, return_inverse=True, return_counts=True
    )
    last = np.full(match.size, -(2**62), np.int64)
    np.maximum.at(last, number, meetings.start[member] - origin)
    several = count > 1
    node = np.where(several, np.cumsum(several), NONE)
    members, begin = [], 0
    for mine, work, call in rows:
        its = number[begin : begin + mine.size]
        begin += mine.size
        kept = several[its]
        sure = np.where(meetings.numbered[mine] > 0, RECORDED, ORDERED)
        members.append(
            CollectiveMembers(node[its][kept], work[kept], call[kept], last[its][kept], sure[kept])
        )
    return last[several], members, member[one[several]]


def outcome(job: JobNetwork, changed: Sequence[Lengths]) -> JobEnd:
    """When the job is done if everything has these durations."""
    each = [lengths(own, new) for own, new in zip(job.ranks, changed, strict=True)]
    length = np.concatenate(each) if each else np.empty(0, np.int64)
    moments = times(job.net, length)
    best = (-1, 0, NONE, ORIGIN)
    reached = np.array(moments.reached)
    for place, (own, new) in enumerate(zip(job.ranks, changed, strict=True)):
        if own.end >= 0:
            anchor = own.nodes.anchor[own.end]
            spent = int(new.own[anchor + 1 : own.end + 1].sum())
            end = int(reached[own.nodes.point[anchor]]) + spent
            # On a tie the lowest rank, as in the critical path.
            best = max(best, (end, -place, own.end, int(own.nodes.point[anchor])))
        # Work that ends after the rank's own window belongs to the next step.
        ends = np.flatnonzero((own.nodes.tail >= 0) & (own.graph.works.end <= own.until))
        if ends.size:
            node = own.nodes.tail[ends]
            last = int(np.argmax(reached[node]))
            best = max(best, (int(reached[node[last]]), -place, NONE, int(node[last])))
    return JobEnd(best[0], -best[1], best[2], best[3], moments, length)


def totals(
    job: JobNetwork, changed: Sequence[Lengths], result: JobEnd, classes: Sequence[Ints]
) -> dict[str, int]:
    """Decompose the longest path to the end: nanoseconds by bound.

    ``classes`` says for each work of each rank which of ``CLASSES`` it is.
    """
    sums = dict.fromkeys(BOUNDS, 0)
    if result.point >= 0:
        own, new = job.ranks[result.place], changed[result.place]
        since = own.nodes.anchor[result.point] + 1
        _add_host(sums, own, new, np.array([since]), np.array([result.point + 1]))
    ways = _way(job, result)
    for place, (own, new) in enumerate(zip(job.ranks, changed, strict=True)):
        rows = ways[(ways >= job.rows[place]) & (ways < job.rows[place + 1])] - job.rows[place]
        _add(sums, own, new, rows, classes[place])
    return sums


def _way(job: JobNetwork, result: JobEnd) -> Ints:
    """Arrows of the longest way to the end, last first."""
    way, node, source, by = [], result.node, job.net.source.tolist(), result.times.by
    while by[node] >= 0:
        way.append(longest_arrow(job.net, result.lengths, by[node]))
        node = source[by[node]]
    return np.array(way, np.int64)


def _add(sums: dict[str, int], own: Rank, new: Lengths, rows: Ints, classes: Ints) -> None:
    """Add up some arrows of a rank."""
    arrows, lanes = own.arrows, own.streams
    _add_before(sums, own, new, rows, classes)
    for kind, bound in _BOUNDS.items():
        of_kind = rows[arrows.kind[rows] == kind]
        lag = np.maximum(new.lag[of_kind], 0)
        busy = np.minimum(own.busy.lag[of_kind], lag) if bound == "idle" else 0
        sums[bound] += int((lag - busy).sum())
        sums["sync"] += int(np.sum(busy))
    leaves = rows[arrows.point[rows] >= 0]
    point, called = arrows.point[leaves], arrows.called[leaves]
    anchor = own.nodes.anchor[point]
    launches = called >= 0
    calls = np.where(launches, np.maximum(called, anchor), point)
    _add_host(sums, own, new, anchor + 1, calls + 1)
    spent = np.append(0, np.cumsum(new.own))
    sums["launch"] += int((spent[point + 1] - spent[calls + 1]).sum())
    selves = arrows.point[rows[arrows.kind[rows] == SELF]] + 1
    _add_host(sums, own, new, selves, selves + 1)
    into = arrows.into[rows]
    into = into[into >= 0]
    if not into.size:
        return
    first, last = lanes.place[into], lanes.place[lanes.tail[into]]
    busy = np.minimum(own.busy.gap, new.gap)
    for bound, gap in (("idle", new.gap - busy), ("sync", busy)):
        gaps = np.cumsum(gap[lanes.order])
        sums[bound] += int((gaps[last] - gaps[first]).sum())
    in_order = classes[lanes.order]
    for number, bound in enumerate(CLASSES):
        work = np.where(in_order == number, new.work[lanes.order], 0)
        passed = np.append(0, np.cumsum(work))
        sums[bound] += int((passed[last + 1] - passed[first]).sum())


def _add_before(sums: dict[str, int], own: Rank, new: Lengths, rows: Ints, classes: Ints) -> None:
    """Subtract what work had done before the window began."""
    begun = rows[(own.arrows.kind[rows] == BEGIN) & (new.lag[rows] < 0)]
    work = own.arrows.into[begun]
    class_of = np.append(classes, CLASSES.index("communication"))[work]
    for number, bound in enumerate(CLASSES):
        sums[bound] += int(new.lag[begun[class_of == number]].sum())


def _add_host(sums: dict[str, int], own: Rank, new: Lengths, since: Ints, until: Ints) -> None:
    """Add what threads did from one row of points to another."""
    busy = np.where(own.unseen, np.minimum(own.busy.own, new.own), 0)
    idle = np.where(own.unseen, new.own - busy, 0)
    for bound, time in (("host", new.own - idle - busy), ("idle", idle), ("sync", busy)):
        spent = np.append(0, np.cumsum(time))
        sums[bound] += int((spent[until] - spent[since]).sum())
