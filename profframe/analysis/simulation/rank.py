"""One rank as a part of a network: which moments are nodes, and how long everything took.

Only moments at which something waits for something else are nodes. What runs by itself between two
of them (a thread between its waits, a stream between works that others wait for) is a length: the
sum of what it did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from profframe.analysis.critical_path.edges import (
    IMPLIED,
    KINDS,
    LAUNCH,
    RECORDED,
    STREAM,
    SYNC,
    THREAD,
    Edges,
)
from profframe.analysis.critical_path.graph import NONE, DisjointSpans, Graph, concatenated
from profframe.analysis.simulation.lags import Lags
from profframe.analysis.simulation.network import ORIGIN
from profframe.analysis.simulation.streams import Streams, streams
from profframe.intervals import Ints, Mask, covered

BEGIN: Final = len(KINDS)
"""From the beginning to what has no known predecessor."""
SELF: Final = BEGIN + 1
"""From one point of a thread to the next."""
ARRIVAL: Final = BEGIN + 2
"""From the start of a member of a collective to the moment at which all ranks are there."""
TRANSFER: Final = BEGIN + 3
"""From that moment to the end of a member."""
ALONE: Final = BEGIN + 4
"""From the start to the end of a member that did not wait for the last rank."""
HOLD: Final = BEGIN + 5
"""From the beginning to work that came later than what is known explains; it does not count."""
NOTHING: Final = -(2**61)
"""The lag of an arrow that does not count."""


@dataclass(frozen=True, slots=True)
class CollectiveMembers:
    """Collectives of two ranks or more, as a rank takes part.

    Attributes
    ----------
    meeting : Ints
        Node of each collective: the moment at which all its ranks are there.
    work, call : Ints
        Row of the work, or of the slice of a host; the other is -1.
    last : Ints
        When the last rank came.
    certainty : Ints
        How sure it is that these belong together.
    """

    meeting: Ints
    work: Ints
    call: Ints
    last: Ints
    certainty: Ints


@dataclass(frozen=True, slots=True)
class NodeArrows:
    """Dependencies of nodes, with their lags.

    Attributes
    ----------
    kind : Ints
        That of the edge, or one of this module.
    source, target : Ints
        Nodes of the network.
    point, into : Ints
        The point that an arrow leaves, and the work at whose start it ends; -1 is none.
    called : Ints
        Of a launch the point at which its call began; else -1.
    slack, lag : Ints
        The time that there was, and how much of it is needed.
    usual, most : Ints
        What such an arrow needs, and the value from which a lag is unusual.
    certainty : Ints
        As of edges.
    binds : Mask
        Its target waited for it last.
    """

    kind: Ints
    source: Ints
    target: Ints
    point: Ints
    into: Ints
    called: Ints
    slack: Ints
    lag: Ints
    usual: Ints
    most: Ints
    certainty: Ints
    binds: Mask


@dataclass(frozen=True, slots=True)
class Lengths:
    """Durations of one rank; a prediction changes these.

    Attributes
    ----------
    own : Ints
        Of each point: what its thread did itself since the point before.
    work : Ints
        Of each work: its duration.
    gap : Ints
        Of each work: from the end of the work before in its stretch to its start.
    lag : Ints
        For each arrow, besides the above.
    """

    own: Ints
    work: Ints
    gap: Ints
    lag: Ints


@dataclass(frozen=True, slots=True)
class Busy:
    """How long devices of a rank were busy with something else while it waited.

    One element for each of `Lengths`.
    """

    own: Ints
    gap: Ints
    lag: Ints


@dataclass(frozen=True, slots=True)
class RankNodes:
    """Moments of a rank that are nodes.

    Attributes
    ----------
    point, tail, start : Ints
        Node of each point of a thread that waited or began, of the end of each last work of a
        stretch, and of the start of each member of a collective; -1 for all others.
    anchor : Ints
        The last point with a node, at or before each.
    moment, phase : Ints
        When each node was reached, and which come first at one moment.
    """

    point: Ints
    tail: Ints
    start: Ints
    anchor: Ints
    moment: Ints
    phase: Ints


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank as a part of a network.

    ``until`` is the end of its window, and ``end`` the point at which its host is done.
    ``usual_gap`` is of each work, where more than it is not explained; ``unseen`` are points at
    which threads began to do anything.
    """

    graph: Graph
    streams: Streams
    nodes: RankNodes
    arrows: NodeArrows
    recorded: Lengths
    busy: Busy
    usual_gap: Ints
    unseen: Mask
    until: int
    end: int


