"""Matching of replays with captures: which captured call ran each piece of work."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.facts.graph_captures.recorded_captures import COPIES, FILLS, Capture
from profframe.facts.graph_captures.replays import GraphWork
from profframe.intervals import Ints

LEAST_SHARE: Final = 0.95
"""Part of the calls of a capture that have to have run: profilers lose the end of some replays."""
LEAST_CONFIRMED: Final = 0.5
"""Part of the kernels without names whose ops have to have launched the same ones elsewhere."""
MOST_OTHER_GRIDS: Final = 0.25
"""Part of those kernels that may have another grid than elsewhere: some ops divide work by the
lengths of sequences. In a graph for another number of tokens nearly all but products differ."""
_KERNELS: Final = "(kernel)"

OpKey = tuple[str, str | None, str | None]
"""Name, shapes and types of an op."""


@dataclass(frozen=True, slots=True)
class EagerRun:
    """The kernels of one call of an op: their names, and their grids if they are known."""

    names: tuple[str, ...]
    grids: tuple[str | None, ...]

    def has_grids(self, grids: Sequence[str | None]) -> bool:
        """Whether kernels of these grids may be the same."""
        return all(a == b or a is None or b is None for a, b in zip(self.grids, grids, strict=True))


EagerRuns = Mapping[OpKey, Collection[EagerRun]]
"""Kernels by op, from calls outside of graphs."""


@dataclass(frozen=True, slots=True)
class Match:
    """A capture that a replay may belong to.

    Attributes
    ----------
    capture : int
        Its number.
    calls : Ints
        Number of the call of each piece of work, or -1 where that is ambiguous.
    by : str
        The evidence: ``graph_node``, ``annotation``, ``graph_name`` or ``graph_order``.
    """

    capture: int
    calls: Ints
    by: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A capture, with what is needed to match it.

    Attributes
    ----------
    capture : Capture
        The capture.
    ops : Sequence of OpKey or None
        The op of each call.
    nodes : Ints, optional
        Number of the node of each call in its graph, where the source has them.
    labels : Sequence of Sequence of str
        Names of the annotations around each call, the innermost first.
    frames : Sequence of Sequence of str
        Names of the Python frames around each call, the innermost first.
    is_trusted : bool
        Whether the order of calls suffices where nothing contradicts: in the trace of the replay.
    is_of_rank : bool
        Whether it is from the rank of the replay.
    """

    capture: Capture
    ops: Sequence[OpKey | None]
    nodes: Ints | None
    labels: Sequence[Sequence[str]]
    frames: Sequence[Sequence[str]]
    is_trusted: bool
    is_of_rank: bool


def matches(work: GraphWork, candidates: Sequence[Candidate], eager: EagerRuns) -> list[Match]:
    """All captures that a replay may belong to; only those with exactly the same calls, if any."""
    exact = [m for n, c in enumerate(candidates) for m in _matches(work, n, c, eager)]
    # A short piecewise graph is also the beginning of a longer one (12 of 15 kernels in vLLM), so
    # captures of exactly this length come first.
    if exact:
        return exact
    blocks = [m for n, c in enumerate(candidates) for m in _blocks(work, n, c)]
    return blocks if len({m.capture for m in blocks}) == len(blocks) else []


def difference(work: GraphWork, candidate: Candidate, eager: EagerRuns) -> str:
    """Why a replay does not belong to a capture."""
    names = candidate.capture.names
    if not candidate.capture.is_named:
        shown = [_KERNELS if name is None else name for name in names]
        replayed = [name if name in {COPIES, FILLS} else _KERNELS for name in work.names]
    else:
        shown, replayed = [name or "" for name in names], list(work.names)
    if len(shown) != len(replayed):
        return f"{len(replayed)} pieces of work in the replay, {len(shown)} in the capture"
    for place, (captured, ran) in enumerate(zip(shown, replayed, strict=True)):
        if captured != ran:
            return f"piece {place} is {ran:.80} in the replay, {captured:.80} in the capture"
    if not candidate.capture.is_named and work.streams.any():
        return "its work is on several streams, and no numbers of nodes say in which order"
    for key, calls in _ops(candidate):
        kernels = tuple(work.names[call] for call in calls)
        if key in eager and not _like(work, calls, eager[key]):
            return (
                f"{key[0]} with {key[1]} launched {next(iter(eager[key])).names[0]:.80} elsewhere, "
                f"{kernels[0]:.80} in the replay"
            )
    for key, calls in _ops(candidate):
        if key in eager and _has_other_grids(work, calls, eager[key]):
            run = _like(work, calls, eager[key])[0]
            return (
                f"{run.names[0]:.80} of {key[0]} with {key[1]} has the grid {run.grids[0]} "
                f"elsewhere, {work.grids[calls[0]]} in the replay"
            )
    return "runs of its ops without a graph confirm less than half of the order"


