"""A common subsequence of two sequences of integers."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final

Pairs = list[tuple[int, int]]

_MOST_CELLS: Final = 250_000
"""Larger parts are aligned by how often a value occurred before, not by trying all ways."""


def common(left: Sequence[int], right: Sequence[int]) -> Pairs:
    """Pairs of places with equal values, ascending on both sides; long, but not always the longest.

    What both begin and end with is paired first. Values that occur once on each side divide the
    rest (Cohen's patience diff), and what is left between them is compared as a whole.

    Examples
    --------
    >>> common([1, 2, 3, 4], [1, 3, 9, 4])
    [(0, 0), (2, 1), (3, 3)]
    """
    pairs: Pairs = []
    todo = [(0, len(left), 0, len(right))]
    while todo:
        begin, end, other_begin, other_end = todo.pop()
        while begin < end and other_begin < other_end and left[begin] == right[other_begin]:
            pairs.append((begin, other_begin))
            begin, other_begin = begin + 1, other_begin + 1
        while begin < end and other_begin < other_end and left[end - 1] == right[other_end - 1]:
            end, other_end = end - 1, other_end - 1
            pairs.append((end, other_end))
        if begin == end or other_begin == other_end:
            continue
        here, there = left[begin:end], right[other_begin:other_end]
        if set(here).isdisjoint(there):
            continue
        anchors = _once_in_both(here, there)
        if not anchors:
            pairs += [(begin + i, other_begin + j) for i, j in _repeated(here, there)]
            continue
        bounds = [(-1, -1), *anchors, (len(here), len(there))]
        pairs += [(begin + i, other_begin + j) for i, j in anchors]
        for (i, j), (next_i, next_j) in pairwise(bounds):
            todo.append((begin + i + 1, begin + next_i, other_begin + j + 1, other_begin + next_j))
    return sorted(pairs)


def _once_in_both(left: Sequence[int], right: Sequence[int]) -> Pairs:
    counts, others = Counter(left), Counter(right)
    places = {value: place for place, value in enumerate(right) if others[value] == 1}
    pairs = [
        (i, places[value]) for i, value in enumerate(left) if counts[value] == 1 and value in places
    ]
    return _ascending(pairs)


def _repeated(left: Sequence[int], right: Sequence[int]) -> Pairs:
    """Values that come several times."""
    if len(left) * len(right) <= _MOST_CELLS:
        # autojunk would ignore values that are frequent, which kernels of repeated layers are.
        blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
        return [(i + k, j + k) for i, j, size in blocks for k in range(size)]
    places: dict[tuple[int, int], int] = {}
    times: Counter[int] = Counter()
    for place, value in enumerate(right):
        places[value, times[value]] = place
        times[value] += 1
    # Too many ways to try: the n-th of a value on the left is taken for the n-th on the right.
    times.clear()
    pairs = []
    for i, value in enumerate(left):
        if (value, times[value]) in places:
            pairs.append((i, places[value, times[value]]))
        times[value] += 1
    return _ascending(pairs)


def _ascending(pairs: Pairs) -> Pairs:
    """The longest part of pairs, which ascend on the left, that also ascends on the right."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(tails, place)
        before.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [place]
        ends[at : at + 1] = [number]
    chain: Pairs = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
