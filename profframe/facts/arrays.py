"""Convert Arrow columns to NumPy arrays and back, for all facts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.facts.column_views import ColumnView, once

if TYPE_CHECKING:
    from profframe.intervals import Ints, Mask

_Array = TypeVar("_Array", bound=npt.NDArray[Any])

_LAST = np.iinfo(np.int64).max
_DENSE = 4
_MOST_PLACES = 1 << 20
"""Keys within so many times their number, or so many at all, are used as places in an array; others
are searched."""


def numbers(table: pa.Table | ColumnView, name: str, missing: int = 0) -> Ints:
    """Column of integers, with ``missing`` where it is NULL."""
    return once(table, name, missing, partial(_numbers, missing))


def _numbers(missing: int, column: pa.ChunkedArray) -> Ints:
    if column.null_count == len(column):
        return _fixed(np.full(len(column), missing, np.int64))
    filled = column.fill_null(missing) if column.null_count else column
    values: Ints = filled.to_numpy().astype(np.int64, copy=False)
    return _fixed(values)


def summed_duration(events: pa.Table, rows: Ints) -> str:
    """How long rows of ``events`` take together, for the detail of a note."""
    return f"{int(numbers(events, 'dur_ns')[rows].sum()) / 1e6:.3f} ms"


def present(table: pa.Table | ColumnView, *names: str) -> Mask:
    """Rows where none of the columns is NULL."""
    masks = [once(table, name, "present", _present) for name in names]
    return masks[0] if len(masks) == 1 else _fixed(reduce(np.logical_and, masks))


def _present(column: pa.ChunkedArray) -> Mask:
    nulls = column.null_count
    if nulls and nulls < len(column):
        return _fixed(column.is_valid().to_numpy())
    return _fixed(np.full(len(column), not nulls))


def _fixed(values: _Array) -> _Array:
    """A read-only array, since it is shared."""
    values.setflags(write=False)
    return values


def has_values(table: pa.Table | ColumnView, *names: str) -> bool:
    """Whether the table has the columns, with something in each of them."""
    return all(
        name in table.column_names and table[name].null_count < table.num_rows for name in names
    )


def flags(table: pa.Table | ColumnView, name: str) -> Mask:
    """Column of booleans; NULL is false."""
    return once(table, name, "flags", _flags)


def _flags(column: pa.ChunkedArray) -> Mask:
    if column.null_count == len(column):
        return _fixed(np.zeros(len(column), np.bool_))
    return _fixed(column.fill_null(False).to_numpy())


def coded(table: pa.Table | ColumnView, name: str) -> tuple[Ints, pa.StringArray]:
    """Codes of a dictionary-encoded column, and its distinct texts; -1 is NULL."""
    return once(table, name, "coded", _coded)


def _coded(column: pa.ChunkedArray) -> tuple[Ints, pa.StringArray]:
    if column.num_chunks != 1:
        column = column.unify_dictionaries()
    texts = column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())
    parts = [_indices(chunk) for chunk in column.chunks]
    codes: Ints = np.concatenate([np.empty(0, np.int64), *parts], dtype=np.int64)
    return _fixed(codes), texts


def _indices(chunk: pa.DictionaryArray) -> Ints:
    """Codes of one chunk; -1 is NULL."""
    if chunk.null_count == len(chunk):
        return np.full(len(chunk), -1, np.int64)
    indices = chunk.indices
    values: Ints = (indices.fill_null(-1) if indices.null_count else indices).to_numpy()
    return values


def words(table: pa.Table | ColumnView, name: str) -> tuple[Ints, list[str]]:
    """Codes of a dictionary-encoded column, and its distinct texts as a list; -1 is NULL."""
    codes, texts = coded(table, name)
    return codes, once(table, name, "words", lambda _: texts.to_pylist())


def used(codes: Ints, count: int) -> Ints:
    """The codes below ``count`` that occur, in order; -1 is left out.

    Examples
    --------
    >>> used(np.array([4, -1, 2, 4]), 5).tolist()
    [2, 4]
    """
    occurs = np.zeros(count + 1, np.bool_)
    occurs[codes] = True
    return np.flatnonzero(occurs[:-1])


def combined(*columns: Ints) -> Ints:
    """One code for the values of several columns of one length, by first appearance.

    Examples
    --------
    >>> combined(np.array([7, 7, 7, 3]), np.array([0, 1, 0, 0])).tolist()
    [0, 1, 0, 2]
    """
    varying = [values for values in columns if (values != values[:1]).any()]
    _, code = distinct(varying[0]) if varying else (None, np.zeros(columns[0].size, np.int64))
    for values in varying[1:]:
        different, place = distinct(values)
        _, code = distinct(code * different.size + place)
    return code


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """The different values, by first appearance, and the number of each row's value.

    Faster than `numpy.unique` if few values differ, because it hashes instead of sorting.
    """
    column = pa.array(values).dictionary_encode()
    return column.dictionary.to_numpy(), column.indices.to_numpy().astype(np.int64)


def stream_codes(events: pa.Table | ColumnView) -> Ints:
    """A number for the device and stream of each row."""

    def codes(_: pa.ChunkedArray | None = None) -> Ints:
        return _fixed(combined(*(numbers(events, n, missing=-1) for n in ("device", "stream"))))

    if not isinstance(events, ColumnView):
        return codes()
    return once(events, "stream", ("with", events.columns["device"]), codes)


def encoded(codes: Ints, texts: Sequence[str] | pa.StringArray) -> pa.DictionaryArray:
    """Dictionary-encoded column from codes and distinct texts; -1 is NULL."""
    indices = pa.array(codes, pa.int32(), mask=codes < 0)
    if not isinstance(texts, pa.StringArray):
        texts = pa.array(texts, pa.string())
    return pa.DictionaryArray.from_arrays(indices, texts)


def is_kind(events: pa.Table | ColumnView, kinds: Collection[str]) -> Mask:
    """Rows of ``events`` whose kind is one of these."""
    kinds = tuple(kinds)
    return once(events, "kind", kinds, lambda _: _fixed(_of_kinds(events, kinds)))


def _of_kinds(events: pa.Table | ColumnView, kinds: Collection[str]) -> Mask:
    codes, texts = words(events, "kind")
    mask: Mask = np.array([*(text in kinds for text in texts), False])[codes]
    return mask


def of_launches(events: pa.Table, values: Ints) -> Ints:
    """For rows on devices the value of their launch, or of their op without one; else their own."""
    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    cause = np.where(launch >= 0, launch, op)
    result: Ints = np.where(
        is_kind(events, schema.ON_DEVICE_KINDS), np.append(values, -1)[cause], values
    )
    return result


def source_order(events: pa.Table | ColumnView) -> Ints:
    """The profiler's own order of the rows; rows without a number come last."""
    return numbers(events, "ev_idx", missing=_LAST)


