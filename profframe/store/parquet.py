"""One table of a trace as one Parquet file.

A file may be damaged or malicious. Arrow reads it and checks all that it has read, because other
readers end the process at some files, or take bytes for text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from io import RawIOBase
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.errors import StoreError
from profframe.remote.trees import remote
from profframe.store.schema_steps import may_lack, old_names

if TYPE_CHECKING:
    import pyarrow.parquet as pq

VERSION_KEY: Final = b"profframe.schema_version"
"""Key of the schema version in the metadata of every Parquet file."""
ROW_GROUP: Final = 131_072
"""Rows per row group, roughly: enough to compress well, few enough to skip and read in parallel."""
_FEW_TEXTS: Final = 1000
"""Up to this many distinct texts are written with each row group, whether it has them or not."""
_FEW_ROWS: Final = 4096
"""For this few rows, starting zstd for each column takes longer than all other reading."""

_UNREADABLE: Final = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    pa.ArrowException,
)
"""Errors that Arrow raises for a damaged file."""


@contextmanager
def reading(file: Path | str) -> Iterator[None]:
    """Turn errors of reading into a StoreError of one line that names the file."""
    try:
        yield
    except _UNREADABLE as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(f"{file}: cannot be read: {why}; convert the trace again") from error


@contextmanager
def parquet_file(file: Path, table: str | None = None) -> Iterator[pq.ParquetFile]:
    """A Parquet file to read, of a table with repeated texts as dictionaries; errors name it."""
    with reading(file):
        check_is_file(file)
        far = remote(file)
        opened = file if far is None else far.open("rb")
        with with_dictionaries(opened, table, pre_buffer=far is not None) as reader:
            yield reader


def with_dictionaries(
    file: Path | IO[bytes] | RawIOBase, table: str | None, *, pre_buffer: bool = False
) -> pq.ParquetFile:
    """A file to read, with the repeated texts of its table as dictionaries."""
    import pyarrow.parquet as pq

    columns = () if table is None else schema.TABLES[table]
    texts = [column.name for column in columns if column.type == schema.NAME]
    opened = partial(pq.ParquetFile, file, pre_buffer=pre_buffer)
    try:
        return opened(read_dictionary=texts)
    except KeyError:  # of an older schema, which lacks one
        present = frozenset(pq.read_schema(file).names)
        return opened(read_dictionary=[name for name in texts if name in present])


def check_is_file(file: Path) -> None:
    """Raise an OSError for a path that is not a regular file: reading a named pipe would wait."""
    if file.exists() and not file.is_file():
        raise OSError("not a file")


def may_have(group: pq.RowGroupMetaData, runs: Iterable[str]) -> bool:
    """Whether rows of some runs can be in a row group, by its statistics."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "run":
            bounds = column.statistics
            if bounds is None or not bounds.has_min_max:
                return True
            return any(bounds.min <= run <= bounds.max for run in runs)
    return True


def schema_version(metadata: pq.FileMetaData) -> int:
    """Version of the schema of a file, by its metadata; the current one if it does not say."""
    version = (metadata.metadata or {}).get(VERSION_KEY, b"")
    is_number = version.isdigit() and len(version) <= len(str(schema.SCHEMA_VERSION))
    return int(version) if is_number else schema.SCHEMA_VERSION


def columns_now(file: pq.ParquetFile, name: str) -> pa.Schema:
    """Columns of a file of a table, by the names that they have now."""
    names = {old: new for new, old in old_names(name, schema_version(file.metadata)).items()}
    columns = file.schema_arrow
    return pa.schema([field.with_name(names.get(field.name, field.name)) for field in columns])


