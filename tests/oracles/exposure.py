"""When devices were busy, and when some work ran alone while something waited: moment by moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Row = Mapping[str, Any]
Span = tuple[int, int]

BUSY = {"kernel", "memcpy", "memset"}
CALLS = {"runtime", "driver"}


def works(rows: Iterable[Row]) -> list[Row]:
    """Work of devices that took time."""
    return [r for r in rows if r["kind"] in BUSY and r["start_ns"] is not None and r["dur_ns"]]


def counts(spans: Sequence[Iterable[Span]], start: int, end: int) -> list[tuple[int, list[int]]]:
    """How long how many of each kind of spans were open, from each moment to the next."""
    changes: dict[int, list[int]] = {start: [0] * len(spans), end: [0] * len(spans)}
    for kind, own in enumerate(spans):
        for since, until in own:
            for at, by in ((since, 1), (until, -1)):
                place = min(max(at, start), end)
                changes.setdefault(place, [0] * len(spans))[kind] += by
    found, now = [], [0] * len(spans)
    for at, then in pairwise(sorted(changes)):
        now = [a + b for a, b in zip(now, changes[at], strict=True)]
        found.append((then - at, now))
    return found


def unoccupied(rows: Iterable[Row], start: int, end: int) -> int:
    """For how long no device did anything."""
    spans = [span(row) for row in works(rows)]
    return sum(length for length, (running,) in counts([spans], start, end) if not running)


def exposed_alone(
    rows: Sequence[Row], is_chosen: Callable[[Row], bool], start: int, end: int
) -> int:
    """For how long chosen work, and no other, ran while the host or other work waited.

    The host waits in a call that synchronises; other work waits since its launch has returned. What
    is still on at the end delayed nothing before it.
    """
    calls = {row["event_id"]: row for row in rows if row["kind"] in CALLS}
    chosen: list[Span] = []
    others: list[Span] = []
    queued: list[Span] = []
    for row in works(rows):
        is_done = span(row)[1] <= end
        (chosen if is_done and is_chosen(row) else others).append(span(row))
        call = calls.get(row["launch_id"])
        if call is not None and call["start_ns"] is not None:
            returned = call["start_ns"] + (call["dur_ns"] or 0)
            if returned < row["start_ns"]:
                queued.append((returned, row["start_ns"]))
    blocked = [
        (call["start_ns"], call["start_ns"] + (call["dur_ns"] or 0))
        for call in calls.values()
        if "synchronize" in (call["name"] or "").lower() and call["start_ns"] is not None
    ]
    spans = counts([chosen, others, queued, blocked], start, end)
    return sum(
        length
        for length, (own, other, waits, stops) in spans
        if own > 0 and other == 0 and waits + stops > 0
    )


def span(row: Row) -> Span:
    return row["start_ns"], row["start_ns"] + row["dur_ns"]
