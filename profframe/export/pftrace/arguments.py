"""Arguments of events, which are JSON text, as debug annotations with values of their types.

What no type keeps as it was written becomes an annotation of JSON: lists, objects, numbers like
1.50, and texts with escapes, some of which are not Unicode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.export.pftrace import wire
from profframe.export.pftrace.wire import Message, Parts
from profframe.intervals import Ints, Mask

Bytes = npt.NDArray[np.uint8]

_QUOTE, _COLON, _COMMA, _BACKSLASH = (ord(c) for c in '":,\\')
_OPENING: Final = b"{["
_CLOSING: Final = b"}]"
_SPACES: Final = b" \t\r\n"
_NAME_IID: Final = 1
_BOOL: Final = 2
_INT: Final = 4
_DOUBLE: Final = 5
_STRING: Final = 6
_JSON: Final = 9
_INTEGER: Final = r"^(0|-?[1-9][0-9]{0,17})$"
_DECIMAL: Final = r"^-?(0|[1-9][0-9]{0,14})\.[0-9]{1,17}$"


def _table(letters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[np.frombuffer(letters, np.uint8)] = True
    return table


_IS_STRUCTURE: Final = _table(b'":,' + _OPENING + _CLOSING)
_IS_SPACE: Final = _table(_SPACES)
_STEP: Final = _table(_OPENING).astype(np.int8) - _table(_CLOSING).astype(np.int8)


@dataclass(frozen=True, slots=True)
class Members:
    """Members of objects, in order.

    Attributes
    ----------
    owner
        The row that each belongs to.
    names, values
        The name of each without its quotation marks, and the text of its value.
    are_whole
        Rows that are objects whose names have no escapes; others have no members here.
    """

    owner: Ints
    names: Parts
    values: Parts
    are_whole: Mask


def members(texts: pa.Array) -> Members:
    """The members of objects.

    Examples
    --------
    >>> objects = members(pa.array(['{"a": [1, 2], "b":"x,y"}', None, "7"], pa.large_string()))
    >>> objects.owner.tolist(), objects.names.to_pylist(), objects.values.to_pylist()
    ([0, 0], [b'a', b'b'], [b'[1, 2]', b'"x,y"'])
    >>> objects.are_whole.tolist()
    [True, False, False]
    """
    count = len(texts)
    parts = wire.texts(texts)
    edges = wire.bounds(parts)
    data = parts.buffers()[2] or pa.py_buffer(b"")
    letters = np.frombuffer(data, np.uint8)
    place = _structure(letters[: edges[-1]])
    first = np.searchsorted(place, edges)
    place = place[first[0] :]
    first -= first[0]
    letter = letters[place]
    is_quote = letter == _QUOTE
    quotes = _within(is_quote, first)
    # The content of a text does not matter; its quotation marks represent it.
    is_kept = is_quote | (quotes.running & 1 == 0)
    first = np.append(0, np.cumsum(is_kept))[first]
    place, letter, is_quote = place[is_kept], letter[is_kept], is_quote[is_kept]
    row = np.repeat(np.arange(count), np.diff(first))
    step = _STEP[letter]
    depth = _within(step, first)
    is_colon = (letter == _COLON) & (depth.running == 1)
    is_end = ((letter == _COMMA) & (depth.running == 1)) | ((step < 0) & (depth.running == 0))
    begin = _first_letters(letters, edges)
    colons, ends = (np.bincount(row[mask], minlength=count) for mask in (is_colon, is_end))
    are_whole = (begin == ord("{")) & (quotes.total % 2 == 0) & (depth.total == 0)
    are_whole &= (ends == colons) | ((colons == 0) & (ends == 1))
    at = np.flatnonzero(is_colon & are_whole[row])
    is_odd = (at < 2) | ~is_quote[at - 1] | ~is_quote[at - 2] | (row[at - 2] != row[at])
    are_whole[row[at[is_odd]]] = False
    at = at[are_whole[row[at]]]
    close = np.flatnonzero(is_end & are_whole[row] & (colons[row] > 0))
    names = wire.between(data, place[at - 2] + 1, place[at - 1])
    is_escaped = _has_escapes(names)
    if is_escaped.any():
        are_whole[row[at[is_escaped]]] = False
        stays = are_whole[row[at]]
        at, close, names = at[stays], close[stays], names.filter(pa.array(stays))
    start, end = _trimmed(letters, place[at] + 1, place[close])
    return Members(row[at], names, wire.between(data, start, end), are_whole)


def debug_annotations(objects: Members, name_iids: Ints) -> Message:
    """A message for each member."""
    values = objects.values
    count = len(values)
    if not count:
        return [values]
    first = np.frombuffer(values.buffers()[2], np.uint8)[wire.bounds(values)[:-1]]
    shown = values.cast(pa.large_string())
    is_text = (first == _QUOTE) & ~_has_escapes(values)
    is_bool = (first == ord("t")) | (first == ord("f"))
    is_number = ((first >= ord("0")) & (first <= ord("9"))) | (first == ord("-"))
    is_int, is_double = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    at = np.flatnonzero(is_number)
    written = shown.take(pa.array(at))
    is_int[at] = _matches(written, _INTEGER)
    at = at[~is_int[at]]
    written = shown.take(pa.array(at))
    at = at[_matches(written, _DECIMAL)]
    decimals = shown.take(pa.array(at)).cast(pa.float64())
    # A number that is not written in its shortest form would come back as another text.
    is_same = pc.equal(decimals.cast(pa.large_string()), shown.take(pa.array(at)))
    is_double[at] = is_same.to_numpy(zero_copy_only=False)
    is_json = ~(is_text | is_bool | is_int | is_double)
    edges = wire.bounds(values)
    data = values.buffers()[2]
    # Quotation marks are not part of a text.
    cut = is_text.astype(np.int64)
    has_text = is_text | is_json
    at = np.flatnonzero(has_text)
    own = wire.between(data, (edges[:-1] + cut)[at], (edges[1:] - cut)[at])
    parts = [(at, own)]
    shown_bools = wire.numbers(_BOOL, (first[is_bool] == ord("t")).astype(np.int64))
    integers = shown.filter(pa.array(is_int)).cast(pa.int64()).to_numpy()
    doubles = shown.filter(pa.array(is_double)).cast(pa.float64()).to_numpy()
    for mask, encoded in (
        (is_bool, shown_bools),
        (is_int, wire.numbers(_INT, integers)),
        (is_double, wire.doubles(_DOUBLE, doubles)),
    ):
        parts.append((np.flatnonzero(mask), wire.joined(encoded)))
    place = np.empty(count, np.int64)
    place[np.concatenate([rows for rows, _ in parts])] = np.arange(count)
    value = pa.concat_arrays([part for _, part in parts]).take(pa.array(place))
    size = np.diff(wire.bounds(value))
    field = np.where(is_text, _STRING, _JSON)
    return [
        *wire.numbers(_NAME_IID, name_iids),
        *wire.tags(field, size, has_text),
        value,
    ]


def numbers_in(objects: Members) -> tuple[Ints, npt.NDArray[np.float64]]:
    """The members whose values are numbers, and the numbers."""
    numbers = objects.values.cast(pa.large_string())
    at = np.flatnonzero(_matches(numbers, r"^-?[0-9]{1,300}(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"))
    return at, numbers.take(pa.array(at)).cast(pa.float64()).to_numpy()


@dataclass(frozen=True, slots=True)
class _Totals:
    """Sums of steps in each row: up to and including each step, and of all."""

    running: npt.NDArray[np.int32]
    total: npt.NDArray[np.int32]


def _within(steps: npt.NDArray[Any], first: Ints) -> _Totals:
    """``first`` is the place of the first step of each row, and ends with their number."""
    running = np.zeros(steps.size + 1, np.int32)
    np.cumsum(steps, out=running[1:])
    before = running[first[:-1]]
    return _Totals(running[1:] - np.repeat(before, np.diff(first)), running[first[1:]] - before)


def _structure(letters: Bytes) -> Ints:
    """Places of what separates members and texts; a quotation mark after a backslash does not."""
    place = np.flatnonzero(_IS_STRUCTURE[letters])
    slashes = np.flatnonzero(letters == _BACKSLASH)
    if not slashes.size:
        return place
    is_first = np.diff(slashes, prepend=-2) != 1
    run_start = slashes[np.maximum.accumulate(np.where(is_first, np.arange(slashes.size), 0))]
    quote = np.flatnonzero(letters[place] == _QUOTE)
    before = np.searchsorted(slashes, place[quote]) - 1
    is_behind = (before >= 0) & (slashes[before] == place[quote] - 1)
    run = place[quote] - run_start[before]
    return np.delete(place, quote[is_behind & (run % 2 == 1)])


def _first_letters(letters: Bytes, edges: Ints) -> Bytes:
    """The first letter of each row that is not a space; 0 for an empty row."""
    start, _ = _trimmed(letters, edges[:-1], edges[1:])
    begin = np.zeros(start.size, np.uint8)
    has = start < edges[1:]
    begin[has] = letters[start[has]]
    return begin


def _trimmed(letters: Bytes, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Texts without the spaces around them."""
    start, end = start.copy(), end.copy()
    for edge, step, behind in ((start, 1, 0), (end, -1, 1)):
        active = np.flatnonzero(start < end)
        while active.size:
            active = active[_IS_SPACE[letters[edge[active] - behind]]]
            edge[active] += step
            active = active[start[active] < end[active]]
    return start, end


def _has_escapes(texts: Parts) -> Mask:
    mask: Mask = pc.match_substring(texts, b"\\").to_numpy(zero_copy_only=False)
    return mask


def _matches(texts: pa.Array, pattern: str) -> Mask:
    mask: Mask = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return mask
