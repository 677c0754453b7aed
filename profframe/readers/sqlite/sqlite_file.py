"""Read SQLite databases as columns: read-only and in batches."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from profframe.errors import NotATraceError, SourceError
from profframe.readers.bytes import Progress
from profframe.schema import INT64, TEXT
from profframe.system.drafts import scratch

ROWS: Final = 1 << 16
"""Number of rows that are Python objects at once."""

LITTLE_ENDIAN: Final = pa.binary(8)
"""Type of a column of 8 bytes."""

_MASTER: Final = "sqlite_master"
_NAMES: Final = (
    "SELECT name FROM sqlite_master"
    " WHERE type = 'table' AND rootpage > 0 AND name NOT GLOB 'sqlite_*'"
)
"""Tables with stored rows: no views or virtual tables."""
_VERSION: Final = re.compile(r"(?P<name>\w+)_V(?P<version>\d{1,9})", re.ASCII)
"""Name of a version of a table."""
_ARGUMENTS: Final = 50
"""Columns that one SQLite function takes, with their names."""
_UNCOMMITTED: Final = ("-wal", "-journal")
"""Suffixes of the files with changes that are not yet in the database."""
_MULTI_DATABASE_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")
"""End of a journal that names a file for SQLite to delete."""
_MIN_ROW_BYTES: Final = 4
"""Minimum bytes of a row."""
_EXACT: Final = 1 << 53
"""Integers up to this are exact as real numbers."""
_STEPS: Final = 10_000
"""Steps of SQLite's virtual machine between two checks of their number."""


Selection: TypeAlias = Mapping[str, tuple[str, pa.DataType]]
"""Columns to read: SQL and type, by name."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the database; missing columns are NULL, and a missing table is empty."""

    name: str
    columns: Mapping[str, str]
    rows: int

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def __getitem__(self, column: str) -> str:
        """SQL for a column; NULL for one that the table lacks."""
        return quoted(column) if column in self.columns else "NULL"

    def text(self, column: str) -> str:
        """SQL for a column, with blobs as hexadecimal text."""
        value = self[column]
        return f"CASE typeof({value}) WHEN 'blob' THEN hex({value}) ELSE {value} END"

    def json(self, *excluded: str, **replacements: str) -> str:
        """SQL for the columns that are not excluded, as JSON text without NULLs."""
        columns = {
            name: self.text(name) for name in self.columns if name not in excluded
        } | replacements
        if not columns:
            return "NULL"
        names = list(columns)
        json, any_value = "'{}'", "NULL"
        for start in range(0, len(names), _ARGUMENTS):
            block = names[start : start + _ARGUMENTS]
            members = ", ".join(f"{_literal(name)}, {columns[name]}" for name in block)
            json = f"json_patch({json}, json_object({members}))"
            any_value = f"coalesce({any_value}, {', '.join(columns[name] for name in block)})"
        return f"CASE WHEN {any_value} IS NOT NULL THEN {json} END"


