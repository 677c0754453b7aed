"""One step of a recorded trace as a model: host slices, works of the device and who waits for whom.

Nothing here uses profframe: what proves it stands apart from it. Times are integer nanoseconds.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

Event = dict[str, Any]
Line = tuple[Any, Any]
"""A thread or a stream: pid and tid."""

OPS: Final = ("cpu_op", "Operator")
CALLS: Final = ("cuda_runtime", "cuda_driver", "Runtime")
HOST: Final = (*OPS, *CALLS, "user_annotation", "python_function")
KERNELS: Final = ("kernel", "Kernel")
DEVICE: Final = (*KERNELS, "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
COLLECTIVE: Final = re.compile("nccl|rccl", re.IGNORECASE)
QUEUED: Final = 5_000
"""A work that starts so soon after the one before it on its stream was in the queue."""
CLOSING: Final = "DeviceSynchronize"


@dataclass(eq=False)
class Work:
    """A kernel, copy or fill: it starts ``lag`` after its call, ``gap`` after the work before."""

    event: Event
    stream: Line
    lag: int
    gap: int
    dur: int
    after: Work | None = None
    """A work of another stream that it waits for."""

    @property
    def name(self) -> str:
        return str(self.event["name"])

    @property
    def meets(self) -> bool:
        return COLLECTIVE.search(self.name) is not None


@dataclass(eq=False)
class Slice:
    """A slice of the host: ``lead`` before it, its children, and ``tail`` after the last of them.

    A slice without an event is a handover: another thread runs the children, and the one that
    hands over waits for them if ``waited``.
    """

    event: Event | None
    thread: Line
    lead: int
    tail: int
    children: list[Slice] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    waits: str | Line | Work | None = None
    """What it waits for: a work, a stream, or ``all`` of them."""
    flows: list[tuple[str, int]] = field(default_factory=list)
    waited: bool = True

    @property
    def name(self) -> str:
        return str(self.event["name"]) if self.event else ""

    @property
    def category(self) -> str:
        return str(self.event["cat"]) if self.event else ""

    @property
    def args(self) -> dict[str, Any]:
        return dict(self.event.get("args", {})) if self.event else {}

    def walk(self) -> Iterator[Slice]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(eq=False)
class Model:
    """One step: its root is the step's own slice."""

    root: Slice
    header: Event
    flow: tuple[str, str] | None
    """Category and name of the flow from a call to its work."""
    recorded: int
    """How long the step took."""
    unlinked: int = 0
    """Time of works in the step whose call is not in it."""

    def slices(self) -> list[Slice]:
        return list(self.root.walk())

    def works(self) -> list[Work]:
        return [work for slice_ in self.root.walk() for work in slice_.works]

    def runtime(self) -> tuple[str, str]:
        """Category of calls, and prefix of their names."""
        calls = [s for s in self.root.walk() if s.category in CALLS and s.works]
        prefix = "hip" if any(call.name.startswith("hip") for call in calls) else "cuda"
        return next((c.category for c in calls if c.category != "cuda_driver"), CALLS[0]), prefix


def nanoseconds(value: Any) -> int:
    return int(Decimal(value) * 1000)


