"""Tables on disk: their columns are in a file, and each is read when it is used.

A `SpooledTable` has as much of the interface of a `pyarrow.Table` as readers, facts and the store
use, so that they work on either. It consists of pieces, which are consecutive rows; all columns
have the same pieces.
"""

from __future__ import annotations

import itertools
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.errors import StoreError

PIECE_ROWS: Final = 131_072
PIECE_BYTES: Final = 64 << 20
"""Rows or bytes that complete a piece."""

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_INDEX: Final = pa.int32()


class Spool:
    """A file without a name, which disappears with the process, however that ends.

    Parameters
    ----------
    folder
        Its folder; the file can grow to a quarter of the trace's text.

    Raises
    ------
    StoreError
        The file cannot be written there.

    Examples
    --------
    >>> spool = Spool(".")
    >>> table = spool.table([pa.table({"a": [1, 2]}), pa.table({"a": [3]})])
    >>> table.append_column("b", pa.array(["x", "y", None])).read().to_pydict()
    {'a': [1, 2, 3], 'b': ['x', 'y', None]}
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._folder = folder
        self._end = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._error(error) from error
        weakref.finalize(self, self._file.close)

    def table(self, parts: Iterable[pa.Table]) -> SpooledTable:
        """The rows of some tables, in their order; missing columns are NULL.

        At least one table is required: the types of columns are taken from it.
        """
        builder = Builder(self, {})
        for part in parts:
            builder.add(part)
        return builder.table()

    def put(self, array: pa.Array) -> _Location | None:
        """Write an array; one with only NULLs takes no space."""
        if array.null_count == len(array):
            return None
        sink = pa.BufferOutputStream()
        batch = pa.record_batch([array], ["values"])
        with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as stream:
            stream.write_batch(batch)
        data = memoryview(sink.getvalue())
        location = _Location(self._end, len(data))
        try:
            self._file.seek(location.place)
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise self._error(error) from error
        self._end += location.size
        return location

    def get(self, location: _Location) -> pa.Array:
        """Read an array."""
        buffer = pa.allocate_buffer(location.size)
        rest = memoryview(buffer)
        try:
            self._file.seek(location.place)
            while rest:
                rest = rest[self._file.readinto(rest) :]
        except OSError as error:
            raise self._error(error) from error
        return pa.ipc.open_stream(buffer).read_next_batch().column(0)

    def _error(self, error: OSError) -> StoreError:
        reason = error.strerror or error
        return StoreError(
            f"{self._folder}: cannot hold the temporary tables of a conversion: {reason}"
        )


@dataclass(frozen=True, slots=True)
class _Location:
    """Place of an array in the file."""

    place: int
    size: int


@dataclass(frozen=True, slots=True)
class _Column:
    """Pieces of a column; for repeated text the codes, with the distinct texts in memory."""

    type: pa.DataType
    pieces: tuple[_Location | None, ...]
    texts: pa.StringArray | None = None

    @property
    def stored_type(self) -> pa.DataType:
        return self.type if self.texts is None else _INDEX


@dataclass(frozen=True, slots=True, eq=False)
class SpooledTable:
    """A table of a `Spool`; like a `pyarrow.Table` it is immutable."""

    spool: Spool
    columns: Mapping[str, _Column]
    sizes: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return sum(self.sizes)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return pa.schema([(name, column.type) for name, column in self.columns.items()])

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """A whole column, read from the file."""
        column = self.columns[name]
        pieces = (self._piece(column, piece) for piece in range(len(self.sizes)))
        empty = pa.array([], column.stored_type)
        chunks = list(pieces) or [_with_texts(empty, column)]
        return pa.chunked_array(chunks, column.type)

    def parts(self) -> Iterator[pa.Table]:
        """The pieces in order, each in memory."""
        for piece in range(len(self.sizes)):
            yield pa.table(
                {name: self._piece(column, piece) for name, column in self.columns.items()}
            )

    def read(self) -> pa.Table:
        """The table in memory."""
        return pa.table({name: self[name] for name in self.columns})

    def take(self, rows: pa.Array | npt.NDArray[np.integer]) -> pa.Table:
        """Some rows, in memory."""
        distinct, place = np.unique(np.asarray(rows, np.int64), return_inverse=True)
        mask = np.zeros(self.num_rows, np.bool_)
        mask[distinct] = True
        parts = [
            part.filter(pa.array(mask[start:end]))
            for part, (start, end) in zip(self.parts(), self._bounds(), strict=True)
        ]
        return pa.concat_tables(parts or [self.schema.empty_table()]).take(pa.array(place))

    def select(self, names: Iterable[str]) -> SpooledTable:
        """Some columns."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def drop_columns(self, names: Iterable[str]) -> SpooledTable:
        """The other columns."""
        return replace(self, columns={n: c for n, c in self.columns.items() if n not in set(names)})

    def append_column(self, name: str, values: pa.Array | pa.ChunkedArray) -> SpooledTable:
        """The table with another column."""
        return replace(self, columns={**self.columns, name: self._written_column(values)})

    def set_column(self, place: int, name: str, values: pa.Array | pa.ChunkedArray) -> SpooledTable:
        """The table with a column replaced."""
        columns = list(self.columns.items())
        columns[place] = name, self._written_column(values)
        return replace(self, columns=dict(columns))

    def filter(self, mask: pa.BooleanArray) -> SpooledTable:
        """The rows where the mask is true."""
        masks = [mask.slice(start, end - start) for start, end in self._bounds()]
        columns = {
            name: replace(column, pieces=tuple(self._filtered(column, masks)))
            for name, column in self.columns.items()
        }
        return replace(self, columns=columns, sizes=tuple(part.true_count for part in masks))

    def _bounds(self) -> Iterator[tuple[int, int]]:
        """The first row of each piece, and the first row after it."""
        return pairwise(itertools.accumulate(self.sizes, initial=0))

    def _filtered(
        self, column: _Column, masks: Iterable[pa.BooleanArray]
    ) -> Iterator[_Location | None]:
        for location, mask in zip(column.pieces, masks, strict=True):
            yield (
                None if location is None else self.spool.put(self.spool.get(location).filter(mask))
            )

    def _piece(self, column: _Column, piece: int) -> pa.Array:
        location = column.pieces[piece]
        if location is None:
            return _with_texts(pa.nulls(self.sizes[piece], column.stored_type), column)
        return _with_texts(self.spool.get(location), column)

    def _written_column(self, values: pa.Array | pa.ChunkedArray) -> _Column:
        """Write a column with these values, in the pieces of the table."""
        texts = None
        if isinstance(values, pa.DictionaryArray):  # from a fact: its texts may be long
            values, texts = values.indices.cast(_INDEX), values.dictionary
        elif pa.types.is_dictionary(values.type):
            values, texts = _codes(values, pa.array([], pa.string()))
        pieces = (_combined(values.slice(start, end - start)) for start, end in self._bounds())
        locations = tuple(self.spool.put(piece) for piece in pieces)
        type_ = values.type if texts is None else pa.dictionary(_INDEX, pa.string())
        return _Column(type_, locations, texts)


