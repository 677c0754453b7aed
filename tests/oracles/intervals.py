"""Nesting by a stack, and sums and stabs by looking at everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """One interval; ``tie`` orders those that are otherwise equal."""

    group: int
    start: int
    end: int
    tie: int = 0


class Nested(NamedTuple):
    """What a stack finds: parents, the order of visit, and who popped what was still open."""

    parents: list[int]
    order: list[int]
    crossing: list[bool]


def nest(intervals: Sequence[Interval]) -> Nested:
    """Nest as torch does in ``EventList._set_parents``."""
    order = sorted(range(len(intervals)), key=lambda i: _sort_key(intervals[i], i))
    parents = [-1] * len(intervals)
    crossing = [False] * len(intervals)
    stack: list[int] = []
    for i in order:
        group, start, end, _ = intervals[i]
        if stack and intervals[stack[-1]].group != group:
            stack.clear()
        while stack and (start >= intervals[stack[-1]].end or end > intervals[stack[-1]].end):
            crossing[i] |= intervals[stack.pop()].end > start
        if stack:
            parents[i] = stack[-1]
        stack.append(i)
    return Nested(parents, order, crossing)


def ancestors(parents: Sequence[int], row: int) -> list[int]:
    """Rows around a row, innermost first."""
    found = []
    while (row := parents[row]) >= 0:
        found.append(row)
    return found


def stab(intervals: Sequence[Interval], group: int, at: int) -> int:
    """Row of the interval around a point that starts last, then ends first, then is last."""
    around = [
        (one.start, -one.end, i)
        for i, one in enumerate(intervals)
        if one.group == group and one.start <= at <= one.end
    ]
    return max(around)[2] if around else -1


def window_sum(points: Sequence[tuple[int, int]], start: int, end: int) -> int:
    """Sum of the values at the points of a closed window."""
    return sum(value for at, value in points if start <= at <= end)


def _sort_key(one: Interval, row: int) -> tuple[int, int, int, int, int]:
    return one.group, one.start, -one.end, one.tie, row