def read(path: Path) -> tuple[list[Event], Event]:
    """The events that have a time in nanoseconds (``start``, ``dur``), and the trace's header."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
    document = json.loads(text, parse_float=Decimal, strict=False)
    header = {} if isinstance(document, list) else document
    events = document if isinstance(document, list) else header.pop("traceEvents")
    timed = []
    for event in events:
        if event.get("ph") in ("X", "s", "f") and "ts" in event:
            start, dur = nanoseconds(event["ts"]), nanoseconds(event.get("dur", 0))
            timed.append({**event, "start": start, "dur": dur})
    return timed, header


def window(events: list[Event]) -> tuple[int, int, Line]:
    """Start, end and thread of one steady step.

    A profiler step of middle length; otherwise from one annotation to the next of its name;
    otherwise the whole trace.
    """
    host = [e for e in events if e["ph"] == "X" and e.get("cat") in HOST]
    marks = [e for e in host if re.fullmatch(r"ProfilerStep#\d+", e["name"]) and e["dur"]]
    marks.sort(key=lambda e: int(e["start"]))
    if marks:
        steady = sorted(marks[1:] if len(marks) > 2 else marks, key=lambda e: int(e["dur"]))
        mark = steady[len(steady) // 2]
        return mark["start"], mark["start"] + mark["dur"], (mark["pid"], mark["tid"])
    starts: dict[Any, list[int]] = defaultdict(list)
    for event in host:
        if event["cat"] == "user_annotation":
            starts[event["name"], event["pid"], event["tid"]].append(event["start"])
    repeated = [(max(at) - min(at), key) for key, at in starts.items() if 3 <= len(at) <= 60]
    if repeated:
        _, key = max(repeated, key=lambda item: item[0])
        at = sorted(starts[key])
        spans = sorted((end - start, start) for start, end in pairwise(at))
        length, start = spans[len(spans) // 2]
        return start, start + length, (key[1], key[2])
    lines = Counter((e["pid"], e["tid"]) for e in host)
    spans = [
        (e["start"], e["start"] + e["dur"]) for e in events if e.get("cat") in (*HOST, *DEVICE)
    ]
    return min(s for s, _ in spans), max(e for _, e in spans), lines.most_common(1)[0][0]


def nest(events: list[Event], begin: int, end: int) -> list[Slice]:
    """Slices of one thread between two times, nested; what overhangs its parent is cut."""
    top = Slice(None, ("", ""), 0, 0)
    open_: list[tuple[Slice, int]] = [(top, end)]
    done = {id(top): begin}
    for event in sorted(events, key=lambda e: (e["start"], -e["dur"])):
        while len(open_) > 1 and open_[-1][1] <= event["start"]:
            slice_, until = open_.pop()
            slice_.tail = until - done[id(slice_)]
        parent, until = open_[-1]
        stop = min(event["start"] + event["dur"], until)
        line = (event["pid"], event["tid"])
        child = Slice(event, line, event["start"] - done[id(parent)], 0)
        parent.children.append(child)
        done[id(parent)], done[id(child)] = stop, event["start"]
        open_.append((child, stop))
    for slice_, until in open_[1:]:
        slice_.tail = until - done[id(slice_)]
    return top.children


def _spans(slices: list[Slice], begin: int) -> Iterator[tuple[Slice, int, int]]:
    """Each slice with its start and end."""
    for slice_ in slices:
        start = begin + slice_.lead
        inner = list(_spans(slice_.children, start))
        ends = {id(each): stop for each, _, stop in inner}
        last = ends[id(slice_.children[-1])] if slice_.children else start
        begin = last + slice_.tail if slice_.event or slice_.waited else start
        yield slice_, start, begin
        yield from inner


@dataclass(eq=False)
class Group:
    """Slices of another thread that begin in one piece of the root's thread's own time."""

    parent: Slice
    index: int
    begin: int
    end: int
    members: list[tuple[Slice, int, int]]

    def split(self) -> Iterator[tuple[bool, list[tuple[Slice, int, int]]]]:
        """Whether the root's thread waits, and for which of the slices.

        It does for those that end in the piece, if they are most of it: else both threads run.
        """
        inside = [member for member in self.members if member[2] <= self.end]
        over = [member for member in self.members if member[2] > self.end]
        taken = max((stop for *_, stop in inside), default=0) - self.members[0][1]
        waited = self.parent.category not in CALLS and 2 * taken > self.end - self.begin > QUEUED
        parts = ((waited, inside), (False, over)) if waited else ((False, self.members),)
        return ((is_waited, part) for is_waited, part in parts if part)


def hand_over(root: Slice, begin: int, others: list[list[Slice]]) -> None:
    """Put the slices of other threads where the root's thread is when they start."""
    for slices in others:
        groups: list[Group] = []
        gaps = sorted(_gaps(root, begin), key=lambda gap: gap[:2])
        starts = [gap[0] for gap in gaps]
        places = {id(s): (s, start, stop) for s, start, stop in _spans(slices, begin)}
        for slice_ in slices:
            place = places[id(slice_)]
            at, stop, parent, index = gaps[max(0, bisect_right(starts, place[1]) - 1)]
            if groups and (groups[-1].parent, groups[-1].index) == (parent, index):
                groups[-1].members.append(place)
            else:
                groups.append(Group(parent, index, at, stop, [place]))
        parts = [(group, *part) for group in groups for part in group.split()]
        joined: list[tuple[Group, bool, list[tuple[Slice, int, int]]]] = []
        for group, waited, members in parts:
            if joined and not waited and not joined[-1][1]:
                joined[-1][2].extend(members)
            else:
                joined.append((group, waited, list(members)))
        for group, waited, members in reversed(joined):
            _insert(group, waited, members)