def rank(  # noqa: PLR0917 -- what is known of a rank
    graph: Graph,
    spans: DisjointSpans,
    timed: Lags,
    members: CollectiveMembers,
    first: int,
    ends: tuple[int, int],
) -> Rank:
    """Make a rank a part of a network, in which ``first`` is its first node.

    ``spans`` are when its devices were busy, ``ends`` the end of its window and the point at which
    its host is done.
    """
    until, end = ends
    edges = timed.edges
    of_works = members.work[members.work >= 0]
    lanes = streams(graph, edges, of_works, until)
    call_ends = _call_ends(graph, members)
    nodes = _nodes(graph, edges, lanes, of_works, call_ends, first)
    arrows = concatenated(
        NodeArrows,
        (
            _of_edges(timed, lanes, nodes),
            _selves(graph, timed, nodes),
            _begins(graph, lanes, nodes),
            _holds(graph, timed, lanes, nodes),
            *_meetings(graph, members, call_ends, nodes),
        ),
    )
    own = _own(graph, timed, members, call_ends)
    works = graph.works
    gap, usual_gap = np.zeros((2, works.event.size), np.int64)
    queued = edges.of(STREAM)
    queued = queued[lanes.before[edges.target[queued]] == edges.source[queued]]
    gap[edges.target[queued]] = timed.lag[queued]
    usual_gap[edges.target[queued]] = np.where(timed.lag > timed.most, timed.usual, timed.lag)[
        queued
    ]
    recorded = Lengths(own, works.end - works.start, gap, arrows.lag)
    firsts = _firsts(graph)
    unseen = np.append(False, firsts[:-1]) & (np.append(0, graph.points.inside[:-1]) < 0)
    busy = _busy(graph, spans, nodes, arrows, recorded)
    return Rank(graph, lanes, nodes, arrows, recorded, busy, usual_gap, unseen, until, end)


def _busy(
    graph: Graph, spans: DisjointSpans, nodes: RankNodes, arrows: NodeArrows, lengths: Lengths
) -> Busy:
    """For how much of each time before a point, each gap and each lag devices were busy."""

    def within(since: Ints, until: Ints) -> Ints:
        return covered(spans.start, spans.end, since, np.maximum(since, until))

    time, start = graph.points.time, graph.works.start
    moment = np.zeros(int(arrows.target.max(initial=0)) + 1, np.int64)
    for node, at in ((nodes.point, time), (nodes.start, start)):
        moment[node[node >= 0]] = at[node >= 0]
    reached = np.where(arrows.into >= 0, np.append(start, 0)[arrows.into], moment[arrows.target])
    return Busy(
        within(time - lengths.own, time),
        within(start - lengths.gap, start),
        within(reached - lengths.lag, reached),
    )


def _firsts(graph: Graph) -> Mask:
    """The first point of each thread."""
    thread = graph.points.thread
    return np.append(True, thread[1:] != thread[:-1])[: thread.size]


def _call_ends(graph: Graph, members: CollectiveMembers) -> Ints:
    """The point at the end of each member that is a slice of a host, or -1."""
    slices, call = graph.slices, members.call
    ends = np.full(call.size, NONE, np.int64)
    there = call >= 0
    ends[there] = graph.points.at(slices.thread[call[there]], slices.end[call[there]])
    return ends


def _nodes(  # noqa: PLR0917 -- what makes a moment a node
    graph: Graph, edges: Edges, lanes: Streams, of_works: Ints, call_ends: Ints, first: int
) -> RankNodes:
    points, works = graph.points, graph.works
    is_anchor: Mask = _firsts(graph)
    is_anchor[edges.target[edges.of(SYNC, THREAD)]] = True
    is_anchor[call_ends[call_ends >= 0]] = True
    anchors = np.flatnonzero(is_anchor)
    size = works.event.size
    tails = np.flatnonzero(lanes.tail == np.arange(size))
    groups = ((points.time.size, anchors), (size, tails), (size, of_works))
    numbers: list[Ints] = []
    for total, rows in groups:
        numbers.append(np.full(total, NONE, np.int64))
        numbers[-1][rows] = first + np.arange(rows.size)
        first += rows.size
    point, tail, start = numbers
    return RankNodes(
        point=point,
        tail=tail,
        start=start,
        anchor=np.maximum.accumulate(np.where(is_anchor, np.arange(points.time.size), 0)),
        moment=np.concatenate([points.time[anchors], works.end[tails], works.start[of_works]]),
        phase=np.repeat([1, 0, 2], [anchors.size, tails.size, of_works.size]),
    )


