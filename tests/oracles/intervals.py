"""Nesting by a stack, unions, and sums and stabs by looking at everything."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Span = tuple[int, int]


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


def when(row: Mapping[str, Any]) -> Span:
    """Start and end."""
    return row["start_ns"], end(row)


def end(row: Mapping[str, Any]) -> int:
    return int(row["start_ns"] + row["dur_ns"])


def merged(intervals: Iterable[Span]) -> list[Span]:
    """Spans that do not touch each other, over the same time."""
    found: list[list[int]] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return [(start, end) for start, end in found]


def length(intervals: Iterable[Span]) -> int:
    """Time that they cover."""
    return sum(end - start for start, end in merged(intervals))


def shared(some: Sequence[Span], others: Sequence[Span]) -> int:
    """Time that both cover; both are merged."""
    covered = 0
    for start, end in some:
        at = bisect_right(others, start, key=lambda other: other[1])
        while at < len(others) and others[at][0] < end:
            covered += min(end, others[at][1]) - max(start, others[at][0])
            at += 1
    return covered


def _sort_key(one: Interval, row: int) -> tuple[int, int, int, int, int]:
    return one.group, one.start, -one.end, one.tie, row