def _gaps(root: Slice, begin: int) -> Iterator[tuple[int, int, Slice, int]]:
    """The root's own time and that of its slices: start, end, slice, place among its children."""
    spans = {id(s): (a, b) for s, a, b in _spans([root], begin)}
    for slice_ in root.walk():
        if slice_.thread != root.thread or slice_.event is None:
            continue
        at, stop = spans[id(slice_)]
        for index, child in enumerate(slice_.children):
            yield at, spans[id(child)][0], slice_, index
            at = spans[id(child)][1]
        yield at, stop, slice_, len(slice_.children)


def _insert(group: Group, waited: bool, members: list[tuple[Slice, int, int]]) -> None:
    start, stop = members[0][1], max(end for *_, end in members)
    last = start
    for slice_, begun, ended in members:
        slice_.lead, last = begun - last, ended
    before = min(group.end, start) - group.begin
    taken = stop - start if waited else 0
    inner = [slice_ for slice_, *_ in members]
    handover = Slice(None, members[0][0].thread, before, 0, inner, waited=waited)
    parent = group.parent
    if group.index < len(parent.children):
        parent.children[group.index].lead -= before + taken
    else:
        parent.tail -= before + taken
    parent.children.insert(group.index, handover)


def place_works(spans: list[tuple[Slice, int, int]], events: list[Event]) -> int:
    """Hang works of the device at their calls; returns the time of those without one."""
    calls = {}
    for slice_, start, stop in spans:
        if slice_.category in CALLS and (id_ := slice_.args.get("correlation")):
            calls[id_] = slice_, start, stop
    ours = [e for e in events if e.get("args", {}).get("correlation") in calls]
    ours.sort(key=lambda e: (e["start"], e["dur"]))
    spent = min((start for _, start, _ in spans), default=0)
    until = max((stop for *_, stop in spans), default=0)
    others: int = sum(e["dur"] for e in events if spent <= e["start"] < until)
    last: dict[Line, tuple[int, Any]] = {}
    lags = [QUEUED]
    placed: list[tuple[Work, int, int]] = []
    for event in ours:
        id_, stream = event["args"]["correlation"], (event["pid"], event["tid"])
        call, launched, _ = calls[id_]
        start, stop = event["start"], event["start"] + event["dur"]
        before, launch = last.get(stream, (launched, None))
        lag, gap = start - launched, 0
        work = Work(event, stream, lag, gap, event["dur"])
        if launch == id_ or (launch is not None and start <= before + QUEUED):
            work.gap = start - before
            work.lag = min(lag, int(median(lags)))
        elif lag > median(lags) + 2 * QUEUED:
            near = [(end, w) for w, _, end in placed[-200:] if 0 <= start - end <= 2 * QUEUED]
            near = [(end, w) for end, w in near if w.stream != stream]
            if near:
                ended, work.after = max(near, key=lambda item: item[0])
                work.gap, work.lag = start - ended, int(median(lags))
        else:
            lags.append(lag)
        call.works.append(work)
        last[stream] = stop, id_
        placed.append((work, launched, stop))
        others -= event["dur"] if spent <= start < until else 0
    _waits(spans, placed)
    return others