def column_problems(name: str, arrow: pa.Schema, version: int = schema.SCHEMA_VERSION) -> list[str]:
    """Differences between the columns of a file and those of its table.

    Parameters
    ----------
    name
        The table.
    arrow
        Columns of the file, by their names now.
    version
        Version of its schema: an older one may lack columns.

    Examples
    --------
    >>> column_problems("traces", schema.TABLES["traces"].arrow)
    []
    """
    expected = {field.name: plain_type(field.type) for field in schema.TABLES[name].arrow}
    types = {field.name: plain_type(field.type) for field in arrow}
    absent = may_lack(name) if version < schema.SCHEMA_VERSION else frozenset[str]()
    return [
        *(
            f"has no column {column!r}"
            for column in expected
            if column not in types and column not in absent
        ),
        *(
            f"has a column {column!r} that the schema does not have"
            for column in types
            if column not in expected
        ),
        *(
            f"column {column!r} is {types[column]}, not {kind}"
            for column, kind in expected.items()
            if types.get(column, kind) != kind
        ),
    ]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a table's file, not read yet."""

    path: Path
    file: pq.ParquetFile
    table: str
    number: int
    present: pa.Schema | None = None
    """Columns of a file of an older schema, by their names now; None if it has all."""

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Its rows in the schema's types.

        Parameters
        ----------
        columns
            Columns to read, in this order; None for all.

        Returns
        -------
        pyarrow.Table
            Checked rows: text is UTF-8, and only nullable columns have NULL.

        Raises
        ------
        StoreError
            It is damaged.
        """
        arrow = schema.TABLES[self.table].arrow
        return self._read(arrow.names if columns is None else columns)

    def present_rows(self, columns: Sequence[str]) -> pa.Table:
        """Its rows as `rows` returns them, without columns that are all NULL.

        A small file has mostly such columns, and each costs as much to read as any other.
        """
        arrow = schema_of(self.table, tuple(columns))
        with reading(self.path):
            group = self.file.metadata.row_group(self.number)
            empty = set()
            for column in map(group.column, range(group.num_columns)):
                counts = column.statistics
                nulls = counts.null_count if counts and counts.has_null_count else -1
                if nulls == group.num_rows:
                    empty.add(column.path_in_schema)
            names = [f.name for f in arrow if not (f.nullable and f.name in empty)]
        return self._read(names or columns)

    def _read(self, columns: Sequence[str]) -> pa.Table:
        if self.present is not None:
            return self._read_older(self.present.names, columns)
        arrow = schema_of(self.table, tuple(columns))
        with reading(self.path):
            use_threads = self.file.metadata.row_group(self.number).num_rows > _FEW_ROWS
            rows = self.file.read_row_group(self.number, arrow.names, use_threads=use_threads)
            # Arrow checks neither that text is UTF-8 nor that each code is in its dictionary.
            rows.validate(full=True)
            return rows if rows.schema.equals(arrow) else rows.select(arrow.names).cast(arrow)

    def _read_older(self, present: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """Rows of an older schema: what it lacks is NULL."""
        old = old_names(self.table, schema_version(self.file.metadata))
        # A column that is always there counts the rows where none of the others is.
        names = [name for name in columns if name in present] or present[:1]
        with reading(self.path):
            rows = self.file.read_row_group(self.number, [old.get(name, name) for name in names])
            rows.validate(full=True)
            rows = rows.select([old.get(name, name) for name in names]).rename_columns(names)
            own = schema_of(self.table, tuple(names))
            rows = rows if rows.schema.equals(own) else rows.cast(own)
        return with_all_columns(rows, self.table, columns)


@lru_cache(maxsize=1000)
def schema_of(table: str, columns: tuple[str, ...]) -> pa.Schema:
    """The schema of some columns of a table, in their order."""
    arrow = schema.TABLES[table].arrow
    return pa.schema([arrow.field(column) for column in columns])


def row_groups(file: Path, name: str) -> Iterator[RowGroup]:
    """The row groups of a table's file.

    Raises
    ------
    StoreError
        The file is missing, damaged, or of other columns.
    """
    arrow = schema.TABLES[name].arrow
    with parquet_file(file, name) as reader:
        is_exact = reader.schema_arrow.equals(arrow)
        present = None
        if not is_exact:
            version, columns = schema_version(reader.metadata), columns_now(reader, name)
            if problems := column_problems(name, columns, version):
                raise ValueError(problems[0])
            present = columns if version < schema.SCHEMA_VERSION else None
        for number in range(reader.num_row_groups):
            yield RowGroup(file, reader, name, number, present)


def in_groups(parts: Iterable[pa.Table], enough: int = ROW_GROUP) -> Iterator[pa.Table]:
    """Join small parts of a table into parts of the size of a row group; skip empty ones.

    A part may lack columns that others have: they are NULL there. A part ends early once it has
    ``enough`` rows.
    """
    group: list[pa.Table] = []
    rows = 0
    for part in parts:
        if group and rows + len(part) > ROW_GROUP:
            yield _joined(group)
            group, rows = [], 0
        if len(part):
            group.append(part)
            rows += len(part)
        if group and rows >= enough:
            yield _joined(group)
            group, rows = [], 0
    if group:
        yield _joined(group)


def _joined(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="default").unify_dictionaries()


def with_all_columns(rows: pa.Table, table: str, columns: Sequence[str]) -> pa.Table:
    """Rows with some columns of a table, NULL in those that they lack."""
    arrow = schema_of(table, tuple(columns))
    if rows.schema.equals(arrow):
        return rows
    present = frozenset(rows.column_names)
    values = [
        rows[field.name] if field.name in present else pa.nulls(len(rows), field.type)
        for field in arrow
    ]
    return pa.Table.from_arrays(values, schema=arrow)


def traces_of(file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Columns of a file of the table `traces` of any schema version, without missing ones.

    Raises
    ------
    ValueError, OSError, pyarrow.ArrowException
        It is damaged; `reading` turns these into a StoreError.
    """
    rows = file.read(
        [name for name in columns if name in file.schema_arrow.names], use_threads=False
    )
    rows.validate(full=True)
    for name in {"run", "rank"} & set(columns):
        if name not in rows.column_names or rows[name].null_count:
            raise ValueError(f"a trace without a {name}")
    for field in rows.schema:
        if field.type != (kind := plain_type(schema.TRACES.arrow.field(field.name).type)):
            raise ValueError(f"column {field.name!r} is {field.type}, not {kind}")
    return rows


