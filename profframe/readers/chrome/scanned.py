"""Rows of events that the scanner in C reads; what it hands back goes to `parsing`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.native.scan import LONGEST, PADDING, TEXTS, Kind, Scanned, Scanner
from profframe.readers.build.row_tables import Batch, RowTable
from profframe.readers.chrome.columns import (
    ARGS,
    ARGS_OF_MEMORY,
    LAUNCH_MEMBERS,
    OLD_ARGS,
    OWN_ARGS_KEY,
    SOURCE_PID,
    rows_of,
    source_pid,
)
from profframe.readers.chrome.device_args import DEVICE_ARGS, WORK_ARGS, with_members
from profframe.readers.json.stream import Wave

_KINDS: Final = {
    "BIGINT": Kind.INTEGER,
    "VARCHAR": Kind.WORD,
    "BOOLEAN": Kind.FLAG,
    "DOUBLE": Kind.DECIMAL,
}
KEYS: Final[Mapping[str, Kind]] = MappingProxyType(
    {name: _KINDS[type_] for name, type_ in {**ARGS, **OLD_ARGS, **DEVICE_ARGS}.items()}
    | dict.fromkeys(WORK_ARGS, Kind.DECIMAL)
    | {OWN_ARGS_KEY: Kind.ODD}
)
_SCANNER: Final = Scanner(
    KEYS,
    dict.fromkeys(RowTable, TEXTS)
    | {RowTable.EVENTS: (*TEXTS, *KEYS), RowTable.MEMORY: ARGS_OF_MEMORY},
)
_ABSENT: Final = ("bad_time", "bad_dur")
"""Flags of times that the scanner hands back."""
_OLD: Final = "old."
_COLUMNS: Final = {"ph": "phase", "cat": "category", "s": "scope", "bp": "binding_point"}
"""Columns of members whose names are short."""


def is_readable(wave: Wave) -> bool:
    """Whether there is room for a wave in one call."""
    end = wave.bounds[-1]
    return end <= LONGEST and len(wave.text) >= end + PADDING


def runs_of(
    wave: Wave, source_pids: Mapping[str, str | None]
) -> Iterator[tuple[int, int, Batch | None]]:
    """Rows of each run of pieces; None for those that are handed back."""
    scanned = _SCANNER.scan(wave.text, wave.bounds)
    tables = {
        table: _rows_of(scanned, table, source_pids) for table in RowTable if scanned.rows(table)
    }
    is_odd = scanned.odd != 0
    bounds = [0, *(np.flatnonzero(np.diff(is_odd)) + 1).tolist(), len(is_odd)]
    for first, stop in itertools.pairwise(bounds):
        if is_odd[first]:
            yield first, stop, None
        else:
            yield first, stop, _part(tables, scanned, first, stop)


def _part(tables: Mapping[RowTable, pa.Table], scanned: Scanned, first: int, stop: int) -> Batch:
    """The rows of some of the pieces."""
    begins, ends = scanned.begins[first].tolist(), scanned.begins[stop].tolist()
    return {
        table: rows.slice(begins[table], ends[table] - begins[table])
        for table, rows in tables.items()
        if begins[table] < ends[table]
    }


def _rows_of(scanned: Scanned, table: RowTable, source_pids: Mapping[str, str | None]) -> pa.Table:
    members = _ScannedMembers(scanned, table, source_pids)
    rows = rows_of(table, members, source_pids)
    return with_members(rows, members) if table is RowTable.EVENTS else rows


class _ScannedMembers:
    """Members of the events of one table."""

    def __init__(
        self, scanned: Scanned, table: RowTable, source_pids: Mapping[str, str | None]
    ) -> None:
        self._scanned = scanned
        self._table = table
        self._source_pids = source_pids
        self._arrays: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._arrays:
            self._arrays[name] = self._array(name)
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return self._scanned.has(self._table, name.removeprefix(_OLD))

    def all(self, names: Mapping[str, str]) -> dict[str, pa.Array]:
        """Columns by their names in the schema."""
        return {column: self[name] for column, name in names.items()}

    def _array(self, name: str) -> pa.Array:
        if name in _ABSENT:
            return pa.nulls(self._scanned.rows(self._table), pa.bool_())
        if name == SOURCE_PID:
            return source_pid(self["pid"], self._source_pids)
        column = _COLUMNS.get(name, name.removeprefix(_OLD))
        values = self._scanned.array(self._table, column)
        if LAUNCH_MEMBERS.get(name) == "DOUBLE":
            return values.dictionary.cast(pa.float64()).take(values.indices)
        return values