class Builder:
    """Builds a table from rows as they come, with at most one piece in memory.

    Parameters
    ----------
    spool
        Where the rows go.
    types
        Columns that the table has even without rows.
    """

    def __init__(self, spool: Spool, types: Mapping[str, pa.DataType]) -> None:
        self._spool = spool
        self._sizes: list[int] = []
        self._types: dict[str, pa.DataType] = {}
        self._texts: dict[str, pa.StringArray] = {}
        self._pieces: dict[str, list[_Location | None]] = {}
        self._pending: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._add_types(types)

    def add(self, rows: pa.Table) -> None:
        """Add rows; columns that they or others lack are NULL there."""
        self._pending.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= PIECE_ROWS or self._bytes >= PIECE_BYTES:
            self._write()

    def rows(self) -> pa.Table | SpooledTable:
        """All rows; in memory if they are less than a piece, which is faster for who uses them."""
        if self._sizes:
            return self.table()
        return together(pa.schema(self._types.items()).empty_table(), self._pending)

    def table(self) -> SpooledTable:
        """All rows, on disk."""
        if self._rows:
            self._write()
        columns = {
            name: _Column(type_, tuple(self._pieces[name]), self._texts.get(name))
            for name, type_ in self._types.items()
        }
        return SpooledTable(self._spool, columns, tuple(self._sizes))

    def _add_types(self, types: Mapping[str, pa.DataType]) -> None:
        for name, type_ in types.items():
            if name not in self._types:
                self._types[name] = type_
                self._pieces[name] = [None] * len(self._sizes)
                if pa.types.is_dictionary(type_):
                    self._texts[name] = pa.array([], pa.string())

    def _write(self) -> None:
        rows = pa.concat_tables(self._pending, promote_options="default")
        self._add_types({field.name: field.type for field in rows.schema})
        for name, pieces in self._pieces.items():
            location = None
            if name in rows.column_names:
                values = rows[name]
                if name in self._texts:
                    values, self._texts[name] = _codes(values, self._texts[name])
                location = self._spool.put(_combined(values))
            pieces.append(location)
        self._sizes.append(rows.num_rows)
        self._pending, self._rows, self._bytes = [], 0, 0


def together(empty: pa.Table, parts: Sequence[pa.Table]) -> pa.Table:
    """The rows of some tables, with all columns of the empty one and one dictionary per column."""
    if len(parts) == 1 and {*parts[0].schema.names} >= {*empty.schema.names}:
        rows = parts[0]
        is_whole = all(column.num_chunks == 1 for column in rows.columns)
        return rows if is_whole else rows.unify_dictionaries()
    return pa.concat_tables([empty, *parts], promote_options="default").unify_dictionaries()


def _codes(
    values: pa.Array | pa.ChunkedArray, texts: pa.StringArray
) -> tuple[pa.ChunkedArray, pa.StringArray]:
    """Codes of repeated texts, and the distinct texts, the given ones first."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    before = pa.DictionaryArray.from_arrays(pa.array([], _INDEX), texts)
    unified = pa.chunked_array([before, *chunks]).unify_dictionaries()
    codes = pa.chunked_array([chunk.indices for chunk in unified.chunks], _INDEX)
    return codes, unified.chunk(0).dictionary


def _with_texts(values: pa.Array, column: _Column) -> pa.Array:
    if column.texts is None:
        return values
    return pa.DictionaryArray.from_arrays(values, column.texts, safe=False)


def _combined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
