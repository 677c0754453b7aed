"""Stacks of work in graphs, by one plain loop over the JSON of a trace and of its stacks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Expected:
    """What is expected of a trace.

    Attributes
    ----------
    stacks : list of str or None
        Stack of each piece of work, in the order of the file, the innermost frame first.
    own_ns, all_ns : Counter of str
        Device time by the innermost frame, and by each frame around the work.
    issues : Counter of str
        Number of events by check.
    """

    stacks: list[str | None] = field(default_factory=list)
    own_ns: Counter[str] = field(default_factory=Counter)
    all_ns: Counter[str] = field(default_factory=Counter)
    issues: Counter[str] = field(default_factory=Counter)


def expected(
    trace: dict[str, Any], rank: int | None, files: Sequence[tuple[int | None, dict[str, Any]]]
) -> Expected:
    """For one trace that is loaded alone, and files of stacks with their ranks."""
    result = Expected()
    ranks = {of for of, _ in files if of is not None}
    known: dict[int, set[str]] = {}
    for of, members in files:
        names = {name for name, value in members.items() if good(name, value)}
        is_own = of is None or of == rank or (rank is None and len(ranks) == 1)
        if not is_own:
            result.issues["stack_of_another_rank"] += len(names)
            continue
        result.issues["unreadable_stack"] += len(members) - len(names)
        for name in names:
            known.setdefault(int(name), set()).add(members[name])
    result.issues["stacks_disagree"] += sum(len(texts) > 1 for texts in known.values())
    has_own = any(of is None or of == rank or (rank is None and len(ranks) == 1) for of, _ in files)
    launches = {e["args"]["correlation"] for e in trace["traceEvents"] if "Launch" in e["name"]}
    seen = set()
    for event in trace["traceEvents"]:
        if event["cat"] != "kernel":
            continue
        key = number(event["args"])
        texts = known.get(key, set()) if key is not None else set()
        is_launched = event["args"]["correlation"] in launches
        if key is not None:
            seen.add(key)
        if not is_launched or len(texts) != 1:
            result.stacks.append(None)
            # Work that no launch is known of is in a graph only if it says so.
            result.issues["kernel_without_stack"] += has_own and (is_launched or key is not None)
            continue
        frames = [re.sub(r"^(.*):(\d+):(.*)$", r"\1(\2): \3", f) for f in min(texts).split("\n")]
        result.stacks.append(";".join(frames))
        time = round(event["dur"] * 1000)
        result.own_ns[frames[0]] += time
        for frame in {*frames}:
            result.all_ns[frame] += time
    result.issues["stack_without_kernel"] += len(known.keys() - seen)
    result.issues = +result.issues
    return result


def good(name: str, value: object) -> bool:
    """Whether a member is the stack of a node."""
    is_number = name.isascii() and name.isdecimal() and not name.startswith("0")
    if not is_number or not 1 << 32 <= int(name) < 1 << 63 or not isinstance(value, str):
        return False
    return all(re.fullmatch(r".*:\d+:.*", frame) for frame in value.split("\n"))


def number(args: dict[str, Any]) -> int | None:
    """The whole number of the node of a kernel."""
    node, graph = args.get("graph node id"), args.get("graph id")
    if node is None:
        return None
    if node >= 1 << 32:
        return node if graph is None or node >> 32 == graph else None
    return None if graph is None else (graph << 32) | node


def parsed(text: str) -> dict[str, Any]:
    """A JSON document."""
    value: dict[str, Any] = json.loads(text)
    return value