def _matches(
    work: GraphWork, number: int, candidate: Candidate, eager: EagerRuns
) -> Iterator[Match]:
    names = candidate.capture.names
    if not candidate.capture.is_named:
        yield from _by_order(work, number, candidate, eager)
    elif not work.streams.any():
        if work.names == tuple(names):
            yield Match(number, np.arange(len(names)), "graph_name")
        elif (calls := _without_copies(work, names)) is not None:
            yield Match(number, calls, "graph_name")
    elif (calls := _on_streams(work, names)) is not None:
        yield Match(number, calls, "graph_name")


def _by_order(
    work: GraphWork, number: int, candidate: Candidate, eager: EagerRuns
) -> Iterator[Match]:
    """A match by nodes, else by the order of calls, whose kernels have no names."""
    if candidate.nodes is not None and (work.nodes >= 0).all():
        place = {node: call for call, node in enumerate(candidate.nodes.tolist())}
        calls = np.array([place.get(node, -1) for node in work.nodes.tolist()], np.int64)
        if (calls >= 0).all() and len(place) == calls.size:
            yield Match(number, calls, "graph_node")
        return
    kinds = [name if name in {COPIES, FILLS} else None for name in work.names]
    if kinds != list(candidate.capture.names) or work.streams.any():
        return
    confirmed = other_grids = 0
    for key, of_op in _ops(candidate):
        if key in eager:
            if not _like(work, of_op, eager[key]):
                return
            if _has_other_grids(work, of_op, eager[key]):
                other_grids += len(of_op)
            else:
                confirmed += len(of_op)
    # The same kernels with other grids: a capture for another number of tokens.
    if other_grids > MOST_OTHER_GRIDS * (confirmed + other_grids):
        return
    names_of_regions = {label for labels in candidate.labels for label in labels}
    labelled = [call for call, label in enumerate(work.labels) if label in names_of_regions]
    if any(work.labels[call] not in candidate.labels[call] for call in labelled):
        return
    if confirmed >= LEAST_CONFIRMED * kinds.count(None) > 0 or labelled or candidate.is_trusted:
        yield Match(number, np.arange(len(kinds)), "annotation" if labelled else "graph_order")


def _like(work: GraphWork, calls: Sequence[int], runs: Collection[EagerRun]) -> list[EagerRun]:
    """Runs of an op with the names of these kernels."""
    names = tuple(work.names[call] for call in calls)
    return [run for run in runs if run.names == names]


def _has_other_grids(work: GraphWork, calls: Sequence[int], runs: Collection[EagerRun]) -> bool:
    """Whether an op always had the same grids, and these kernels have others."""
    like = _like(work, calls, runs)
    return len(like) == 1 and not like[0].has_grids([work.grids[call] for call in calls])


def _ops(candidate: Candidate) -> Iterator[tuple[OpKey, list[int]]]:
    """The calls of each op that launched itself, by its row."""
    calls: dict[int, list[int]] = {}
    for call, op in enumerate(candidate.capture.ops.tolist()):
        if op >= 0:
            calls.setdefault(op, []).append(call)
    for of_op in calls.values():
        key = candidate.ops[of_op[0]]
        if key is not None:
            yield key, of_op


