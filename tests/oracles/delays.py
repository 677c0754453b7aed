"""How much of each delay of a rank counts, by plain loops over rows of events and collectives."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

Row = Mapping[str, Any]
Spans = Sequence[tuple[int, int]]
_LINKS = {"collective", "expert_parallel", "point_to_point"}
_CLOCKS = ("host", "work", "ops")


@dataclass
class Call:
    """A collective that a rank launches, or a step that it begins."""

    at: int
    match: int
    group: str | None = None
    behind: int | None = None
    since: int | None = None
    distance: int = 0
    host: int | None = None
    work: int | None = None
    ops: int | None = None
    excess: int = 0
    between: list[Call] = field(default_factory=list)


def counted(events: Iterable[Row], waits: Iterable[Row]) -> dict[tuple[int, int], tuple[int, int]]:
    """What counts of each delay, and when the first of those of the same excess began.

    By rank and collective, of one run: rows of ``events`` and of ``collective_waits``.
    """
    slices, arrivals = defaultdict(list), defaultdict(list)
    for row in events:
        if row["start_ns"] is not None and row["dur_ns"] is not None:
            slices[row["rank"]].append(row)
    for row in waits:
        arrivals[row["rank"]].append(row)
    marks = sorted({row["name"] for rank in arrivals for row in slices[rank] if _is_step(row)})
    calls = {rank: _calls(slices[rank], arrivals[rank], marks) for rank in arrivals}
    _excess([call for of_rank in calls.values() for call in of_rank])
    return {
        (rank, match): value
        for rank, of_rank in calls.items()
        for match, value in _once(of_rank).items()
    }


def _is_step(row: Row) -> bool:
    return row["kind"] == "annotation" and (row["name"] or "").startswith("ProfilerStep#")


def _calls(rows: Sequence[Row], waits: Sequence[Row], marks: Sequence[str]) -> list[Call]:
    """The calls of a rank with what its host and its devices did since the one before."""
    hosts = {row["event_id"]: row for row in rows if row["kind"] in {"runtime", "driver"}}
    works = {row["event_id"]: row for row in rows if row["kind"] in {"kernel", "memcpy", "memset"}}
    blocked = [_span(row) for row in hosts.values() if _is_blocking(row["name"])]
    done = [
        (hosts.get(row["launch_id"], row)["start_ns"], row["dur_ns"])
        for row in works.values()
        if row["kind"] != "kernel" or row["kernel_category"] not in _LINKS
    ]
    calls = [Call(row["start_ns"], -1 - marks.index(row["name"])) for row in rows if _is_step(row)]
    for row in waits:
        launch = hosts.get(works.get(row["event_id"], {}).get("launch_id"))
        begun = row["start_ns"] if row["call_ns"] is None else row["call_ns"]
        at = begun if launch is None else launch["start_ns"]
        wait = min(row["wait_ns"], row["dur_ns"])
        if row["event_id"] not in works or (launch is None and row["call_ns"] is None):
            blocked.append((row["start_ns"], row["start_ns"] + wait))
        done.append((at, row["dur_ns"] - wait))
        of_group = row["process_group"], row["behind_ns"], row["late_since_ns"]
        calls.append(Call(at, row["match"], *of_group))
    calls.sort(key=lambda call: (call.at, call.match))
    blocked = _union(blocked)
    ops = [
        (row["start_ns"], row["self_ns"] or 0)
        for row in rows
        if row["kind"] == "host_op" and row["collective"] is None
    ]
    last = dict[str | None, int]()
    for place, call in enumerate(calls):
        call.distance = place - last.get(call.group, 0)
        call.between = calls[place - call.distance + 1 : place]
        last[call.group] = place
    for before, call in pairwise(calls):
        call.host = call.at - before.at - _within(blocked, before.at, call.at)
        call.work = sum(took for at, took in done if before.at <= at < call.at)
        call.ops = sum(took for at, took in ops if before.at <= at < call.at)
    return calls


def _is_blocking(name: str | None) -> bool:
    name = (name or "").lower()
    starts = r"(cu|cuda|hip|acl|aclrt|mu|mtia)_?(memcpy|free)"
    return "synchronize" in name or re.match(starts, name) is not None


def _span(row: Row) -> tuple[int, int]:
    return row["start_ns"], row["start_ns"] + row["dur_ns"]


def _union(spans: Spans) -> list[tuple[int, int]]:
    whole = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        else:
            whole.append((start, end))
    return whole


def _within(spans: Spans, since: int, until: int) -> int:
    return sum(max(min(end, until) - max(start, since), 0) for start, end in spans)


def _excess(calls: Iterable[Call]) -> None:
    """How much longer each rank took before a call than the median rank of it."""
    members = defaultdict(list)
    for call in calls:
        members[call.match].append(call)
    uneven = list[tuple[Call, int]]()
    for alike in members.values():
        is_alike = len({call.distance for call in alike}) == 1
        for call in alike:
            done = {name: [_done(one, name, is_alike) for one in alike] for name in _CLOCKS}
            host, work, ops = (_beyond(_done(call, n, is_alike), done[n]) for n in _CLOCKS)
            call.excess = max(host, ops) + work if is_alike else 0
            if not is_alike:
                uneven.append((call, max(host, ops) + work))
    inner = [sum(one.excess for one in call.between) for call, _ in uneven]
    for (call, beyond), known in zip(uneven, inner, strict=True):
        call.excess = max(beyond - known, 0)


def _done(call: Call, name: str, is_alike: bool) -> int | None:
    """What was done since the call before, or else since the last one of the group."""
    own: int | None = getattr(call, name)
    if is_alike:
        return own
    if not call.distance:
        return None
    return sum(getattr(one, name) or 0 for one in call.between) + (own or 0)


def _beyond(value: int | None, every: Sequence[int | None]) -> int:
    """Beyond the median; a time that is not known is the least."""
    ordered = sorted(every, key=lambda one: (one is not None, one or 0))
    median = ordered[(len(every) - 1) // 2]
    return 0 if value is None or median is None else max(value - median, 0)


def _once(calls: Sequence[Call]) -> dict[int, tuple[int, int]]:
    """Delays of a rank as parts of its excess, those that reach back furthest first."""
    until = [*accumulate(call.excess for call in calls)]
    begins = [end - call.excess for end, call in zip(until, calls, strict=True) if call.excess]
    used = defaultdict[int, int](int)
    parts = list[tuple[int, int, int, Call]]()
    for place, (end, call) in enumerate(zip(until, calls, strict=True)):
        if not call.behind:
            continue
        begun = end - call.behind
        if number := bisect_right(begins, begun):
            begun = begins[number - 1]
        used[begun] += call.behind
        stop = min(begun + used[begun], end)
        parts.append((stop - call.behind, -stop, place, call))
    result = dict[int, tuple[int, int]]()
    free = min((start for start, *_ in parts), default=0)
    for start, minus_stop, _, call in sorted(parts, key=lambda part: part[:3]):
        added = max(-minus_stop - max(start, free), 0)
        free = max(-minus_stop, free)
        alike = [one.since for _, at, _, one in parts if 0 <= at - minus_stop < max(added, 1)]
        result[call.match] = added, min(since for since in alike if since is not None)
    return result