@dataclass(slots=True)
class SqliteFile:
    """An open database.

    ``anomalies`` counts, by check, values that could not be read unchanged.
    """

    path: Path
    tables: Mapping[str, SourceTable]
    _connection: sqlite3.Connection
    _progress: Progress | None = None
    anomalies: Counter[str] = field(default_factory=Counter)
    _rows_read: int = 0
    _versions: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Find the newest version of each table."""
        versions: dict[str, tuple[int, str]] = {}
        for name, table in self.tables.items():
            if table.rows and (match := _VERSION.fullmatch(name)):
                newest = (int(match["version"]), name)
                versions[match["name"]] = max(newest, versions.get(match["name"], newest))
        self._versions = {name: newest for name, (_, newest) in versions.items()}

    def table(self, name: str) -> SourceTable:
        """A table by its name, else its newest version; an empty one if there is none.

        A version, such as ``NVTX_EVENTS_V2``, counts if it has rows and the table itself has none.
        """
        table = self.tables.get(name, SourceTable(name, MappingProxyType({}), 0))
        is_other = not table.rows and name in self._versions
        return self.tables[self._versions[name]] if is_other else table

    def batches(
        self, table: SourceTable, columns: Selection, where: str = ""
    ) -> Iterator[dict[str, pa.Array]]:
        """Columns of some thousand rows at a time, in the order of the table.

        Parameters
        ----------
        table
            The table to read.
        columns
            SQL and type by name: int64, double, text, or 8 bytes, which are returned as int64.
        where
            SQL after FROM.

        Raises
        ------
        SourceError
            The database is damaged; the message names the file and the table.
        """
        if not table.rows:
            return
        select_list = ", ".join(expression for expression, _ in columns.values())
        types = [type_ for _, type_ in columns.values()]
        query = f"SELECT {select_list} FROM {quoted(table.name)} {where}"
        for rows in _fetch(self._connection, query, self.path, table.name):
            values = zip(*rows, strict=True)
            arrays = (self._array(v, t) for v, t in zip(values, types, strict=True))
            yield dict(zip(columns, arrays, strict=True))
            self._report(len(rows))

    def read_all(
        self, table: SourceTable, columns: Selection, where: str = ""
    ) -> dict[str, pa.Array]:
        """All rows at once; the parameters are those of `batches`."""
        parts = [
            {name: self._array([], type_) for name, (_, type_) in columns.items()},
            *self.batches(table, columns, where),
        ]
        return {name: pa.concat_arrays([part[name] for part in parts]) for name in columns}

    def records(self, table: SourceTable) -> list[dict[str, Any]]:
        """Rows of a small table, unchanged; blobs in hexadecimal."""
        if not table.rows:
            return []
        select_list = ", ".join(table.text(name) for name in table.columns)
        query = f"SELECT {select_list} FROM {quoted(table.name)}"
        return [
            {name: _plain(value) for name, value in zip(table.columns, row, strict=True)}
            for rows in _fetch(self._connection, query, self.path, table.name)
            for row in rows
        ]

    def _array(self, values: Sequence[object], type_: pa.DataType) -> pa.Array:
        if type_ == TEXT:
            return self._text(values)
        if type_ == LITTLE_ENDIAN:
            bytes_ = pa.array(values, type_)
            return pa.Array.from_buffers(INT64, len(bytes_), bytes_.buffers())
        if pa.types.is_floating(type_):
            numbers = [float(v) if isinstance(v, (int, float)) else None for v in values]
            self.anomalies["odd_value"] += numbers.count(None) - values.count(None)
            return pa.array(numbers, type_)
        try:
            if not pa.types.is_floating(pa.infer_type(values)):  # Arrow would truncate them
                return pa.array(values, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        integers = [_integer(value) for value in values]
        self.anomalies["odd_value"] += integers.count(None) - values.count(None)
        return pa.array(integers, type_)

    def _text(self, values: Sequence[object]) -> pa.Array:
        try:
            return pa.array(values, pa.binary()).cast(TEXT)
        except (pa.ArrowException, TypeError):
            texts = [_plain(value) for value in values]
            undecodable = sum(isinstance(v, bytes) and str(_plain(v)).encode() != v for v in values)
            if undecodable:
                self.anomalies["invalid_utf8"] += undecodable
            return pa.array([None if t is None else str(t) for t in texts], TEXT)

    def finish(self) -> None:
        """Report all rows as read, including those of unused tables."""
        self._report(sum(table.rows for table in self.tables.values()))

    def _report(self, rows: int) -> None:
        self._rows_read += rows
        if self._progress is not None:
            size = self.path.stat().st_size
            total = sum(table.rows for table in self.tables.values())
            self._progress(min(size, size * self._rows_read // max(1, total)), size)


def quoted(name: str) -> str:
    """A name of a table or column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plain(value: object) -> object:
    """Decode bytes to text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _integer(value: object) -> int | None:
    """An integer, also one that is stored as a real number."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value if type(value) is int else None


@contextmanager
def open_database(path: Path, progress: Progress | None = None) -> Iterator[SqliteFile]:
    """Open a database for reading.

    It is opened as immutable, so locks do not matter and no file is created next to it. If there
    are uncommitted changes in other files, a copy of them all is read.

    Raises
    ------
    SourceError
        It cannot be read, or is damaged.
    """
    with _connected(path) as connection:
        tables = _tables(connection, path)
        _check_size(connection, path)
        yield SqliteFile(path, tables, connection, progress)


@contextmanager
def open_tables(path: Path, *, with_pending: bool = False) -> Iterator[SqliteFile]:
    """Open a database only to see what tables it has: their rows are not counted.

    Parameters
    ----------
    path
        The database.
    with_pending
        Whether uncommitted changes in other files count; then a copy of them all is read.

    Raises
    ------
    SourceError
        It cannot be read, or ends early.
    """
    with _connected(path, with_pending=with_pending) as connection:
        names = [str(_plain(name)) for (name,) in _fetch_all(connection, _NAMES, path, _MASTER)]
        _check_size(connection, path)
        tables = {n: SourceTable(n, _columns(connection, path, n), 0) for n in names}
        yield SqliteFile(path, tables, connection)


