"""Perfetto's protobuf held against Chrome's JSON of the same trace, and against its own schema."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

import profframe
from profframe.readers.json import exact
from profframe.schema import TABLES
from profframe.trace.trace import Trace
from tests import needs

pb: Any = needs.module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

Slices = Counter[tuple[str, int, int, str | None]]
"""Line, nanoseconds since the first time of the file, length, and name of slices."""


def differences_of_forms(trace: Trace, folder: Path, **options: Any) -> list[str]:
    """How a file of protobuf reads back in another way than one of JSON."""
    paths = [folder / f"written.{end}" for end in ("json", "pftrace")]
    read = []
    for path in paths:
        trace.export_chrome_trace(path, **options)
        read.append(profframe.load(path))
    found: list[str] = []
    for name in TABLES:
        one, other = (getattr(trace, name) for trace in read)
        if name == "quality":  # a text that has a member twice is repaired where it is JSON
            one, other = (rows.filter(pl.col("issue") != "doubled_member") for rows in (one, other))
        found += _of_table(name, one, other)
    return found


def _of_table(name: str, one: pl.DataFrame, other: pl.DataFrame) -> Iterable[str]:
    if one.shape != other.shape:
        rows = [frame.head(5).rows() for frame in (one, other)]
        yield f"{name}: {one.shape}, then {other.shape}: {rows}"
        return
    for column in one.columns:
        if (name, column) == ("traces", "source"):
            continue
        left, right = one[column], other[column]
        if column == "args":
            left, right = (_plain(texts) for texts in (left, right))
        if not left.equals(right, null_equal=True):
            row = left.ne_missing(right).arg_true()[0]
            yield f"{name}.{column}: row {row}: {left[row]!r}, then {right[row]!r}"


def _plain(texts: pl.Series) -> pl.Series:
    """Arguments without spaces between them and with one way of writing a letter.

    The colour that Chrome's viewer has for what is highlighted is in JSON alone.
    """
    values = [None if text is None else exact.loads(text) for text in texts]
    for value in values:
        if isinstance(value, dict) and value.get("critical") == 1:
            value.pop("cname", None)
    return pl.Series([exact.dumps(value) for value in values], dtype=pl.String)


def parsed(path: Path) -> Any:
    """The packets, by the library's own classes."""
    data = path.read_bytes()
    return pb.Trace.FromString(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).packet


class Viewed:
    """What a viewer sees: slices of tracks, by a stack each, with the texts that packets intern.

    Packets are taken by time, those of one time as they stand in the file.
    """

    def __init__(self, path: Path) -> None:
        self.slices: Slices = Counter()
        self.args: list[Mapping[str, Any]] = []
        self.arrows: list[tuple[str, int, str | None, int]] = []
        self.counters: list[tuple[str, int, float]] = []
        self.open_at_end = 0
        self.lone_ends = 0
        self.crossing = 0
        self.tracks: dict[int, Any] = {}
        self.names: dict[str, dict[int, str]] = {}
        packets = list(parsed(path))
        events = []
        for packet in packets:
            self._take(packet)
            if packet.HasField("track_event"):
                events.append((packet, {kind: dict(own) for kind, own in self.names.items()}
                               if packet.sequence_flags & 1 else self.names))  # fmt: skip
        self._stacks: dict[int, list[tuple[int, str | None]]] = {}
        for packet, names in sorted(events, key=lambda event: event[0].timestamp):
            self._see(packet.timestamp, packet.track_event, names)
        self.open_at_end = sum(map(len, self._stacks.values()))

    def _take(self, packet: Any) -> None:
        if packet.sequence_flags & 1:
            self.names = {}
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            for entry in getattr(packet.interned_data, kind):
                self.names.setdefault(kind, {})[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in self.tracks
            self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor

    def name_of(self, uuid: int) -> str:
        """The name of a track behind that of its process."""
        track = self.tracks[uuid]
        parent = self.tracks.get(track.parent_uuid)
        own = track.thread.thread_name or track.process.process_name or track.name
        own = own or f"process {track.process.pid}"
        return f"{self.name_of(parent.uuid)}/{own}" if parent else own

    def _see(self, time: int, event: Any, names: Mapping[str, Mapping[int, str]]) -> None:
        name = names["event_names"][event.name_iid] if event.name_iid else None
        stack = self._stacks.setdefault(event.track_uuid, [])
        line = self.name_of(event.track_uuid)
        if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            stack.append((time, name))
            self.args.append(
                {
                    names["debug_annotation_names"][a.name_iid]: _value(a)
                    for a in event.debug_annotations
                }
            )
        elif event.type == pb.TrackEvent.TYPE_SLICE_END:
            if not stack:
                self.lone_ends += 1
                return
            start, begun = stack.pop()
            self.slices[line, start, time - start, begun] += 1
        elif event.type == pb.TrackEvent.TYPE_COUNTER:
            self.counters.append((line, time, event.double_counter_value))
        elif chr(event.legacy_event.phase) in "stf":
            inside = stack[-1][1] if stack else None
            phase = chr(event.legacy_event.phase)
            self.arrows.append((phase, event.legacy_event.unscoped_id, inside, time))


def _value(annotation: Any) -> Any:
    kind = annotation.WhichOneof("value")
    value = getattr(annotation, kind)
    return json.loads(value) if kind == "legacy_json_value" else value
