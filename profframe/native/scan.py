"""Call the scanner in C: memory that calls use in turn, and arrays of what one call wrote."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.native.library import VERSION, library

TABLES: Final = 6
WORDS: Final = ("phase", "category", "name", "pid", "tid", "scope", "binding_point")
"""Columns whose texts repeat."""
TIMES: Final = ("time_ns", "dur_ns")
ROUNDED: Final = "rounded"
TEXTS: Final = ("id", "args")
FIXED: Final = (*WORDS, *TIMES, ROUNDED, *TEXTS)
"""Columns of each table, in their order in ``scan.h``; those of arguments come after them."""
LONGEST: Final = 10 << 20
"""Bytes of the pieces of one call."""
PADDING: Final = 17
"""Bytes that can be read after the pieces."""

_LEAST_ROW: Final = 40
"""Bytes of an event; a piece of shorter ones may find no room."""
_MOST_ROWS: Final = LONGEST // _LEAST_ROW
_MOST_WORDS: Final = 1 << 18

_Letters = npt.NDArray[np.uint8]


class Kind(enum.IntEnum):
    """How an argument is read."""

    INTEGER = 0
    WORD = 1
    """Text, or any other value as JSON."""
    FLAG = 2
    DECIMAL = 3
    """A number, as a word."""
    ODD = 4
    """Not at all: its piece is handed back."""


class _Column(ctypes.Structure):
    _fields_ = (
        ("values", ctypes.c_void_p),
        ("valid", ctypes.c_void_p),
        ("bytes", ctypes.c_void_p),
        ("count", ctypes.c_int64),
    )


class _Scan(ctypes.Structure):
    """``scan`` in ``scan.h``."""

    _fields_ = (
        ("version", ctypes.c_int64),
        ("text", ctypes.c_void_p),
        ("bounds", ctypes.c_void_p),
        ("pieces", ctypes.c_int64),
        ("key_text", ctypes.c_void_p),
        ("key_bounds", ctypes.c_void_p),
        ("key_kinds", ctypes.c_void_p),
        ("keys", ctypes.c_int64),
        ("most_rows", ctypes.c_int64),
        ("columns", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("slot_mask", ctypes.c_uint64),
        ("stamp", ctypes.c_uint64),
        ("entries", ctypes.c_void_p),
        ("most_entries", ctypes.c_int64),
        ("entries_used", ctypes.c_int64),
        ("words", ctypes.c_void_p),
        ("most_words", ctypes.c_int64),
        ("words_used", ctypes.c_int64),
        ("codes_used", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("begins", ctypes.c_void_p),
        ("odd", ctypes.c_void_p),
    )


class _Buffers(NamedTuple):
    """Of one column: values (ends of texts), a bit for each row that has one, bytes of texts."""

    values: npt.NDArray[np.int32] | npt.NDArray[np.int64] | None
    valid: _Letters
    text: _Letters | None

    def addresses(self) -> list[int]:
        return [0 if buffer is None else buffer.ctypes.data for buffer in self]


class Scanner:
    """Scans text, with columns for some arguments; calls may run in parallel.

    Parameters
    ----------
    keys
        Names of arguments that have columns, and how each is read.
    columns
        Arguments and texts that each table has, by its number.
    """

    def __init__(self, keys: Mapping[str, Kind], columns: Mapping[int, Collection[str]]) -> None:
        self.keys = keys
        self._columns = columns
        self._idle: list[_Memory] = []

    def scan(self, text: memoryview, bounds: Sequence[int]) -> Scanned:
        """The rows of pieces of text, each an array of events.

        Parameters
        ----------
        text
            Writable, with at least `PADDING` bytes after the last piece; it does not change.
        bounds
            Where each piece begins, and where the last one ends: at most `LONGEST`.
        """
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = _Memory(self.keys, self._columns)
        try:
            return memory.scan(text, bounds)
        finally:
            self._idle.append(memory)


class _Memory:
    """Buffers of all columns, and room for words, for one call at a time."""

    def __init__(self, keys: Mapping[str, Kind], columns: Mapping[int, Collection[str]]) -> None:
        names = [name.encode() for name in keys]
        self._names = [*FIXED, *keys]
        self._keys = keys
        self._key_text = np.frombuffer(b"".join(names), np.uint8)
        self._key_bounds = np.cumsum([0, *map(len, names)], dtype=np.int64)
        self._kinds = np.array([*keys.values()], np.uint8)
        self._columns = np.zeros((TABLES, len(self._names), 4), np.int64)
        self._buffers: dict[tuple[int, int], _Buffers] = {}
        for table in range(TABLES):
            own = columns.get(table, ())
            for column, name in enumerate(self._names):
                if name in own or (name in FIXED and name not in TEXTS):
                    buffers = self._buffers[table, column] = self._buffers_of(name)
                    self._columns[table, column, :3] = buffers.addresses()
        self._slots = np.zeros(2 * _MOST_WORDS, np.uint64)
        self._entries = np.empty((_MOST_WORDS, 5), np.uint32)
        self._words, self._scratch = np.empty((2, LONGEST + PADDING), np.uint8)
        self._codes_used = np.zeros(len(WORDS) + len(keys), np.int64)
        self._scan = _Scan(
            version=VERSION,
            key_text=self._key_text.ctypes.data,
            key_bounds=self._key_bounds.ctypes.data,
            key_kinds=self._kinds.ctypes.data,
            keys=len(keys),
            most_rows=_MOST_ROWS,
            columns=self._columns.ctypes.data,
            slots=self._slots.ctypes.data,
            slot_mask=len(self._slots) - 1,
            entries=self._entries.ctypes.data,
            most_entries=_MOST_WORDS,
            words=self._words.ctypes.data,
            most_words=LONGEST,
            codes_used=self._codes_used.ctypes.data,
            scratch=self._scratch.ctypes.data,
        )

    def _buffers_of(self, name: str) -> _Buffers:
        valid = np.zeros(_MOST_ROWS // 8 + 1, np.uint8)
        if name == ROUNDED:
            return _Buffers(None, valid, None)
        if name in TEXTS:
            ends = np.zeros(_MOST_ROWS + 1, np.int32)
            return _Buffers(ends, valid, np.empty(LONGEST + PADDING, np.uint8))
        if name in TIMES or self._keys.get(name) == Kind.INTEGER:
            return _Buffers(np.zeros(_MOST_ROWS, np.int64), valid, None)
        return _Buffers(np.zeros(_MOST_ROWS, np.int32), valid, None)

    def scan(self, text: memoryview, bounds: Sequence[int]) -> Scanned:
        """The rows of pieces, copied from the buffers."""
        native = library()
        if native is None or len(text) < bounds[-1] + PADDING or bounds[-1] > LONGEST:
            raise ValueError("no scanner, or no room")
        letters, offsets = np.frombuffer(text, np.uint8), np.asarray(bounds, np.int64)
        begins = np.empty((len(bounds), TABLES), np.int64)
        odd = np.empty(len(bounds) - 1, np.uint8)
        scan = self._scan
        scan.text, scan.bounds = letters.ctypes.data, offsets.ctypes.data
        scan.pieces, scan.begins, scan.odd = len(odd), begins.ctypes.data, odd.ctypes.data
        scan.stamp += 1
        scan.entries_used = scan.words_used = 0
        self._codes_used[:] = 0
        self._columns[:, :, 3] = 0
        native.profframe_scan(ctypes.addressof(scan))
        ends = np.empty(scan.entries_used + len(self._codes_used), np.int32)
        words = np.empty(scan.words_used, np.uint8)
        native.profframe_words(ctypes.addressof(scan), ends.ctypes.data, words.ctypes.data)
        buffers = {
            (table, self._names[column]): self._taken(
                self._buffers[table, column], int(begins[-1, table])
            )
            for table, column in np.argwhere(self._columns[:, :, 3]).tolist()
        }
        return Scanned(self._keys, begins, odd, buffers, self._dictionaries(ends, words))

    def _taken(self, buffers: _Buffers, rows: int) -> _Buffers:
        """Copies of what is used of the buffers of a column, which are as before then."""
        values, valid, text = buffers
        bits = valid[: (rows + 7) // 8]
        own = _Buffers(
            None if values is None else values[: rows + (text is not None)].copy(),
            bits.copy(),
            None if text is None or values is None else text[: values[rows]].copy(),
        )
        bits[:] = 0
        if values is not None and text is None:
            values[:rows] = 0  # Arrow reads the code of a NULL, too
        return own

    def _dictionaries(
        self, ends: npt.NDArray[np.int32], words: _Letters
    ) -> dict[str, pa.StringArray]:
        """The words of each column that has any."""
        columns = [*WORDS, *self._keys]
        counts = self._codes_used.tolist()
        first = np.cumsum([0, *(self._codes_used[:-1] + 1)]).tolist()
        return {
            name: pa.StringArray.from_buffers(
                count, pa.py_buffer(ends[begin : begin + count + 1]), pa.py_buffer(words)
            )
            for name, begin, count in zip(columns, first, counts, strict=True)
            if count
        }


class Scanned:
    """What a call found in some pieces."""

    def __init__(
        self,
        keys: Mapping[str, Kind],
        begins: npt.NDArray[np.int64],
        odd: _Letters,
        buffers: Mapping[tuple[int, str], _Buffers],
        words: Mapping[str, pa.StringArray],
    ) -> None:
        self._keys = keys
        self.begins = begins
        """Rows of each table before each piece, and at the end."""
        self.odd = odd
        """For each piece 0, or why it is handed back: it has no rows."""
        self._buffers = buffers
        self._words = words

    def rows(self, table: int) -> int:
        """Rows of a table."""
        return int(self.begins[-1, table])

    def has(self, table: int, name: str) -> bool:
        """Whether a column has any value."""
        return (table, name) in self._buffers

    def array(self, table: int, name: str) -> pa.Array:
        """A column: int64, bool, a string, or words in a dictionary."""
        rows, kind = self.rows(table), self._keys.get(name)
        if (table, name) not in self._buffers:
            return pa.nulls(rows, self.type_of(name))
        values, valid, text = self._buffers[table, name]
        bits = pa.py_buffer(valid)
        if values is None:
            return pa.Array.from_buffers(pa.bool_(), rows, [None, bits])
        data = pa.py_buffer(values)
        if text is not None:
            return pa.StringArray.from_buffers(rows, data, pa.py_buffer(text), bits)
        if values.dtype == np.int64:
            return pa.Array.from_buffers(pa.int64(), rows, [bits, data])
        numbers = pa.Array.from_buffers(pa.int32(), rows, [bits, data])
        if kind == Kind.FLAG:
            return numbers.cast(pa.bool_())
        return pa.DictionaryArray.from_arrays(numbers, self._words[name], safe=False)

    def type_of(self, name: str) -> pa.DataType:
        """Type of a column."""
        kind = self._keys.get(name)
        if name in TIMES or kind == Kind.INTEGER:
            return pa.int64()
        if name == ROUNDED or kind == Kind.FLAG:
            return pa.bool_()
        return pa.string() if name in TEXTS else pa.dictionary(pa.int32(), pa.string())
