"""Lines of events: process and thread of each track."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from profframe.readers.build.row_tables import Batch, RowTable
from profframe.readers.perfetto.rocm import line_of
from profframe.readers.perfetto.state import State, Track
from profframe.schema import NAME, TEXT

_DEEPEST: Final = 32

Line = tuple[str | None, str | None]
"""Process and thread, as texts."""


@dataclass(slots=True)
class TrackLines:
    """The line of each track, and the names of lines."""

    state: State
    lines: dict[tuple[int, int], Line] = field(default_factory=dict)
    """By track, or for events on no track by sequence and part of it."""
    owners: dict[Line, int] = field(default_factory=dict)
    processes: dict[str, dict[str, str]] = field(default_factory=dict)
    threads: dict[Line, str] = field(default_factory=dict)

    def line(self, uuid: int, sequence: int, epoch: int) -> Line:
        """Process and thread of a track; without a track, those of the sequence."""
        if not uuid:
            thread = self.state.threads.get(epoch)
            if thread is None:
                return (None, f"sequence {sequence}")
            line: Line = (str(thread.pid), str(thread.tid))
            if thread.name:
                self.threads[line] = thread.name
            return line
        key = (uuid, 0)
        if key not in self.lines:
            track = self.state.tracks.get(uuid)
            # A line does not change, so that an end finds its begin.
            self.lines[key] = self._line(uuid, track) if track else (None, f"track {uuid}")
        return self.lines[key]

    def _line(self, uuid: int, track: Track) -> Line:
        if track.line is not None and self.state.exported is not None:
            return track.line
        around = self._around(track)
        pid = next((str(t.pid) for t in around if t.pid is not None), None)
        self._name_process(pid, around)
        if track.tid is not None:
            return (pid, str(track.tid))
        if track.is_process:
            return (pid, None)
        own, thread_name = line_of(track.name or f"track {uuid}")
        line: Line = (pid, own)
        if thread_name:
            self.threads[line] = thread_name
        if self.owners.setdefault(line, uuid) != uuid:
            line = (pid, f"{own} ({uuid})")
        return line

    def _name(self) -> None:
        """Take the names of tracks, some of which come long after their events."""
        for (uuid, _), line in self.lines.items():
            track = self.state.tracks.get(uuid)
            if track is None:
                continue
            around = self._around(track)
            name = track.thread_name or track.name
            if name and (track.tid is not None or line[0] is None) and name != line[1]:
                self.threads[line] = name
            self._name_process(line[0], around)
        for track in self.state.tracks.values():
            # Threads of older writers are described apart from their process.
            if track.is_process and track.process_name and track.pid is not None:
                self.processes.setdefault(str(track.pid), {}).setdefault("name", track.process_name)

    def _name_process(self, pid: str | None, around: list[Track]) -> None:
        process = next((t.process_name for t in around if t.process_name), None)
        if process and pid is not None:
            self.processes.setdefault(pid, {})["name"] = process

    def _around(self, track: Track) -> list[Track]:
        around = [track]
        while (above := self.state.tracks.get(around[-1].parent)) and len(around) < _DEEPEST:
            around.append(above)
        # A process is described by a track of its own, which is not always the parent.
        if track.pid is not None:
            around += [t for t in self.state.tracks.values() if t.is_process and t.pid == track.pid]
        return around

    def batch(self) -> Batch:
        """Names of all lines, as labels."""
        if self.state.exported is not None:
            return self.state.exported.batch()
        self._name()
        rows: list[tuple[str, str | None, str | None, str]] = []
        for pid, labels in self.processes.items():
            for label, key in (("process_name", "name"), ("process_labels", "labels")):
                if key in labels:
                    rows.append((label, pid, None, json.dumps({key: labels[key]})))
        rows += [
            ("thread_name", pid, tid, json.dumps({"name": name}))
            for (pid, tid), name in self.threads.items()
        ]
        if not rows:
            return {}
        columns = zip(*rows, strict=True)
        names = ("name", "pid", "tid", "args")
        types = (NAME, NAME, NAME, TEXT)
        arrays = {
            name: pa.array(values, TEXT).dictionary_encode()
            if type_ == NAME
            else pa.array(values, TEXT)
            for name, values, type_ in zip(names, columns, types, strict=True)
        }
        return {RowTable.THREADS: pa.table(arrays)}