def _waits(spans: list[tuple[Slice, int, int]], placed: list[tuple[Work, int, int]]) -> None:
    """Calls that wait: those of a name that does, and copies that end after their own work."""
    for slice_, start, stop in spans:
        if slice_.category not in CALLS:
            continue
        name = slice_.name
        before = [(end, w) for w, launched, end in placed if launched <= start]
        inside = [(end, w) for end, w in before if start < end <= stop]
        open_ = {w.stream for end, w in before if end > stop}
        done = [(end, w) for end, w in before if end <= stop]
        if name.endswith("EventSynchronize"):
            slice_.waits = max(done, key=lambda item: item[0])[1] if done else None
        elif name.endswith(CLOSING):
            slice_.waits = "all"
        elif name.endswith("Synchronize"):
            done = [(end, w) for end, w in done if w.stream not in open_]
            slice_.waits = max(done, key=lambda item: item[0])[1].stream if done else None
        elif "Memcpy" in name and any(w in slice_.works for _, w in inside):
            slice_.waits = slice_.works[-1].stream
        if slice_.waits and inside:
            slice_.tail = stop - max(end for end, _ in inside)


def cut(path: Path) -> Model:
    """One steady step of the trace as a model."""
    events, header = read(path)
    begin, end, line = window(events)
    threads: dict[Line, list[Event]] = defaultdict(list)
    for event in events:
        is_step = event.get("name", "").startswith("ProfilerStep")
        if event["ph"] != "X" or event.get("cat") not in HOST or is_step:
            continue
        if begin <= event["start"] and event["start"] + event["dur"] <= end:
            threads[event["pid"], event["tid"]].append(event)
    mark: Event = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "args": {}}
    mark |= {"pid": line[0], "tid": line[1], "start": begin, "dur": end - begin}
    operators = any(e.get("cat") == "Operator" for e in events)
    mark["cat"] = "Operator" if operators else mark["cat"]
    root = Slice(mark, line, 0, 0, nest(threads.pop(line, []), begin, end))
    others = [nest(slices, begin, end) for slices in threads.values()]
    spans = list(_spans(root.children, begin))
    root.tail = end - max((stop for _, _, stop in spans), default=begin)
    for slices in others:
        spans += _spans(slices, begin)
    unlinked = place_works(spans, [e for e in events if e.get("cat") in DEVICE])
    _flows(events, spans)
    hand_over(root, begin, others)
    return Model(root, header, _arrow(events), end - begin, unlinked)


def _arrow(events: list[Event]) -> tuple[str, str] | None:
    names = ("ac2g", "async_cpu_to_gpu", "async")
    arrows = ((e["cat"], e["name"]) for e in events if e["ph"] == "s" and e.get("cat") in names)
    return next(arrows, None)


def _flows(events: list[Event], spans: list[tuple[Slice, int, int]]) -> None:
    """Arrows from a forward op to its backward, where both are in the step."""
    at = {(*slice_.thread, start): slice_ for slice_, start, _ in spans if slice_.category in OPS}
    ends: dict[Any, dict[str, Slice]] = defaultdict(dict)
    for event in events:
        slice_ = at.get((event["pid"], event["tid"], event["start"]))
        if slice_ and event["ph"] != "X" and event.get("cat") == "fwdbwd":
            ends[event["id"]][event["ph"]] = slice_
    for number, pair in enumerate(ends.values()):
        for phase, slice_ in pair.items():
            if len(pair) == 2:
                slice_.flows.append((phase, number))
