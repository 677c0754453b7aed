"""Replays: the work that each launch of a graph ran, in the order of the graph."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import combined, distinct, has_values, is_kind, numbers, present, words
from profframe.facts.graph_captures.recorded_captures import (
    COPIES,
    FILLS,
    REPLAY,
    is_call,
    without_space,
)
from profframe.intervals import Ints

NODE_BITS: Final = (1 << 32) - 1
"""Bits of a node's id that number it in its graph; those above are the graph's."""
_MODULE_MEMBER: Final = "module_fqn"
_LABEL_MEMBERS: Final = ("name", "annotation", _MODULE_MEMBER)
_SIZES: Final = (
    re.compile(r"execute_(?P<tokens>\d{1,9})_context_.*", re.DOTALL),
    re.compile(
        r"execute_context_\d+\((?P<tokens>\d{1,9})(?:_\d+)?\)"
        r"_generation_\d+\((?P<more>\d{1,9})(?:_\d+)?\)"
    ),
    re.compile(r"(?:step\[)?DECODE bs=(?P<tokens>\d{1,9})\b.*", re.DOTALL),
    re.compile(r"decode\[bs=\d{1,9}(?:/\d{1,9})? tok=(?P<tokens>\d{1,9})\b.*", re.DOTALL),
)
"""Annotations of vLLM, SGLang and ATOM around replays, with the number of tokens."""


@dataclass(frozen=True, slots=True)
class GraphWork:
    """The work of a graph launch.

    Attributes
    ----------
    names : tuple of str
        Names of the kernels without white space; `COPIES` and `FILLS`.
    streams : Ints
        Number of the stream of each, by their first work; all 0 where nodes give the order.
    nodes : Ints
        Number of the node of each in its graph, or -1.
    labels : tuple of str or None
        The capturing program's name for each, from ``torch.cuda.graph_annotations``.
    modules : tuple of str or None
        The module that it names for each.
    grids : tuple of str or None
        Blocks and threads of each kernel, where the source has them.
    """

    names: tuple[str, ...]
    streams: Ints
    nodes: Ints
    labels: tuple[str | None, ...]
    modules: tuple[str | None, ...]
    grids: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Replays:
    """Launches of graphs.

    Attributes
    ----------
    launches : Ints
        Row of each launch, by its start.
    rows : Ints
        Rows of the work, launch by launch, each in the order of its graph as far as it is known.
    bounds : Ints
        Where the work of each launch begins in ``rows``, and the end of the last.
    works : list of GraphWork
        The different things that launches ran.
    work : Ints
        Which of them each launch ran.
    """

    launches: Ints
    rows: Ints
    bounds: Ints
    works: list[GraphWork]
    work: Ints

    def rows_of(self, launches: Ints) -> Ints:
        """Rows of the work of some launches that ran the same, one line each."""
        lines: Ints = self.rows[self.places_of(launches)]
        return lines

    def places_of(self, launches: Ints) -> Ints:
        """Their places in ``rows``."""
        size = self.bounds[launches[0] + 1] - self.bounds[launches[0]]
        places: Ints = self.bounds[launches][:, None] + np.arange(size)
        return places


def replays(events: pa.Table) -> Replays | None:
    """The replays of a trace with the column ``launch_id``; None if there are none.

    The numbers of nodes give the order of a graph; without them it is the order of starts, on each
    stream.
    """
    launch = numbers(events, "launch_id", missing=-1)
    of_device = is_kind(events, schema.DEVICE_KINDS) & present(events, "start_ns") & (launch >= 0)
    rows = np.flatnonzero(of_device & np.append(is_call(events, REPLAY), False)[launch])
    if not rows.size:
        return None
    start = numbers(events, "start_ns")
    is_launch = np.zeros(events.num_rows, np.bool_)
    is_launch[launch[rows]] = True
    launches = np.flatnonzero(is_launch)
    launches = launches[np.argsort(start[launches], kind="stable")]
    place = np.empty(events.num_rows, np.int64)
    place[launches] = np.arange(launches.size)
    group = place[launch[rows]]

    order = np.lexsort((start[rows], group))
    rows, group = rows[order], group[order]
    node = _nodes(events, rows, group)
    # Numbers of nodes give one order for all streams; without them only each stream is in order.
    stream = np.where(node >= 0, 0, _streams(events, rows, group))
    if (node >= 0).any() or stream.any():
        order = np.lexsort((node, stream, group))
        rows, group, node, stream = rows[order], group[order], node[order], stream[order]
    bounds = np.searchsorted(group, np.arange(launches.size + 1))
    names, texts = work_names(events, rows)
    graph = numbers(events, "graph_id")[rows] if "graph_id" in events.column_names else 0 * node
    grids, grid_texts = work_grids(events, rows)
    work = same_groups(combined(names, grids, stream, node, graph), bounds)
    _, first = np.unique(work, return_index=True)
    works = []
    for at in first.tolist():
        part = slice(bounds[at], bounds[at + 1])
        # Arguments are parsed for one launch of each kind, not for each.
        labels, modules = _labels(events, rows[part]) if has_nodes(events) else ((), ())
        works.append(
            GraphWork(
                tuple(texts[c] for c in names[part]),
                stream[part],
                node[part],
                labels,
                modules,
                tuple(grid_texts[c] for c in grids[part]),
            )
        )
    return Replays(launches, rows, bounds, works, work)


def has_nodes(events: pa.Table) -> bool:
    """Whether work has the numbers of its nodes."""
    return has_values(events, "graph_node_id")


def _nodes(events: pa.Table, rows: Ints, group: Ints) -> Ints:
    """Number of the node of each row, in launches where all have different ones; else -1."""
    if not has_nodes(events):
        return np.full(rows.size, -1, np.int64)
    node = numbers(events, "graph_node_id", missing=-1)[rows]
    number = node & NODE_BITS
    order = np.lexsort((number, group))
    repeats = (np.diff(number[order]) == 0) & (np.diff(group[order]) == 0)
    doubtful = np.zeros(int(group.max()) + 1, np.bool_)
    doubtful[group[order][1:][repeats]] = True
    doubtful[group[node < 0]] = True
    return np.where(doubtful[group], -1, number)


def _streams(events: pa.Table, rows: Ints, group: Ints) -> Ints:
    """Number of the stream of each row in its launch, by first work; rows are in that order."""
    line = combined(*(numbers(events, name, missing=-1)[rows] for name in ("device", "stream")))
    if not line.any():
        return line
    key = group * (int(line.max()) + 1) + line
    _, first, code = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    order = np.argsort(first)
    of_group = group[first[order]]
    starts = np.flatnonzero(np.append(True, of_group[1:] != of_group[:-1]))
    rank[order] = np.arange(first.size) - np.repeat(starts, np.diff(np.append(starts, first.size)))
    return rank[code]


def _labels(events: pa.Table, rows: Ints) -> tuple[tuple[str | None, ...], tuple[str | None, ...]]:
    """The annotations of nodes, which torch writes as members of the arguments, and modules."""
    args = pl.Series(events["args"].take(pa.array(rows)), dtype=pl.String)
    # Torch writes the values of annotations as text, None too.
    labels = [
        args.str.json_path_match(f"$.{member}").replace("None", None) for member in _LABEL_MEMBERS
    ]
    first = tuple(
        next((text for text in texts if text), None) for texts in zip(*labels, strict=True)
    )
    modules = labels[_LABEL_MEMBERS.index(_MODULE_MEMBER)].to_list()
    return first, tuple(text or None for text in modules)


def work_names(events: pa.Table, rows: Ints) -> tuple[Ints, list[str]]:
    """Code of the name of each piece of work, and the names: of kernels without white space."""
    codes, texts = words(events, "name")
    names: dict[str, int] = {COPIES: 0, FILLS: 1}
    texts = [*texts, ""]
    is_used = np.zeros(len(texts), np.bool_)
    is_used[codes[rows]] = True
    number = np.zeros(len(texts), np.int64)
    for code in np.flatnonzero(is_used).tolist():
        number[code] = names.setdefault(without_space(texts[code]), len(names))
    codes = number[codes[rows]]
    codes[is_kind(events, ("memcpy",))[rows]] = 0
    codes[is_kind(events, ("memset",))[rows]] = 1
    return codes, list(names)


def work_grids(events: pa.Table, rows: Ints) -> tuple[Ints, list[str | None]]:
    """Code of the blocks and threads of each piece of work, and the texts of the codes."""
    if not has_values(events, "grid", "block"):
        return np.zeros(rows.size, np.int64), [None]
    grid, grids = words(events, "grid")
    block, blocks = words(events, "block")
    pairs, place = distinct(grid[rows] * (len(blocks) + 1) + block[rows] + 1)
    texts = [
        f"{grids[g]} of {blocks[b - 1]}" if g >= 0 and b else None
        for g, b in (divmod(pair, len(blocks) + 1) for pair in pairs.tolist())
    ]
    return place, texts


def same_groups(code: Ints, bounds: Ints) -> Ints:
    """A number for each group of codes, by first appearance: equal groups have the same number.

    Examples
    --------
    >>> same_groups(np.array([5, 7, 5, 7, 7, 5]), np.array([0, 2, 4, 6])).tolist()
    [0, 0, 1]
    """
    size = np.diff(bounds)
    place = np.arange(code.size) - np.repeat(bounds[:-1], size)
    # Groups are compared by a random sum, then for equality: a sort of pairs took half of a load
    # with captures (640 ms for a million kernels, 46 ms this way).
    weight = np.random.default_rng(0).integers(1, 1 << 63, int(size.max()), np.uint64) * 2 + 1
    mixed = (code.astype(np.uint64) + np.uint64(1)) * weight[place]
    mixed ^= mixed >> np.uint64(29)
    key = np.stack((np.add.reduceat(mixed, bounds[:-1]).astype(np.int64), size))
    _, first, group = np.unique(key, axis=1, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    like = bounds[:-1][first][group]
    differs = code != code[np.repeat(like, size) + place]
    group = group + 0
    odd = np.flatnonzero(np.add.reduceat(differs, bounds[:-1]))
    group[odd] = first.size + np.arange(odd.size)
    _, first, group = np.unique(group, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[group]


def size_of_replay(text: str) -> int | None:
    """The number of tokens in the name of an annotation around a replay.

    Examples
    --------
    >>> size_of_replay("execute_context_1(8)_generation_24(24)"), size_of_replay("DECODE bs=32")
    (32, 32)
    """
    for pattern in _SIZES:
        if match := pattern.fullmatch(text):
            return sum(map(int, match.groupdict().values()))
    return None
