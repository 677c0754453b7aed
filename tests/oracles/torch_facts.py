"""What torch's own events have, looked up one by one: scopes, forwards, stacks, Python frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.oracles.intervals import end

Row = Mapping[str, Any]

EVALUATION = "autograd::engine::evaluate_function: "
LEFT_OUT = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)


def order(row: Row) -> tuple[int, int, int, int]:
    """Of events in torch's lists."""
    number = 1 << 62 if row["ev_idx"] is None else row["ev_idx"]
    return row["start_ns"], -row["dur_ns"], number, row["event_id"]


def scopes(rows: Sequence[Row]) -> list[int | None]:
    """A backward function is the op behind the evaluation of it, among the ops that nest."""
    found: list[int | None] = [
        {"host_op": 0, "annotation": 7}.get(row["kind"]) if row["scope"] is None else row["scope"]
        for row in rows
    ]
    before: dict[int, str] = {}
    for row in sorted((r for r in rows if r["preorder"] is not None), key=order):
        if row["kind"] == "host_op":
            if row["scope"] is None and before.get(row["thread"]) == EVALUATION + row["name"]:
                found[row["event_id"]] = 1
            before[row["thread"]] = row["name"]
    return found


def is_backward(row: Row) -> bool:
    return bool(row["fwd_thread"]) or row["scope"] == 1


def forward(row: Row, rows: Sequence[Row], threads: Mapping[str, int]) -> int | None:
    """The forward op of a backward op, where no arrow says it."""
    if row["kind"] != "host_op" or row["sequence_nr"] is None or not is_backward(row):
        return None
    same = [
        one
        for one in rows
        if one["kind"] == "host_op"
        and one["sequence_nr"] == row["sequence_nr"]
        and not is_backward(one)
        and not one["name"].startswith(EVALUATION)
    ]
    thread = threads.get(str(row["fwd_thread"])) if row["fwd_thread"] else None
    if thread is None:
        on = {one["thread"] for one in same}
        thread = next(iter(on)) if len(on) == 1 else None
    ended = [one for one in same if one["thread"] == thread and end(one) <= end(row)]
    last = max(ended, key=lambda one: (one["start_ns"], *by_end(one)), default=None)
    return None if last is None else last["event_id"]


def by_end(row: Row) -> tuple[int, int, int]:
    _, _, number, event_id = order(row)
    return end(row), number, event_id


def stack(text: str | None) -> str | None:
    """Frames that torch shows."""
    frames = [
        frame
        for frame in (text or "").split(";")
        if not any(first in frame and second in frame for first, second in LEFT_OUT)
    ]
    return ";".join(frames) or None


def around(row: Row, rows: Sequence[Row]) -> Iterator[Row]:
    """What is around a slice, innermost first."""
    while row["parent_id"] is not None:
        row = rows[row["parent_id"]]
        yield row


def python_stack(row: Row, rows: Sequence[Row]) -> str | None:
    if row["kind"] == "python":
        return None
    frames = [str(one["name"] or "") for one in around(row, rows) if one["kind"] == "python"]
    return ";".join(frames) if frames else None
