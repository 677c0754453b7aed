"""Dicts of known keys in the bytes of a pickle, many of them at once, as columns.

All dicts that may begin in a block are walked side by side, key by key; each step is one operation
of arrays over all of them. Where a dict is not what its shape says, its walk ends, and it is left
for the decoder of single opcodes. What a walk has passed was checked byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Kind = Literal["number", "text", "stack", "other"]
"""What a value is: a number, a text that repeats, a list of frames, or what is not kept."""

EMPTY: Final = 0
VALUE: Final = 1
"""A number, or a text or list that the bytes have here."""
GET: Final = 2
"""One that the memo has, at the place that is the number."""

_LONGEST_TEXT: Final = 1024
_MOST_FRAMES: Final = 512
_MOST_NUMBERS: Final = 3
_MARGIN: Final = 32
"""Bytes behind the place of each step that it may look at."""
_DICT, _MARK, _SETITEMS = ord("}"), ord("("), ord("u")
_LIST, _APPEND, _APPENDS = ord("]"), ord("a"), ord("e")
_NONE, _LONG, _SHORT_TEXT, _TEXT = ord("N"), 0x8A, 0x8C, ord("X")
_BYTE_GET, _LONG_GET, _MEMOIZE = ord("h"), ord("j"), 0x94


def _by_code(values: Mapping[int, int]) -> Ints:
    table = np.zeros(256, np.int64)
    for code, value in values.items():
        table[code] = value
    return table


_GET_SIZE: Final = _by_code({_BYTE_GET: 2, _LONG_GET: 5})
_PUT_SIZE: Final = _by_code({_MEMOIZE: 1, ord("q"): 2, ord("r"): 5})
_NUMBER_BYTES: Final = _by_code({ord("K"): 1, ord("M"): 2, ord("J"): 4})
_IS_NUMBER: Final = _by_code({ord("K"): 1, ord("M"): 1, ord("J"): 1, _LONG: 1, _NONE: 1})
_SCALAR_SIZE: Final = _by_code(
    {ord("K"): 2, ord("M"): 3, ord("J"): 5, _LONG: 2, _NONE: 1, 0x88: 1, 0x89: 1, ord("G"): 9}
)
"""Bytes of an opcode with its value; of a long number without it."""
_TUPLES: Final = (0x85, 0x86, 0x87)


@dataclass(slots=True)
class Column:
    """Values of one key, one for each row."""

    state: npt.NDArray[np.int8]
    numbers: Ints
    """The number; for GET the place in the memo, for a text or list where it was put (-1: not)."""
    bodies: pa.Array
    """For each VALUE of a text or list its bytes, or the opcodes of its items; for each other one
    that the memo has, its opcodes."""


@dataclass(slots=True)
class Cut:
    """A run of dicts."""

    count: int
    end: int
    """Place behind the last one."""
    memoised: int
    """Values that came into the memo."""
    columns: dict[tuple[str, Kind], Column]
    """By key and kind, which may differ among shapes."""


@dataclass(slots=True)
class _Walk:
    """Dicts of one shape that are walked side by side."""

    data: npt.NDArray[np.uint8]
    words: npt.NDArray[np.int64]
    """Eight bytes from each place on."""
    at: Ints
    """Where each is."""
    is_right: Bools
    memoised: Ints
    """Values of each that came into the memo."""
    last: int
    values: dict[str, tuple[Kind, Ints, Ints, Ints, Ints, Ints]] = field(default_factory=dict)
    """By key: kind, state, number, whether that counts from the memo of before, begin and end."""

    def move(self, size: Ints | int) -> None:
        """Go on by so many bytes."""
        self.at += size
        self.is_right &= self.at <= self.last
        np.minimum(self.at, self.last, out=self.at)

    def expect(self, code: int) -> None:
        """Pass one opcode, which has to be there."""
        self.is_right &= self.data[self.at] == code
        self.move(1)

    def key(self, places: Sequence[int]) -> None:
        """Pass a key, which the memo has at one of these places."""
        word = self.words[self.at]
        size = np.zeros(len(word), np.int64)
        for place in places:
            if place < 256:
                size[(word & 0xFFFF) == (_BYTE_GET | place << 8)] = 2
            size[(word & 0xFF_FFFF_FFFF) == (_LONG_GET | place << 8)] = 5
        self.is_right &= size > 0
        self.move(size)

    def put(self, where: Bools | None = None) -> tuple[Ints, Bools]:
        """Pass what puts a value into the memo; its place, or its number among the own ones."""
        word = self.words[self.at]
        code = word & 0xFF
        size = _PUT_SIZE[code]
        if where is not None:
            size = np.where(where, size, 0)
        is_own = size == 1
        place = np.where(is_own, self.memoised, _argument(word, size))
        self.memoised += is_own
        self.move(size)
        return np.where(size > 0, place, -1), is_own

    def number(self) -> tuple[Ints, Ints]:
        """Pass a number or None: state and number."""
        word = self.words[self.at]
        code = word & 0xFF
        is_long = code == _LONG
        count = np.where(is_long, word >> 8 & 0xFF, _NUMBER_BYTES[code])
        self.is_right &= (_IS_NUMBER[code] > 0) & (count <= 8)
        count = np.minimum(count, 8)
        skip = 1 + is_long
        raw = self.words[self.at + skip]
        shift = 64 - 8 * np.maximum(count, 1)
        numbers = (raw << shift) >> shift
        is_unsigned = (code == ord("K")) | (code == ord("M"))
        numbers = np.where(is_unsigned, numbers & 0xFFFF & ((1 << 8 * count) - 1), numbers)
        numbers = np.where(count > 0, numbers, 0)
        self.move(skip + count)
        return np.where(code == _NONE, EMPTY, VALUE), numbers

    def other(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Pass a number, bool, float, None, a short tuple of these, or a place in the memo."""
        first = self.data[self.at]
        get = _GET_SIZE[first]
        count = np.zeros(len(first), np.int64)
        begin = self.at.copy()
        is_open = (get == 0) & self.is_right
        self.move(get)
        for _ in range(_MOST_NUMBERS):
            word = self.words[self.at]
            size = _SCALAR_SIZE[word & 0xFF]
            size += np.where(word & 0xFF == _LONG, word >> 8 & 0xFF, 0)
            is_open &= size > 0
            if not is_open.any():
                break
            self.move(np.where(is_open, size, 0))
            count += is_open
        is_tuple = (count > 0) & (self.data[self.at] == np.take((0, *_TUPLES), count))
        self.is_right &= (get > 0) | is_tuple | (count == 1)
        self.move(is_tuple.astype(np.int64))
        end = self.at.copy()
        place, is_own = self.put(is_tuple)
        state = np.where((first == _NONE) & ~is_tuple, EMPTY, np.where(get > 0, GET, VALUE))
        return state, place, is_own.astype(np.int64), begin, end

    def text(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Pass a text, or its place in the memo, or None."""
        word = self.words[self.at]
        code = word & 0xFF
        get = _GET_SIZE[code]
        is_short, is_text = code == _SHORT_TEXT, code == _TEXT
        is_new = is_short | is_text
        head = np.where(is_short, 2, np.where(is_text, 5, np.where(get > 0, get, 1)))
        size = np.where(is_new, _argument(word, head), 0)
        self.is_right &= (is_new | (get > 0) | (code == _NONE)) & (size <= _LONGEST_TEXT)
        size = np.minimum(size, _LONGEST_TEXT)
        place = _argument(word, get)
        begin = self.at + head
        self.move(head + size)
        end = self.at.copy()
        put, is_own = self.put(is_new)
        state = np.where(is_new, VALUE, np.where(get > 0, GET, EMPTY))
        return state, np.where(get > 0, place, put), is_own.astype(np.int64), begin, end

    def stack(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Pass a list of places in the memo, or its own place there."""
        word = self.words[self.at]
        code = word & 0xFF
        get = _GET_SIZE[code]
        is_new = code == _LIST
        self.is_right &= is_new | (get > 0)
        place = _argument(word, get)
        self.move(np.where(is_new, 1, get))
        put, is_own = self.put(is_new)
        begin = self.at.copy()
        open_ = is_new & (self.data[self.at] == _MARK)
        self.move(open_.astype(np.int64))
        self._items(np.flatnonzero(open_ & self.is_right))
        size = np.where(is_new & ~open_, _GET_SIZE[self.data[self.at]], 0)
        is_one = (size > 0) & (self.data[self.at + size] == _APPEND)
        self.is_right &= ~open_ | (self.data[self.at] == _APPENDS)
        self.move(np.where(is_one, size + 1, open_))
        end = self.at.copy()
        late, is_own_late = self.put(is_new & (put < 0))  # as torch's own pickler in C++ does
        is_late = late >= 0
        put, is_own = np.where(is_late, late, put), np.where(is_late, is_own_late, is_own)
        state = np.where(is_new, VALUE, GET)
        return state, np.where(is_new, put, place), is_own.astype(np.int64), begin, end

    def _items(self, rows: Ints) -> None:
        """Pass places in the memo until there is something else."""
        at = self.at[rows]
        for _ in range(_MOST_FRAMES):
            size = _GET_SIZE[self.data[at]]
            if not size.any():
                break
            at += size
            np.minimum(at, self.last, out=at)
        self.at[rows] = at
        self.is_right[rows] &= at < self.last

    def dicts(self, fields: Sequence[tuple[str, Kind, Sequence[int]]]) -> None:
        """Pass a whole dict of each."""
        self.expect(_DICT)
        self.put()
        self.expect(_MARK)
        none = np.zeros(len(self.at), np.int64)
        for key, kind, places in fields:
            self.key(places)
            if kind == "number":
                self.values[key] = kind, *self.number(), none, none, none
            elif kind == "other":
                self.values[key] = kind, *self.other()
            elif kind == "text":
                self.values[key] = kind, *self.text()
            else:
                self.values[key] = kind, *self.stack()
        self.expect(_SETITEMS)
        ends = (self.words[self.at] & 0xFFFF) == (_APPENDS | _MARK << 8)
        self.move(2 * ends)  # a batch of the list ends, and the next one begins


def _argument(word: Ints, size: Ints) -> Ints:
    """The one or four bytes behind an opcode, of which all has this size."""
    return (word >> 8) & np.where(size == 5, 0xFFFF_FFFF, 0xFF)


class Cutter:
    """Cuts runs of dicts out of one block of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._bytes = np.frombuffer(data, np.uint8)
        size = max(0, len(data) - 7)
        self._words: npt.NDArray[np.int64] = np.ndarray((size,), "<i8", data, strides=(1,))
        self._last = len(data) - _MARGIN - 8
        is_dict = self._bytes[:-1] == _DICT
        after = self._bytes[1:]
        self._starts = np.flatnonzero(
            is_dict
            & ((after == _MARK) | (after == _MEMOIZE) | (after == ord("q")) | (after == ord("r")))
        )

    def cut(
        self,
        position: int,
        most: int,
        memoised: int,
        shapes: Sequence[Sequence[tuple[str, Kind, Sequence[int]]]],
    ) -> Cut | None:
        """The dicts that lie one behind the other from a place on, and have one of these shapes.

        Parameters
        ----------
        position
            Where the first one begins.
        most
            So many places where one may begin are looked at.
        memoised
            Values in the memo before it.
        shapes
            Keys with kinds and places in the memo.
        """
        row = int(np.searchsorted(self._starts, position))
        starts = self._starts[row : row + most]
        starts = starts[starts <= self._last]
        if not len(starts) or starts[0] != position:
            return None
        shape_of = np.full(len(starts), -1, np.int64)
        ends = np.zeros(len(starts), np.int64)
        walks: list[tuple[Ints, _Walk]] = []
        rest = np.arange(len(starts))
        for number, shape in enumerate(shapes):
            walk = _Walk(
                self._bytes, self._words, starts[rest].copy(), np.ones(len(rest), np.bool_),
                np.zeros(len(rest), np.int64), self._last,
            )  # fmt: skip
            walk.dicts(shape)
            right = np.flatnonzero(walk.is_right)
            shape_of[rest[right]] = number
            ends[rest[right]] = walk.at[right]
            walks.append((rest, walk))
            rest = rest[~walk.is_right]
            if not len(rest):
                break
        rows = _chain(starts, ends)
        if not len(rows):
            return None
        return self._run(rows, shape_of, int(ends[rows[-1]]), walks, memoised)

    def _run(
        self,
        rows: Ints,
        shape_of: Ints,
        end: int,
        walks: Sequence[tuple[Ints, _Walk]],
        memoised: int,
    ) -> Cut:
        parts: list[tuple[Ints, Ints, _Walk]] = []
        own = np.zeros(len(rows), np.int64)
        for number, (of_walk, walk) in enumerate(walks):
            here = np.flatnonzero(shape_of[rows] == number)
            if len(here):
                at = np.searchsorted(of_walk, rows[here])
                own[here] = walk.memoised[at]
                parts.append((here, at, walk))
        before = memoised + np.cumsum(own) - own
        columns: dict[tuple[str, Kind], Column] = {}
        kinds = {(key, value[0]): None for *_, walk in parts for key, value in walk.values.items()}
        for key, kind in kinds:
            state = np.zeros(len(rows), np.int8)
            numbers, begins, stops = (np.zeros(len(rows), np.int64) for _ in range(3))
            for here, at, walk in parts:
                if key not in walk.values or walk.values[key][0] != kind:
                    continue
                _, states, values, is_own, begin, stop = walk.values[key]
                state[here] = states[at]
                numbers[here] = values[at] + np.where(is_own[at] > 0, before[here], 0)
                begins[here], stops[here] = begin[at], stop[at]
            has_body = state == VALUE
            if kind == "number":
                has_body[:] = False
            elif kind == "other":
                has_body &= numbers >= 0
            bodies = self._bodies(begins[has_body], stops[has_body])
            columns[key, kind] = Column(state, numbers, bodies)
        return Cut(len(rows), end, int(own.sum()), columns)

    def _bodies(self, begins: Ints, ends: Ints) -> pa.Array:
        """Pieces of the block, which lie one behind the other."""
        if not len(begins):
            return pa.nulls(0, pa.binary())
        offsets = np.empty(2 * len(begins) + 1, np.int32)
        offsets[0:-1:2], offsets[1::2], offsets[-1] = begins, ends, ends[-1]
        both = pa.Array.from_buffers(
            pa.binary(), 2 * len(begins), [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        )
        return both.take(pa.array(np.arange(0, 2 * len(begins), 2)))


def _chain(starts: Ints, ends: Ints) -> Ints:
    """Rows that begin where the one before ends, from the first one on; 0 is no end.

    A place that only looks like a beginning lies within a row, and is passed over.
    """
    follows = ends[:-1] == starts[1:]
    breaks = np.flatnonzero(~follows)
    kept: list[Ints] = []
    row = 0
    while ends[row]:
        at = int(np.searchsorted(breaks, row))
        last = int(breaks[at]) if at < len(breaks) else len(starts) - 1
        if not ends[last]:
            last -= 1
        kept.append(np.arange(row, last + 1))
        following = int(np.searchsorted(starts, ends[last]))
        if following >= len(starts) or starts[following] != ends[last] or following <= last:
            break
        row = following
    return np.concatenate(kept) if kept else np.empty(0, np.int64)


def joined(columns: Sequence[tuple[Ints, Column]], count: int) -> Column:
    """Columns of several runs as one, each at its rows; EMPTY elsewhere."""
    state, numbers = np.zeros(count, np.int8), np.zeros(count, np.int64)
    for rows, column in columns:
        state[rows], numbers[rows] = column.state, column.numbers
    bodies: Any = pa.concat_arrays([pa.nulls(0, pa.binary()), *(c.bodies for _, c in columns)])
    return Column(state, numbers, bodies)
