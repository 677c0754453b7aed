"""The call tree merged by path, one slice after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
Path = tuple[tuple[str | None, str], ...]

ENGINE = "autograd::engine::evaluate_function: "


def nodes(whole: Iterable[Row], kept: Iterable[int]) -> dict[tuple[Path, str], dict[str, int]]:
    """Calls, self and total times of each path of slices that are left, and whether it is backward.

    A slice is inside the nearest slice around it that is left.
    """
    rows = {row["event_id"]: row for row in whole if row["preorder"] is not None}
    left = {number for number in kept if number in rows}

    def around(number: int) -> list[int]:
        found = []
        outer = rows[number]["parent_id"]
        while outer is not None:
            if outer in left:
                found.append(outer)
            outer = rows[outer]["parent_id"]
        return found[::-1]

    def key(numbers: list[int]) -> tuple[Path, str]:
        path = tuple((title(rows[n]["name"]), rows[n]["kind"]) for n in numbers)
        is_backward = any(backward(rows[n]) for n in numbers)
        return path, "backward" if is_backward else "forward"

    found: dict[tuple[Path, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for number in left:
        row, outer = rows[number], around(number)
        own = {"self_ns": row["self_ns"], "self_device_ns": row["self_device_ns"] or 0}
        node = found[key([*outer, number])]
        node["calls"] += 1
        for name, ns in own.items():
            node[name] += ns
        for end in range(1, len(outer) + 2):
            inside = found[key([*outer, number][:end])]
            inside["total_ns"] += own["self_ns"]
            inside["device_ns"] += own["self_device_ns"]
    return {path: dict(node) for path, node in found.items()}


def title(name: str | None) -> str | None:
    number = "" if name is None else name.removeprefix("ProfilerStep#")
    return "ProfilerStep*" if name != number and number.isdecimal() else name


def backward(row: Row) -> bool:
    is_function = row["scope"] == 1 or (row["fwd_thread"] or 0) > 0
    return is_function or (row["name"] or "").startswith(ENGINE)
