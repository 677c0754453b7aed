"""Jobs of several ranks, run by a plain loop, and the longest path through what happened.

Each rank has one thread, which does what its program says: work of its own, batches that it loads,
launches on streams, and at the end a wait for its device. A collective begins on a rank when its
stream has come to it, and ends on all ranks of its group at once, some time after it began on the
last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

HOST, INPUT, KERNEL, COLLECTIVE = "host", "input", "kernel", "collective"
BETWEEN = 1
"""A thread needs a nanosecond from one slice to the next."""


@dataclass(frozen=True)
class Op:
    """What all ranks do: how long it takes on each of them, and how long its launch does."""

    kind: str
    took: Sequence[int]
    launch: Sequence[int] = ()
    stream: int = 7
    groups: Sequence[Sequence[int]] = ()
    """Of a collective: ranks that do it together; without any, all do. The first has its time."""


@dataclass(frozen=True)
class Slice:
    """What a rank did; ``number`` is that of the op."""

    kind: str
    number: int
    rank: int
    start: int
    end: int
    stream: int = 0
    group: tuple[int, ...] = ()


@dataclass
class Run:
    """What happened, and the longest path: parts of (rank, bound, start, end), first to last."""

    slices: list[Slice] = field(default_factory=list)
    path: list[tuple[int, str, int, int]] = field(default_factory=list)
    waits: list[tuple[int, int, int]] = field(default_factory=list)
    """Start and end of each wait that the path leaves out, and the rank that waited."""
    has_ties: bool = False
    """Something waited for two others that came at the same time: there are two longest paths."""


Node = tuple[int, "Node | None", int, str, int]
"""When it is reached, from what, on which rank, what it is bound by, when that began."""


def run(ops: Sequence[Op], ranks: int) -> Run:
    """All ops on all ranks, then a wait of each rank for its device."""
    done = Run()
    start: Node = (0, None, 0, "", 0)
    host: list[Node] = [start] * ranks
    streams: list[dict[int, Node]] = [{} for _ in range(ranks)]

    def latest(*nodes: Node) -> Node:
        found = max(nodes, key=lambda node: node[0])
        done.has_ties |= sum(node[0] == found[0] for node in nodes) > 1
        return found

    def after(node: Node, took: int, rank: int, bound: str) -> Node:
        return (node[0] + took, node, rank, bound, node[0])

    for number, op in enumerate(ops):
        ready: list[Node] = []
        for rank in range(ranks):
            host[rank] = after(host[rank], BETWEEN, rank, "host")
            since = host[rank]
            if op.kind in {HOST, INPUT}:
                host[rank] = after(since, op.took[rank], rank, "host")
                done.slices.append(Slice(op.kind, number, rank, since[0], host[rank][0]))
                continue
            launched = after(since, op.launch[rank], rank, "launch")
            host[rank] = after(since, op.launch[rank], rank, "host")
            done.slices.append(Slice("launch", number, rank, since[0], launched[0]))
            queued = streams[rank].get(op.stream, start)
            begun = latest(queued, launched)
            ready.append(begun)
            if op.kind == KERNEL:
                ended = after(begun, op.took[rank], rank, "compute")
                streams[rank][op.stream] = ended
                done.slices.append(Slice(KERNEL, number, rank, begun[0], ended[0], op.stream))
        for group in (op.groups or [range(ranks)]) if op.kind == COLLECTIVE else ():
            last = latest(*(ready[rank] for rank in group))
            for rank in group:
                begun, ended = ready[rank], after(last, op.took[group[0]], rank, "communication")
                streams[rank][op.stream] = ended
                whole = COLLECTIVE, number, rank, begun[0], ended[0], op.stream, tuple(group)
                done.slices.append(Slice(*whole))
    ends: list[Node] = []
    for rank in range(ranks):
        since = after(host[rank], BETWEEN, rank, "host")
        waited = latest(*streams[rank].values(), since)
        ends.append(after(waited, 1 + rank, rank, "sync" if waited is not since else "host"))
        done.slices.append(Slice("sync", len(ops), rank, since[0], ends[-1][0]))
    node: Node | None = latest(*ends)
    while node is not None and node[1] is not None:
        done.path.append((node[2], node[3], node[4], node[0]))
        node = node[1]
    done.path.reverse()
    came = {(s.rank, s.end): s.start for s in done.slices if s.kind == COLLECTIVE}
    done.waits = [
        (came[rank, until], since, rank)
        for rank, bound, since, until in done.path
        if bound == "communication" and came[rank, until] < since
    ]
    return done


def waited(done: Run) -> dict[tuple[int, str], int]:
    """Nanoseconds of the path in which another rank waits, by rank and bound."""
    found: dict[tuple[int, str], int] = {}
    for rank, bound, start, end in done.path:
        cuts = sorted({start, end, *(c for w in done.waits for c in w[:2] if start < c < end)})
        for since, until in pairwise(cuts):
            covering = [w for w in done.waits if w[0] <= since and until <= w[1]]
            if covering and min(covering, key=lambda w: w[1])[2] != rank:
                found[rank, bound] = found.get((rank, bound), 0) + until - since
    return found
