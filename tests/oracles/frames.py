"""Callers of Python frames, their ends and own times, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def is_frame(row: Row) -> bool:
    return row["category"] == "python_function" and row["python_id"] is not None


def caller(row: Row, rows: Sequence[Row]) -> int | None:
    """The frame with the number that a frame names, if it was open on the thread."""
    if not is_frame(row) or row["python_parent_id"] is None:
        return None
    same = [
        (one["start_ns"], place)
        for place, one in enumerate(rows)
        if is_frame(one)
        and one["thread"] == row["thread"]
        and one["python_id"] == row["python_parent_id"]
        and one["start_ns"] <= row["start_ns"]
    ]
    if not same:
        return None
    found = rows[max(same)[1]]
    earlier = (found["start_ns"], found["python_id"]) < (row["start_ns"], row["python_id"])
    is_open = found["start_ns"] + found["dur_ns"] >= row["start_ns"]
    return max(same)[1] if earlier and is_open else None


def ends(rows: Sequence[Row]) -> list[int]:
    """Ends of all rows: of a frame at most that of its caller, if it began before that."""
    above = [caller(row, rows) for row in rows]
    until = [_until(place, rows, above) for place in range(len(rows))]
    above = [
        None if place is not None and row["start_ns"] > until[place] else place
        for row, place in zip(rows, above, strict=True)
    ]
    return [_until(place, rows, above) for place in range(len(rows))]


def _until(place: int, rows: Sequence[Row], above: Sequence[int | None]) -> int:
    row, over = rows[place], above[place]
    end = int(row["start_ns"] + row["dur_ns"])
    return end if over is None else min(end, _until(over, rows, above))


def own_time(
    place: int,
    rows: Sequence[Row],
    spans: Sequence[tuple[int, int]],
    parents: Sequence[int | None],
) -> int:
    """Moments of a slice that are in none of its children, nor in the frames beside it.

    Those are the last before it and the first that is not; what frames share is that of both.
    """
    inside = [span for span, parent in zip(spans, parents, strict=True) if parent == place]
    if rows[place]["category"] != "python_function":
        beside = [
            (span[0], n)
            for n, (row, span, parent) in enumerate(zip(rows, spans, parents, strict=True))
            if row["category"] == "python_function"
            and (parent, row["thread"]) == (parents[place], rows[place]["thread"])
        ]
        before = [one for one in beside if one[0] < spans[place][0]]
        others = [one for one in beside if one[0] >= spans[place][0]]
        near = (*sorted(before)[-1:], *sorted(others)[:1])
        inside += [spans[n] for _, n in near]
    return sum(
        not any(start <= moment < end for start, end in inside) for moment in range(*spans[place])
    )