def _entered(lanes: Streams, nodes: RankNodes, work: Ints) -> tuple[Ints, Ints]:
    """The node that an arrow to the start of each work leads to, and the work, if it is inside."""
    start = nodes.start[work]
    inside = start < 0
    return np.where(inside, nodes.tail[lanes.tail[work]], start), np.where(inside, work, NONE)


def _of_edges(timed: Lags, lanes: Streams, nodes: RankNodes) -> NodeArrows:
    """Arrows of the edges that leave the stretch in which they begin."""
    edges = timed.edges
    to_work = ~np.isin(edges.kind, (SYNC, THREAD))
    from_point = np.isin(edges.kind, (LAUNCH, THREAD))
    inside = edges.kind == STREAM
    inside[inside] = (lanes.before[edges.target[inside]] == edges.source[inside]) & (
        nodes.tail[edges.source[inside]] < 0
    )
    redundant = ~from_point & to_work & (edges.kind != STREAM)
    # A recorded wait for the work just before on the same stream adds nothing to the stream's
    # order.
    redundant[redundant] = lanes.before[edges.target[redundant]] == edges.source[redundant]
    begins = to_work.copy()
    begins[begins] = lanes.begins[edges.target[begins]]
    # A negative slack contradicts the recorded times, so the dependency did not bind: clocks
    # differ.
    rows = np.flatnonzero(~inside & ~redundant & ~begins & (timed.slack >= 0))
    source, target = edges.source[rows], edges.target[rows]
    leaves, enters = from_point[rows], to_work[rows]
    point = np.where(leaves, source, NONE)
    from_node = np.empty(rows.size, np.int64)
    from_node[leaves] = nodes.point[nodes.anchor[source[leaves]]]
    from_node[~leaves] = nodes.tail[source[~leaves]]
    to_node, into = np.empty(rows.size, np.int64), np.full(rows.size, NONE, np.int64)
    to_node[enters], into[enters] = _entered(lanes, nodes, target[enters])
    to_node[~enters] = nodes.point[target[~enters]]
    return NodeArrows(
        edges.kind[rows],
        from_node,
        to_node,
        point,
        into,
        timed.called[rows],
        timed.slack[rows],
        timed.lag[rows],
        timed.usual[rows],
        timed.most[rows],
        edges.certainty[rows],
        timed.binds[rows],
    )


def _simple(kind: int, source: Ints, target: Ints, lag: Ints, **columns: Ints) -> NodeArrows:
    """Arrows that say all that is known: their lag is the time that there was."""
    nothing = np.full(source.size, NONE, np.int64)
    return NodeArrows(
        kind=np.full(source.size, kind, np.int64),
        source=source,
        target=target,
        point=columns.get("point", nothing),
        into=columns.get("into", nothing),
        called=nothing,
        slack=lag,
        lag=lag,
        usual=lag,
        most=lag,
        certainty=columns.get("certainty", np.full(source.size, RECORDED, np.int64)),
        binds=np.ones(source.size, np.bool_),
    )


def _selves(graph: Graph, timed: Lags, nodes: RankNodes) -> NodeArrows:
    """Points that waited for others also wait for their own thread: its length is in ``own``."""
    points = graph.points
    first = _firsts(graph)
    at = np.flatnonzero((nodes.point >= 0) & ~first)
    source = nodes.point[nodes.anchor[at - 1]]
    arrows = _simple(SELF, source, nodes.point[at], np.zeros(at.size, np.int64), point=at - 1)
    waits = np.zeros(points.time.size, np.bool_)
    joins = timed.edges.of(SYNC, THREAD)
    waits[timed.edges.target[joins[timed.binds[joins]]]] = True
    arrows.binds[:] = ~waits[at]
    return arrows


def _begins(graph: Graph, lanes: Streams, nodes: RankNodes) -> NodeArrows:
    """Threads begin with the window; work without known predecessors when it did."""
    points, works = graph.points, graph.works
    first = _firsts(graph)
    at, work = np.flatnonzero(first), np.flatnonzero(lanes.begins)
    to_node, into = _entered(lanes, nodes, work)
    target = np.append(nodes.point[at], to_node)
    time = np.append(points.time[at], works.start[work])
    into = np.append(np.full(at.size, NONE, np.int64), into)
    source = np.full(target.size, ORIGIN, np.int64)
    certainty = np.full(target.size, IMPLIED, np.int64)
    return _simple(BEGIN, source, target, time, into=into, certainty=certainty)


