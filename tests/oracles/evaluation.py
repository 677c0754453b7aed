"""Queue, idle time and ranking of `torch.profiler._utils`, in plain Python over rows of events."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.oracles import waiting
from tests.oracles.intervals import end

Row = Mapping[str, Any]
Span = tuple[int, int]

HIGH: Final = 4
"""Pieces that a queue must have had for its fall to count."""


def points(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """How many pieces waited when a piece of work started, or a call that left some waiting."""
    queue = waiting.waits(rows)
    begun = {row["start_ns"]: waiting.depth(queue, row["start_ns"]) for row in waiting.pieces(rows)}
    called = {call: waiting.depth(queue, call) for call, _ in queue}
    return sorted(begun.items() | {(at, depth) for at, depth in called.items() if depth})


def falls(queue: Sequence[tuple[int, int]], skip: int = 0) -> list[Span]:
    """Falls of the queue, found from its end as torch does; with ``skip`` 1 with its slip.

    From each moment with an empty queue it looks back, stretch by stretch, for one that was high,
    goes on at the moment before that stretch, and by a slip at the one before that.
    """
    backwards = queue[::-1]
    found = []
    i = 0
    while i < len(backwards):
        if backwards[i][1] > 0:
            i += 1
            continue
        j = i + 1
        while j < len(backwards):
            empty = next((k for k in range(j, len(backwards)) if backwards[k][1] == 0), None)
            depths = [depth for _, depth in backwards[j:empty]]
            if depths and max(depths) >= HIGH:
                found.append((backwards[j + depths.index(max(depths))][0], backwards[i][0]))
                i = (len(backwards) if empty is None else empty) + skip - 1
                break
            j = len(backwards) if empty is None else empty + 1
        i += 1
    return found[::-1]


def candidates(rows: Sequence[Row], spans: Sequence[Span]) -> list[Row]:
    """Host slices that share some time with one of the spans."""
    return [
        row
        for row in rows
        if row["preorder"] is not None
        and any(max(row["start_ns"], a) < min(end(row), b) for a, b in spans)
    ]


def idle_share(row: Row) -> float:
    return float(row["idle_ns"] / row["dur_ns"])


def ranked(rows: Sequence[Row]) -> list[tuple[float, Row]]:
    """Scores and slices, the best first; ties by start, then id."""
    chosen = candidates(rows, falls(points(rows)))
    idle = standardised([idle_share(row) for row in chosen])
    own = standardised([row["self_ns"] for row in chosen])
    scored = [(a + 0.6 * b, row) for a, b, row in zip(idle, own, chosen, strict=True)]
    return sorted(scored, key=lambda one: (-one[0], one[1]["start_ns"], one[1]["event_id"]))


def standardised(values: Sequence[float]) -> list[float]:
    """z-scores by the sample's deviation; 0 where there is none."""
    spread = statistics.stdev(values) if len(values) > 1 else 0
    return [(value - statistics.fmean(values)) / spread if spread else 0.0 for value in values]


def source_location(row: Row, rows: Sequence[Row]) -> str | None:
    """Name of the nearest slice around, or itself, that is called like a Python frame."""
    around: Row | None = row
    while around is not None:
        if re.search(r"\.py\(.*\)", around["name"] or ""):
            return str(around["name"])
        around = None if around["parent_id"] is None else rows[around["parent_id"]]
    return None
