"""Sequence state that packets set for later ones: interned texts, tracks, clocks, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from profframe.intervals import Ints
from profframe.readers.perfetto.exported import Exported
from profframe.readers.perfetto.wire import distinct_rows

BOOTTIME: Final = 6
MONOTONIC: Final = 3
REALTIME: Final = 1
_FIRST_OWN_CLOCK: Final = 64
"""Clocks from this one up to 127 belong to one sequence."""
_END_OF_OWN_CLOCKS: Final = 128
_NO_TIME: Final = 1 << 62
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
    line: tuple[str | None, str | None] | None = None
    """Process and thread, as profframe writes them."""


@dataclass(slots=True)
class Clock:
    """How a clock counts, and its position on the clock of the trace."""

    last: int
    """Time of the trace at the last event, if it counts from there; else at the clock's zero."""
    is_incremental: bool = False
    unit_ns: int = 1


@dataclass(slots=True)
class Thread:
    """The thread of a sequence whose events are on no track, and the last of their times."""

    pid: int
    tid: int
    name: str | None
    last_ns: int


@dataclass(slots=True)
class State:
    """All state. An epoch is a part of a sequence, from one clearing of its state to the next."""

    interned: dict[int, dict[str, dict[int, Any]]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """The epoch that each sequence is in."""
    valid: set[int] = field(default_factory=set)
    """Epochs that began with a clearing and lost no packet."""
    tracks: dict[int, Track] = field(default_factory=dict)
    default_tracks: dict[int, int] = field(default_factory=dict)
    """By epoch."""
    default_clocks: dict[int, int] = field(default_factory=dict)
    extra_tracks: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    """By epoch, the counters of integers, and of other numbers, that events have values of."""
    own_clocks: dict[tuple[int, int], Clock] = field(default_factory=dict)
    """By sequence and clock."""
    clocks: dict[int, Clock] = field(default_factory=dict)
    """Clocks of the machine."""
    threads: dict[int, Thread] = field(default_factory=dict)
    """By epoch, as older writers describe them."""
    stages: dict[int, tuple[list[str], list[str]]] = field(default_factory=dict)
    """By sequence, the names of queues and stages in older files; 0 has the last ones."""
    counters: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    """Names and units of counters that no packet interns."""
    primary: int = BOOTTIME
    base: tuple[int, int] | None = None
    """A moment on the clock of the trace, and since the epoch."""
    zero: int | None = None
    """What is subtracted from times on the clock of the trace, once rows have been made."""
    lost_texts: int = 0
    """Number of references to texts that do not exist."""
    non_finite: int = 0
    """Number of values that are not a number, or infinite."""
    next_epoch: int = 1
    exported: Exported | None = None
    """What a file of profframe says of itself."""

    def origin(self) -> int:
        """The moment from which times in rows count: the base, if it came before them."""
        if self.zero is None:
            self.zero = self.base[0] if self.base else 0
        return self.zero

    def base_ns(self) -> int | None:
        """Time since the epoch at the origin."""
        return self.base[1] - self.base[0] + self.origin() if self.base else None

    def begin(self, sequence: int) -> None:
        """A sequence clears what it had set."""
        self.epochs[sequence] = self.next_epoch
        self.valid.add(self.next_epoch)
        self.next_epoch += 1

    def lose(self, sequence: int) -> None:
        """Packets of a sequence are lost: some of them may have set its state."""
        clocks = [c for c in self.own_clocks if c[0] == sequence]
        for own in clocks:
            if self.own_clocks[own].is_incremental:
                del self.own_clocks[own]
        self.epochs.pop(sequence, None)

    def epoch(self, sequence: int) -> int:
        """The epoch of a sequence, which may never have been cleared."""
        if sequence not in self.epochs:
            self.epochs[sequence] = self.next_epoch
            self.next_epoch += 1
        return self.epochs[sequence]

    def forget(self) -> None:
        """Drop what belongs to epochs that have ended."""
        current = set(self.epochs.values())
        epochs: tuple[dict[int, Any], ...] = (
            self.interned, self.default_tracks, self.default_clocks, self.threads,
            self.extra_tracks,
        )  # fmt: skip
        for by_epoch in epochs:
            for epoch in by_epoch.keys() - current:
                del by_epoch[epoch]
        self.valid &= current

    def values(self, kind: str, epoch: Ints, iid: Ints) -> list[Any]:
        """Interned values of these numbers; None where there are none."""
        pairs, place = distinct_rows(epoch, iid)
        nothing: Mapping[str, Mapping[int, Any]] = {}
        looked_up = [self.interned.get(e, nothing).get(kind, {}).get(i) for e, i in pairs.tolist()]
        result = np.empty(len(looked_up), object)
        result[:] = looked_up
        values: list[Any] = result[place].tolist()
        return values

    def texts(self, kind: str, epoch: Ints, iid: Ints) -> list[str | None]:
        """Texts that were interned under these numbers."""
        return self.values(kind, epoch, iid)

    def intern(self, epoch: int, data: Any) -> None:
        """Add what a packet interns."""
        own = self.interned.setdefault(epoch, {})
        for kind in _TEXTS:
            entries = getattr(data, kind)
            if entries:
                own.setdefault(kind, {}).update(
                    (e.iid, plain_text(e.name if hasattr(e, "name") else e.str)) for e in entries
                )
        for kind, entries in (
            (
                "gpu_specifications",
                [(e.iid, (plain_text(e.name), e.category)) for e in data.gpu_specifications],
            ),
            ("graphics_contexts", [(e.iid, e.pid) for e in data.graphics_contexts]),
            ("gpu_counter_descriptors", [(e.iid, e) for e in data.gpu_counter_descriptors]),
        ):
            if entries:
                own.setdefault(kind, {}).update(entries)

    def describe(self, descriptor: Any, line: tuple[str | None, str | None] | None = None) -> None:
        """Add a track, or what is new in its description."""
        track = self.tracks.setdefault(descriptor.uuid, Track())
        track.line = line or track.line
        if descriptor.parent_uuid:
            track.parent = descriptor.parent_uuid
        own_name = descriptor.name or descriptor.static_name or descriptor.atrace_name
        track.name = plain_text(own_name) or track.name
        if descriptor.HasField("process"):
            track.pid, track.is_process = descriptor.process.pid, True
            track.process_name = _process_name(descriptor.process) or track.process_name
        if descriptor.HasField("thread"):
            track.pid, track.tid = descriptor.thread.pid, descriptor.thread.tid
            track.thread_name = plain_text(descriptor.thread.thread_name) or track.thread_name
        if descriptor.HasField("counter"):
            counter = descriptor.counter
            units = {1: "ns", 2: "count", 3: "bytes"}
            track.unit = plain_text(counter.unit_name) or units.get(counter.unit)
            track.multiplier = counter.unit_multiplier or 1
            track.is_incremental = counter.is_incremental

    def describe_thread(self, epoch: int, descriptor: Any) -> None:
        """Take the thread of a sequence, for its events that name no track."""
        reference = descriptor.reference_timestamp_us * 1000
        monotonic = self.clocks.get(MONOTONIC)
        self.threads[epoch] = Thread(
            descriptor.pid,
            descriptor.tid,
            plain_text(descriptor.thread_name) or None,
            reference + (monotonic.last if monotonic else 0),
        )

    def describe_process(self, descriptor: Any) -> None:
        """Take the name of a process that has no track."""
        if name := _process_name(descriptor):
            # Ids of tracks are positive.
            own = self.tracks.setdefault(-1 - descriptor.pid, Track())
            own.pid, own.is_process, own.process_name = descriptor.pid, True, name

    def snapshot(self, sequence: int, snapshot: Any) -> None:
        """Take the times of several clocks at one moment.

        Raises
        ------
        OverflowError
            One is beyond what can be a time.
        """
        if any(c.timestamp * (c.unit_multiplier_ns or 1) >= _NO_TIME for c in snapshot.clocks):
            raise OverflowError
        if snapshot.primary_trace_clock:
            self.primary = snapshot.primary_trace_clock
        of_machine = {c.clock_id: c.timestamp for c in snapshot.clocks}
        main = self._moment(sequence, snapshot.clocks, of_machine)
        if main is None:
            return
        for clock in snapshot.clocks:
            unit = clock.unit_multiplier_ns or 1
            zero = main if clock.is_incremental else main - clock.timestamp * unit
            own = Clock(zero, clock.is_incremental, unit)
            if _FIRST_OWN_CLOCK <= clock.clock_id < _END_OF_OWN_CLOCKS:
                self.own_clocks[sequence, clock.clock_id] = own
            else:
                self.clocks[clock.clock_id] = own
        if self.base is None and REALTIME in of_machine:
            self.base = main, of_machine[REALTIME]

    def _moment(self, sequence: int, clocks: Any, of_machine: dict[int, int]) -> int | None:
        """The moment of a snapshot on the clock of the trace; None if it cannot be known."""
        if self.primary in of_machine:
            return int(of_machine[self.primary])
        for clock in clocks:
            earlier = self.clock(sequence, clock.clock_id)
            if earlier is not None and not earlier.is_incremental:
                return earlier.last + int(clock.timestamp) * earlier.unit_ns
        # A trace without the usual clock uses the first one that it has.
        first = next((c for c in clocks if 0 < c.clock_id < _FIRST_OWN_CLOCK), None)
        if first is None or self.clocks:
            return None
        self.primary = first.clock_id
        return int(first.timestamp)

    def clock(self, sequence: int, number: int) -> Clock | None:
        """A clock of the sequence or of the machine; None if no snapshot has it."""
        return self.own_clocks.get((sequence, number)) or self.clocks.get(number)


def plain_text(value: str | bytes) -> str:
    """Text of a message, which the library returns as bytes if it is not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _process_name(process: Any) -> str:
    return plain_text(process.process_name or (process.cmdline[0] if process.cmdline else ""))