def _without_copies(work: GraphWork, names: Sequence[str | None]) -> Ints | None:
    """Calls of the kernels alone, if copies and fills are in other numbers."""
    calls = [n for n, name in enumerate(names) if name not in {COPIES, FILLS}]
    rows = [n for n, name in enumerate(work.names) if name not in {COPIES, FILLS}]
    if not rows or len(calls) != len(rows) or len(names) == len(work.names):
        return None
    if any(work.names[row] != names[call] for row, call in zip(rows, calls, strict=True)):
        return None
    result = np.full(len(work.names), -1, np.int64)
    result[rows] = calls
    return result


def _on_streams(work: GraphWork, names: Sequence[str | None]) -> Ints | None:
    """Calls of work on several streams, as far as there is only one way to match them.

    The work of a stream is in the order of its calls. A call for which only one stream has work of
    its name ran there; between such calls the first and the last way have to agree.
    """
    if sorted(work.names) != sorted(name or "" for name in names):
        return None
    streams = work.streams.tolist()
    of_name: dict[str, set[int]] = {}
    for name, stream in zip(work.names, streams, strict=True):
        of_name.setdefault(name, set()).add(stream)
    result = np.full(len(names), -1, np.int64)
    for stream in sorted(set(streams)):
        rows = [row for row, other in enumerate(streams) if other == stream]
        ran = [work.names[row] for row in rows]
        possible = [n for n, name in enumerate(names) if stream in of_name[name or ""]]
        own = {n for n in possible if len(of_name[names[n] or ""]) == 1}
        # Greedy from the front and from the back: where both give one call, no other is possible.
        first = _way(ran, possible, names, own)
        last = _way(ran[::-1], possible[::-1], names, own)
        if first is None or last is None:
            return None
        agree = [a if a == b else -1 for a, b in zip(first, last[::-1], strict=True)]
        result[rows] = agree
    taken = result[result >= 0]
    return result if np.unique(taken).size == taken.size else None


def _way(
    ran: Sequence[str], possible: Sequence[int], names: Sequence[str | None], own: Collection[int]
) -> list[int] | None:
    """Calls for the work of a stream, each the next one possible; none of its own is left out."""
    way: list[int] = []
    at = 0
    for name in ran:
        while at < len(possible) and names[possible[at]] != name:
            if possible[at] in own:
                return None
            at += 1
        if at == len(possible):
            return None
        way.append(possible[at])
        at += 1
    return None if any(call in own for call in possible[at:]) else way


def _blocks(work: GraphWork, number: int, candidate: Candidate) -> Iterator[Match]:
    """Each way to match a replay with nearly all calls of a capture, without a gap."""
    names = candidate.capture.names
    size, extra = len(work.names), len(names) - len(work.names)
    if work.streams.any() or not candidate.capture.is_named:
        return
    if extra <= 0 or size < LEAST_SHARE * len(names):
        return
    codes = {name: code for code, name in enumerate(dict.fromkeys([*names, *work.names]))}
    captured = np.array([codes[name] for name in names])
    ran = np.array([codes[name] for name in work.names])
    windows = np.lib.stride_tricks.sliding_window_view(captured, size)
    for offset in np.flatnonzero((windows == ran).all(axis=1)).tolist():
        calls = np.arange(offset, offset + size)
        differs = np.append(np.flatnonzero(np.diff(ran)) + 1, size)
        # Only at the edges of the block: in its middle the names on both sides fix each call.
        if offset and captured[offset - 1] == ran[0]:  # any call of this run may be the lost one
            calls[: differs[0]] = -1
        if extra > offset and captured[offset + size] == ran[-1]:
            calls[differs[-2] if differs.size > 1 else 0 :] = -1
        yield Match(number, calls, "graph_name")


def offsets(launched: Sequence[Collection[int]], captures: Sequence[int]) -> list[int]:
    """Where launches may begin in a row of captures that is launched repeatedly.

    Parameters
    ----------
    launched
        For each launch, the captures that it may belong to.
    captures
        The row.

    Examples
    --------
    >>> offsets([{1, 2}, {1, 2}, {3}, {0}], [0, 1, 2, 3]), offsets([{1, 2}], [0, 1, 2, 3])
    ([1], [1, 2])
    """
    size = len(captures)
    return [
        offset
        for offset in range(size)
        if all(captures[(offset + n) % size] in of for n, of in enumerate(launched))
    ]
