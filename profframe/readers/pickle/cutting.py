"""Where the values of many flat dicts lie in a pickle: found for all of them at once.

A dict begins where the bytes of its first key follow those that begin a dict. From all such places
the opcodes are followed side by side, a field at a time. Bytes that only look like a beginning lie
within another dict, or end where none begins: what counts is one dict after the other, from the
first on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Kind = Literal["number", "text", "stack"]
"""What a value is: a number, a text that repeats, or a list of frames."""

MEMOIZE: Final = 0x94
NONE: Final = ord("N")
LONG: Final = 0x8A
LIST: Final = ord("]")
SHORT_TEXT: Final = 0x8C
TEXT: Final = ord("X")
GETS: Final = (ord("h"), ord("j"))

_DICT: Final = ord("}")
_MARK: Final = ord("(")
_APPEND: Final = ord("a")
_APPENDS: Final = ord("e")
_SETITEMS: Final = ord("u")
_PAD: Final = bytes(16)
_MOST_FRAMES: Final = 4096
"""Values of a list that is followed side by side with others."""


def _sizes(sizes: Mapping[int, int]) -> npt.NDArray[np.int64]:
    """Bytes of each opcode with its argument; 0 of others."""
    table = np.zeros(256, np.int64)
    table[list(sizes)] = list(sizes.values())
    return table


_GET_SIZES: Final = _sizes({ord("h"): 2, ord("j"): 5})
_MEMO_SIZES: Final = _sizes({MEMOIZE: 1, ord("q"): 2, ord("r"): 5})
_NUMBER_SIZES: Final = _sizes({ord("K"): 2, ord("M"): 3, ord("J"): 5, LONG: 2, NONE: 1})
_TEXT_SIZES: Final = _sizes({ord("h"): 2, ord("j"): 5, NONE: 1, SHORT_TEXT: 2, TEXT: 5})
_STACK_SIZES: Final = _sizes({ord("h"): 2, ord("j"): 5, LIST: 1})


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a dict, its places in the memo, and what its value is."""

    key: str
    places: tuple[int, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Layout:
    """Dicts of some shapes, each a sequence of fields.

    Attributes
    ----------
    shapes
        The shapes, in the order in which they are tried.
    groups
        By shape: the first group of each key. A text has a second one, of what memoises it, and a
        list a third one, of its values. The group before the first key is what memoises the dict.
    memos
        Groups of what memoises, in the order of their opcodes within a dict.
    """

    shapes: tuple[tuple[Field, ...], ...]
    groups: tuple[Mapping[str, tuple[int, Kind]], ...]
    memos: tuple[int, ...]
    count: int

    @staticmethod
    def of(shapes: Sequence[tuple[Field, ...]]) -> Layout:
        """Number the groups of these shapes."""
        groups: list[Mapping[str, tuple[int, Kind]]] = []
        memos: list[int] = []
        count = 0
        for shape in shapes:
            memos.append(count)
            count += 1
            first: dict[str, tuple[int, Kind]] = {}
            for field in shape:
                first[field.key] = count, field.kind
                if field.kind != "number":
                    memos.append(count + 1)
                count += {"number": 1, "text": 2, "stack": 3}[field.kind]
            groups.append(first)
        return Layout(tuple(shapes), tuple(groups), tuple(memos), count)

    def cut(self, data: bytes) -> Cut:
        """Cut the dicts that begin at the first byte, one behind the other."""
        padded = np.frombuffer(data + _PAD, np.uint8)
        starts = _beginnings(padded, self.shapes)
        ends = np.full(len(starts), -1, np.int64)
        spans = np.empty((self.count, 2, len(starts)), np.int32)
        spans[:] = starts
        first = 0
        for shape in self.shapes:
            rows = np.flatnonzero(ends < 0)
            cursor = _Cursor(padded, starts[rows], rows)
            cursor.follow(shape)
            cursor.keep(cursor.at <= len(data))
            ends[cursor.rows] = cursor.at
            after = first + len(cursor.spans)
            if len(cursor.rows):
                spans[first:after, :, cursor.rows] = cursor.spans
            first = after
        rows = _chain(starts, ends)
        return Cut(data, spans[:, :, rows], int(ends[rows[-1]]) if len(rows) else 0)


@dataclass(frozen=True, slots=True)
class Cut:
    """Dicts that were cut.

    Attributes
    ----------
    data
        The bytes that they are in.
    spans
        Where each group of each dict begins and ends; it is empty where it is absent.
    end
        Where the last dict ends.
    """

    data: bytes
    spans: npt.NDArray[np.int32]
    end: int

    @property
    def count(self) -> int:
        """Number of dicts."""
        return int(self.spans.shape[2])

    def group(self, number: int) -> pa.Array:
        """The bytes of one group."""
        # What lies between two values is a value of its own, so that no byte is copied before.
        bounds = np.ascontiguousarray(self.spans[number].T).ravel()
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        values = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
        return values.take(pa.array(np.arange(0, len(bounds) - 1, 2)))

    def memoised(self, layout: Layout) -> int:
        """Number of opcodes that memoise at the next place of the memo."""
        data = np.frombuffer(self.data, np.uint8)
        begins, ends = self.spans[list(layout.memos)].swapaxes(0, 1)
        return int((data[begins[ends > begins]] == MEMOIZE).sum())


class _Cursor:
    """Places in the bytes of dicts, which move on together; dicts that do not fit drop out."""

    def __init__(self, data: Bytes, at: Ints, rows: Ints) -> None:
        self.at = at
        self.rows = rows
        self.spans = np.empty((0, 2, len(rows)), np.int32)
        self._data = data
        self._spans: list[npt.NDArray[np.int32]] = []

    def follow(self, shape: tuple[Field, ...]) -> None:
        """Go through dicts of one shape."""
        self.begin(shape[0].places)
        for number, field in enumerate(shape):
            if number:
                self._pass_key(field.places)
            if field.kind == "number":
                self._take(_NUMBER_SIZES)
            elif field.kind == "text":
                self._take(_TEXT_SIZES)
                self._take(_MEMO_SIZES, is_optional=True)
            else:
                self._take(_STACK_SIZES)
                self._take(_MEMO_SIZES, is_optional=True)
                self._take_frames(self._data[self._spans[-2][0]] == LIST)
        self._pass(_SETITEMS)
        # Where one batch of a list's items ends, the next begins: no value is on the stack there.
        code, after = self._code(), self._data[self._places(1)]
        self.at = self.at + 2 * ((code == _APPENDS) & (after == _MARK))
        self.spans = np.array(self._spans)

    def begin(self, places: Sequence[int]) -> None:
        """Go to the first value of a dict, with its key at one of these places of the memo."""
        self._pass(_DICT)
        self._take(_MEMO_SIZES, is_optional=True)
        self._pass(_MARK)
        self._pass_key(places)

    def keep(self, fits: npt.NDArray[np.bool_]) -> None:
        """Go on with some of the dicts."""
        if not fits.all():
            self.at, self.rows = self.at[fits], self.rows[fits]
            self._spans = [span[:, fits] for span in self._spans]
            self.spans = self.spans[:, :, fits]

    def _places(self, offset: int) -> Ints:
        return np.minimum(self.at + offset, len(self._data) - 1)

    def _code(self) -> Bytes:
        return self._data[self._places(0)]

    def _number(self, offset: int, size: int) -> Ints:
        """An unsigned number."""
        number = np.zeros(len(self.at), np.int64)
        for byte in range(size):
            number |= self._data[self._places(offset + byte)].astype(np.int64) << (8 * byte)
        return number

    def _pass(self, code: int) -> None:
        self.keep(self._code() == code)
        self.at = self.at + 1

    def _pass_key(self, places: Sequence[int]) -> None:
        """Pass an opcode that gets a key from the memo."""
        code = self._code()
        is_short = code == GETS[0]
        self.keep(is_short | (code == GETS[1]))
        is_short = self._code() == GETS[0]
        place = np.where(is_short, self._number(1, 1), self._number(1, 4))
        size = np.where(is_short, 2, 5)
        fits = np.zeros(len(place), np.bool_)
        for one in places:
            fits |= place == one
        self.at = self.at + size
        self.keep(fits)

    def _take(self, sizes: npt.NDArray[np.int64], *, is_optional: bool = False) -> None:
        """Take an opcode with its argument."""
        code = self._code()
        size = sizes[code]
        if sizes is _NUMBER_SIZES:
            length = np.where(code == LONG, self._number(1, 1), 0)
            size = np.where(length > 8, 0, size + length)
        elif sizes is _TEXT_SIZES:
            size = size + np.where(code == SHORT_TEXT, self._number(1, 1), 0)
            if (is_long := code == TEXT).any():
                size = size + np.where(is_long, self._number(1, 4), 0)
        self._spans.append(np.array([self.at, self.at + size], np.int32))
        self.at = self.at + size
        if not is_optional:
            self.keep(size > 0)

    def _take_frames(self, is_list: npt.NDArray[np.bool_]) -> None:
        """Take the values of lists, which are all gotten from the memo."""
        begin, end = self.at, self.at.copy()
        fits = np.ones(len(end), np.bool_)
        left = np.flatnonzero(is_list)
        at = begin[left]
        inside = np.zeros(len(left), np.bool_)
        """Between the opcodes that begin and end a batch."""
        for _ in range(_MOST_FRAMES):
            if not len(left):
                break
            code = self._data[np.minimum(at, len(self._data) - 1)]
            size = _GET_SIZES[code]
            begins = ~inside & (code == _MARK)
            ends = inside & (code == _APPENDS)
            is_one = ~inside & (size > 0)
            after = self._data[np.minimum(at + size, len(self._data) - 1)]
            is_one &= after == _APPEND
            at = at + np.where(begins | ends, 1, np.where(inside, size, (size + 1) * is_one))
            stops = np.where(inside, ~ends & (size == 0), ~begins)
            end[left[stops]] = at[stops]
            fits[left[stops & inside]] = False
            inside = (inside | begins) & ~ends
            left, at, inside = left[~stops], at[~stops], inside[~stops]
        fits[left] = False
        self._spans.append(np.array([begin, end], np.int32))
        self.at = end
        self.keep(fits)


def _beginnings(data: Bytes, shapes: Sequence[tuple[Field, ...]]) -> Ints:
    """Where a dict may begin: at the bytes before one of the first keys."""
    at = np.flatnonzero(data[: -len(_PAD)] == _DICT)
    cursor = _Cursor(data, at, at)
    cursor.begin([place for shape in shapes for place in shape[0].places])
    return cursor.rows


def _chain(starts: Ints, ends: Ints) -> Ints:
    """Dicts that follow each other, from the first byte on."""
    count = len(starts)
    if not count or starts[0] != 0:
        return np.empty(0, np.int64)
    following = np.searchsorted(starts, ends)
    follows = (ends >= 0) & (starts[np.minimum(following, count - 1)] == ends)
    breaks = np.flatnonzero(~follows | (following != np.arange(1, count + 1)))
    pieces: list[Ints] = []
    row = 0
    while True:
        last = int(breaks[np.searchsorted(breaks, row)])
        pieces.append(np.arange(row, last + int(ends[last] >= 0)))
        if not follows[last]:
            return np.concatenate(pieces)
        row = int(following[last])
