"""What a file says of its processes: their names, labels and places in a list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from profframe.readers.json import exact

Values: TypeAlias = Mapping[str, Sequence[object]]

_DEVICE: Final = re.compile(r"(?!CPU\b)[A-Za-z]\w* (\d{1,9})(?!\d)")
_HOST: Final = re.compile(r"CPU(?![a-z])")
_LINE: Final = re.compile(r"(?:stream|thread) (\d{1,15})(?!\d)", re.IGNORECASE)
"""Name of a thread, with its own number."""
_TEXTS: Final = ("process_name", "process_labels")
_MEMBERS: Final = ("name", "labels", "sort_index")


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of processes, and of their threads, by their ids in the file."""

    processes: Mapping[str, Values]
    threads: Mapping[str, Sequence[tuple[str, str]]]
    """Number and name of each thread."""

    def texts(self, pid: str) -> Iterator[str]:
        """Names and labels of a process."""
        return (text for name in _TEXTS for text in self._texts_of(pid, name))

    def _texts_of(self, pid: str, label: str) -> Iterator[str]:
        values = self.processes.get(pid, {}).get(label, ())
        return (value for value in values if isinstance(value, str))

    def is_host(self, pid: str) -> bool:
        """Whether a process may be one of the host: those of devices are labelled."""
        texts = list(self._texts_of(pid, "process_labels"))
        is_device = any(map(_DEVICE.match, texts))
        return not is_device or any(map(_HOST.match, texts))

    def pids_before(self, pids: Iterable[str]) -> dict[str, str]:
        """Ids that the processes of one rank had, by the offset that was added to all of them."""
        numeric = [pid for pid in pids if pid.isdecimal()]
        offset = _agreed(int(pid) - own for pid in numeric for own in self.own_numbers(pid))
        return {pid: str(int(pid) - offset) for pid in numeric if offset and int(pid) >= offset}

    def offset_of_threads(self, pids: Iterable[str]) -> int:
        """What was added to the ids of the threads of a rank; 0 if that is not certain."""
        return _agreed(
            int(tid) - int(match[1])
            for pid in pids
            for tid, name in self.threads.get(pid, ())
            if tid.isdecimal() and (match := _LINE.match(name))
        )

    def own_numbers(self, pid: str) -> Iterator[int]:
        """The ids that the labels of a process give it."""
        places = self.processes.get(pid, {}).get("process_sort_index", ())
        for text in self._texts_of(pid, "process_labels"):
            if match := _DEVICE.match(text):
                yield int(match[1])
            elif _HOST.match(text):
                yield from (n for n in places if isinstance(n, int) and 0 < n < 1 << 31)


def _agreed(offsets: Iterable[int]) -> int:
    """The one offset that all have; 0 if there are several, or none."""
    distinct = {*offsets}
    return distinct.pop() if len(distinct) == 1 else 0


def labels_of(rows: pa.Table) -> Labels:
    """All labels in the rows of a file."""
    processes: dict[str, dict[str, list[object]]] = {}
    threads: dict[str, list[tuple[str, str]]] = {}
    columns = (rows[column].to_pylist() for column in ("name", "pid", "tid", "args"))
    for label, pid, tid, args in zip(*columns, strict=True):
        for value in _values(args):
            if label == "thread_name" and isinstance(value, str) and pid is not None and tid:
                threads.setdefault(pid, []).append((tid, value))
            elif label.startswith("process_") and pid is not None:
                processes.setdefault(pid, {}).setdefault(label, []).append(value)
    return Labels(processes, threads)


def _values(args: str | None) -> list[object]:
    try:
        values = exact.loads(args) if args else None
    except (ValueError, RecursionError):
        return []
    if not isinstance(values, dict):
        return []
    return [values[member] for member in _MEMBERS if member in values]
