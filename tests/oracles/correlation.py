"""The call that launched each device slice, by their correlation, from rows one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

Row = Mapping[str, Any]

ON_DEVICE: Final = ("kernel", "memcpy", "memset", "sync", "device_annotation")
CALLS: Final = ("runtime", "driver")
CLOCK_ERROR_NS: Final = 1_000_000


def launches(rows: Sequence[Row]) -> dict[int, int | None]:
    """The call of each slice on a device; None if it has no correlation, or none fits."""
    slices = [row for row in rows if row["kind"] in ON_DEVICE]
    fitting = _calls_of(rows)
    of_slice: dict[int, Row | None] = {}
    for piece in slices:
        own = fitting[piece["event_id"]]
        before = [call for call in own if call["start_ns"] <= piece["start_ns"]]
        only = own[-1:] if not _apart(own) else []
        of_slice[piece["event_id"]] = next(iter([*before[-1:], *only]), None)
    late = {
        piece["event_id"]: call["start_ns"] - piece["start_ns"]
        for piece in slices
        if (call := of_slice[piece["event_id"]]) and call["start_ns"] > piece["start_ns"]
    }
    linked = sum(call is not None for call in of_slice.values())
    for event_id, ns in late.items():
        if ns > CLOCK_ERROR_NS and 2 * len(late) <= linked:
            of_slice[event_id] = None
    return {n: None if call is None else call["event_id"] for n, call in of_slice.items()}


def ambiguous(rows: Sequence[Row]) -> int:
    """How many kernels, copies and fills have a correlation that several calls have."""
    fitting = _calls_of(rows)
    return sum(
        _apart(fitting[piece["event_id"]]) for piece in rows if piece["kind"] in ON_DEVICE[:3]
    )


def _calls_of(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """For each slice on a device the calls that may have launched it."""
    calls = [row for row in rows if row["kind"] in CALLS]
    slices = [row for row in rows if row["kind"] in ON_DEVICE]
    callers = {row["pid"] for row in calls} - {None}
    own = {row["event_id"]: row["pid"] for row in slices if not _is_line(row)}
    named = any(pid in callers for pid in own.values())
    fitting: dict[int, list[Row]] = {}
    for piece in slices:
        pid = own.get(piece["event_id"])
        same = [call for call in calls if call["correlation"] == piece["correlation"]]
        if not piece["correlation"]:
            same = []
        elif pid in callers:
            same = [call for call in same if call["pid"] == pid]
        elif named and pid is not None and piece["device"] is not None:
            same = []
        fitting[piece["event_id"]] = sorted(
            same, key=lambda call: (call["start_ns"], call["preorder"])
        )
    return fitting


def _is_line(piece: Row) -> bool:
    """Whether its process is the index of its device."""
    return piece["device"] is not None and piece["pid"] == str(piece["device"])


def _apart(calls: Sequence[Row]) -> bool:
    """Whether some of the calls are not inside each other, on one thread."""
    own = sorted(calls, key=lambda call: (call["start_ns"], -call["dur_ns"]))
    return any(
        later["start_ns"] + later["dur_ns"] > call["start_ns"] + call["dur_ns"]
        or later["thread"] != call["thread"]
        for call, later in pairwise(own)
    )
