"""The longest path through a graph of one trace, in plain Python: loops over dicts and sets.

Nodes are moments: of a thread (something begins or ends there), or the beginning or the end of a
piece of work. What a node waits for is found by looking at everything. A node comes some time, its
latency, after the last of what it waits for; every edge into it has the latency as its weight, and
work has its duration. The longest path to each node is found forward, from the start of the window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.oracles.intervals import end

Row = Mapping[str, Any]
Node = tuple[Any, ...]
Part = tuple[int | None, str, int, int]
"""Event, edge, start, end."""

HOST = {"host_op", "annotation", "python", "runtime", "driver", "overhead", "other"}
CALLS = {"runtime", "driver"}
BUSY = {"kernel", "memcpy", "memset"}


def in_turns(works: Sequence[Row]) -> list[Row]:
    """Work without what ran under the end of other work of its stream.

    All work of a graph is on the stream of the last kernel that its thread launched by itself
    before, if the graph has work there, else on that of its first work.
    """
    on: dict[int, tuple[int, int]] = {work["event_id"]: work["on"] for work in works}
    of_calls: dict[int, list[Row]] = {}
    for work in works:
        if work["call"] is not None:
            of_calls.setdefault(work["call"]["event_id"], []).append(work)
    alone = [own[0] for own in of_calls.values() if len(own) == 1 and own[0]["kind"] != "memcpy"]
    for own in of_calls.values():
        streams = {work["on"] for work in own}
        first = min(own, key=lambda work: (work["start_ns"], work["event_id"]))
        earlier = [
            work
            for work in alone
            if work["call"]["thread"] == first["call"]["thread"]
            and work["call"]["start_ns"] <= first["call"]["start_ns"]
        ]
        into = max(
            earlier,
            key=lambda work: (work["call"]["start_ns"], work["event_id"]),
            default=first,
        )["on"]
        if len(streams) > 1:
            for work in own:
                on[work["event_id"]] = into if into in streams else first["on"]
    reach: dict[tuple[int, int], int] = {}
    start: dict[int, int] = {}
    for work in sorted(works, key=lambda work: (work["start_ns"], work["e"], work["event_id"])):
        place = on[work["event_id"]]
        before = reach.get(place, work["start_ns"])
        is_beside = place in reach and work["e"] <= before
        start[work["event_id"]] = work["start_ns"] if is_beside else max(work["start_ns"], before)
        reach[place] = max(before, work["e"])
    return [
        {**work, "on": on[work["event_id"]], "start_ns": start[work["event_id"]]} for work in works
    ]


@dataclass(frozen=True)
class Edge:
    """From a node that was waited for: when that was done, its weight, what it is called."""

    node: Node | None
    done: int
    weight: int
    event: int | None
    edge: str
    since: int


@dataclass(frozen=True)
class Oracle:
    """The graph of one (run, rank) between two moments; ``main`` is the thread that leads."""

    rows: Sequence[Row]
    start: int
    end: int
    main: int
    thread: int

    @cached_property
    def host(self) -> list[Row]:
        return [
            {**row, "s": max(row["start_ns"], self.start), "e": min(end(row), self.end)}
            for row in self.rows
            if row["kind"] in HOST and _lasts(row)
            if row["start_ns"] < self.end and end(row) > self.start
        ]

    @cached_property
    def works(self) -> list[Row]:
        calls = {row["event_id"]: row for row in self.calls}
        found: list[Row] = []
        for row in self.rows:
            if row["kind"] in BUSY and _lasts(row) and self.start < end(row) <= self.end:
                call = calls.get(row["launch_id"])
                launched = row["start_ns"] if call is None else call["start_ns"]
                more = {
                    "e": end(row),
                    "call": call,
                    "launched": min(launched, row["start_ns"]),
                    "on": (_or(row["device"]), _or(row["stream"])),
                }
                found.append({**row, **more})
        return in_turns(found)

    @cached_property
    def calls(self) -> list[Row]:
        return [r for r in self.rows if r["kind"] in CALLS and r["start_ns"] is not None]

    @cached_property
    def syncs(self) -> list[Row]:
        return [r for r in self.rows if r["kind"] == "sync" and r["start_ns"] is not None]

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        found = [(self.main if f < 0 else f, backward) for f, backward in helpers(self.rows)]
        return [pair for pair in found if pair[0] != pair[1]]

    @cached_property
    def points(self) -> dict[int, list[int]]:
        found: dict[int, set[int]] = {self.main: set(), self.thread: {self.end}}
        for row in self.host:
            found.setdefault(row["thread"], set()).update((row["s"], row["e"]))
        for work in self.works:
            if work["call"] is not None:
                found.setdefault(work["call"]["thread"], set()).add(self.leaves(work))
        return {thread: sorted(times | {self.start}) for thread, times in found.items()}

    def leaves(self, work: Row) -> int:
        return int(min(max(work["call"]["start_ns"], self.start), work["start_ns"]))

    @cached_property
    def callers(self) -> dict[int, int]:
        found = {thread: self.main for thread in self.points if thread != self.main}
        for forward, backward in self.pairs:
            above = [forward]
            while above[-1] in found and above[-1] not in above[:-1]:
                above.append(found[above[-1]])
            if backward in found and backward not in above and above[-1] == self.main:
                found[backward] = forward
        return found

    def inside(self, thread: int, time: int) -> int | None:
        found = [
            (row["s"], -row["e"], row["event_id"])
            for row in self.host
            if row["thread"] == thread and row["s"] <= time < row["e"]
        ]
        return max(found)[2] if found else None

    def put_before(self, on: tuple[int, int], moment: int) -> list[Row]:
        found = [w for w in self.works if w["on"] == on and w["launched"] < moment]
        return [max(found, key=_by_end)] if found else []

    @cached_property
    def waits(self) -> dict[int, list[Row]]:
        """By event of work, the work that its stream was told to wait for."""
        found: dict[int, list[Row]] = {}
        calls = {row["event_id"]: row for row in self.calls}
        told = set()
        for sync in self.syncs:
            told.add(sync["launch_id"])
            if "wait" not in (sync["name"] or "").lower() or sync["wait_on_stream"] is None:
                continue
            issued = calls.get(sync["launch_id"], sync)["start_ns"]
            number = sync["wait_on_correlation"]
            records = [c["start_ns"] for c in self.calls if number and c["correlation"] == number]
            device = _or(sync["device"])
            target = self.put_before((device, sync["wait_on_stream"]), max(records, default=issued))
            later = [
                w for w in self.works
                if w["on"] == (device, _or(sync["stream"])) and w["launched"] >= issued
            ]  # fmt: skip
            if later:
                work = min(later, key=lambda w: (w["launched"], w["start_ns"], w["event_id"]))
                found.setdefault(work["event_id"], []).extend(target)
        for call in self.calls:
            if "StreamWaitEvent" in (call["name"] or "") and call["event_id"] not in told:
                self._guess(call, found)
        return found

    def _guess(self, call: Row, found: dict[int, list[Row]]) -> None:
        later = [
            w for w in self.works
            if w["call"] and w["call"]["thread"] == call["thread"]
            and w["call"]["start_ns"] >= call["start_ns"]
        ]  # fmt: skip
        if later:
            work = min(later, key=lambda w: (w["call"]["start_ns"], w["start_ns"], w["event_id"]))
            ended = [w for w in self.works if w["e"] <= work["start_ns"]]
            last = max(ended, key=_by_end, default=None)
            if last is not None and last["launched"] < call["start_ns"]:
                found.setdefault(work["event_id"], []).append(last)

    @cached_property
    def blocked(self) -> dict[int, list[Row]]:
        """By event of a call, the work that it may have waited for."""
        found: dict[int, list[Row]] = {}
        said = set()
        for sync in self.syncs:
            if "wait" in (sync["name"] or "").lower() or sync["launch_id"] is None:
                continue
            said.add(sync["launch_id"])
            stream = (
                sync["wait_on_stream"] if sync["wait_on_stream"] is not None else sync["stream"]
            )
            on = None if stream is None else (_or(sync["device"]), stream)
            number = sync["wait_on_correlation"]
            records = [c["start_ns"] for c in self.calls if number and c["correlation"] == number]
            for call in self.host:
                if call["event_id"] == sync["launch_id"]:
                    if on is not None and records:
                        target = self.put_before(on, max(records))
                    else:
                        target = self._ended(on, call["e"])
                    found.setdefault(call["event_id"], []).extend(target)
        for call in self.host:
            name = call["name"] or ""
            waits = re.search("synchronize", name, re.IGNORECASE) or name == "cudaFree"
            if call["kind"] in CALLS and waits and call["event_id"] not in said:
                found.setdefault(call["event_id"], []).extend(self._ended(None, call["e"]))
        for work in self.works:
            if work["kind"] == "memcpy" and work["call"]:
                found.setdefault(work["call"]["event_id"], []).append(work)
        return found

    def _ended(self, on: tuple[int, int] | None, moment: int) -> list[Row]:
        found = [w for w in self.works if (on is None or w["on"] == on) and w["e"] <= moment]
        return [max(found, key=_by_end)] if found else []

    def edges(self, node: Node) -> list[Edge]:
        """What a node waited for; an edge without a node comes from the start of the window."""
        if node[0] == "end":
            work = node[1]
            begin = max(work["start_ns"], self.start)
            before = ("begin", work) if begin > self.start else None
            return [Edge(before, begin, work["e"] - begin, work["event_id"], "work", begin)]
        if node[0] == "begin":
            found, time = self._before_work(node[1]), node[1]["start_ns"]
        else:
            found, time = self._before_point(node[1], node[2]), node[2]
        if not found:
            return [Edge(None, self.start, time - self.start, None, "unknown", self.start)]
        latency = time - max(edge.done for edge in found)
        return [
            Edge(e.node, e.done, e.done - e.since + latency, e.event, e.edge, e.since)
            for e in found
        ]  # fmt: skip

    def _before_work(self, work: Row) -> list[Edge]:
        found = self._shown_before(work)
        if work["event_id"] in self.ordered:
            before = self.ordered[work["event_id"]]
            done = before["e"]
            found.append(Edge(("end", before), done, 0, work["event_id"], "wait", done))
        return found

    @cached_property
    def ordered(self) -> dict[int, Row]:
        """By event of work that came late after all that is shown, the last other one to end."""
        lags: dict[str, dict[int, int]] = {"launch": {}, "queue": {}, "wait": {}}
        for work in self.works:
            shown = self._shown_before(work)
            if not shown:
                continue
            ready = max(edge.done for edge in shown)
            names = {edge.edge for edge in shown if edge.done == ready}
            kind = next(name for name in lags if name in names)
            if kind == "launch" and work["call"] is not None:
                returned = work["call"]["start_ns"] + (work["call"]["dur_ns"] or 0)
                if work["call"]["start_ns"] <= work["start_ns"] and ready == self.start:
                    is_returned = returned <= work["start_ns"]
                    ready = returned if is_returned else work["call"]["start_ns"]
            if self.start <= ready <= work["start_ns"]:
                lags[kind][work["event_id"]] = work["start_ns"] - ready
        found = {}
        works = {work["event_id"]: work for work in self.works}
        for of_kind in lags.values():
            values = sorted(of_kind.values())
            if not values:
                continue
            low, high = (values[int(share * (len(values) - 1))] for share in (0.25, 0.75))
            for event_id, lag in of_kind.items():
                work = works[event_id]
                ended = [w for w in self.works if w["e"] <= work["start_ns"]]
                before = max(ended, key=lambda w: (w["e"], w["event_id"]), default=work)
                is_late = lag > high + 3 * (high - low) // 2
                if is_late and before["on"] != work["on"] and before["e"] > work["start_ns"] - lag:
                    found[event_id] = before
        return found

    def _shown_before(self, work: Row) -> list[Edge]:
        begin, found = work["start_ns"], []
        targets = [("wait", w) for w in self.waits.get(work["event_id"], [])]
        targets += [("queue", w) for w in self.works if w["on"] == work["on"]]
        if work["call"] is not None:
            targets += [("wait", w) for w in self.works if w["call"] == work["call"]]
        for edge, before in targets:
            if before["e"] <= begin:
                done = before["e"]
                found.append(Edge(("end", before), done, 0, work["event_id"], edge, done))
        call = work["call"]
        if call is not None and (call["start_ns"] <= begin or not found):
            leaves, returned = self.leaves(work), call["start_ns"] + (call["dur_ns"] or 0)
            done = max(leaves, returned) if returned <= begin else leaves
            node = ("point", call["thread"], leaves)
            found.append(Edge(node, done, 0, call["event_id"], "launch", leaves))
        return found

    def _before_point(self, thread: int, time: int) -> list[Edge]:
        times = self.points[thread]
        last = times[times.index(time) - 1]
        event = self.inside(thread, last)
        edge = "slice" if event is not None else "between" if last > self.start else "unknown"
        found = [Edge(("point", thread, last), last, 0, event, edge, last)]
        for call in self.host:
            if call["thread"] == thread and call["e"] == time:
                for work in self.blocked.get(call["event_id"], []):
                    if call["s"] < work["e"] <= time:
                        done = work["e"]
                        found.append(Edge(("end", work), done, 0, event, "sync", done))
        helping = {backward for forward, backward in self.pairs if forward == thread}
        for row in self.host:
            if (
                row["thread"] in helping
                and not row["depth"]
                and last <= row["s"]
                and row["e"] < time
            ):
                node = ("point", row["thread"], row["e"])
                found.append(Edge(node, row["e"], 0, event, "thread", row["e"]))
        if event is None and thread != self.main:
            caller = self.callers[thread]
            cause = max((t for t in self.points.get(caller, ()) if t <= time), default=None)
            if cause is not None:
                via = self.inside(caller, cause)
                found.append(Edge(("point", caller, cause), cause, 0, via, "thread", cause))
        return found

    def longest(self, node: Node) -> tuple[int, list[Part], bool]:
        """Length of the longest path to a node, its parts, and whether there is only one."""
        known: dict[str, tuple[int, list[Edge]]] = {}

        def length(at: Node) -> int:
            key = _key(at)
            if key not in known:
                if at[0] == "point" and at[2] <= self.start:
                    known[key] = 0, []
                else:
                    edges = self.edges(at)
                    lengths = [(length(e.node) if e.node else 0) + e.weight for e in edges]
                    best = max(lengths)
                    tight = [e for e, x in zip(edges, lengths, strict=True) if x == best]
                    known[key] = best, tight
            return known[key][0]

        total, parts, unique = length(node), [], True
        at: Node | None = node
        time = self.end
        while at is not None and known[_key(at)][1]:
            tight = known[_key(at)][1]
            unique &= len({_key(e.node) if e.node else "" for e in tight}) == 1
            unique &= len({e.edge for e in tight}) == 1
            edge = tight[0]
            if edge.since < time:
                parts.append((edge.event, edge.edge, edge.since, time))
            time, at = edge.since, edge.node
        return total, merged(parts[::-1]), unique


def merged(parts: Iterable[Part]) -> list[Part]:
    """Parts of one slice that follow each other are one."""
    found: list[Part] = []
    for part in parts:
        if found and found[-1][:2] == part[:2]:
            found[-1] = (*part[:2], found[-1][2], part[3])
        else:
            found.append(part)
    return found


def helpers(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Forward (-1: not known) and backward threads, those with the most links last."""
    threads = {row["event_id"]: row["thread"] for row in rows if row["kind"] == "host_op"}
    counts = Counter(
        (threads.get(row["fwd_id"], -1), row["thread"])
        for row in rows
        if (row["fwd_thread"] or 0) > 0
        or row["fwd_id"] is not None
        or (row["kind"] == "host_op" and "Backward" in (row["name"] or ""))
    )
    forwards = {forward for forward, _ in counts}
    found = sorted(counts, key=lambda pair: (pair[0] >= 0, counts[pair], pair))
    return [
        pair for pair in found if pair[0] != pair[1] and (pair[0] >= 0 or pair[1] not in forwards)
    ]


def _key(node: Node) -> str:
    if node[0] == "point":
        return f"point {node[1]} {node[2]}"
    return f"{node[0]} {node[1]['event_id']}"


def _lasts(row: Row) -> bool:
    return row["start_ns"] is not None and row["dur_ns"] is not None and row["dur_ns"] > 0


def _by_end(row: Row) -> tuple[int, int]:
    return row["e"], row["event_id"]


def _or(number: int | None) -> int:
    return -1 if number is None else number
