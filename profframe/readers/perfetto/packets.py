"""Packets of a Perfetto trace: their content and times, and the state set by earlier ones."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from profframe.errors import MissingExtraError, SourceError
from profframe.intervals import Ints, Mask
from profframe.readers.chrome.reading import base_of
from profframe.readers.perfetto import exported
from profframe.readers.perfetto.state import MONOTONIC, State, plain_text
from profframe.readers.perfetto.wire import (
    LENGTH,
    Bytes,
    Fields,
    Framing,
    distinct_rows,
    fields,
)

TRACK_EVENT: Final = 11
GPU_COUNTERS: Final = 52
RENDER_STAGE: Final = 53
_TIMESTAMP: Final = 8
_CLOCK: Final = 58
_SEQUENCE: Final = 10
_FLAGS: Final = 13
_CLEARED: Final = 41
_LOST: Final = 42
_SNAPSHOT: Final = 6
_INTERNED: Final = 12
_DEFAULTS: Final = 59
_DESCRIPTOR: Final = 60
_PROCESS: Final = 43
_THREAD: Final = 44
_COMPRESSED: Final = 50
_COMPRESSED_ZSTD: Final = 133
_METADATA: Final = 5
_SETTING: Final = (_INTERNED, _DEFAULTS, _DESCRIPTOR, _PROCESS, _THREAD, _METADATA)
_NEEDS_STATE: Final = 2
"""Flag of packets that mean nothing without the earlier state of their sequence."""
_OF_ALL: Final = (
    "timestamp", "timestamp_clock_id", "trusted_packet_sequence_id", "sequence_flags",
    "incremental_state_cleared", "previous_packet_dropped", "clock_snapshot", "interned_data",
    "trace_packet_defaults", "track_descriptor", "compressed_packets", "zstd_compressed_packets",
    "first_packet_on_sequence", "trusted_uid", "trusted_pid", "machine_id",
    "track_event", "gpu_counter_event", "gpu_render_stage_event",
    # These only say how the trace was made.
    "trace_config", "trace_stats", "trace_uuid", "service_event", "synchronization_marker",
    "system_info", "trigger", "process_descriptor", "thread_descriptor", "extension_descriptor",
    "trace_provenance", "trace_attributes", "gpu_info", "cpu_info",
)  # fmt: skip
_CHUNK: Final = 4 << 20
_MOST_DECOMPRESSED: Final = 256 << 20
"""Maximum bytes that one packet of compressed packets may become."""
_ALWAYS_PARTS: Final = 1 << 11
_BYTES_OF_A_PART: Final = 1 << 9
"""Bytes of the file for each part that clocks, losses or compression cut it into."""
_KERNELS_MARK: Final = b"\xc2\x3e"
_ARGUMENTS_MARK: Final = b"\xca\x3e"
"""Tags of interned data that the library does not know: kernels, and names of arguments."""
_EXTENSIONS: Final = {1000: "compute_kernels", 1001: "compute_arguments"}


def messages() -> ModuleType:
    """The classes of the messages.

    Raises
    ------
    MissingExtraError
        They are not installed.
    """
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError as error:
        raise MissingExtraError(
            "Perfetto traces need an extra: pip install 'profframe[perfetto]'"
        ) from error
    module: ModuleType = perfetto_trace_pb2
    return module


@dataclass(frozen=True, slots=True)
class Packets:
    """Some consecutive packets, and for each its time, sequence and epoch.

    ``monotonic`` is where the monotonic clock is zero, for the times in events of older writers.
    """

    buffer: Bytes
    fields: Fields
    count: int
    time: Ints
    lacks_time: Mask
    sequence: Ints
    epoch: Ints
    monotonic: Ints

    def of(self, number: int) -> Fields:
        """Values of a field of the packets; ``owner`` is the packet."""
        return self.fields.of(number, LENGTH)


def joined(parts: Iterable[Packets]) -> Iterator[Packets]:
    """Packets in fewer parts: a pass over events has a fixed cost, however few there are.

    Without this, a file could force any number of passes: clocks and compressed packets begin new
    parts.
    """
    group: list[Packets] = []
    size = 0
    for part in parts:
        more = 0 if any(part.buffer is one.buffer for one in group[-2:]) else part.buffer.size
        if group and size + more > 2 * _CHUNK:
            yield _joined(group)
            group, size, more = [], 0, part.buffer.size
        group.append(part)
        size += more
    if group:
        yield _joined(group)


def _joined(group: Sequence[Packets]) -> Packets:
    """Packets as one part; its buffer is the concatenation of theirs."""
    if len(group) == 1:
        return group[0]
    buffers = {id(part.buffer): part.buffer for part in group}
    sizes = [buffer.size for buffer in buffers.values()]
    offsets = dict(zip(buffers, itertools.accumulate([0, *sizes]), strict=False))
    owners, values, first = [], [], 0
    for part in group:
        of = part.fields
        owners.append(of.owner + first)
        values.append(of.value + (of.wire == LENGTH) * offsets[id(part.buffer)])
        first += part.count
    number, wire, size = (
        np.concatenate([getattr(part.fields, name) for part in group])
        for name in ("number", "wire", "size")
    )
    fields_of_all = Fields(np.concatenate(owners), number, wire, np.concatenate(values), size)
    time, lacks_time, sequence, epoch, monotonic = (
        np.concatenate([getattr(part, name) for part in group])
        for name in ("time", "lacks_time", "sequence", "epoch", "monotonic")
    )
    buffer = np.concatenate([*buffers.values()]) if len(buffers) > 1 else group[0].buffer
    return Packets(buffer, fields_of_all, first, time, lacks_time, sequence, epoch, monotonic)


@dataclass(slots=True)
class Reading:
    """Reads the packets of a stream, in order."""

    state: State = field(default_factory=State)
    framing: Framing = field(default_factory=Framing)
    damaged: int = 0
    """Packets, or parts of them, that are not valid."""
    lost: int = 0
    """How often the recorder says that it has dropped packets."""
    passed: Counter[str] = field(default_factory=Counter)
    """Contents of packets that are not read, by name."""
    _seen: set[int] = field(default_factory=set)
    _parts: int = 0

    def packets(self, blocks: Iterator[bytes]) -> Iterator[Packets]:
        """All packets.

        Raises
        ------
        SourceError
            Compressed packets become too large, or clocks change too often.
        """
        protos = messages()
        for chunk in self.framing.chunks(blocks, _CHUNK):
            yield from joined(self._decoded(protos, *chunk))

    def _decoded(
        self,
        protos: ModuleType,
        buffer: Bytes,
        starts: Ints,
        ends: Ints,
        *,
        is_inside: bool = False,
    ) -> Iterator[Packets]:
        parts, damaged = fields(buffer, starts, ends)
        self.damaged += int(damaged.sum())
        cuts = np.zeros(starts.size, np.bool_)
        is_compressed = np.isin(parts.number, (_COMPRESSED, _COMPRESSED_ZSTD))
        compressed = parts.where(is_compressed & (parts.wire == LENGTH))
        if is_inside:  # packets are compressed once; a bomb is compressed more often
            self.damaged += compressed.owner.size
            compressed = compressed.where(np.zeros(compressed.owner.size, np.bool_))
        cuts[compressed.owner] = True
        # Clocks differ after a snapshot, and after a loss.
        is_cut = (parts.number == _SNAPSHOT) | ((parts.number == _LOST) & (parts.value != 0))
        cuts[parts.owner[is_cut]] = True
        bounds = np.unique([0, *np.flatnonzero(cuts).tolist(), starts.size])
        self._count_parts(bounds.size - 1)
        inside = dict(zip(compressed.owner.tolist(), range(compressed.owner.size), strict=True))
        for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            if (row := inside.get(first)) is not None:
                at, size = int(compressed.value[row]), int(compressed.size[row])
                packed = buffer[at : at + size].tobytes()
                plain = self._plain(packed, int(compressed.number[row]))
                framing = Framing()
                blocks = (plain[n : n + _CHUNK] for n in range(0, len(plain), _CHUNK))
                for chunk in framing.chunks(blocks, _CHUNK):
                    yield from self._decoded(protos, *chunk, is_inside=True)
                self.damaged += framing.damage is not None
            low, high = np.searchsorted(parts.owner, (first, end))
            shifted = Fields(
                parts.owner[low:high] - first,
                *(a[low:high] for a in (parts.number, parts.wire, parts.value, parts.size)),
            )
            yield self._timed(protos, buffer, shifted, end - first)

    def _count_parts(self, count: int) -> None:
        """Refuse more parts than a trace of this size has: each takes a millisecond."""
        self._parts += count
        most = _ALWAYS_PARTS + self.framing.position // _BYTES_OF_A_PART
        if self._parts > most:
            raise SourceError(
                f"more than {most:,} clock snapshots, losses and compressed packets in the first "
                f"{self.framing.position:,} bytes: no recorder writes so many"
            )

    def _plain(self, packed: bytes, number: int) -> bytes:
        try:
            if number == _COMPRESSED:
                stream = zlib.decompressobj()
                plain = stream.decompress(packed, _MOST_DECOMPRESSED)
                too_long = bool(stream.unconsumed_tail)
                self.damaged += not (stream.eof or too_long)
            else:
                reader = pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
                plain = reader.read(_MOST_DECOMPRESSED + 1)
                too_long = len(plain) > _MOST_DECOMPRESSED
        except (zlib.error, OSError):
            self.damaged += 1
            return b""
        if too_long:
            raise SourceError(
                f"a packet of compressed packets unpacks to more than {_MOST_DECOMPRESSED >> 20} MB"
            )
        return plain

    def _timed(self, protos: ModuleType, buffer: Bytes, parts: Fields, count: int) -> Packets:
        sequence = parts.numbers(_SEQUENCE, count) & 0xFFFFFFFF
        epoch, is_lacking = self._set(protos, buffer, parts, sequence, count)
        self._note(protos, parts)
        time, lacks_time = self._times(parts, sequence, epoch, is_lacking)
        clock = self.state.clocks.get(MONOTONIC)
        monotonic = np.full(count, clock.last if clock else 0)
        return Packets(buffer, parts, count, time, lacks_time, sequence, epoch, monotonic)

    def _set(
        self, protos: ModuleType, buffer: Bytes, parts: Fields, sequence: Ints, count: int
    ) -> tuple[Ints, Mask]:
        """Apply what packets set, one by one; the epoch of each, and whether it is complete."""
        from google.protobuf.message import DecodeError

        state = self.state
        flags = parts.numbers(_FLAGS, count)
        cleared = (flags & 1 != 0) | (parts.numbers(_CLEARED, count) != 0)
        lost = self._losses(parts, sequence, count)
        distinct, code = np.unique(sequence, return_inverse=True)
        # Changes of a sequence are neighbours, in the order of packets.
        stride = count + 1
        changes = [(n * stride, state.epoch(of)) for n, of in enumerate(distinct.tolist())]
        is_setting = np.isin(parts.number, (*_SETTING, _SNAPSHOT)) & (parts.wire == LENGTH)
        settings = parts.where(is_setting)
        by_packet: dict[int, list[int]] = {
            row: [] for row in np.flatnonzero(cleared | lost).tolist()
        }
        for place, row in enumerate(settings.owner.tolist()):
            by_packet.setdefault(row, []).append(place)
        for row in sorted(by_packet):
            of = int(sequence[row])
            if lost[row]:
                state.lose(of)
            if cleared[row]:
                state.begin(of)
            if lost[row] or cleared[row]:
                changes.append((int(code[row]) * stride + row + 1, state.epoch(of)))
            for place in by_packet[row]:
                at, size = int(settings.value[place]), int(settings.size[place])
                text = buffer[at : at + size].tobytes()
                try:
                    self._take(protos, int(settings.number[place]), text, of)
                except (DecodeError, UnicodeDecodeError, OverflowError):
                    self.damaged += 1
        changes.sort()
        keys, epochs = np.array(changes, np.int64).T
        at_packet = code * stride + np.arange(count) + 1
        epoch = epochs[np.searchsorted(keys, at_packet, side="right") - 1]
        is_lacking = (flags & _NEEDS_STATE != 0) & ~np.isin(epoch, list(state.valid))
        return epoch, is_lacking

    def _losses(self, parts: Fields, sequence: Ints, count: int) -> Mask:
        """Packets before which others of their sequence were dropped.

        The first packet of a sequence does not count: a recorder that does not know marks it, too.
        """
        lost = np.zeros(count, np.bool_)
        lost[parts.owner[(parts.number == _LOST) & (parts.value != 0)]] = True
        first = np.unique(sequence, return_index=True)
        is_new = ~np.isin(first[0], list(self._seen))
        lost[first[1][is_new]] = False
        self._seen.update(first[0].tolist())
        self.lost += int(lost.sum())
        return lost

    def _take(self, protos: ModuleType, number: int, text: bytes, sequence: int) -> None:
        state = self.state
        epoch = state.epoch(sequence)
        if number == _INTERNED:
            state.intern(epoch, protos.InternedData.FromString(text))
            self._take_extensions(epoch, text)
        elif number == _DESCRIPTOR:
            line = None if state.exported is None else exported.line_of(text)
            state.describe(protos.TrackDescriptor.FromString(text), line)
        elif number == _METADATA:
            self._take_metadata(protos.ChromeEventBundle.FromString(text))
        elif number == _SNAPSHOT:
            state.snapshot(sequence, protos.ClockSnapshot.FromString(text))
        elif number == _THREAD:
            state.describe_thread(epoch, protos.ThreadDescriptor.FromString(text))
        elif number == _PROCESS:
            state.describe_process(protos.ProcessDescriptor.FromString(text))
        elif number == _DEFAULTS:
            defaults = protos.TracePacketDefaults.FromString(text)
            of_events = defaults.track_event_defaults
            state.default_clocks[epoch] = defaults.timestamp_clock_id
            state.default_tracks[epoch] = of_events.track_uuid
            state.extra_tracks[epoch] = (
                list(of_events.extra_counter_track_uuids),
                list(of_events.extra_double_counter_track_uuids),
            )

    def _take_metadata(self, bundle: Any) -> None:
        """Take what a file from profframe says about itself."""
        members = {plain_text(e.name): plain_text(e.json_value) for e in bundle.metadata}
        state = self.state
        if state.exported is None:
            state.exported = exported.exported_of(members)
        if state.exported is not None:
            state.exported.take(members)
            if exported.ZERO_KEY in members:
                state.zero = base_of(state.exported.header) - state.exported.zero_ns

    def _take_extensions(self, epoch: int, text: bytes) -> None:
        if _KERNELS_MARK not in text and _ARGUMENTS_MARK not in text:
            return
        buffer = np.frombuffer(text + bytes(16), np.uint8)
        parts, damaged = fields(buffer, np.array([0]), np.array([len(text)]))
        self.damaged += int(damaged.sum())
        interned = self.state.interned.setdefault(epoch, {})
        for number, kind in _EXTENSIONS.items():
            entries = parts.of(number, LENGTH)
            inside, damaged = fields(buffer, entries.value, entries.value + entries.size)
            self.damaged += int(damaged.sum())
            iids = inside.numbers(1, entries.owner.size).tolist()
            for name in (2, 3):  # the demangled name is the second one, and is used
                names = inside.of(name, LENGTH)
                places = zip(
                    *(a.tolist() for a in (names.owner, names.value, names.size)), strict=True
                )
                interned.setdefault(kind, {}).update(
                    (iids[row], text[at : at + size].decode("utf-8", "replace"))
                    for row, at, size in places
                )

    def _note(self, protos: ModuleType, parts: Fields) -> None:
        """Count what is not read."""
        numbers, counts = np.unique(parts.number, return_counts=True)
        names = protos.TracePacket.DESCRIPTOR.fields_by_number
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            name = names[number].name if number in names else f"field {number}"
            if name not in _OF_ALL and (number != _METADATA or self.state.exported is None):
                self.passed[name] += count

    def _times(
        self, parts: Fields, sequence: Ints, epoch: Ints, is_lacking: Mask
    ) -> tuple[Ints, Mask]:
        """Times on the clock of the trace, and packets without one, or on an unknown clock."""
        state, count = self.state, sequence.size
        stamp = parts.numbers(_TIMESTAMP, count)
        clock = parts.numbers(_CLOCK, count)
        default = np.zeros(count, np.int64)
        for part in np.unique(epoch).tolist():
            default[epoch == part] = state.default_clocks.get(part, 0)
        # If the packet that names the clock is lost, a time may be on any clock.
        is_unknown = is_lacking & (clock == 0) & (default == 0)
        clock = np.where(clock == 0, default, clock)
        has_stamp = parts.has(_TIMESTAMP, count)
        time, is_bad = stamp.copy(), ~has_stamp | is_unknown
        is_other = (clock != 0) & (clock != state.primary) & ~is_bad
        rows = np.flatnonzero(is_other)
        if not rows.size:
            return time, is_bad
        pairs, place = distinct_rows(sequence[rows], clock[rows])
        for nth, (of, number) in enumerate(pairs.tolist()):
            own_rows = rows[place == nth]
            own_clock = state.clock(of, number)
            if own_clock is None:
                is_bad[own_rows] = True
                continue
            passed = stamp[own_rows] * own_clock.unit_ns
            if own_clock.is_incremental:
                time[own_rows] = own_clock.last + np.cumsum(passed)
                own_clock.last = int(time[own_rows[-1]])
            else:
                time[own_rows] = own_clock.last + passed
        return time, is_bad
