"""Intervals of the steps of a job, from rows of ``profiler_steps`` of its ranks one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def intervals(rows: Sequence[Row]) -> list[tuple[int, int, int]]:
    """Each whole step, when it began, and when its last rank had completed it, on one clock."""
    steps: dict[tuple[int, int], list[Row]] = {}
    seen: dict[tuple[Any, Any, int], int] = {}
    for row in sorted(rows, key=lambda row: (_order(row["start_ns"]), row["event_id"])):
        key = row["rank"], row["pid"], row["step"]
        seen[key] = seen.get(key, 0) + 1
        steps.setdefault((row["step"], seen[key]), []).append(row)
    done = [
        (max(known, key=lambda row: (row["completed_ns"], _order(row["began_ns"]))), key)
        for key, own in steps.items()
        for known in [[row for row in own if row["completed_ns"] is not None]]
        if known
    ]
    done.sort(key=lambda pair: (pair[0]["completed_ns"], pair[1]))
    made: list[tuple[int, int, int]] = []
    before: int | None = None
    for last, (number, occurrence) in done:
        own = steps[number, occurrence]
        completed = last["completed_ns"]
        if all(row["lack"] is None and row["step_ns"] is not None for row in own):
            began = last["began_ns"] if before is None else max(last["began_ns"], before)
            made.append((number, began, completed))
        before = completed
    return made


def _order(moment: int | None) -> float:
    return float("inf") if moment is None else moment