def _holds(graph: Graph, timed: Lags, lanes: Streams, nodes: RankNodes) -> NodeArrows:
    """Work that came later than usual after what it waited for; ``slack`` is when it came."""
    edges = timed.edges
    late = timed.binds & (timed.slack > timed.most) & ~np.isin(edges.kind, (SYNC, THREAD))
    work = np.unique(edges.target[late])
    work = work[~lanes.begins[work]]
    target, into = _entered(lanes, nodes, work)
    source, certainty = np.full((2, work.size), ORIGIN, np.int64)
    arrows = _simple(HOLD, source, target, graph.works.start[work], into=into, certainty=certainty)
    return replace(
        arrows,
        # Only `changes.held` gives these a length, for the other end of a prediction's range.
        lag=np.full(work.size, NOTHING, np.int64),
        binds=np.zeros(work.size, np.bool_),
    )


def _meetings(
    graph: Graph, members: CollectiveMembers, call_ends: Ints, nodes: RankNodes
) -> tuple[NodeArrows, NodeArrows, NodeArrows]:
    """Members come, wait until the last is there, and leave when the transfer is done."""
    works, slices, points = graph.works, graph.slices, graph.points
    of_work = members.work >= 0
    work, call = members.work[of_work], members.call[~of_work]
    came = points.at(slices.thread[call], slices.start[call])
    source, target, end = (np.empty(members.meeting.size, np.int64) for _ in range(3))
    source[of_work], source[~of_work] = nodes.start[work], nodes.point[nodes.anchor[came]]
    target[of_work], target[~of_work] = nodes.tail[work], nodes.point[call_ends[~of_work]]
    end[of_work], end[~of_work] = works.end[work], slices.end[call]
    point = np.full(members.meeting.size, NONE, np.int64)
    point[~of_work] = came
    waits = end > members.last
    zero = np.zeros(members.meeting.size, np.int64)
    sure = members.certainty
    arrivals = _simple(ARRIVAL, source, members.meeting, zero, point=point, certainty=sure)
    transfers = _simple(
        TRANSFER,
        members.meeting[waits],
        target[waits],
        (end - members.last)[waits],
        certainty=sure[waits],
    )
    alone = of_work & ~waits
    duration = (works.end - works.start)[members.work[alone]]
    return arrivals, transfers, _simple(ALONE, source[alone], target[alone], duration)


def _own(graph: Graph, timed: Lags, members: CollectiveMembers, call_ends: Ints) -> Ints:
    """Host time of each point since the one before it, without waits.

    After a wait for a device only the return is its own. When a thread waits for another one, the
    time until that began and after it was done is its own; a thread that was woken did nothing
    before.
    """
    points, edges = graph.points, timed.edges
    own = np.append(0, np.diff(points.time))
    first = _firsts(graph)
    own[first] = 0
    synced = edges.of(SYNC)
    synced = synced[timed.binds[synced]]
    at = edges.target[synced]
    # A replay decides how long the wait is; only what follows the device's end is the thread's own.
    own[at] = np.minimum(own[at], timed.slack[synced])
    joined = edges.of(THREAD)
    at, cause = edges.target[joined], edges.source[joined]
    idle = points.inside[at - 1] < 0
    # Waiting ends with the other thread: until that began, and after it was done, this one had
    # reasons of its own.
    began = points.at(points.thread[cause], points.time[at - 1]) + 1
    since = points.time[np.minimum(began, cause)] - points.time[at - 1]
    waiting = np.maximum(since, 0) + timed.slack[joined]
    own[at] = np.where(idle, 0, np.minimum(own[at], waiting))
    calls = np.flatnonzero(call_ends >= 0)
    at = call_ends[calls]
    # Of a collective on the host, only what follows the arrival of its last rank.
    left = points.time[at] - members.last[calls]
    waited = left > 0
    own[at[waited]] = np.minimum(own[at[waited]], left[waited])
    return own


def lengths(rank: Rank, lengths: Lengths) -> Ints:
    """How long each arrow is: what the thread did from its anchor on, its lag, and what follows.

    An arrow into a work has the length of that work and of all after it in its stretch.
    """
    arrows, nodes, lanes, points = rank.arrows, rank.nodes, rank.streams, rank.graph.points
    length = lengths.lag.copy()
    if points.time.size:
        spent = np.cumsum(lengths.own)
        leaves = arrows.point >= 0
        point = arrows.point[leaves]
        length[leaves] += spent[point] - spent[nodes.anchor[point]]
        selves = arrows.kind == SELF
        length[selves] += lengths.own[arrows.point[selves] + 1]
    if lengths.work.size:
        passed = np.empty(lengths.work.size, np.int64)
        passed[lanes.order] = np.cumsum((lengths.work + lengths.gap)[lanes.order])
        enters = arrows.into >= 0
        work = arrows.into[enters]
        length[enters] += passed[lanes.tail[work]] - passed[work] + lengths.work[work]
    return length
