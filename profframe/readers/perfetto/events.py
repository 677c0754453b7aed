"""Track events: slices, instants, values of counters, and the arrows that they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints
from profframe.readers.build.row_tables import Batch, RowTable, conform
from profframe.readers.chrome.columns import batch_of
from profframe.readers.chrome.device_args import with_device_args
from profframe.readers.chrome.parsing import ARGS_TYPE
from profframe.readers.chrome.session import Session
from profframe.readers.perfetto import exported
from profframe.readers.perfetto.annotations import doubles, objects
from profframe.readers.perfetto.arrows import Arrows
from profframe.readers.perfetto.older_writers import legacy_members
from profframe.readers.perfetto.packets import TRACK_EVENT, Packets, messages
from profframe.readers.perfetto.rocm import (
    counter_of,
    kernel_names,
    with_launch_columns,
    with_rocm_columns,
)
from profframe.readers.perfetto.state import State
from profframe.readers.perfetto.tracks import TrackLines
from profframe.readers.perfetto.wire import (
    FIXED64,
    LENGTH,
    VARINT,
    Bytes,
    Fields,
    distinct_rows,
    fields,
    packed,
    texts,
)

_TYPE: Final = 9
_TRACK: Final = 11
_NAME_IID: Final = 10
_NAME: Final = 23
_CATEGORY_IIDS: Final = 3
_CATEGORIES: Final = 22
_ANNOTATIONS: Final = 4
_LEGACY: Final = 6
_DELTA_US: Final = 1
_ABSOLUTE_US: Final = 16
_EXTRA_COUNTERS: Final = ((31, 12), (45, 46))
"""Tracks and values of counters that any event may have: integers, and other numbers."""
_READ: Final = frozenset({
    3, 22, 10, 23, 9, 11, 30, 44, 31, 12, 45, 46, 36, 47, 42, 48, 4, 6, 1, 16, 3000,
    # Time and instructions of the thread itself.
    2, 17, 8, 20, exported.EVENT_KEY,
})  # fmt: skip
"""Fields of events that are read, or that no table has a place for."""
_READ_NUMBERS: Final = np.array(sorted(_READ))
_COUNTER_VALUE: Final = 30
_DOUBLE_COUNTER_VALUE: Final = 44
_FLOWS: Final = (47, 36)
_ENDING_FLOWS: Final = (48, 42)
_LAUNCHED: Final = 3000
"""What torch adds: the device work that a call launched, by the ids of its events."""
_COUNTER: Final = 4
_PHASES: Final = (None, "B", "E", "i", None)
"""By type of event."""
_OVERHEAD: Final = "Overhead"
"""Process of overhead, to which torch gives no category; nor to synchronisation."""
_SYNC_MARK: Final = '"cuda_sync_kind":'
_ARGS: Final = f"""
    SELECT members.*
    FROM (SELECT from_json(args, '{ARGS_TYPE}') AS members FROM arguments)"""  # noqa: S608


@dataclass(slots=True)
class Events:
    """Rows of track events; the counts cover all packets so far."""

    state: State
    lines: TrackLines
    arrows: Arrows
    session: Session
    damaged: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    """What events contain that is in no column and no argument."""

    def batches(self, packets: Packets) -> Iterator[Batch]:
        """Rows of the events in some packets."""
        rows = packets.of(TRACK_EVENT)
        if not rows.owner.size:
            return
        parts, damaged = fields(packets.buffer, rows.value, rows.value + rows.size)
        if damaged.any():
            self.damaged += int(damaged.sum())
            kept = np.flatnonzero(~damaged)
            # A damaged message has no fields, so the others only get other numbers.
            place = np.cumsum(~damaged) - 1
            parts = Fields(place[parts.owner], parts.number, parts.wire, parts.value, parts.size)
            rows = rows.where(kept)
        if self.state.exported is not None:
            rows, parts = _only_rows(rows, parts)
        if rows.owner.size:
            self._note(parts)
            yield from self._rows(packets, parts, rows.owner)

    def _note(self, parts: Fields) -> None:
        """Count what is not read."""
        numbers, counts = np.unique(
            parts.number[~np.isin(parts.number, _READ_NUMBERS)], return_counts=True
        )
        names = messages().TrackEvent.DESCRIPTOR.fields_by_number
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.unread[names[number].name if number in names else f"field {number}"] += count

    def _rows(self, packets: Packets, parts: Fields, rows: Ints) -> Iterator[Batch]:
        count = rows.size
        type_ = parts.numbers(_TYPE, count)
        type_ = np.where((type_ < 0) | (type_ > _COUNTER), 0, type_)
        epoch, sequence = packets.epoch[rows], packets.sequence[rows]
        tracks = self._tracks(parts, count, epoch)
        line, lines = self._lines(tracks, sequence, epoch)
        times, lacks_time = self._times(packets, parts, rows, epoch)
        time = pa.array(times - self.state.origin(), mask=lacks_time)
        names = self._texts(packets, parts, epoch, "event_names", _NAME, _NAME_IID)
        categories = self._texts(
            packets, parts, epoch, "event_categories", _CATEGORIES, _CATEGORY_IIDS
        )
        annotations = parts.of(_ANNOTATIONS, LENGTH)
        args, unread = objects(packets.buffer, annotations, count, self.state, epoch)
        if unread:
            self.unread["debug_annotations"] += unread
        common = {
            "pid": pa.array([pid for pid, _ in lines], pa.string()).take(line),
            "tid": pa.array([tid for _, tid in lines], pa.string()).take(line),
        }
        if self.state.exported is not None:
            shown = common | {"cat": categories, "name": names, "time_ns": time, "args": args}
            batch, damaged = exported.rows_of(
                packets.buffer, parts, shown, self.state.exported, self.session
            )
            self.damaged += damaged
            yield batch
            return
        yield from self._extra_counters(packets.buffer, parts, common, time, tracks, epoch)
        is_counter = type_ == _COUNTER
        if is_counter.any():
            values = self._values(parts, tracks, is_counter, count)
            yield self._counters(common, time, names, categories, tracks, is_counter, values)
        if is_counter.all():
            return
        shown = pa.array(_PHASES).take(pa.array(type_))
        members = common | {
            "ph": shown,
            "cat": _named_by_torch(categories, args, line, lines, self.lines),
            "name": kernel_names(names, categories),
            "time_ns": time,
            "args": with_rocm_columns(args, categories, names, line, lines),
        }
        members |= self._legacy(packets.buffer, parts, type_, members, epoch)
        mask = pa.array(~is_counter)
        own = {n: pc.filter(v, mask) for n, v in members.items()}
        yield with_launch_columns(event_rows(own, self.session))
        self._arrows(packets.buffer, parts, members)

    def _tracks(self, parts: Fields, count: int, epoch: Ints) -> Ints:
        """Track of each event: its own, else that of its sequence, else 0."""
        tracks = parts.numbers(_TRACK, count)
        defaults = self.state.default_tracks
        for own in np.unique(epoch).tolist() if defaults else ():
            tracks[(epoch == own) & (tracks == 0)] = _signed(defaults.get(own, 0))
        return tracks

    def _lines(self, tracks: Ints, sequence: Ints, epoch: Ints) -> tuple[pa.Array, list[Any]]:
        is_on_none = tracks == 0
        pairs, place = distinct_rows(
            tracks, np.where(is_on_none, sequence, 0), np.where(is_on_none, epoch, 0)
        )
        unsigned = pairs[:, 0].astype(np.uint64).tolist()
        own = zip(unsigned, *pairs[:, 1:].T.tolist(), strict=True)
        return pa.array(place), [self.lines.line(uuid, of, part) for uuid, of, part in own]

    def _times(
        self, packets: Packets, parts: Fields, places: Ints, epoch: Ints
    ) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Times of the packets, or for older writers those in the events themselves."""
        times, lacks_time = packets.time[places], packets.lacks_time[places]
        deltas, absolute = (parts.of(number, VARINT) for number in (_DELTA_US, _ABSOLUTE_US))
        if not deltas.owner.size and not absolute.owner.size:
            return times, lacks_time
        times[absolute.owner] = absolute.value * 1000 + packets.monotonic[places[absolute.owner]]
        lacks_time[absolute.owner] = False
        for part in np.unique(epoch[deltas.owner]).tolist():
            thread = self.state.threads.get(part)
            if thread is not None:
                rows = deltas.where(epoch[deltas.owner] == part)
                times[rows.owner] = thread.last_ns + np.cumsum(rows.value) * 1000
                thread.last_ns = int(times[rows.owner[-1]])
                lacks_time[rows.owner] = False
        return times, lacks_time

    def _extra_counters(  # noqa: PLR0917
        self,
        buffer: Bytes,
        parts: Fields,
        common: dict[str, pa.Array],
        time: pa.Array,
        tracks: Ints,
        epoch: Ints,
    ) -> Iterator[Batch]:
        """Values of counters that events have in addition."""
        for nth, (track_number, value_number) in enumerate(_EXTRA_COUNTERS):
            values = packed(buffer, parts.of(value_number, VARINT, FIXED64, LENGTH), width=8 * nth)
            if not values.owner.size:
                continue
            own = packed(buffer, parts.of(track_number, VARINT, LENGTH))
            place = _places(values.owner)
            of = np.zeros(values.owner.size, np.int64)
            has_own = np.bincount(own.owner, minlength=tracks.size)
            first = np.cumsum(has_own) - has_own
            mask = place < has_own[values.owner]
            of[mask] = own.value[(first[values.owner] + place)[mask]]
            for part in np.unique(epoch[values.owner]).tolist():
                default = np.array(
                    self.state.extra_tracks.get(part, ([], []))[nth], np.uint64
                ).view(np.int64)
                rows = np.flatnonzero(
                    (epoch[values.owner] == part)
                    & (has_own[values.owner] == 0)
                    & (place < default.size)
                )
                of[rows] = default[place[rows]]
            is_known = of != 0
            if lost := int((~is_known).sum()):
                self.unread["extra_counter_values"] += lost
            number = values.value.view(np.float64) if nth else values.value.astype(np.float64)
            chosen = np.flatnonzero(is_known)
            of, rows = of[chosen], values.owner[chosen]
            at = pa.array(rows)
            totals = self._totals(number[chosen].copy(), of, np.ones(of.size, np.bool_))
            nothing = pa.nulls(of.size, pa.string())
            chosen_common = {name: column.take(at) for name, column in common.items()}
            all_ = np.ones(of.size, np.bool_)
            yield self._counters(chosen_common, time.take(at), nothing, nothing, of, all_, totals)

    def _legacy(
        self,
        buffer: Bytes,
        parts: Fields,
        type_: Ints,
        members: dict[str, pa.Array],
        epoch: Ints,
    ) -> dict[str, pa.Array]:
        """Members of events that describe them like Chrome's JSON."""
        own = parts.of(_LEGACY, LENGTH)
        if not own.owner.size:
            return {}
        inside, damaged = fields(buffer, own.value, own.value + own.size)
        if damaged.any():
            self.unread["legacy_event"] += int(damaged.sum())
        return legacy_members(
            inside, own.owner, type_, members, partial(self._interned, epoch[own.owner]), buffer
        )

    def _interned(self, epoch: Ints, iids: Ints) -> list[str | None]:
        looked_up = self.state.texts("event_names", epoch, iids)
        self.state.lost_texts += int(
            sum(t is None for t, iid in zip(looked_up, iids.tolist(), strict=True) if iid)
        )
        return looked_up

    def _texts(  # noqa: PLR0917
        self, packets: Packets, parts: Fields, epoch: Ints, kind: str, plain: int, iid: int
    ) -> pa.Array:
        """Texts that are in the events, or that they refer to by number; several with commas."""
        count = epoch.size
        code = np.full(count, -1, np.int64)
        own = parts.of(plain, LENGTH)
        interned = packed(packets.buffer, parts.of(iid, VARINT, LENGTH))
        owners = np.concatenate([own.owner, interned.owner])
        is_one_each = np.bincount(owners, minlength=1).max(initial=0) < 2
        distinct = texts(packets.buffer, own.value, own.size).dictionary_encode()
        codes = distinct.indices.to_numpy().astype(np.int64)
        values: list[str | None] = distinct.dictionary.to_pylist()
        if interned.owner.size:
            pairs, place = distinct_rows(epoch[interned.owner], interned.value)
            looked_up = self.state.texts(kind, pairs[:, 0], pairs[:, 1])
            is_lost = np.array([text is None for text in looked_up])[place]
            self.state.lost_texts += int(is_lost.sum())
            codes = np.concatenate([codes, place + len(values)])
            values += looked_up
        if is_one_each:
            code[owners] = codes
            return pa.array(values, pa.string()).take(pa.array(code, mask=code < 0))
        frame = pl.DataFrame(
            {"owner": owners, "text": pl.Series(values, dtype=pl.String).gather(codes)}
        )
        both = frame.group_by("owner", maintain_order=True).agg(
            pl.col("text").drop_nulls().str.join(",")
        )
        code[both["owner"].to_numpy()] = np.arange(both.height)
        return both["text"].to_arrow().cast(pa.string()).take(pa.array(code, mask=code < 0))

    def _values(self, parts: Fields, tracks: Ints, is_counter: Any, count: int) -> Any:
        """Values of counters, added up if the track counts increments."""
        values = parts.numbers(_COUNTER_VALUE, count).astype(np.float64)
        doubles = parts.of(_DOUBLE_COUNTER_VALUE, FIXED64)
        values[doubles.owner] = doubles.value.view(np.float64)
        return self._totals(values, tracks, is_counter)

    def _totals(self, values: Any, tracks: Ints, is_counter: Any) -> Any:
        for uuid in np.unique(tracks[is_counter]).tolist():
            track = self.state.tracks.get(uuid & (1 << 64) - 1)
            if track is None:
                continue
            rows = np.flatnonzero(is_counter & (tracks == uuid))
            own = values[rows] * track.multiplier
            if track.is_incremental:
                own = track.total + np.cumsum(own)
                track.total = float(own[-1])
            values[rows] = own
        return values

    def _counters(  # noqa: PLR0917
        self,
        common: dict[str, pa.Array],
        time: pa.Array,
        names: pa.Array,
        categories: pa.Array,
        tracks: Ints,
        is_counter: Any,
        values: Any,
    ) -> Batch:
        distinct, place = np.unique(tracks, return_inverse=True)
        described = [self.state.tracks.get(uuid & (1 << 64) - 1) for uuid in distinct.tolist()]
        named = [counter_of(track.name if track else None) for track in described]
        of_track = pa.array([name for name, _ in named], pa.string())
        units = pa.array([track.unit if track else None for track in described], pa.string())
        devices = [device for _, device in named]
        columns = common | {
            "time_ns": time,
            "name": pc.coalesce(names, of_track.take(pa.array(place))),
            "unit": units.take(pa.array(place)),
            "device": pa.array(devices, pa.int64()).take(pa.array(place)),
            "category": categories,
        }
        mask = pa.array(is_counter)
        columns = {name: pc.filter(v, mask) for name, v in columns.items()}
        columns["args"] = counter_args(values[is_counter], self.state)
        return {RowTable.COUNTERS: conform(RowTable.COUNTERS, columns)}

    def _arrows(self, buffer: Bytes, parts: Fields, members: dict[str, pa.Array]) -> None:
        """Collect launches and the arrows that events name."""
        launched = parts.of(_LAUNCHED, LENGTH)
        if launched.owner.size:
            inside, damaged = fields(buffer, launched.value, launched.value + launched.size)
            if damaged.any():
                self.unread["launches"] += int(damaged.sum())
            targets = packed(buffer, inside.of(1, VARINT, LENGTH))
            self.arrows.launches(members, launched.owner[targets.owner], targets.value)
        for numbers, ends in ((_FLOWS, False), (_ENDING_FLOWS, True)):
            for number in numbers:
                own = packed(buffer, parts.of(number, VARINT, FIXED64, LENGTH))
                if own.owner.size:
                    self.arrows.steps(members, own.owner, own.value, ends=ends)