def last_equal(keys: Ints, values: Ints, searched: Ints) -> Ints:
    """The last value with each of the searched keys, or -1."""
    if not keys.size:
        return np.full(searched.size, -1, np.int64)
    low, span = int(keys.min()), int(keys.max()) - int(keys.min())
    if span < max(_DENSE * keys.size, min(_MOST_PLACES, keys.size << 6)):
        of_key = np.full(span + 2, -1, np.int64)
        of_key[keys - low] = values
        offset = searched - low
        return of_key[np.where((offset >= 0) & (offset <= span), offset, span + 1)]
    # Arrow hashes: in a third of the time that sorting takes. It gives the first of equal keys.
    last = pc.index_in(pa.array(searched), value_set=pa.array(keys[::-1]))
    return np.append(values[::-1], -1)[_filled(last)]


def _filled(places: pa.Array) -> Ints:
    """Places, -1 for NULL."""
    filled: Ints = places.fill_null(-1).to_numpy().astype(np.int64, copy=False)
    return filled


def ids(rows: Ints) -> pa.Array:
    """Row numbers as event ids; -1 is NULL."""
    return pa.array(rows, pa.int64(), mask=rows < 0)


def column(name: str, values: Ints, valid: Mask) -> pa.Array:
    """Integers in the type of that column of ``events``, NULL where not ``valid``."""
    return pa.array(values, schema.EVENTS.arrow.field(name).type, mask=~valid)


def nulls(events: pa.Table | ColumnView, name: str) -> pa.Array:
    """NULLs in the type of that column of ``events``."""
    return pa.nulls(events.num_rows, schema.EVENTS.arrow.field(name).type)


@lru_cache(256)
def _searched(texts: tuple[str, ...]) -> pa.StringArray:
    return pa.array(texts, pa.string())


def is_text(column_: pa.ChunkedArray, *texts: str) -> Mask:
    """Rows whose text is one of these; of texts in dictionaries each is compared once."""
    searched = _searched(texts)
    if not pa.types.is_dictionary(column_.type):
        plain: Mask = pc.is_in(column_, value_set=searched).to_numpy()
        return plain
    masks = [np.empty(0, np.bool_)]
    for chunk in column_.chunks:
        is_one = pc.is_in(chunk.dictionary, value_set=searched).to_numpy(zero_copy_only=False)
        masks.append(np.append(is_one, [False])[_indices(chunk)])  # the last one is of NULL
    return np.concatenate(masks)
