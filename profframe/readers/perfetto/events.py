"""Track events: slices, instants, values of counters, and the arrows that they name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints
from profframe.readers.build.rows import Batch, Table, conform
from profframe.readers.chrome.columns import batch_of
from profframe.readers.chrome.device_args import with_device_args
from profframe.readers.chrome.parsing import ARGS_TYPE
from profframe.readers.chrome.session import Session
from profframe.readers.perfetto.annotations import doubles, objects
from profframe.readers.perfetto.arrows import Arrows
from profframe.readers.perfetto.packets import TRACK_EVENT, Packets
from profframe.readers.perfetto.state import State
from profframe.readers.perfetto.tracks import Lines
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
_COUNTER_VALUE: Final = 30
_DOUBLE_COUNTER_VALUE: Final = 44
_FLOWS: Final = (47, 36)
_ENDING_FLOWS: Final = (48, 42)
_LAUNCHED: Final = 3000
"""What torch adds: the work on devices that a call launched, by the ids of its events."""
_COUNTER: Final = 4
_PHASES: Final = (None, "B", "E", "i", None)
"""By type of event."""
_OVERHEAD: Final = "Overhead"
"""Process of overhead, which torch gives no category; synchronisation has none, either."""
_SYNC_MARK: Final = '"cuda_sync_kind":'
_ARGS: Final = f"""
    SELECT members.*
    FROM (SELECT from_json(args, '{ARGS_TYPE}') AS members FROM arguments)"""  # noqa: S608


@dataclass(slots=True)
class Events:
    """Rows of track events; the counts are of all packets so far."""

    state: State
    lines: Lines
    arrows: Arrows
    session: Session
    damaged: int = 0
    dropped: int = 0
    unread: int = 0
    legacy: int = 0
    lost_texts: int = 0

    def batches(self, packets: Packets) -> Iterator[Batch]:
        """Rows of the events in some packets."""
        rows = packets.of(TRACK_EVENT)
        if not rows.owner.size:
            return
        parts, damaged = fields(packets.buffer, rows.value, rows.value + rows.size)
        count = rows.owner.size
        type_ = parts.numbers(_TYPE, count)
        is_legacy = parts.has(_LEGACY, count) & (type_ == 0)
        self.legacy += int(is_legacy.sum())
        self.damaged += int(damaged.sum())
        self.dropped += int((damaged | is_legacy).sum())
        kept = np.flatnonzero(~damaged & ~is_legacy)
        place = np.full(count, -1, np.int64)
        place[kept] = np.arange(kept.size)
        low = parts.where(place[parts.owner] >= 0)
        parts = Fields(place[low.owner], low.number, low.wire, low.value, low.size)
        if kept.size:
            yield from self._rows(packets, parts, rows.owner[kept], type_[kept])

    def _rows(self, packets: Packets, parts: Fields, of: Ints, type_: Ints) -> Iterator[Batch]:
        count = of.size
        epoch, sequence = packets.epoch[of], packets.sequence[of]
        tracks = self._tracks(parts, count, epoch)
        line, lines = self._lines(tracks, sequence)
        base = self.state.base[0] if self.state.base else 0
        time = pa.array(packets.time[of] - base)
        names = self._texts(packets, parts, epoch, "event_names", _NAME, _NAME_IID)
        categories = self._texts(
            packets, parts, epoch, "event_categories", _CATEGORIES, _CATEGORY_IIDS
        )
        annotations = parts.of(_ANNOTATIONS, LENGTH)
        args, unread = objects(packets.buffer, annotations, count, self.state, epoch)
        self.unread += unread
        common = {
            "pid": pa.array([pid for pid, _ in lines], pa.string()).take(line),
            "tid": pa.array([tid for _, tid in lines], pa.string()).take(line),
            "bad_time": pa.array(packets.bad_time[of]),
        }
        is_counter = type_ == _COUNTER
        if is_counter.any():
            values = self._values(parts, tracks, is_counter, count)
            yield self._counters(common, time, names, categories, tracks, is_counter, values)
        if is_counter.all():
            return
        shown = pa.array(_PHASES).take(pa.array(np.where(type_ > _COUNTER, 0, type_)))
        members = common | {
            "ph": shown,
            "cat": _named_by_torch(categories, args, line, lines, self.lines),
            "name": names,
            "time_ns": time,
            "args": args,
        }
        mask = pa.array(~is_counter)
        yield event_rows({n: pc.filter(v, mask) for n, v in members.items()}, self.session)
        self._arrows(packets.buffer, parts, members)

    def _tracks(self, parts: Fields, count: int, epoch: Ints) -> Ints:
        """Track of each event: its own, else that of its sequence, else 0."""
        tracks = parts.numbers(_TRACK, count)
        defaults = self.state.default_tracks
        for own in np.unique(epoch).tolist() if defaults else ():
            tracks[(epoch == own) & (tracks == 0)] = _signed(defaults.get(own, 0))
        return tracks

    def _lines(self, tracks: Ints, sequence: Ints) -> tuple[pa.Array, list[Any]]:
        pairs, place = distinct_rows(tracks, np.where(tracks == 0, sequence, 0))
        unsigned = pairs[:, 0].astype(np.uint64).tolist()
        own = zip(unsigned, pairs[:, 1].tolist(), strict=True)
        return pa.array(place), [self.lines.line(uuid, of) for uuid, of in own]

    def _texts(  # noqa: PLR0917
        self, packets: Packets, parts: Fields, epoch: Ints, kind: str, plain: int, iid: int
    ) -> pa.Array:
        """Texts that stand in the events, or that they name by number; the first of several."""
        count = epoch.size
        code = np.full(count, -1, np.int64)
        own = _first(parts.of(plain, LENGTH))
        interned = _first(packed(packets.buffer, parts.of(iid, VARINT, LENGTH)))
        distinct = texts(packets.buffer, own.value, own.size).dictionary_encode()
        code[own.owner] = distinct.indices.to_numpy()
        values: list[str | None] = distinct.dictionary.to_pylist()
        if interned.owner.size:
            pairs, place = distinct_rows(epoch[interned.owner], interned.value)
            looked_up = self.state.texts(kind, pairs[:, 0], pairs[:, 1])
            is_lost = np.array([text is None for text in looked_up])[place]
            self.lost_texts += int(is_lost.sum())
            code[interned.owner] = place + len(values)
            values += looked_up
        return pa.array(values, pa.string()).take(pa.array(code, mask=code < 0))

    def _values(self, parts: Fields, tracks: Ints, is_counter: Any, count: int) -> Any:
        """Values of counters, added up where a track counts so."""
        values = parts.numbers(_COUNTER_VALUE, count).astype(np.float64)
        doubles = parts.of(_DOUBLE_COUNTER_VALUE, FIXED64)
        values[doubles.owner] = doubles.value.view(np.float64)
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
        of_track = pa.array([track.name if track else None for track in described], pa.string())
        units = pa.array([track.unit if track else None for track in described], pa.string())
        columns = common | {
            "time_ns": time,
            "name": pc.coalesce(names, of_track.take(pa.array(place))),
            "unit": units.take(pa.array(place)),
            "category": categories,
            "args": counter_args(values),
        }
        mask = pa.array(is_counter)
        return {
            Table.COUNTERS: conform(
                Table.COUNTERS, {name: pc.filter(v, mask) for name, v in columns.items()}
            )
        }

    def _arrows(self, buffer: Bytes, parts: Fields, members: dict[str, pa.Array]) -> None:
        """Remember what launches what, and the arrows that events name."""
        launched = parts.of(_LAUNCHED, LENGTH)
        if launched.owner.size:
            inside, _ = fields(buffer, launched.value, launched.value + launched.size)
            targets = packed(buffer, inside.of(1, VARINT, LENGTH))
            self.arrows.launches(members, launched.owner[targets.owner], targets.value)
        for numbers, ends in ((_FLOWS, False), (_ENDING_FLOWS, True)):
            for number in numbers:
                own = packed(buffer, parts.of(number, VARINT, FIXED64, LENGTH))
                if own.owner.size:
                    self.arrows.steps(members, own.owner, own.value, ends=ends)


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


def counter_args(values: Any) -> pa.Array:
    """Arguments with the value of a counter, under no name."""
    return pc.binary_join_element_wise('{"": ', doubles(values), "}", "")


def _first(lists: Fields) -> Fields:
    """The first of each owner."""
    if not lists.owner.size:
        return lists
    return lists.where(np.append(True, np.diff(lists.owner) > 0))


def _named_by_torch(
    categories: pa.Array, args: pa.Array, line: pa.Array, lines: list[Any], names: Lines
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
