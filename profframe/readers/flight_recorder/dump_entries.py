"""Entries of a dump as columns.

A recorder holds a few thousand entries, so a Python call for each value does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from profframe import schema
from profframe.readers import flight_recorder
from profframe.readers.build.row_tables import repeated
from profframe.readers.flight_recorder.process_groups import (
    DEFAULT,
    Groups,
    Listed,
    group_ranks,
    names_of,
    peers,
    short_name,
    text,
)
from profframe.readers.pickle.unfolding import Unfolding

_NS_PER_MS: Final = 1_000_000
_LONGEST: Final = 1 << 62
Entry = Mapping[str, Any]
_Frame = tuple[str | None, str | None, int | None]


class DumpEntries:
    """The entries of a dump: rows of two tables, and values of unexpected types."""

    def __init__(self, entries: Sequence[Entry], groups: Groups, unfolding: Unfolding) -> None:
        self._entries = entries
        self._unfolding = unfolding
        self._groups = groups
        self.odd_values: set[str] = set()
        """Names of members with a value of an unexpected type."""
        self.odd_rows = 0
        """Number of such values."""
        self._numbers: dict[tuple[_Frame, ...], int] = {}
        """Number of each stack, by its frames."""
        self._of_lists: dict[int, int | None] = {}
        """Number of each list of frames, which records may share, by its identity."""
        self._texts_of_lists: dict[int, str] = {}
        """JSON text of each list, by its identity."""

    def table(self) -> pa.Table:
        """Rows of ``recorded_collectives``."""
        entries = self._entries
        pairs = [names_of(entry) for entry in entries]
        ranks = [group_ranks(self._groups, entry) for entry in entries]
        words = [_words(short_name(entry.get("profiling_name"))) for entry in entries]
        listed = Listed()
        columns: dict[str, list[Any]] = {
            "record_id": self._integers("record_id", "id"),
            "process_group": [name for name, _ in pairs],
            "process_group_description": [description for _, description in pairs],
            "group_ranks": [listed.of(r) for r in ranks],
            "group_size": [None if r is None else len(r) for r in ranks],
            "collective_seq": self._integers("collective_seq_id", "seq_id"),
            "p2p_seq": self._integers("p2p_seq_id"),
            "call_number": self._integers("op_id"),
            "is_p2p": self._is_p2p(),
            "kind": [kind for _, kind in words],
            "backend": [backend for backend, _ in words],
            "peer_rank": [_peer(entry, r) for entry, r in zip(entries, ranks, strict=True)],
            **{
                name: self._lists(name)
                for name in ("input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
            },
            "state": self._texts("state"),
            "is_retired": self._flags("retired"),
            "created_ns": _times(self._integers("time_created_ns")),
            "started_ns": _times(self._integers("time_discovered_started_ns")),
            "completed_ns": _times(self._integers("time_discovered_completed_ns")),
            "dur_ns": self._values("duration_ms", _ms),
            "timeout_ns": self._values("timeout_ms", _ms),
            "thread_id": self._texts("thread_id"),
            "thread_name": self._texts("thread_name"),
            "stack_id": self._values("frames", self._stack),
            "recorder": [flight_recorder.FORMAT] * len(entries),
        }
        fields = pa.schema([*schema.RECORDED_COLLECTIVES.arrow][2:])
        unknown = [None] * len(entries)
        return pa.table(
            {f.name: _column(columns.get(f.name, unknown), f.type) for f in fields}, fields
        )

    def stacks(self) -> pa.Table:
        """Rows of ``stacks`` for the stacks in the rows of `table`."""
        rows = [
            (number, depth, *frame)
            for frames, number in self._numbers.items()
            for depth, frame in enumerate(frames)
        ]
        numbers, depths, names, files, lines = zip(*rows, strict=True) if rows else ((),) * 5
        columns = {
            "stack_id": numbers, "depth": depths, "name": names, "file": files, "line": lines
        }  # fmt: skip
        fields = pa.schema([*schema.STACKS.arrow][2:])
        none = [None] * len(rows)  # what only memory snapshots have
        return pa.table(
            {f.name: _column(columns.get(f.name, none), f.type) for f in fields}, fields
        )

    def _values(self, name: str, read: Callable[[object], Any]) -> list[Any]:
        values = [None if (v := e.get(name)) == [] else v for e in self._entries]
        out = [None if value is None else read(value) for value in values]
        if odd := sum(o is None and v is not None for v, o in zip(values, out, strict=True)):
            self.odd_values.add(name)
            self.odd_rows += odd
        return out

    def _integers(self, name: str, *older: str) -> list[int | None]:
        """A member by its name, or by its name in an older version."""
        for candidate in older:
            if not any(name in entry for entry in self._entries):
                name = candidate if any(candidate in entry for entry in self._entries) else name
        return self._values(name, _integer)

    def _texts(self, name: str) -> list[str | None]:
        return self._values(
            name, lambda value: str(value) if type(value) is int else short_name(value)
        )

    def _flags(self, name: str) -> list[bool | None]:
        return self._values(name, lambda value: value if type(value) is bool else None)

    def _lists(self, name: str) -> list[str | None]:
        lists = self._values(name, self._listed)
        return [
            "[]" if value is None and entry.get(name) == [] else value
            for value, entry in zip(lists, self._entries, strict=True)
        ]

    def _listed(self, value: object) -> str | None:
        if not isinstance(value, (list, tuple)):
            return None
        if id(value) not in self._texts_of_lists:
            self._texts_of_lists[id(value)] = self._unfolding.json(value, (",", ":"))
        return self._texts_of_lists[id(value)]

    def _is_p2p(self) -> list[bool | None]:
        """Whether it is point-to-point: as recorded, or by its name in older dumps."""
        flags = self._flags("is_p2p")
        names = (entry.get("profiling_name") for entry in self._entries)
        return [
            flag if flag is not None else (None if name is None else peers(name) is not None)
            for flag, name in zip(flags, names, strict=True)
        ]

    def _stack(self, frames: object) -> int | None:
        if not isinstance(frames, (list, tuple)) or not frames:
            return None
        if id(frames) not in self._of_lists:
            self._of_lists[id(frames)] = self._number_of(frames)
        return self._of_lists[id(frames)]

    def _number_of(self, frames: Sequence[object]) -> int | None:
        key = tuple(
            (text(f.get("name")), text(f.get("filename")), _integer(f.get("line")))
            for f in frames
            if isinstance(f, Mapping)
        )
        return self._numbers.setdefault(key, len(self._numbers)) if key else None


def _column(values: Any, type_: pa.DataType) -> pa.Array:
    return repeated(values) if pa.types.is_dictionary(type_) else pa.array(values, type_)


def _words(name: object) -> tuple[str | None, str | None]:
    """Backend and kind in the name of a record.

    Examples
    --------
    >>> _words("nccl:send 1->2"), _words("gloo:all_reduce"), _words("all_reduce")
    (('nccl', 'send'), ('gloo', 'all_reduce'), (None, 'all_reduce'))
    """
    if not isinstance(name, str):
        return None, None
    backend, colon, kind = name.partition(":")
    kind = kind if colon else backend
    return (backend or None) if colon else None, kind.partition(" ")[0] or None


def _peer(entry: Entry, ranks: tuple[int, ...] | None) -> int | None:
    """Rank of the peer; its number in the group is its rank in the group of all ranks."""
    both = peers(entry.get("profiling_name"))
    if both is None:
        return None
    if ranks is not None:
        return ranks[both[2]] if both[2] < len(ranks) else None
    return both[2] if names_of(entry)[1] == DEFAULT else None


def _integer(value: object) -> int | None:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _ms(value: object) -> int | None:
    """Milliseconds as nanoseconds."""
    if type(value) not in {int, float}:
        return None
    nanoseconds = value * _NS_PER_MS  # type: ignore[operator]
    return round(nanoseconds) if abs(nanoseconds) < _LONGEST else None


def _times(values: list[int | None]) -> list[int | None]:
    """Times; 0 means none."""
    return [value if value is not None and 0 < value < _LONGEST else None for value in values]
