"""Calls whose work is not in the trace, and when it may have run, from rows one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

Row = Mapping[str, Any]
Place = tuple[int | None, int | None, int, int]
"""Device, stream, start and end."""

COLUMNS: Final = (
    *("event_id", "kind", "name", "start_ns", "dur_ns", "pid", "thread", "device", "stream"),
    *("correlation", "launch_id", "parent_id", "preorder"),
)
CALLS: Final = ("runtime", "driver")
WORK: Final = ("kernel", "memcpy", "memset")
LAUNCHES: Final = {
    "kernel": re.compile(r"(cuda|cu|hip|ze|ur|mu).*(LaunchKernel|LaunchCooperativeKernel)|"
                         r"(ur|ze).*KernelLaunch|.*GraphLaunch", re.IGNORECASE),
    "memcpy": re.compile(r"(cuda|cu|hip)Memcpy"),
}  # fmt: skip


def lost_calls(rows: Sequence[Row]) -> list[Row]:
    """The calls, by their start."""
    by_id = {row["event_id"]: row for row in rows}
    work = [
        row
        for row in rows
        if row["kind"] in WORK and row["start_ns"] is not None and row["dur_ns"] is not None
    ]
    has_work = set()
    for piece in work:
        call = by_id.get(piece["launch_id"])
        while call is not None:
            has_work.add(call["event_id"])
            call = by_id.get(call["parent_id"])
    lost: list[Row] = []
    for kind, pattern in LAUNCHES.items():
        calls = [
            row
            for row in rows
            if _launches(row, pattern)
            and not any(_launches(outer, *LAUNCHES.values()) for outer in _around(row, by_id))
            and row["event_id"] not in has_work
            and not _is_captured(row, rows)
        ]
        first = min((call["start_ns"] for call in calls), default=0)
        unlinked = [
            piece
            for piece in work
            if piece["kind"] == kind
            and piece["launch_id"] is None
            and not piece["correlation"]
            and piece["start_ns"] > first
        ]
        if len(calls) > len(unlinked):
            lost += calls
    return sorted(lost, key=lambda row: (row["start_ns"], row["event_id"]))


def places(rows: Sequence[Row]) -> dict[int, Place]:
    """Where and when the work of each of them may have run."""
    by_id = {row["event_id"]: row for row in rows}
    pieces = [
        (by_id[row["launch_id"]], row)
        for row in rows
        if row["kind"] in WORK
        and row["launch_id"] is not None
        and row["start_ns"] is not None
        and row["dur_ns"] is not None
    ]
    timed = [row for row in rows if row["start_ns"] is not None and row["dur_ns"] is not None]
    end = max((row["start_ns"] + row["dur_ns"] for row in timed), default=0)
    if not pieces:
        if any(row["kind"] in WORK for row in timed):
            return {}
        at = {call["event_id"]: call["start_ns"] for call in lost_calls(rows)}
        return {n: (None, None, start, max(start, end)) for n, start in at.items()}
    return {
        call["event_id"]: _place(call, *_candidates(call, pieces, by_id), pieces, end)
        for call in lost_calls(rows)
    }


def _place(
    call: Row,
    streams: set[tuple[Any, Any]],
    is_certain: bool,
    pieces: list[tuple[Row, Row]],
    end: int,
) -> Place:
    at = call["start_ns"]
    since, until = [], []
    for stream in streams:
        own = sorted(
            ((cause["start_ns"], row["start_ns"], row["event_id"], row) for cause, row in pieces
             if (row["device"], row["stream"]) == stream),
            key=lambda piece: piece[:3],
        )  # fmt: skip
        before = [row for queued, *_, row in own if queued <= at]
        after = [row for queued, *_, row in own if queued > at]
        since.append(before[-1]["start_ns"] + before[-1]["dur_ns"] if before else at)
        until.append(after[0]["start_ns"] if after else end)
    start = max(at, min(since))
    devices, names = ({stream[n] for stream in streams} for n in (0, 1))
    return (
        devices.pop() if len(devices) == 1 else None,
        names.pop() if is_certain else None,
        start,
        max([start, *until]),
    )


def _candidates(
    call: Row, pieces: list[tuple[Row, Row]], by_id: Mapping[int, Row]
) -> tuple[set[tuple[Any, Any]], bool]:
    """The streams that its work may have been on, and whether that is certain."""

    def streams(*of: Any) -> set[tuple[Any, Any]]:
        return {
            (row["device"], row["stream"])
            for cause, row in pieces
            if all(key(cause) == key(call) for key in of)
        }

    def thread(row: Row) -> Any:
        return row["thread"]

    def process(row: Row) -> Any:
        return row["pid"]

    def label(row: Row) -> Any:
        ops = (outer for outer in _around(row, by_id) if outer["kind"] == "host_op")
        return next(ops, row)["name"]

    of_op = streams(thread, label)
    wide = (streams(thread), streams(process), streams())
    return of_op if len(of_op) == 1 else next(s for s in wide if s), len(of_op) == 1


def _launches(row: Row, *patterns: re.Pattern[str]) -> bool:
    is_call = row["kind"] in CALLS and row["preorder"] is not None
    return is_call and any(_matches(pattern, row["name"] or "") for pattern in patterns)


@cache
def _matches(pattern: re.Pattern[str], name: str) -> bool:
    return bool(pattern.match(name))


def _around(row: Row, by_id: Mapping[int, Row]) -> Iterator[Row]:
    while row["parent_id"] is not None:
        row = by_id[row["parent_id"]]
        yield row


def _is_captured(call: Row, rows: Sequence[Row]) -> bool:
    marks = [
        (row["start_ns"], "Begin" in row["name"], row["thread"])
        for row in rows
        if row["kind"] in CALLS
        and row["pid"] == call["pid"]
        and re.match(r"(cuda|cu|hip)Stream(Begin|End)Capture", row["name"] or "")
    ]
    for thread in {mark[2] for mark in marks}:
        own = sorted(mark[:2] for mark in marks if mark[2] == thread)
        before = [is_begin for at, is_begin in own if at <= call["start_ns"]]
        after = [is_begin for at, is_begin in own if at > call["start_ns"]]
        if before[-1:] == [True] or (not before and after[:1] == [False]):
            return True
    return False
