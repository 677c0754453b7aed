"""Waits for Python's global interpreter lock, nanosecond by nanosecond."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracles.launching import percentile

Row = Mapping[str, Any]


def of_pauses(rows: Sequence[Row], per: str = "thread") -> list[tuple[Any, ...]]:
    """Rows of the answer; the name of a thread is its number."""
    found = []
    ranks = defaultdict(list)
    for row in rows:
        if row["kind"] == "gil" or (row["kind"], row["name"]) == ("python", "Python GC"):
            ranks[row["run"], row["rank"]].append(row)
    for trace in sorted(ranks):
        members = ranks[trace]
        locks = [row for row in members if row["kind"] == "gil"]
        has_collections = len(locks) < len(members)
        held = _held(locks, per)
        groups = defaultdict(list)
        for row in members:
            groups[row[per]].append(row)
        of_trace = []
        for key, group in groups.items():
            waits, holds, collections = (
                [row for row in group if row["name"] == name]
                for name in ("Waiting for GIL", "Holding GIL", "Python GC")
            )
            holder = min(held[key], key=lambda thread: (-held[key][thread], thread), default=None)
            wait_ns = sum(_times(waits))
            timed = [row for row in waits if row["dur_ns"] is not None]
            longest = min(
                ((-row["dur_ns"], *_last(row["start_ns"])) for row in timed), default=(None,) * 3
            )
            of_trace.append(
                (
                    *trace,
                    *((key, str(key), None) if per == "thread" else (None, None, key)),
                    len(waits) if locks else None,
                    wait_ns if locks else None,
                    max(_times(waits), default=None),
                    None if holder is None else str(holder),
                    held[key][holder] / wait_ns if holder is not None and wait_ns else None,
                    len(collections) if has_collections else None,
                    sum(_times(collections)) if has_collections else None,
                    max(_times(collections), default=None),
                    len(holds) if locks else None,
                    sum(_times(holds)) if locks else None,
                    max(_times(holds), default=None),
                    percentile(_times(waits), 50),
                    longest[2],
                    holder,
                )
            )
        found += sorted(
            of_trace,
            key=lambda row: (
                *_first(row[4]), -(row[6] or 0), -(row[11] or 0), *_last(row[2]),
            ),
        )  # fmt: skip
    return found


def _held(locks: Sequence[Row], per: str) -> Mapping[Any, dict[int, int]]:
    """For each group how long other threads held the lock during its waits, by their numbers."""
    held: dict[Any, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    timed = [row for row in locks if None not in (row["start_ns"], row["dur_ns"])]
    last = max((row["start_ns"] + row["dur_ns"] for row in timed), default=0)
    for now in range(min((row["start_ns"] for row in timed), default=0), last):
        for pid in {row["pid"] for row in timed}:
            owner = _open(timed, now, "Holding GIL", pid=pid)
            for thread in {row["thread"] for row in timed if row["pid"] == pid}:
                waiting = _open(timed, now, "Waiting for GIL", thread=thread)
                if owner and waiting and owner["thread"] != thread:
                    held[waiting[per]][owner["thread"]] += 1
    return held


def _open(rows: Sequence[Row], now: int, name: str, **same: Any) -> Row | None:
    """The last one that began, if it has not ended."""
    begun = [
        row
        for row in rows
        if row["name"] == name
        and row["start_ns"] <= now
        and all(row[key] == value for key, value in same.items())
    ]
    last = max(begun, key=lambda r: (r["start_ns"], r["dur_ns"], r["event_id"]), default=None)
    return last if last and now < last["start_ns"] + last["dur_ns"] else None


def _times(rows: Sequence[Row]) -> list[int]:
    return [row["dur_ns"] for row in rows if row["dur_ns"] is not None]


def _first(value: int | None) -> tuple[bool, int]:
    return value is not None, value or 0


def _last(value: int | None) -> tuple[bool, int | None]:
    return value is None, value
