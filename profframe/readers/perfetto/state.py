"""What packets set for those that follow them: interned texts, tracks, clocks, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from profframe.intervals import Ints
from profframe.readers.perfetto.wire import distinct_rows

BOOTTIME: Final = 6
REALTIME: Final = 1
_FIRST_OWN_CLOCK: Final = 64
"""Clocks from here on up to 127 are of one sequence."""
_END_OF_OWN_CLOCKS: Final = 128
_TEXTS: Final = (
    "event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values",
)  # fmt: skip


@dataclass(slots=True)
class Track:
    """A line of events, or of a counter."""

    parent: int = 0
    name: str | None = None
    pid: int | None = None
    tid: int | None = None
    process_name: str | None = None
    thread_name: str | None = None
    is_process: bool = False
    unit: str | None = None
    multiplier: int = 1
    is_incremental: bool = False
    total: float = 0.0


@dataclass(slots=True)
class Clock:
    """How a clock of a sequence counts, and where it is on the clock of the trace."""

    last: int
    """Time of the trace at the last event, if it counts from there; else at its zero."""
    is_incremental: bool
    unit_ns: int


@dataclass(slots=True)
class State:
    """All of it. An epoch is a sequence from one clearing of its state to the next."""

    interned: dict[int, dict[str, dict[int, Any]]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """The epoch that each sequence is in."""
    valid: set[int] = field(default_factory=set)
    """Epochs that began with a clearing."""
    tracks: dict[int, Track] = field(default_factory=dict)
    default_tracks: dict[int, int] = field(default_factory=dict)
    """By epoch."""
    default_clocks: dict[int, int] = field(default_factory=dict)
    own_clocks: dict[tuple[int, int], Clock] = field(default_factory=dict)
    """By sequence and clock."""
    offsets: dict[int, int] = field(default_factory=dict)
    """What is added to a clock of the machine to have the clock of the trace."""
    counters: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    """Names and units of counters that no packet interns."""
    primary: int = BOOTTIME
    base: tuple[int, int] | None = None
    """A moment on the clock of the trace, and since the epoch."""
    next_epoch: int = 1

    def begin(self, sequence: int) -> None:
        """A sequence clears what it had set."""
        self.epochs[sequence] = self.next_epoch
        self.valid.add(self.next_epoch)
        self.next_epoch += 1

    def epoch(self, sequence: int) -> int:
        """The epoch of a sequence, which may never have been cleared."""
        if sequence not in self.epochs:
            self.epochs[sequence] = self.next_epoch
            self.next_epoch += 1
        return self.epochs[sequence]

    def forget(self) -> None:
        """Drop what belongs to epochs that have ended."""
        current = set(self.epochs.values())
        for by_epoch in (self.interned, self.default_tracks, self.default_clocks):
            for epoch in by_epoch.keys() - current:
                del by_epoch[epoch]
        self.valid &= current

    def values(self, kind: str, epoch: Ints, iid: Ints) -> list[Any]:
        """What was interned by these numbers; None where nothing was."""
        pairs, place = distinct_rows(epoch, iid)
        nothing: Mapping[str, Mapping[int, Any]] = {}
        looked_up = [self.interned.get(e, nothing).get(kind, {}).get(i) for e, i in pairs.tolist()]
        result = np.empty(len(looked_up), object)
        result[:] = looked_up
        values: list[Any] = result[place].tolist()
        return values

    def texts(self, kind: str, epoch: Ints, iid: Ints) -> list[str | None]:
        """Texts that were interned by these numbers."""
        return self.values(kind, epoch, iid)

    def intern(self, epoch: int, data: Any) -> None:
        """Add what a packet interns."""
        own = self.interned.setdefault(epoch, {})
        for kind in _TEXTS:
            entries = getattr(data, kind)
            if entries:
                own.setdefault(kind, {}).update((e.iid, _text(e)) for e in entries)
        for kind, entries in (
            (
                "gpu_specifications",
                [(e.iid, (e.name, e.category)) for e in data.gpu_specifications],
            ),
            ("graphics_contexts", [(e.iid, e.pid) for e in data.graphics_contexts]),
            ("gpu_counter_descriptors", [(e.iid, e) for e in data.gpu_counter_descriptors]),
        ):
            if entries:
                own.setdefault(kind, {}).update(entries)

    def describe(self, descriptor: Any) -> None:
        """Add a track, or what is new of one."""
        track = self.tracks.setdefault(descriptor.uuid, Track())
        if descriptor.parent_uuid:
            track.parent = descriptor.parent_uuid
        track.name = descriptor.name or descriptor.static_name or track.name
        if descriptor.HasField("process"):
            track.pid, track.is_process = descriptor.process.pid, True
            track.process_name = descriptor.process.process_name or track.process_name
        if descriptor.HasField("thread"):
            track.pid, track.tid = descriptor.thread.pid, descriptor.thread.tid
            track.thread_name = descriptor.thread.thread_name or track.thread_name
        if descriptor.HasField("counter"):
            counter = descriptor.counter
            units = {1: "ns", 2: "count", 3: "bytes"}
            track.unit = counter.unit_name or units.get(counter.unit)
            track.multiplier = counter.unit_multiplier or 1
            track.is_incremental = counter.is_incremental

    def snapshot(self, sequence: int, snapshot: Any) -> None:
        """Take the times of several clocks at one moment."""
        if snapshot.primary_trace_clock:
            self.primary = snapshot.primary_trace_clock
        of_machine = {c.clock_id: c.timestamp for c in snapshot.clocks}
        main = of_machine.get(self.primary)
        if main is None:
            return
        for clock in snapshot.clocks:
            unit = clock.unit_multiplier_ns or 1
            if _FIRST_OWN_CLOCK <= clock.clock_id < _END_OF_OWN_CLOCKS:
                zero = main if clock.is_incremental else main - clock.timestamp * unit
                own = Clock(zero, clock.is_incremental, unit)
                self.own_clocks[sequence, clock.clock_id] = own
            else:
                self.offsets[clock.clock_id] = main - clock.timestamp
        if self.base is None and REALTIME in of_machine:
            self.base = main, of_machine[REALTIME]


def _text(entry: Any) -> str:
    if hasattr(entry, "name"):
        return str(entry.name)
    return bytes(entry.str).decode("utf-8", "replace")
