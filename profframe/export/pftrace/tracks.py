"""Tracks: processes, threads, additional lanes, and counters; each is described before its use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from profframe.export.pftrace.wire import message
from profframe.readers.perfetto.exported import TRACK_KEY

UNENDED: Final = 1 << 20
"""Lane of slices that never end."""
_MOST: Final = 1 << 31
LABELS: Final = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}


class Key(NamedTuple):
    """Identity of a track."""

    pid: str | None
    tid: str | None
    lane: int = 0
    counter: str | None = None
    """Name of a counter, with its id and that of the value."""
    shown: str | None = None
    """Name of the counter as it is shown."""


@dataclass(slots=True)
class Tracks:
    """The tracks of a file, and descriptors of those that no packet describes yet."""

    numbers: dict[Key, int] = field(default_factory=dict)
    new: list[bytes] = field(default_factory=list)
    labels: dict[tuple[str | None, str | None], dict[str, Any]] = field(default_factory=dict)
    """Labels of processes, by (process, None), and of threads."""
    _processes: dict[str, int] = field(default_factory=dict)
    _last: int = 0

    def label(self, labels: Iterable[Mapping[str, Any]]) -> None:
        """Take labels of processes and threads from a trace."""
        for label in labels:
            name, pid, tid = label["name"], _text(label.get("pid")), _text(label.get("tid"))
            key = (pid, None) if name.startswith("process") else (pid, tid)
            self.labels.setdefault(key, {})[name] = label["args"].get(LABELS[name])

    def number(self, key: Key) -> int:
        """The id of a track."""
        if key not in self.numbers:
            parent = self._parent(key)
            self._last += 1
            self.numbers[key] = self._last
            self.new.append(self._descriptor(key, self._last, parent))
        return self.numbers[key]

    def take(self) -> list[bytes]:
        """Descriptors of tracks that are new."""
        new, self.new = self.new, []
        return new

    def _parent(self, key: Key) -> int | None:
        if key.lane:
            return self.number(Key(key.pid, key.tid))
        return None if key.pid is None else self._process(key.pid)

    def _process(self, pid: str) -> int:
        if pid not in self._processes:
            self._last += 1
            self._processes[pid] = self._last
            labels = self.labels.get((pid, None), {})
            name = labels.get("process_name")
            number = _number(pid)
            process = None
            if number is not None:
                process = message(
                    (1, number),
                    (3, _index(labels.get("process_sort_index"))),
                    (6, name),
                    (8, labels.get("process_labels")),
                )
            shown = None
            if process is None:
                label = labels.get("process_labels")
                shown = f"{name or pid} ({label.strip()})" if label else name or pid
            self.new.append(message((1, self._last), (2, shown), (3, process)))
        return self._processes[pid]

    def _descriptor(self, key: Key, number: int, parent: int | None) -> bytes:
        labels = self.labels.get((key.pid, key.tid), {})
        name = labels.get("thread_name") or key.tid or "events"
        thread = counter = None
        pid, tid = _number(key.pid), _number(key.tid)
        if key.counter is not None:
            name, counter = key.shown, b""
        elif key.lane:
            name += " (unended)" if key.lane == UNENDED else f" ({key.lane + 1})"
        elif pid is not None and tid is not None:
            sort_index = _index(labels.get("thread_sort_index"))
            thread = message((1, pid), (2, tid), (3, sort_index), (5, name))
        return message(
            (1, number),
            (2, None if thread else name),
            (4, thread),
            (5, parent),
            (8, counter),
            (TRACK_KEY, json.dumps([key.pid, key.tid])),
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(text: str | None) -> int | None:
    """A process or thread that is known by its number; 0 would be one of the system."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > 10:
        return None
    number = int(text)
    return number if 0 < number < _MOST and str(number) == text else None


def _index(value: object) -> int | None:
    return value if isinstance(value, int) and -_MOST <= value < _MOST else None
