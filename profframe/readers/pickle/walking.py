"""Dicts of known keys in the bytes of a pickle, walked side by side: each step moves all of them.

Each step is a few array operations over all places where a dict may begin. If a dict does not have
its expected shape, its walk ends. What a walk has passed was checked byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Kind = Literal["number", "text", "stack", "tuple", "other"]
"""What a value is: a number, a text that repeats, a list of frames, a short tuple of numbers that
repeats, or what is not kept."""
Shape = Sequence[tuple[str, Kind, Sequence[bytes]]]
"""Keys of a dict, the kinds of their values, and the opcodes that may stand for each key."""

EMPTY: Final = 0
VALUE: Final = 1
"""A number, or a text, dict or list of places in the memo, which is in the bytes here."""
GET: Final = 2
"""One from the memo, at the place that is the number."""
ITEMS: Final = 3
"""A list of dicts, which is in the bytes here."""

MARGIN: Final = 40
"""Bytes after its place that each step may look at."""
_LONGEST_TEXT: Final = 1024
_LONGEST_KEY: Final = 24
_MOST_GETS: Final = 64
"""Places in a list that are passed side by side: the rest of a longer list is passed alone."""
_MOST_PIECES: Final = 512
_MOST_NUMBERS: Final = 3
_WORD: Final = 8
_DICT, _MARK, _SETITEMS = ord("}"), ord("("), ord("u")
_LIST, _APPEND, _APPENDS = ord("]"), ord("a"), ord("e")
_NONE, _LONG, _SHORT_TEXT, _TEXT = ord("N"), 0x8A, 0x8C, ord("X")
_BYTE_GET, _LONG_GET, _MEMOIZE = ord("h"), ord("j"), 0x94
_MORE_GETS: Final = re.compile(rb"(?:h.|j.{4}|e\()*e(?:(?:h.|j.{4})a)?", re.DOTALL)
"""Places in batches, the last of which may have only one."""


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


def forms_of_key(key: str, places: Sequence[int]) -> tuple[bytes, ...]:
    """Opcodes that may stand for a key: its places in the memo, or its text if it has none."""
    forms = [
        bytes([_BYTE_GET, place])
        if place < 256
        else bytes([_LONG_GET]) + place.to_bytes(4, "little")
        for place in places
    ]
    text = key.encode("utf-8", "replace")
    if len(text) <= _LONGEST_KEY:
        size = len(text)
        forms += [
            bytes([_SHORT_TEXT, size]) + text,
            bytes([_TEXT]) + size.to_bytes(4, "little") + text,
        ]
    return tuple(forms)


def may_begin(data: npt.NDArray[np.uint8]) -> Ints:
    """Places where a dict may begin."""
    after = data[1:]
    puts = (after == _MEMOIZE) | (after == ord("q")) | (after == ord("r"))
    places: Ints = np.flatnonzero((data[:-1] == _DICT) & ((after == _MARK) | puts))
    return places


def spread(begins: Ints, counts: Ints) -> Ints:
    """Numbers from each begin on, a given count for each."""
    before = np.cumsum(counts) - counts
    numbers: Ints = np.arange(int(counts.sum())) + np.repeat(begins - before, counts)
    return numbers


@dataclass(slots=True)
class Block:
    """Bytes of a pickle."""

    data: bytes
    codes: npt.NDArray[np.uint8]
    words: npt.NDArray[np.int64]
    """Eight bytes from each place on."""
    last: int
    """No step begins after it."""
    places: int
    """Number of places that the memo may have."""

    @classmethod
    def of(cls, data: bytes, places: int) -> Block:
        """The views of some bytes."""
        words: npt.NDArray[np.int64] = np.ndarray(
            (max(0, len(data) - _WORD + 1),), "<i8", data, strides=(1,)
        )
        return cls(data, np.frombuffer(data, np.uint8), words, len(data) - MARGIN, places)


@dataclass(slots=True)
class Adjacent:
    """Dicts that were found in a block, for lists that hold some of them in a row."""

    starts: Ints
    ends: Ints
    passed: Ints
    """Values that those before each put into the memo, and that all of them did."""
    breaks: Ints
    """Rows that no other one directly follows."""

    @classmethod
    def of(cls, starts: Ints, ends: Ints, memoised: Ints) -> Adjacent:
        """Make the rows from their places and numbers of memoised values."""
        follows = ends[:-1] == starts[1:]
        breaks = np.append(np.flatnonzero(~follows), len(starts) - 1)
        return cls(starts, ends, np.append([0], np.cumsum(memoised)), breaks)

    def from_(self, at: Ints) -> tuple[Ints, Ints]:
        """The row that begins at each place, and the one after all that directly follow it."""
        first = np.searchsorted(self.starts, at)
        np.minimum(first, len(self.starts) - 1, out=first)
        stop = self.breaks[np.searchsorted(self.breaks, first)] + 1
        return first, np.where(self.starts[first] == at, stop, first)


@dataclass(slots=True)
class ListPieces:
    """Parts of lists, list by list: dicts in a row, or places in the memo."""

    firsts: Ints
    """Row of the first dict; -1 for a place in the memo."""
    counts: Ints
    numbers: Ints
    """The place, or how many values the outer dict had put into the memo before the dicts."""

    @classmethod
    def of(cls, parts: Sequence[ListPieces] = ()) -> ListPieces:
        """Concatenate several."""
        none = np.empty(0, np.int64)
        columns = zip((none,) * 3, *((p.firsts, p.counts, p.numbers) for p in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


@dataclass(slots=True)
class Values:
    """Values of one key, one for each dict that is walked."""

    state: Ints
    numbers: Ints
    """As in a `Column`; what the dict itself put counts from its own first one."""
    is_own: Bools
    begins: Ints
    ends: Ints
    """Bytes of the value; for a list of dicts its pieces."""
    pieces: ListPieces = field(default_factory=ListPieces.of)

    def of(self, rows: Ints) -> Values:
        """Select some dicts."""
        return Values(
            self.state[rows],
            self.numbers[rows],
            self.is_own[rows],
            self.begins[rows],
            self.ends[rows],
            self.pieces,
        )


class Walk:
    """Dicts of one shape that are walked side by side."""

    def __init__(self, block: Block, starts: Ints, frames: Adjacent | None) -> None:
        self.rows = np.arange(len(starts))
        """The starts that are still walked."""
        self.at = starts.copy()
        self.is_right = np.ones(len(starts), np.bool_)
        self.memoised = np.zeros(len(starts), np.int64)
        """Number of values that each put into the memo."""
        self.values: dict[tuple[str, Kind], Values] = {}
        self._block = block
        self._codes, self._words, self._last = block.codes, block.words, block.last
        self._frames = frames

    def dicts(self, shape: Shape) -> None:
        """Pass a whole dict of each."""
        self._expect(_DICT)
        own = self._put()
        self._expect(_MARK)
        for i, (key, kind, forms) in enumerate(shape):
            self._key(forms)
            if not i:  # what begins differently is mostly another kind of dict
                rows = np.flatnonzero(self.is_right)
                own = own[0][rows], own[1][rows]
                self.rows, self.at, self.memoised = rows, self.at[rows], self.memoised[rows]
                self.is_right = self.is_right[rows]
            self.values[key, kind] = getattr(self, f"_{kind}")()
        self._expect(_SETITEMS)
        self.places, self.is_own = own
        ends = (self._words[self.at] & 0xFFFF) == (_APPENDS | _MARK << 8)
        self._move(2 * ends)  # a batch of the list ends, and the next one begins

    def _move(self, size: Ints | int) -> None:
        """Move on by this many bytes."""
        self.at += size
        self.is_right &= self.at <= self._last
        np.minimum(self.at, self._last, out=self.at)

    def _expect(self, code: int) -> None:
        """Pass one opcode, which must be there."""
        self.is_right &= self._codes[self.at] == code
        self._move(1)

    def _key(self, forms: Sequence[bytes]) -> None:
        """Pass a key in one of its forms."""
        size = np.zeros(len(self.at), np.int64)
        for form in forms:
            is_here = np.ones(len(size), np.bool_)
            for begin in range(0, len(form), _WORD):
                part = form[begin : begin + _WORD]
                mask, wanted = (
                    int.from_bytes(part_.ljust(_WORD, b"\0"), "little", signed=True)
                    for part_ in (b"\xff" * len(part), part)
                )
                is_here &= (self._words[self.at + begin] & mask) == wanted
            size[is_here] = len(form)
            if size.all():
                break
        self.is_right &= size > 0
        self._move(size)

    def _put(self, where: Bools | None = None) -> tuple[Ints, Bools]:
        """Pass what puts a value into the memo; its place, or its number among the dict's own."""
        word = self._words[self.at]
        code = word & 0xFF
        size = _PUT_SIZE[code]
        if where is not None:
            size = np.where(where, size, 0)
        is_own = size == 1
        place = np.where(is_own, self.memoised, np.where(size > 0, _argument(word, size), -1))
        self.is_right &= place < self._block.places
        self.memoised += is_own
        self._move(size)
        return place, is_own

    def _number(self) -> Values:
        """Pass a number or None."""
        word = self._words[self.at]
        code = word & 0xFF
        is_long = code == _LONG
        count = np.where(is_long, word >> 8 & 0xFF, _NUMBER_BYTES[code])
        self.is_right &= (_IS_NUMBER[code] > 0) & (count <= _WORD)
        count = np.minimum(count, _WORD)
        skip = 1 + is_long
        raw = self._words[self.at + skip]
        shift = 64 - 8 * np.maximum(count, 1)
        numbers = (raw << shift) >> shift
        is_unsigned = (code == ord("K")) | (code == ord("M"))
        numbers = np.where(is_unsigned, numbers & 0xFFFF & ((1 << 8 * count) - 1), numbers)
        numbers = np.where(count > 0, numbers, 0)
        self._move(skip + count)
        state = np.where(code == _NONE, EMPTY, VALUE)
        return Values(state, numbers, np.zeros(len(state), np.bool_), numbers, numbers)

    def _other(self) -> Values:
        """Pass a number, bool, float, None, a short tuple of these, or a place in the memo."""
        first = self._codes[self.at]
        get = _GET_SIZE[first]
        of_memo = _argument(self._words[self.at], get)
        count = np.zeros(len(first), np.int64)
        begin = self.at.copy()
        is_open = (get == 0) & self.is_right
        self._move(get)
        for _ in range(_MOST_NUMBERS):
            word = self._words[self.at]
            size = _SCALAR_SIZE[word & 0xFF]
            size += np.where(word & 0xFF == _LONG, word >> 8 & 0xFF, 0)
            is_open &= size > 0
            if not is_open.any():
                break
            self._move(np.where(is_open, size, 0))
            count += is_open
        is_tuple = (count > 0) & (self._codes[self.at] == np.take((0, *_TUPLES), count))
        self.is_right &= (get > 0) | is_tuple | (count == 1)
        self._move(is_tuple.astype(np.int64))
        end = self.at.copy()
        place, is_own = self._put(is_tuple)
        state = np.where((first == _NONE) & ~is_tuple, EMPTY, np.where(get > 0, GET, VALUE))
        return Values(state, np.where(get > 0, of_memo, place), is_own, begin, end)

    _tuple = _other

    def _text(self) -> Values:
        """Pass a text, or its place in the memo, or None."""
        word = self._words[self.at]
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
        self._move(head + size)
        end = self.at.copy()
        put, is_own = self._put(is_new)
        state = np.where(is_new, VALUE, np.where(get > 0, GET, EMPTY))
        return Values(state, np.where(get > 0, place, put), is_own, begin, end)

    def _stack(self) -> Values:
        """Pass a list of dicts or of places in the memo, its own place there, or None."""
        word = self._words[self.at]
        code = word & 0xFF
        get = _GET_SIZE[code]
        is_new = code == _LIST
        self.is_right &= is_new | (get > 0) | (code == _NONE)
        place = _argument(word, get)
        self._move(np.where(is_new | (code == _NONE), 1, get))
        put, is_own = self._put(is_new)
        begin = self.at.copy()
        is_open = is_new & (self._codes[self.at] == _MARK)
        self._move(is_open.astype(np.int64))
        first = self.at.copy()
        is_closed = self._gets(np.flatnonzero(is_open & self.is_right))
        has_dicts = is_new & self.is_right & (self._codes[self.at] == _DICT)
        self.at[has_dicts] = first[has_dicts]
        rows = np.flatnonzero(has_dicts)
        starts, stops, pieces = self._pieces(rows)
        is_single = is_new & ~is_open
        size = np.where(is_single & ~has_dicts, _GET_SIZE[self._codes[self.at]], 0)
        is_one = is_single & (self._codes[self.at + size] == _APPEND)
        is_one &= (size > 0) | _marked(rows[_are_one(starts, stops, pieces)], len(is_one))
        self.is_right &= ~is_open | is_closed | (self._codes[self.at] == _APPENDS)
        self.is_right &= is_one | is_open | ~has_dicts
        self._move(np.where(is_one, size + 1, is_open))
        end = self.at.copy()
        late, is_own_late = self._put(is_new & (put < 0))  # as torch's own pickler in C++ does
        is_late = late >= 0
        put, is_own = np.where(is_late, late, put), np.where(is_late, is_own_late, is_own)
        begin[rows], end[rows] = starts, stops
        state = np.where(code == _NONE, EMPTY, np.where(is_new, VALUE, GET))
        state[rows] = ITEMS
        return Values(state, np.where(is_new, put, place), is_own, begin, end, pieces)

    def _gets(self, rows: Ints) -> Bools:
        """Pass places in the memo until there is something else; returns which lists ended."""
        is_closed = np.zeros(len(self.at), np.bool_)
        at = self.at[rows]
        for _ in range(_MOST_GETS):
            size = _GET_SIZE[self._codes[at]]
            if not size.any():
                break
            at += size
            np.minimum(at, self._last, out=at)
        else:
            for i in np.flatnonzero(_GET_SIZE[self._codes[at]]).tolist():
                if places := _MORE_GETS.match(self._block.data, at[i]):
                    at[i] = min(places.end() - 1, self._last)
                    is_closed[rows[i]] = True
        self.at[rows] = at
        self.is_right[rows] &= at < self._last
        return is_closed

    def _pieces(self, rows: Ints) -> tuple[Ints, Ints, ListPieces]:
        """Pass dicts and places in the memo: the pieces of each list, and where its own are."""
        frames, left = self._frames, rows
        parts: list[tuple[Ints, Ints, Ints, Ints]] = []
        while frames is not None and len(left) and len(parts) < 2 * _MOST_PIECES:
            first, stop = frames.from_(self.at[left])
            count = stop - first
            size = _GET_SIZE[self._codes[self.at[left]]]
            is_dict = count > 0
            word = self._words[self.at[left]]
            numbers = np.where(is_dict, self.memoised[left], _argument(word, size))
            kept = np.flatnonzero(is_dict | (size > 0))
            if not len(kept):
                break
            first, count, size, is_dict = first[kept], count[kept], size[kept], is_dict[kept]
            left = left[kept]
            parts.append(
                (left, np.where(is_dict, first, -1), np.where(is_dict, count, 1), numbers[kept])
            )
            behind = first + np.where(is_dict, count, 1)
            self.memoised[left] += np.where(
                is_dict, frames.passed[behind] - frames.passed[first], 0
            )
            at = np.where(is_dict, frames.ends[behind - 1], self.at[left] + size)
            self.is_right[left] &= at <= self._last
            self.at[left] = np.minimum(at, self._last)
        none = np.empty(0, np.int64)
        columns = zip((none,) * 4, *parts, strict=True)
        of, firsts, counts, numbers = (np.concatenate(column) for column in columns)
        order = np.argsort(of, kind="stable")
        pieces = ListPieces(firsts[order], counts[order], numbers[order])
        starts, stops = (np.searchsorted(of[order], rows, side) for side in ("left", "right"))
        self.is_right[rows] &= stops > starts
        return starts, stops, pieces


def _are_one(starts: Ints, stops: Ints, pieces: ListPieces) -> Ints:
    """Mask of lists with one item."""
    kept: Ints = np.flatnonzero(stops - starts == 1)
    ones: Ints = kept[pieces.counts[starts[kept]] == 1]
    return ones


def _marked(rows: Ints, count: int) -> Bools:
    """True at some of this many rows."""
    marked = np.zeros(count, np.bool_)
    marked[rows] = True
    return marked


def _argument(word: Ints, size: Ints) -> Ints:
    """The one or four bytes after an opcode whose whole length is this."""
    return (word >> 8) & np.where(size == 5, 0xFFFF_FFFF, 0xFF)