@contextmanager
def _connected(path: Path, *, with_pending: bool = True) -> Iterator[sqlite3.Connection]:
    with ExitStack() as stack:
        try:
            address = _address(path, stack, with_pending=with_pending)
            connection = stack.enter_context(closing(sqlite3.connect(address, uri=True)))
        except OSError as error:
            raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
        except sqlite3.Error as error:
            raise _damaged(path, None, error) from error
        connection.text_factory = bytes
        yield connection


def _address(path: Path, stack: ExitStack, *, with_pending: bool) -> str:
    """URI of the database, or of a copy to which pending changes can be applied."""
    with path.open("rb"):
        files = _pending(path) if with_pending else []
    if not files:
        return f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    folder = stack.enter_context(scratch())
    for file in (path, *files):
        copy = shutil.copyfile(file, folder / file.name)
        if file != path and _ends_with(copy, _MULTI_DATABASE_JOURNAL):
            raise SourceError(
                f"{file}: belongs to a transaction over several databases, and names a file that "
                "SQLite would delete; move it away, or let the program that wrote it finish"
            )
    return f"{(folder / path.name).as_uri()}?mode=rw"


def _pending(path: Path) -> list[Path]:
    """Files with changes that are not yet in the database."""
    candidates = [path.with_name(path.name + ending) for ending in _UNCOMMITTED]
    return [file for file in candidates if file.is_file() and file.stat().st_size]


def _columns(connection: sqlite3.Connection, path: Path, table: str) -> Mapping[str, str]:
    """Columns of a table, with their types."""
    info = _fetch_all(connection, f"PRAGMA table_info({quoted(table)})", path, table)
    return MappingProxyType({str(_plain(row[1])): str(_plain(row[2])) for row in info})


def _ends_with(file: Path, ending: bytes) -> bool:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - len(ending)))
        return stream.read() == ending


def _check_size(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a truncated last page: it reads as zeros, so rows would be missing without error."""
    ((pages,),) = _fetch_all(connection, "PRAGMA page_count", path, _MASTER)
    ((page_size,),) = _fetch_all(connection, "PRAGMA page_size", path, _MASTER)
    size = path.stat().st_size
    if size % page_size and size < pages * page_size:
        raise SourceError(
            f"{path}: the last table of the database cannot be read: the file ends after {size:,} "
            f"of {pages * page_size:,} bytes, so export or copy it again"
        )


def _tables(connection: sqlite3.Connection, path: Path) -> dict[str, SourceTable]:
    """Tables with their columns and numbers of rows.

    Pages with cyclic links give endless rows from a small file. So the number of rows and of steps
    is limited by its size.
    """
    tables: dict[str, SourceTable] = {}
    for statement in ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON"):
        connection.execute(statement)
    size = sum(file.stat().st_size for file in (path, *_pending(path)))
    checks = iter(range(1000 + 10 * size // _STEPS))
    connection.set_progress_handler(lambda: next(checks, None) is None, _STEPS)
    most_rows = 1 + size // _MIN_ROW_BYTES
    for (name,) in _fetch_all(connection, _NAMES, path, _MASTER):
        table = str(_plain(name))
        columns = _columns(connection, path, table)
        query = f"SELECT 1 FROM {quoted(table)} LIMIT {most_rows}"
        ((rows,),) = _fetch_all(connection, f"SELECT count(*) FROM ({query})", path, table)
        most_rows -= rows
        if not most_rows:
            raise _damaged(path, table, ValueError("it has more rows than the file has room for"))
        tables[table] = SourceTable(table, columns, rows)
    connection.set_progress_handler(None, 0)
    return tables


def _fetch_all(connection: sqlite3.Connection, query: str, path: Path, table: str) -> list[Any]:
    return [row for rows in _fetch(connection, query, path, table) for row in rows]


def _fetch(
    connection: sqlite3.Connection, query: str, path: Path, table: str
) -> Iterator[list[Any]]:
    try:
        cursor = connection.execute(query)
        while rows := cursor.fetchmany(ROWS):
            yield rows
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter is from SQLite's own message
        raise _damaged(path, table, error) from error


def _damaged(path: Path, table: str | None, error: Exception) -> SourceError:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return NotATraceError(
            f"{path}: not a trace: it begins like an SQLite database, but is not one"
        )
    where = f"table {table!r} of the database" if table else "the database"
    reason = " ".join(str(error).split())  # it may name a table, whose name has line breaks
    return SourceError(
        f"{path}: {where} cannot be read: {reason}; it is damaged or truncated, so export or copy "
        "it again"
    )
