"""Duplicates as torch removes them, and launches looked up one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

DEVICE: Final = ("kernel", "memcpy", "memset", "sync", "device_annotation")

Row = Mapping[str, object]


def duplicates(parents: Sequence[int], names: Sequence[str]) -> list[int | None]:
    """Remove what repeats its parent as its only child until nothing changes; survivor per row."""
    parent = list(parents)
    children = {i: [j for j, p in enumerate(parents) if p == i] for i in range(len(parents))}
    alive = set(range(len(parents)))
    removed = True
    while removed:
        removed = False
        doomed = {
            i
            for i in alive
            if parent[i] >= 0 and names[parent[i]] == names[i] and len(children[parent[i]]) == 1
        }
        for i in sorted(doomed):
            children[parent[i]] = children[i]
            for child in children[i]:
                parent[child] = parent[i]
            removed = True
        alive -= doomed
    return [None if i in alive else _survivor(parents, alive, i) for i in range(len(parents))]


def _survivor(parents: Sequence[int], alive: set[int], row: int) -> int:
    while row not in alive:
        row = parents[row]
    return row


def launch(row: Row, events: Sequence[Row]) -> int | None:
    """The call with the correlation of a device slice: of several the one that starts last."""
    calls = [e for e in events if e["kind"] in {"runtime", "driver"}]
    same = [e for e in calls if row["correlation"] and e["correlation"] == row["correlation"]]
    processes = {e["pid"] for e in calls}
    named = processes & {e["pid"] for e in events if e["kind"] in DEVICE and names_process(e)}
    if names_process(row) and named and (row["pid"] in named or row["device"] is not None):
        same = [e for e in same if e["pid"] == row["pid"]]
    ordered = sorted(same, key=lambda e: (e["start_ns"], -integer(e["dur_ns"]), e["event_id"]))
    return integer(ordered[-1]["event_id"]) if ordered else None


def names_process(row: Row) -> bool:
    """Whether the process of a device slice is one, and not the index of its device."""
    return row["pid"] is not None and row["pid"] != str(row["device"])


def op_around(launch: int | None, events: Sequence[Row]) -> int | None:
    """The innermost host op around a launch; an annotation, if nothing launched has an id."""
    op = innermost(launch, events, "host_op")
    if op is not None or any(
        e["external_id"] is not None for e in events if e["launch_id"] is not None
    ):
        return op
    return innermost(launch, events, "annotation")


def innermost(row: int | None, events: Sequence[Row], kind: str) -> int | None:
    """The slice of this kind that a slice is, or the innermost around it."""
    while row is not None and events[row]["kind"] != kind:
        parent = events[row]["parent_id"]
        row = None if parent is None else integer(parent)
    return row


def device_ns(events: Sequence[Row]) -> list[int | None]:
    """Device time of every slice: its own, or the sum of what it and all inside it launched."""
    busy = [e for e in events if e["kind"] in {"kernel", "memcpy", "memset"}]
    total: list[int | None] = [None if e["preorder"] is None else 0 for e in events]
    for span in events:
        if span["kind"] == "device_annotation":
            total[integer(span["event_id"])] = integer(span["dur_ns"])
    for slice_ in busy:
        total[integer(slice_["event_id"])] = integer(slice_["dur_ns"])
        op, call = slice_["op_id"], slice_["launch_id"]
        for row in around(call if call is not None else op, events):
            if events[row]["kind"] not in {"runtime", "driver"}:
                total[row] = (total[row] or 0) + integer(slice_["dur_ns"])
        for row in around(op if op is not None else call, events):
            if events[row]["kind"] in {"runtime", "driver"}:
                total[row] = (total[row] or 0) + integer(slice_["dur_ns"])
    return total


def around(row: object, events: Sequence[Row]) -> Iterator[int]:
    """A slice and all around it."""
    while row is not None:
        yield integer(row)
        row = events[integer(row)]["parent_id"]


def op_of_external_id(row: Row, events: Sequence[Row]) -> int | None:
    """The only host op with the External id of a device slice, else the only annotation."""
    if not row["external_id"] or row["kind"] == "sync":
        return None
    same = [e for e in events if e["external_id"] == row["external_id"]]
    ops = [e for e in same if e["kind"] == "host_op"]
    ops = ops or [e for e in same if e["kind"] == "annotation"]
    return integer(ops[0]["event_id"]) if len(ops) == 1 else None


def integer(value: object) -> int:
    """The value of a column that is known to be there."""
    assert isinstance(value, int)
    return value