def keys_in(file: Path) -> frozenset[tuple[str, int]]:
    """Run and rank of each trace of a file of the table `traces`, of any schema version.

    Raises
    ------
    StoreError
        The file is missing or damaged.
    """
    with parquet_file(file) as reader:
        rows = traces_of(reader, ["run", "rank"]).to_pydict()
    return frozenset(zip(rows["run"], rows["rank"], strict=True))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of values, without a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def write_file(file: Path, name: str, parts: Iterable[pa.Table]) -> None:
    """Write the rows of a table, one part in memory at a time.

    Parameters
    ----------
    file
        Path of the file.
    name
        Table of the schema.
    parts
        Its rows in the schema's columns and types, in their order.
    """
    import pyarrow.parquet as pq

    table = schema.TABLES[name]
    rest = iter(parts)
    first = next(rest, table.arrow.empty_table())
    with pq.ParquetWriter(
        file,
        table.arrow,
        compression="zstd" if len(first) > _FEW_ROWS else "snappy",
        use_dictionary=[c.name for c in table if c.type != schema.TEXT],
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata({VERSION_KEY: str(schema.SCHEMA_VERSION)})
        for part in chain((first,), rest):
            groups = max(1, round(part.num_rows / ROW_GROUP))
            size = max(1, -(-part.num_rows // groups))
            for start in range(0, part.num_rows, size):
                writer.write_table(_with_own_texts(part.slice(start, size)), size)


def rows_to_write(name: str, parts: Iterable[pa.Table]) -> Iterable[pa.Table] | None:
    """The parts of a table; None for an optional table without rows, which has no file."""
    if name not in schema.OPTIONAL_TABLES:
        return parts
    rest = iter(parts)
    first = next((part for part in rest if part.num_rows), None)
    return None if first is None else chain((first,), rest)


def _with_own_texts(rows: pa.Table) -> pa.Table:
    """Rows whose dictionaries have only their own texts: Arrow writes whole dictionaries."""
    for place, field in enumerate(rows.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        values = rows.column(place).unify_dictionaries()
        texts = values.chunk(0).dictionary
        if len(texts) <= _FEW_TEXTS:
            continue
        codes = pa.chunked_array([chunk.indices for chunk in values.chunks]).combine_chunks()
        used = np.bincount(codes.drop_null().to_numpy(), minlength=len(texts)) > 0
        number = pa.array(np.cumsum(used) - 1, codes.type)
        own = pa.DictionaryArray.from_arrays(number.take(codes), texts.filter(pa.array(used)))
        rows = rows.set_column(place, field, own)
    return rows
