"""How much work waited and how long devices idled, by looking at every piece and every moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]

BUSY: Final = ("kernel", "memcpy", "memset")


def pieces(rows: Sequence[Row]) -> list[Row]:
    """What kept a device busy, as far as it is known when."""
    return [row for row in rows if row["kind"] in BUSY and row["start_ns"] is not None]


def waits(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """For each piece with a known call, from when to when it waited."""
    calls = {row["event_id"]: row["start_ns"] for row in rows}
    starts = [(calls.get(row["launch_id"]), row["start_ns"]) for row in pieces(rows)]
    return [(call, start) for call, start in starts if call is not None]


def depth(waiting: Sequence[tuple[int, int]], at: int) -> int:
    """How many pieces wait at a moment."""
    return sum(call <= at < start for call, start in waiting)


def queue_depths(rows: Sequence[Row]) -> list[int | None]:
    """Of every slice that nests, and of every piece, how many waited when it started."""
    waiting, on_device = waits(rows), {row["event_id"] for row in pieces(rows)}
    return [
        depth(waiting, row["start_ns"])
        if waiting and (row["preorder"] is not None or row["event_id"] in on_device)
        else None
        for row in rows
    ]


def busy_moments(rows: Sequence[Row]) -> set[int]:
    """Every nanosecond in which a device was busy."""
    ran = [row for row in pieces(rows) if row["dur_ns"] is not None]
    return {at for row in ran for at in range(row["start_ns"], row["start_ns"] + row["dur_ns"])}


def idle_times(rows: Sequence[Row]) -> list[int | None]:
    """Of every slice that nests, in how many of its nanoseconds no device was busy."""
    used = any(row["dur_ns"] is not None for row in pieces(rows))
    busy = busy_moments(rows)
    return [
        len(set(range(row["start_ns"], row["start_ns"] + row["dur_ns"])) - busy)
        if used and row["preorder"] is not None
        else None
        for row in rows
    ]
