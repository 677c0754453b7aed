"""Python stacks of graph nodes that were recorded without a trace of the capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import distinct, has_values, is_kind, numbers
from profframe.facts.fact import Note, listed
from profframe.facts.graph_captures.replays import NODE_BITS
from profframe.intervals import Ints
from profframe.readers.graph_stacks import Frames, GraphStacks

_NO_GRAPH: Final = (
    "no work of their graphs is in the trace: not replayed there, of another process, or keyed by "
    'source (annotation_config={"key_by": "source"})'
)
_NO_NODE: Final = "their graphs are in the trace, but no work of these nodes"
GRAPH_BITS: Final = NODE_BITS.bit_length()
"""Bits of a node's id below those of its graph."""


@dataclass(frozen=True, slots=True, eq=False)
class StackSource:
    """A file of stacks.

    Attributes
    ----------
    file : str
        Its name.
    stacks : GraphStacks
        What it has.
    rank : int, optional
        Rank of the process that wrote it, if that is known.
    """

    file: str
    stacks: GraphStacks
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class NodeStacks:
    """The stacks of graph nodes of one process.

    Attributes
    ----------
    nodes : Ints
        Numbers of nodes, ascending: the graph in the upper 32 bits.
    stack : Ints
        For each the number of its stack; -1 if files disagree.
    stacks : list of Frames
        The different stacks, the innermost frame first.
    """

    nodes: Ints
    stack: Ints
    stacks: list[Frames]

    def of(self, nodes: Ints) -> tuple[Ints, Ints]:
        """For each node, its place in ``nodes`` and the number of its stack; -1 for none."""
        if not self.nodes.size:
            return np.full(nodes.size, -1, np.int64), np.full(nodes.size, -1, np.int64)
        place = np.minimum(np.searchsorted(self.nodes, nodes), self.nodes.size - 1)
        place = np.where((self.nodes[place] == nodes) & (nodes >= 0), place, -1)
        return place, np.where(place >= 0, self.stack[place], -1)


def nodes_of(events: pa.Table) -> Ints:
    """The number of the graph node of each piece of work, with its graph; -1 if one is not known.

    Some profilers write the whole number of a node, others its lower half beside the graph. A whole
    number that says another graph than the one beside it tells neither.
    """
    if not has_values(events, "graph_node_id"):
        return np.full(events.num_rows, -1, np.int64)
    node = numbers(events, "graph_node_id", missing=-1)
    graph = np.full(events.num_rows, -1, np.int64)
    if has_values(events, "graph_id"):
        graph = numbers(events, "graph_id", missing=-1)
    is_whole = (node > NODE_BITS) & ((graph < 0) | (graph == node >> GRAPH_BITS))
    # Beyond 31 bits a graph has no place in the number.
    has_graph = (node >= 0) & (node <= NODE_BITS) & (graph > 0) & (graph < 1 << (63 - GRAPH_BITS))
    in_graph = (np.where(has_graph, graph, 0) << GRAPH_BITS) | np.where(has_graph, node, 0)
    result = np.where(is_whole, node, np.where(has_graph, in_graph, -1))
    result[~is_kind(events, schema.DEVICE_KINDS)] = -1
    return result