def _only_rows(events: Fields, parts: Fields) -> tuple[Fields, Fields]:
    """The events, and their fields, that are rows of a file from profframe."""
    is_row = parts.has(exported.EVENT_KEY, events.owner.size)
    place = np.cumsum(is_row) - 1
    kept = parts.where(is_row[parts.owner])
    kept = Fields(place[kept.owner], kept.number, kept.wire, kept.value, kept.size)
    return events.where(is_row), kept


def event_rows(members: dict[str, pa.Array], session: Session) -> Batch:
    """Rows of events with these members, and what their arguments say."""
    count = len(members["ph"])
    absent = {"dur_ns": pa.nulls(count, pa.int64())}
    absent |= dict.fromkeys(("id", "bp", "s"), pa.nulls(count, pa.string()))
    absent |= dict.fromkeys(("bad_time", "bad_dur", "rounded"), pa.nulls(count, pa.bool_()))
    with session.registered("arguments", pa.table({"args": members["args"]})):
        parsed = session.rows_of(_ARGS)
    from_args = {
        name: column.combine_chunks()
        for name, column in zip(parsed.column_names, parsed.columns, strict=True)
    }
    return with_device_args(batch_of(absent | from_args | members), session)


def counter_args(values: Any, state: State) -> pa.Array:
    """Arguments with the value of a counter, under no name."""
    return pc.binary_join_element_wise('{"": ', doubles(values, state), "}", "")


def _places(owner: Ints) -> Ints:
    """The position of each row among those of its owner, which are neighbours."""
    first = np.append(True, np.diff(owner) != 0)
    begins = np.flatnonzero(first)
    return np.arange(owner.size) - np.repeat(begins, np.diff(np.append(begins, owner.size)))


def _named_by_torch(
    categories: pa.Array, args: pa.Array, line: pa.Array, lines: list[Any], names: TrackLines
) -> pa.Array:
    """Categories, also of synchronisation and overhead, which torch writes without one."""
    if not categories.null_count:
        return categories
    of_overhead = [names.processes.get(pid or "", {}).get("name") == _OVERHEAD for pid, _ in lines]
    is_sync = pc.fill_null(pc.match_substring(args, _SYNC_MARK), fill_value=False)
    guessed = pc.if_else(
        is_sync,
        "cuda_sync",
        pc.if_else(
            pa.array(of_overhead, pa.bool_()).take(line), "overhead", pa.scalar(None, pa.string())
        ),
    )
    return pc.coalesce(categories, guessed)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
