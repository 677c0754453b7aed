"""Streams cut into stretches: only the end of each is a node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profframe.analysis.critical_path.edges import GRAPH, STREAM, SYNC, WAIT, Edges
from profframe.analysis.critical_path.graph import NONE, UNKNOWN, Graph
from profframe.intervals import Ints, Mask


@dataclass(frozen=True, slots=True)
class Streams:
    """Works of a rank in the order of their streams, cut into stretches.

    Attributes
    ----------
    order, place : Ints
        Works by stream and start, and the place of each among them.
    before : Ints
        The work just before each on its stream, if that had ended; else -1.
    begins : Mask
        Nothing in the window is known that the work waited for.
    tail : Ints
        The last work of the stretch that each is in.
    extra : Mask
        Of edges: they lead to a work, and are not the one from ``before``.
    """

    order: Ints
    place: Ints
    before: Ints
    begins: Mask
    tail: Ints
    extra: Mask


def streams(graph: Graph, edges: Edges, members: Ints, until: int) -> Streams:
    """Cut streams at works that wait for other streams, or that something else waits for.

    ``members`` are works of collectives with other ranks; after ``until`` a rank has done its part.
    """
    works = graph.works
    size = works.event.size
    order = np.lexsort((works.end, works.start, works.stream))
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)
    neighbour = np.full(size, NONE, np.int64)
    same = works.stream[order[1:]] == works.stream[order[:-1]]
    neighbour[order[1:][same]] = order[:-1][same]
    queued = edges.of(STREAM)
    before = np.full(size, NONE, np.int64)
    queued = queued[edges.source[queued] == neighbour[edges.target[queued]]]
    before[edges.target[queued]] = edges.source[queued]
    before[works.start < 0] = NONE
    begins = (works.start < 0) | (graph.edge == UNKNOWN)

    extra = np.isin(edges.kind, (STREAM, WAIT, GRAPH))
    extra[extra] = before[edges.target[extra]] != edges.source[extra]
    extra[extra] = ~begins[edges.target[extra]]
    is_head = (before < 0) | begins
    is_head[edges.target[extra]] = True
    is_head[members] = True
    is_tail = np.zeros(size, np.bool_)
    is_tail[edges.source[extra]] = True
    # Only where something else waits is a node needed: the loop of `network.times` runs over nodes.
    is_tail[edges.source[edges.of(SYNC)]] = True
    is_tail[members] = True
    is_tail[neighbour[is_head & (neighbour >= 0)]] = True
    is_tail[order[np.append(~same, True)[:size]]] = True
    done = works.end[order] <= until
    is_tail[order[:-1][done[:-1] & ~done[1:]]] = True
    return Streams(order, place, before, begins, _tails(order, is_tail), extra)


def _tails(order: Ints, is_tail: Mask) -> Ints:
    """The next tail at or after each work, in order."""
    size = order.size
    at = np.where(is_tail[order], np.arange(size), size)
    nearest = np.minimum.accumulate(at[::-1])[::-1]
    tail = np.empty(size, np.int64)
    tail[order] = order[nearest]
    return tail