def stacks_of_process(
    sources: Sequence[StackSource], rank: int | None, *, is_alone: bool
) -> tuple[NodeStacks, list[StackSource], list[Note]]:
    """The stacks of the process of a trace, the files that they are from, and what was left out.

    Numbers of graphs are the same in every process, so a file counts only if its rank is that of
    the trace. For a trace that is alone, a file without a rank counts, too; and if the rank of the
    trace is not known, so do files that are all of one rank.

    Parameters
    ----------
    sources
        All files.
    rank
        Rank of the trace, if that is known.
    is_alone
        Whether it is the only trace that is loaded.
    """
    ranks = {source.rank for source in sources} - {None}
    own = [
        source
        for source in sources
        if (rank is not None and source.rank == rank)
        or (is_alone and (source.rank is None or (rank is None and len(ranks) == 1)))
    ]
    others = [source for source in sources if source not in own]
    notes: list[Note] = []
    if others:
        count = sum(other.stacks.nodes.size for other in others)
        trace = "of an unknown rank" if rank is None else f"of rank {rank}"
        detail = f"{listed([_shown(other) for other in others])}; the trace is {trace}"
        notes.append(("stack_of_another_rank", count, detail, None))
    notes += [
        ("unreadable_stack", source.stacks.unreadable, source.file, None)
        for source in own
        if source.stacks.unreadable
    ]
    stacks = _together(own)
    disagree = int((stacks.stack < 0).sum())
    if disagree:
        notes.append(("stacks_disagree", disagree, listed([s.file for s in own]), None))
    return stacks, own, notes


def _shown(source: StackSource) -> str:
    return f"{source.file} ({'no rank' if source.rank is None else f'rank {source.rank}'})"


def _together(sources: Sequence[StackSource]) -> NodeStacks:
    """The stacks of several files of one process; a node with two of them has none."""
    number: dict[Frames, int] = {}
    nodes, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for source in sources:
        codes_of = np.array(
            [*(number.setdefault(s, len(number)) for s in source.stacks.stacks), -1], np.int64
        )
        nodes.append(source.stacks.nodes)
        codes.append(codes_of[source.stacks.stack])
    every, of_every = np.concatenate(nodes), np.concatenate(codes)
    different, place = np.unique(every, return_inverse=True)
    low, high = np.full(different.size, len(number)), np.full(different.size, -1)
    np.minimum.at(low, place, of_every)
    np.maximum.at(high, place, of_every)
    return NodeStacks(different, np.where(low == high, low, -1), [*number])


def unused_notes(
    events: pa.Table, stacks: NodeStacks, own: Sequence[StackSource], used: Ints, launched: Ints
) -> Iterator[Note]:
    """Notes on stacks without work, and on work in graphs without a stack.

    Parameters
    ----------
    events
        Of the trace.
    stacks, own
        The stacks of its process, and their files.
    used
        Rows that have an op of a capture, or a stack.
    launched
        Rows of work that launches of graphs ran.
    """
    files = listed([source.file for source in own])
    node = nodes_of(events)
    of_trace, _ = distinct(node[node >= 0])
    unused = stacks.nodes[~np.isin(stacks.nodes, of_trace)]
    is_in_trace = np.isin(unused >> GRAPH_BITS, of_trace >> GRAPH_BITS)
    for mask, reason in ((~is_in_trace, _NO_GRAPH), (is_in_trace, _NO_NODE)):
        if mask.any():
            names = listed(np.unique(unused[mask] >> GRAPH_BITS).tolist())
            detail = f"{files}: {reason} (graphs {names})"
            yield "stack_without_kernel", int(mask.sum()), detail, None
    in_launch = np.zeros(events.num_rows, np.bool_)
    in_launch[launched] = True
    is_open = in_launch | (node >= 0)
    is_open[used] = False
    open_ = np.flatnonzero(is_open)
    place, _ = stacks.of(node[open_])
    has_node, is_launched = node[open_] >= 0, in_launch[open_]
    has_graph = np.isin(node[open_] >> GRAPH_BITS, stacks.nodes >> GRAPH_BITS)
    without = has_node & is_launched & (place < 0)
    for mask, reason in (
        (~has_node, "the trace does not say their nodes"),
        (has_node & ~is_launched, "their launch is not in the trace"),
        (without & ~has_graph, "no stacks of their graphs"),
        (without & has_graph, "no stacks of their nodes, but of others of their graphs"),
        (is_launched & (place >= 0), "their stacks disagree"),
    ):
        rows = open_[mask]
        if rows.size:
            yield "kernel_without_stack", rows.size, f"{files}: {reason}", int(rows[0])
