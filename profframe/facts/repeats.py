"""Blocks that repeat within sequences of numbers, as layers do in the kernels of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.intervals import Ints, Mask

LEAST_TIMES: Final = 3
"""A block is what comes at least so often in a row: twice may be a forward and a backward part."""
LEAST_LENGTH: Final = 2
"""Minimum members of a block: one kernel that repeats is not a layer."""
LEAST_PART: Final = 50
"""Consecutive repetitions cover at least one of this many parts of their sequence."""
MOST_BLOCKS: Final = 4
"""Blocks of one sequence, as of dense layers and those with experts."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where blocks are; one entry per member of the sequences, -1 in none.

    Attributes
    ----------
    block : Ints
        Number of the block in its sequence, by where it comes first.
    layer : Ints
        Number of the repetition in its sequence, counted through all its blocks.
    """

    block: Ints
    layer: Ints


def repeated_blocks(sequence: Ints, codes: Ints) -> Blocks:
    """Find the blocks that repeat in each sequence.

    The block of a sequence is the one whose consecutive repetitions cover most of it; on a tie the
    shorter one, then the first. It begins where they begin. Each other place with the same members
    is a repetition, too, unless an earlier such place overlaps it. Then the same is done with the
    rest, up to four times.

    Parameters
    ----------
    sequence : Ints
        Sequence of each member; members of one follow one another.
    codes : Ints
        What each member is, from 0.

    Returns
    -------
    Blocks
        One entry per member.

    Examples
    --------
    >>> codes = np.array([7, 1, 2, 1, 2, 1, 2, 9])
    >>> repeated_blocks(np.zeros(8, np.int64), codes).layer.tolist()
    [-1, 0, 0, 1, 1, 2, 2, -1]
    """
    first = np.full(codes.size, -1, np.int64)
    starts = np.zeros(codes.size, np.bool_)
    left, rows = codes.astype(np.int64), np.arange(codes.size)
    for _ in range(MOST_BLOCKS if codes.size else 0):
        copies, origin, length = _best_block(sequence[rows], left[rows])
        if not copies.size:
            break
        inside = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        members = rows[np.repeat(copies, length) + inside]
        first[members] = rows[np.repeat(origin, length)]
        starts[rows[copies]] = True
        left[members] = codes.max() + 1 + members  # now unlike everything else
        rows = rows[np.isin(sequence[rows], sequence[rows[copies]])]
    return _numbered(sequence, first, starts)


def _best_block(sequence: Ints, codes: Ints) -> tuple[Ints, Ints, Ints]:
    """Where the best block of each sequence is: places, place of the first in a row, lengths."""
    begin, end = _bounds(sequence)
    ranks, start, period, length = _runs(begin, end, codes)
    times = length // period
    covered = times * period
    is_block = (times >= LEAST_TIMES) & (period >= LEAST_LENGTH)
    # A few kernels that repeat by chance somewhere in a long graph are no layers.
    is_block &= covered * LEAST_PART >= end[start] - begin[start]
    start, period, covered = start[is_block], period[is_block], covered[is_block]
    order = np.lexsort((start, period, -covered, begin[start]))
    best = order[np.append(True, np.diff(begin[start][order]) > 0)[: order.size]]
    start, period = start[best], period[best]

    of_sequence = np.full(codes.size, -1, np.int64)
    of_sequence[begin[start]] = np.arange(start.size)
    places = np.flatnonzero(of_sequence[begin] >= 0)
    run = of_sequence[begin[places]]
    fits = places + period[run] <= end[places]
    places, run = places[fits], run[fits]
    # Two overlapping parts of that length cover the block, so two ranks compare it as a whole.
    level = np.frexp(period.astype(np.float64))[1] - 1  # of the longest power of two in the block
    rest = period - (1 << level)
    is_copy = ranks[level[run], places] == ranks[level[run], start[run]]
    is_copy &= ranks[level[run], places + rest[run]] == ranks[level[run], start[run] + rest[run]]
    places, run = places[is_copy], run[is_copy]
    overlaps = (np.diff(run) == 0) & (np.diff(places) < period[run[1:]])
    kept = np.append(True, ~overlaps)[: places.size]
    places, run = places[kept], run[kept]
    return places, start[run], period[run]


def _runs(begin: Ints, end: Ints, codes: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Runs of at least three repetitions: start, length of the block, length of the run.

    First come the ranks of parts, by power of two and place: equal parts of a sequence, and no
    others, have the same rank; -1 where a part would go beyond the end. A repetition shows in the
    parts that are as long as its period or up to twice as long: at each place but those near the
    end, the next equal part is one period away. So a run is a row of places with one distance.
    """
    count = codes.size
    places = np.arange(count)
    rank = np.unique(begin * (codes.max() + 1) + codes, return_inverse=True)[1].reshape(-1)
    longest = int((end - begin).max())
    ranks, runs = [], []
    size = 1
    while True:
        ranks.append(rank.astype(np.int32))
        valid = np.flatnonzero(rank >= 0)
        order = valid[np.argsort(rank[valid], kind="stable")]
        is_next = np.diff(rank[order]) == 0
        if not is_next.any():
            break
        distance = np.zeros(count, np.int64)
        distance[order[:-1][is_next]] = np.diff(order)[is_next]
        at = np.flatnonzero((2 * distance > size) & (distance <= size))
        goes_on = (np.diff(at) == 1) & (np.diff(distance[at]) == 0)
        first = at[np.append(True, ~goes_on)[: at.size]]
        last = at[np.append(~goes_on, True)[: at.size]]
        runs.append(np.stack((first, distance[first], last - first + size + distance[first])))
        if size * LEAST_TIMES > 2 * longest:
            break
        has_half = np.flatnonzero(places + 2 * size <= end)
        keys = rank[has_half] * count + rank[has_half + size]
        rank = np.full(count, -1, np.int64)
        rank[has_half] = np.unique(keys, return_inverse=True)[1].reshape(-1)
        size *= 2
    start, period, length = np.concatenate([np.empty((3, 0), np.int64), *runs], axis=1)
    return np.stack(ranks), start, period, length


def _numbered(sequence: Ints, first: Ints, starts: Mask) -> Blocks:
    """Numbers of blocks and layers."""
    if not first.size:
        return Blocks(first, first)
    begin, _ = _bounds(sequence)
    inside = first >= 0
    copies: Ints = np.cumsum(starts)
    layer = copies - 1 - (copies - starts)[begin]
    # A block is new where its first copy is.
    _, earliest, which = np.unique(first, return_index=True, return_inverse=True)
    is_new = np.zeros(first.size, np.bool_)
    is_new[earliest] = True
    is_new = is_new & inside
    number: Ints = np.cumsum(is_new)
    number = number - 1 - (number - is_new)[begin]
    block = number[earliest][which.reshape(-1)]
    return Blocks(np.where(inside, block, -1), np.where(inside, layer, -1))


def _bounds(sequence: Ints) -> tuple[Ints, Ints]:
    """Where the sequence of each member begins, and where it ends."""
    edges = np.flatnonzero(np.diff(sequence)) + 1
    lengths = np.diff([0, *edges, sequence.size])
    begin = np.repeat(np.append(0, edges)[: lengths.size], lengths).astype(np.int64)
    return begin, begin + np.repeat(lengths, lengths)
