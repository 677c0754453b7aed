"""Packets of events, a batch of rows at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.export.lines.overlap_lanes import Lanes
from profframe.export.pftrace import wire
from profframe.export.pftrace.arguments import Members, debug_annotations, members, numbers_in
from profframe.export.pftrace.interning import ARGUMENT, CATEGORY, NAME, Interned
from profframe.export.pftrace.tracks import LABELS, UNENDED, Key, Tracks
from profframe.export.pftrace.wire import Message, lengths, message, numbers
from profframe.intervals import Ints, Mask
from profframe.readers.perfetto import exported

_PACKET: Final = 1
_SEQUENCE: Final = 10
_ONLY: Final = 1
"""Number of the one sequence of packets."""
_FLAGS: Final = 13
_CLEARED: Final = 1
_NEEDS_STATE: Final = 2
_TIME: Final = 8
_EVENT: Final = 11
_INTERNED: Final = 12
_DESCRIPTOR: Final = 60
_METADATA: Final = 5
_CLOCKS: Final = 6
_BOOTTIME: Final = 6
_REALTIME: Final = 1

_TYPE: Final = 9
_BEGIN: Final = 1
_END: Final = 2
_INSTANT: Final = 3
_COUNTER: Final = 4
_TRACK: Final = 11
_CATEGORY_IID: Final = 3
_NAME_IID: Final = 10
_ANNOTATION: Final = 4
_LEGACY: Final = 6
_LEGACY_PHASE: Final = 2
_LEGACY_ID: Final = 6
_LEGACY_BIND_ID: Final = 8
_LEGACY_ENCLOSING: Final = 12
_LEGACY_DIRECTION: Final = 13
_VALUE: Final = 44
_LEGACY_PHASES: Final = ("s", "t", "f", "b", "e", "n")
"""Phases that viewers know only in the words of Chrome's JSON."""
_WHOLE: Final = "args"
"""Name of an annotation with arguments that are not an object."""


