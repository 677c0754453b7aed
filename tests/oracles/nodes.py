"""Graph nodes as a plain stack has them: markers open and close one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.oracles.facts import Row, integer

Found = tuple[str | None, int | None, str | None, str | None]
"""Name, number, file and stack trace of a node."""
Known = Mapping[str, Mapping[int, tuple[str | None, str | None]]]
NOWHERE: Found = (None, None, None, None)
HOST = ("host_op", "annotation", "python", "runtime", "driver", "overhead", "other")


@dataclass
class Open:
    """A marker that is open: ``found`` is what a slice in it has."""

    file: str | None
    end: int
    found: Found


def nodes(events: Sequence[Row], known: Known | None) -> tuple[list[Found], dict[str, int]]:
    """What each slice has, and how many markers are wrong, by check."""
    found = [NOWHERE] * len(events)
    markers: set[int] = set()
    wrong: dict[str, int] = {}
    for thread in {row["thread"] for row in events}:
        of_thread = [
            row
            for row in events
            if row["thread"] == thread and row["kind"] in HOST and row["start_ns"] is not None
        ]
        _walk(sorted(of_thread, key=_order), known, found, markers, wrong)
    for row in events:
        cause = row["launch_id"] if row["launch_id"] is not None else row["op_id"]
        if cause is not None:
            found[integer(row["event_id"])] = found[integer(cause)]
    for marker in markers:
        found[marker] = NOWHERE
    return found, wrong


def _order(row: Row) -> tuple[bool | int, ...]:
    """In the order in which they nest; at one time those that do not nest come last."""
    start, nests = integer(row["start_ns"]), row["preorder"] is not None
    return (start, not nests, integer(row["preorder"]) if nests else 0)


def _walk(
    rows: Sequence[Row],
    known: Known | None,
    found: list[Found],
    markers: set[int],
    wrong: dict[str, int],
) -> None:
    """One thread: ``stack`` holds the right markers, ``all_open`` also those that are wrong."""
    stack: list[Open] = []
    all_open: list[int] = []
    for row in rows:
        number, name, start = integer(row["event_id"]), str(row["name"]), integer(row["start_ns"])
        stack[:] = [marker for marker in stack if marker.end > start]
        all_open[:] = [end for end in all_open if end > start]
        found[number] = _inside(stack)
        if row["kind"] != "host_op" or not (name.startswith("## ") and name.endswith(" ##")):
            continue
        content = name[3:-3]
        is_file = content.endswith(".py")
        if row["preorder"] is None or not (is_file or content.isdigit()):
            count(wrong, "unreadable_graph_marker")
            continue
        end = start + integer(row["dur_ns"])
        markers.add(number)
        if all_open and all_open[-1] < end:
            count(wrong, "crossing_graph_markers")
        all_open.append(end)
        opened = (
            _graph(content, end, known, wrong)
            if is_file
            else _node(int(content), end, stack, known, wrong)
        )
        if opened is not None:
            stack.append(opened)
            found[number] = _inside(stack)  # for what it launches itself


def _inside(stack: Sequence[Open]) -> Found:
    """What a slice has: the innermost node, else the innermost graph."""
    nodes = [marker.found for marker in stack if marker.file is None]
    return [NOWHERE, *(marker.found for marker in stack), *nodes][-1]


def _graph(file: str, end: int, known: Known | None, wrong: dict[str, int]) -> Open:
    if known is not None and file not in known:
        count(wrong, "unknown_graph_file")
    return Open(file, end, (None, None, file, None))


def _node(
    index: int, end: int, stack: Sequence[Open], known: Known | None, wrong: dict[str, int]
) -> Open | None:
    files = [marker.file for marker in stack if marker.file is not None]
    if not files:
        count(wrong, "node_outside_graph")
        return None
    file = files[-1]
    if known is None:
        return Open(None, end, (str(index), index, file, None))
    if file not in known:
        return None
    if index not in known[file]:
        count(wrong, "unknown_graph_node")
        return None
    name, trace = known[file][index]
    return Open(None, end, (name or str(index), index, file, trace))


def count(wrong: dict[str, int], check: str) -> None:
    """One more."""
    wrong[check] = wrong.get(check, 0) + 1