@dataclass(slots=True)
class PacketWriter:
    """Makes the packets of a file.

    Attributes
    ----------
    zero_ns
        The moment that times in the file count from.
    """

    zero_ns: int
    tracks: Tracks = field(default_factory=Tracks)
    interned: Interned = field(default_factory=Interned)

    def opening(self, *, is_utc: bool) -> bytes:
        """The first packets: the state of the clock."""
        first = _packet((_SEQUENCE, _ONLY), (_FLAGS, _CLEARED))
        if not is_utc:
            return first
        clocks = [(_BOOTTIME, 0), (_REALTIME, self.zero_ns)]
        snapshot = message(*((1, message((1, clock), (2, ns))) for clock, ns in clocks))
        return first + _packet((_CLOCKS, snapshot), (_SEQUENCE, _ONLY))

    @staticmethod
    def metadata(members_: dict[str, str]) -> bytes:
        """A packet with members around events, which are JSON text."""
        entries = ((2, message((1, name), (5, text))) for name, text in members_.items())
        return _packet((_METADATA, message(*entries)), (_SEQUENCE, _ONLY))

    def ends(self, ends: pa.RecordBatch) -> Iterator[memoryview | bytes]:
        """Ends of slices, which come first, so that none closes a slice that begins at its time."""
        track = self.track_of(ends, ends["lane"].to_numpy())
        yield self._news()
        yield self.closing(ends["end_ns"].to_numpy(), track)

    def events(self, rows: pa.RecordBatch, lanes: Lanes) -> Iterator[memoryview | bytes]:
        """All other packets of some rows."""
        if self.interned.is_full:
            self.interned.forget()
            yield _packet((_SEQUENCE, _ONLY), (_FLAGS, _CLEARED))
        is_label = pc.and_(
            pc.is_in(rows["phase"], pa.array(["M"])), pc.is_in(rows["name"], pa.array([*LABELS]))
        )
        if is_label.true_count:
            yield self._labels(rows.filter(is_label))
            rows = rows.filter(pc.invert(is_label))
        if not len(rows):
            return
        encoded = _Encoded(self, rows, lanes)
        packets = encoded.packets()
        yield self._news()
        yield from packets

    def _labels(self, rows: pa.RecordBatch) -> bytes:
        labels = [
            {
                "name": row["name"],
                "pid": row["pid"],
                "tid": row["tid"],
                "args": json.loads(row["args"] or "{}"),
            }
            for row in rows.to_pylist()
        ]
        return self.labels(labels)

    def labels(self, labels: list[dict[str, Any]]) -> bytes:
        """A packet with labels of processes and threads, also for those without a track."""
        self.tracks.label(labels)
        return self.metadata({exported.LABELS_KEY: json.dumps(labels)}) if labels else b""

    def _news(self) -> bytes:
        """Packets for what the next ones refer to."""
        described = [
            _packet((_DESCRIPTOR, text), (_SEQUENCE, _ONLY)) for text in self.tracks.take()
        ]
        interned = self.interned.take()
        if interned is not None:
            described.append(
                _packet((_SEQUENCE, _ONLY), (_FLAGS, _NEEDS_STATE), (_INTERNED, interned))
            )
        return b"".join(described)

    def closing(self, times: Ints, track: Ints) -> memoryview:
        """Packets that end slices."""
        return wire.contents(wire.joined(self.packed(times, None, _end(track))))

    def packed(self, times: Ints, has_time: Mask | None, event: Message) -> Message:
        """Packets of track events."""
        sequence = message((_SEQUENCE, _ONLY), (_FLAGS, _NEEDS_STATE))
        packet = [
            *numbers(_TIME, times - self.zero_ns, has_time),
            *wire.constant(sequence, times.size),
            *lengths(_EVENT, event),
        ]
        return lengths(_PACKET, packet)

    def track_of(self, rows: pa.RecordBatch, lane: Ints) -> Ints:
        """The track of each row, by process, thread and lane."""
        pid, tid = (rows[name].dictionary_encode() for name in ("pid", "tid"))
        width = len(tid.dictionary) + 1
        code = _codes(pid) * width + _codes(tid)
        distinct, place = np.unique(code * (UNENDED + 1) + lane, return_inverse=True)
        pids, tids = ([None, *column.dictionary.to_pylist()] for column in (pid, tid))
        uuids = [
            self.tracks.number(
                Key(pids[both // (UNENDED + 1) // width], tids[both // (UNENDED + 1) % width],
                    both % (UNENDED + 1))
            )
            for both in distinct.tolist()
        ]  # fmt: skip
        return np.array(uuids, np.int64)[place]


class _Encoded:
    """A batch of encoded rows."""

    def __init__(self, file: PacketWriter, rows: pa.RecordBatch, lanes: Lanes) -> None:
        self.file, self.rows, self.lanes = file, rows, lanes
        self.count = len(rows)
        self.phase = rows["phase"]

    def packets(self) -> list[memoryview | bytes]:
        """The packets of all rows."""
        is_slice = self._is("X")
        is_counter = self._is("C")
        is_unended = self._is("B") | (is_slice & ~_has(self.rows["dur_ns"]))
        lane = np.where(is_unended, UNENDED, self.lanes.of_slices(self.rows["number"], self.count))
        is_arrow = self._is("s", "t", "f")
        if is_arrow.any() and self.lanes.number.size:
            lane = np.where(is_arrow, self.lanes.of_arrows(self.rows), lane)
        track = self.file.track_of(self.rows, lane)
        kind = np.full(self.count, _INSTANT, np.int64)
        kind[is_slice | is_unended] = _BEGIN
        is_legacy = self._is(*_LEGACY_PHASES)
        kind[is_legacy] = 0
        arguments = members(self.rows["args"])
        values: list[memoryview | bytes] = []
        counted: Message = []
        if is_counter.any():
            track, kind, counted, values = self._counters(arguments, is_counter, track, kind)
        event = [
            *numbers(_TYPE, kind, kind > 0),
            *numbers(_TRACK, track),
            *self._named(CATEGORY, "category", _CATEGORY_IID),
            *self._named(NAME, "name", _NAME_IID),
            *self._annotations(arguments, is_counter),
            *self._legacy(is_legacy),
            *counted,
            *lengths(exported.EVENT_KEY, self._own(arguments, is_slice, is_counter)),
        ]
        times, has_time = self._times()
        packets = self.file.packed(times, has_time, event)
        before, packets = self._with_ends(packets, times, is_slice, track)
        return [*before, wire.contents(wire.joined(packets)), *values]

    def _with_ends(
        self, packets: Message, times: Ints, is_slice: Mask, track: Ints
    ) -> tuple[list[memoryview], Message]:
        """Ends that did not come first: of slices without length, and of added ones."""
        duration = pc.fill_null(self.rows["dur_ns"], -1).to_numpy()
        has_time = _has(self.rows["time_ns"])
        is_point = is_slice & (duration == 0) & has_time
        if is_point.any():
            at = np.flatnonzero(is_point)
            ends = wire.joined(self.file.packed(times[at], None, _end(track[at])))
            packets = [*packets, wire.spread(ends, at, self.count)]
        is_added = is_slice & (duration > 0) & has_time & ~_has(self.rows["number"])
        if not is_added.any():
            return [], packets
        return [self.file.closing((times + duration)[is_added], track[is_added])], packets

    def _times(self) -> tuple[Ints, Mask]:
        has_time = _has(self.rows["time_ns"])
        return pc.fill_null(self.rows["time_ns"], self.file.zero_ns).to_numpy(), has_time

    def _is(self, *phases: str) -> Mask:
        return _flags(pc.is_in(self.phase, pa.array(phases)))

    def _named(self, kind: int, column: str, field_: int) -> Message:
        iid = self.file.interned.numbers(kind, self.rows[column])
        return numbers(field_, iid, iid > 0)

    def _annotations(self, arguments: Members, is_counter: Mask) -> Message:
        iids = self.file.interned.numbers(ARGUMENT, arguments.names.cast(pa.large_string()))
        each = wire.joined(lengths(_ANNOTATION, debug_annotations(arguments, iids)))
        first = np.searchsorted(arguments.owner, np.arange(self.count + 1))
        shown = [wire.grouped(each, first)]
        is_whole = _has(self.rows["args"]) & ~arguments.are_whole & ~is_counter
        if not is_whole.any():
            return shown
        at = np.flatnonzero(is_whole)
        iid = self.file.interned.numbers(ARGUMENT, pa.array([_WHOLE]))
        text = wire.texts(self.rows["args"].take(pa.array(at)))
        whole = [*numbers(1, np.repeat(iid, at.size)), *lengths(9, [text])]
        whole = lengths(_ANNOTATION, whole)
        return [*shown, wire.spread(wire.joined(whole), at, self.count)]

    def _own(self, arguments: Members, is_slice: Mask, is_counter: Mask) -> Message:
        """Fields that only profframe reads."""
        rows = self.rows
        duration = pc.fill_null(rows["dur_ns"], 0).to_numpy()
        parts = numbers(exported.DURATION, duration, _has(rows["dur_ns"]))
        if not is_slice.all():
            parts += self._text(exported.PHASE, self.phase, ~is_slice)
        for column, number in (
            ("id", exported.ID),
            ("scope", exported.SCOPE),
            ("binding_point", exported.BINDING_POINT),
            ("bind_id", exported.BIND_ID),
        ):
            if rows[column].null_count < self.count:
                parts += self._text(number, rows[column], None)
        if rows["bind_id"].null_count < self.count:
            direction = self._direction()
            parts += numbers(exported.DIRECTION, direction, direction > 0)
        size = np.bincount(arguments.owner, minlength=self.count)
        has_text = _has(rows["args"]) & (~arguments.are_whole | (size == 0) | is_counter)
        if has_text.any():
            parts += self._text(exported.ARGS, rows["args"], has_text)
        return parts

    @staticmethod
    def _text(number: int, column: pa.Array, chosen: Mask | None) -> Message:
        mask = _has(column) if chosen is None else chosen & _has(column)
        kept = pc.if_else(pa.array(mask), column, pa.scalar(None, column.type))
        return lengths(number, [wire.texts(kept)], mask)

    def _direction(self) -> Ints:
        comes, goes = (_flags(self.rows[name]) for name in ("flow_in", "flow_out"))
        return comes.astype(np.int64) | goes.astype(np.int64) << 1

    def _legacy(self, is_legacy: Mask) -> Message:
        """Legacy fields, as Chrome's JSON has them: arrows, and operations with ids."""
        at = np.flatnonzero(is_legacy)
        bound = np.flatnonzero(_has(self.rows["bind_id"]))
        shown: Message = []
        if at.size:
            chosen = pa.array(at)
            phases = self.phase.take(chosen).dictionary_encode()
            codes = np.array([ord(text) for text in phases.dictionary.to_pylist()], np.int64)
            points = pc.equal(self.rows["binding_point"].take(chosen), "e")
            ids = self.rows["id"].take(chosen)
            inside = [
                *numbers(_LEGACY_PHASE, codes[phases.indices.to_numpy()]),
                *numbers(_LEGACY_ID, hashes(ids), _has(ids)),
                *numbers(_LEGACY_ENCLOSING, np.ones(at.size, np.int64), _flags(points)),
            ]
            shown.append(wire.spread(wire.joined(lengths(_LEGACY, inside)), at, self.count))
        if bound.size:
            of_slices = [
                *numbers(_LEGACY_BIND_ID, hashes(self.rows["bind_id"].take(pa.array(bound)))),
                *numbers(_LEGACY_DIRECTION, self._direction()[bound]),
            ]
            arrows = wire.joined(lengths(_LEGACY, of_slices))
            shown.append(wire.spread(arrows, bound, self.count))
        return shown

    def _counters(
        self, arguments: Members, is_counter: Mask, track: Ints, kind: Ints
    ) -> tuple[Ints, Ints, Message, list[memoryview | bytes]]:
        """Values of counters: the first of a row is in its packet, others in separate packets."""
        at, values = numbers_in(arguments)
        chosen = is_counter[arguments.owner[at]]
        at, values = at[chosen], values[chosen]
        owner = arguments.owner[at]
        frame = pl.DataFrame(
            {
                **{
                    name: self.rows[name].take(pa.array(owner))
                    for name in ("pid", "tid", "name", "id")
                },
                "series": arguments.names.take(pa.array(at)).cast(pa.large_string()),
            }
        )
        distinct = frame.unique(maintain_order=True).with_row_index("place")
        place = frame.join(distinct, on=frame.columns, nulls_equal=True, maintain_order="left")
        uuids = np.array(
            [
                self.file.tracks.number(
                    Key(pid, tid, 0, json.dumps([name, id_, series]),
                        " ".join(text for text in (name, series) if text) or "counter")
                )
                for pid, tid, name, id_, series in frame.unique(maintain_order=True).rows()
            ],
            np.int64,
        )  # fmt: skip
        uuid = uuids[place["place"].to_numpy()] if owner.size else np.empty(0, np.int64)
        is_first = np.diff(owner, prepend=-1) != 0
        track, kind = track.copy(), kind.copy()
        track[owner[is_first]], kind[owner[is_first]] = uuid[is_first], _COUNTER
        firsts = wire.joined(wire.doubles(_VALUE, values[is_first]))
        own_value = [wire.spread(firsts, owner[is_first], self.count)]
        rest = np.flatnonzero(~is_first)
        others: list[memoryview | bytes] = []
        if rest.size:
            event = [
                *wire.constant(message((_TYPE, _COUNTER)), rest.size),
                *numbers(_TRACK, uuid[rest]),
                *wire.doubles(_VALUE, values[rest]),
            ]
            times, has_time = self._times()
            packets = self.file.packed(times[owner[rest]], has_time[owner[rest]], event)
            others.append(wire.contents(wire.joined(packets)))
        return track, kind, own_value, others


def hashes(ids: pa.Array) -> Ints:
    """Ids as numbers: ids that are numbers stay, other texts get a number beyond these."""
    is_number = pc.fill_null(pc.match_substring_regex(ids, r"^[0-9]{1,18}$"), fill_value=False)
    plain = pc.if_else(is_number, ids, "0").cast(pa.int64()).to_numpy()
    hashed = pl.Series(ids.cast(pa.large_string())).hash().to_numpy().view(np.int64)
    beyond: Ints = hashed | np.int64(-1 << 63)
    shown: Ints = np.where(_flags(is_number), plain, beyond)
    return shown


def _packet(*fields: tuple[int, int | str | bytes | None]) -> bytes:
    return message((_PACKET, message(*fields)))


def _has(values: pa.Array) -> Mask:
    mask: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _end(track: Ints) -> Message:
    return [*wire.constant(message((_TYPE, _END)), track.size), *numbers(_TRACK, track)]


def _flags(values: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(values, fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def _codes(column: pa.DictionaryArray) -> Ints:
    """Codes of a column from 1 on; 0 is NULL."""
    codes: Ints = pc.fill_null(column.indices, -1).to_numpy().astype(np.int64) + 1
    return codes
