"""SQLite databases as columns: opened read-only, read in batches, never changed."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
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

MAGIC: Final = b"SQLite format 3\0"
"""What every SQLite database begins with."""
ROWS: Final = 1 << 16
"""Rows that are Python objects at once."""

LITTLE_ENDIAN: Final = pa.binary(8)
"""Type of a column of 8 bytes."""

_NAMES: Final = (
    "SELECT name FROM sqlite_master"
    " WHERE type = 'table' AND rootpage > 0 AND name NOT GLOB 'sqlite_*'"
)
"""Tables that have rows of their own: no views, and none that a module makes up."""
_ARGUMENTS: Final = 50
"""Columns that one function of SQLite takes, with their names."""
_UNCOMMITTED: Final = ("-wal", "-journal")
"""Endings of the files beside a database that hold what was not yet written into it."""
_JOURNAL_OF_SEVERAL: Final = bytes.fromhex("d9d505f920a163d7")
"""How a journal ends that names a file for SQLite to delete when it is done."""
_LEAST_ROW: Final = 4
"""Bytes that a row takes at least, wherever it is."""
_EXACT: Final = 1 << 53
"""Integers up to this are what they are as real numbers, too."""
_STEPS: Final = 10_000
"""Steps of SQLite's machine from one look at how many there were to the next."""


Asked: TypeAlias = Mapping[str, tuple[str, pa.DataType]]
"""Columns to read: what they are called, their SQL, and their type."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the database; what it does not have reads as an empty table."""

    name: str
    columns: Mapping[str, str]
    rows: int

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def __getitem__(self, column: str) -> str:
        """SQL for a column; one that the table lacks is NULL."""
        return quoted(column) if column in self.columns else "NULL"

    def text(self, column: str) -> str:
        """SQL for a column whose blobs become hexadecimal text."""
        value = self[column]
        return f"CASE typeof({value}) WHEN 'blob' THEN hex({value}) ELSE {value} END"

    def json(self, *left_out: str, **more: str) -> str:
        """SQL for the other columns as JSON text, without those that are NULL."""
        parts = {name: self.text(name) for name in self.columns if name not in left_out} | more
        if not parts:
            return "NULL"
        names = list(parts)
        json, some = "'{}'", "NULL"
        for first in range(0, len(names), _ARGUMENTS):
            part = names[first : first + _ARGUMENTS]
            members = ", ".join(f"{_literal(name)}, {parts[name]}" for name in part)
            json = f"json_patch({json}, json_object({members}))"
            some = f"coalesce({some}, {', '.join(parts[name] for name in part)})"
        return f"CASE WHEN {some} IS NOT NULL THEN {json} END"


@dataclass(slots=True)
class Database:
    """An open database.

    ``odd`` counts, by check, the values that could not be taken as they are.
    """

    path: Path
    tables: Mapping[str, SourceTable]
    _connection: sqlite3.Connection
    _progress: Progress | None = None
    odd: Counter[str] = field(default_factory=Counter)
    _done: int = 0

    def table(self, name: str) -> SourceTable:
        """A table by its name; an empty one if there is none."""
        return self.tables.get(name, SourceTable(name, MappingProxyType({}), 0))

    def batches(
        self, table: SourceTable, columns: Asked, where: str = ""
    ) -> Iterator[dict[str, pa.Array]]:
        """Columns of some thousand rows at a time, in the order of the table.

        Parameters
        ----------
        table
            What is read.
        columns
            Expression in SQL, and type: int64, text, or that of 8 bytes, which come as int64.
        where
            SQL behind FROM.

        Raises
        ------
        SourceError
            When the database is damaged; the message names the file and the table.
        """
        if not table.rows:
            return
        listed = ", ".join(expression for expression, _ in columns.values())
        types = [type_ for _, type_ in columns.values()]
        query = f"SELECT {listed} FROM {quoted(table.name)} {where}"
        for rows in _fetched(self._connection, query, self.path, table.name):
            values = zip(*rows, strict=True)
            arrays = (self._array(v, t) for v, t in zip(values, types, strict=True))
            yield dict(zip(columns, arrays, strict=True))
            self._report(len(rows))

    def whole(self, table: SourceTable, columns: Asked, where: str = "") -> dict[str, pa.Array]:
        """All rows at once; the parameters are those of `batches`."""
        parts = [
            {name: self._array([], type_) for name, (_, type_) in columns.items()},
            *self.batches(table, columns, where),
        ]
        return {name: pa.concat_arrays([part[name] for part in parts]) for name in columns}

    def records(self, table: SourceTable) -> list[dict[str, Any]]:
        """Rows of a table that describes something, as they are; blobs in hexadecimal."""
        if not table.rows:
            return []
        listed = ", ".join(table.text(name) for name in table.columns)
        query = f"SELECT {listed} FROM {quoted(table.name)}"
        return [
            {name: _plain(value) for name, value in zip(table.columns, row, strict=True)}
            for rows in _fetched(self._connection, query, self.path, table.name)
            for row in rows
        ]

    def _array(self, values: Sequence[object], type_: pa.DataType) -> pa.Array:
        if type_ == TEXT:
            return self._text(values)
        if type_ == LITTLE_ENDIAN:
            bytes_ = pa.array(values, type_)
            return pa.Array.from_buffers(INT64, len(bytes_), bytes_.buffers())
        try:
            if not pa.types.is_floating(pa.infer_type(values)):  # Arrow would cut its digits off
                return pa.array(values, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        kept = [_integer(value) for value in values]
        self.odd["odd_value"] += kept.count(None) - values.count(None)
        return pa.array(kept, type_)

    def _text(self, values: Sequence[object]) -> pa.Array:
        try:
            return pa.array(values, pa.binary()).cast(TEXT)
        except (pa.ArrowException, TypeError):
            texts = [_plain(value) for value in values]
            broken = sum(isinstance(v, bytes) and not _is_utf8(v) for v in values)
            if broken:
                self.odd["invalid_utf8"] += broken
            return pa.array([None if t is None else str(t) for t in texts], TEXT)

    def finish(self) -> None:
        """Say that all is read: what nobody asked for, too."""
        self._report(sum(table.rows for table in self.tables.values()))

    def _report(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            size = self.path.stat().st_size
            everything = sum(table.rows for table in self.tables.values())
            self._progress(min(size, size * self._done // max(1, everything)), size)


def quoted(name: str) -> str:
    """A name of a table or column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _plain(value: object) -> object:
    """Text for what SQLite gave as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _integer(value: object) -> int | None:
    """An integer, also one that is stored as a real number."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value if type(value) is int else None


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def opened(path: Path, progress: Progress | None = None) -> Iterator[Database]:
    """Open a database for reading.

    It is read as a file that nobody changes, so locks do not matter and nothing is created beside
    it. Where a writer left changes beside it, a copy of both is read.

    Raises
    ------
    SourceError
        When it cannot be read, or is damaged.
    """
    with ExitStack() as stack:
        try:
            address = _address(path, stack)
        except OSError as error:
            raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
        try:
            connection = stack.enter_context(closing(sqlite3.connect(address, uri=True)))
        except sqlite3.Error as error:
            raise _damaged(path, None, error) from error
        connection.text_factory = bytes
        tables = _tables(connection, path)
        _check_size(connection, path)
        yield Database(path, tables, connection, progress)


def _address(path: Path, stack: ExitStack) -> str:
    """Address of the database, or of a copy into which what is beside it can go."""
    with path.open("rb"):
        pending = _pending(path)
    if not pending:
        return f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="profframe-")))
    for file in (path, *pending):
        copy = shutil.copyfile(file, scratch / file.name)
        if file != path and _ends_with(copy, _JOURNAL_OF_SEVERAL):
            raise SourceError(
                f"{file}: belongs to a change of several databases, and names a file that SQLite "
                "would delete; move it away, or let the program that wrote it finish"
            )
    return f"{(scratch / path.name).as_uri()}?mode=rw"


def _pending(path: Path) -> list[Path]:
    """Files beside a database that have something for it."""
    beside = [path.with_name(path.name + ending) for ending in _UNCOMMITTED]
    return [file for file in beside if file.is_file() and file.stat().st_size]


def _ends_with(file: Path, ending: bytes) -> bool:
    with file.open("rb") as opened_:
        opened_.seek(max(0, file.stat().st_size - len(ending)))
        return opened_.read() == ending


def _check_size(connection: sqlite3.Connection, path: Path) -> None:
    """A last page that is not whole reads as zeros, so rows would be missing without an error."""
    ((pages,),) = _all(connection, "PRAGMA page_count", path, "sqlite_master")
    ((page,),) = _all(connection, "PRAGMA page_size", path, "sqlite_master")
    size = path.stat().st_size
    if size % page and size < pages * page:
        raise SourceError(
            f"{path}: the last table of the database cannot be read: the file ends after {size:,} "
            f"of {pages * page:,} bytes, so export or copy it again"
        )


def _tables(connection: sqlite3.Connection, path: Path) -> dict[str, SourceTable]:
    """Tables with their columns and how many rows they have.

    Pages that name each other again and again make rows without end out of a small file. So they
    are counted as far as the file can have them, and so are the steps that it takes.
    """
    tables: dict[str, SourceTable] = {}
    for statement in ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON"):
        connection.execute(statement)
    size = sum(file.stat().st_size for file in (path, *_pending(path)))
    looks = iter(range(1000 + 10 * size // _STEPS))
    connection.set_progress_handler(lambda: next(looks, None) is None, _STEPS)
    room = 1 + size // _LEAST_ROW
    for (name,) in _all(connection, _NAMES, path, "sqlite_master"):
        text = str(_plain(name))
        info = _all(connection, f"PRAGMA table_info({quoted(text)})", path, text)
        columns = {str(_plain(row[1])): str(_plain(row[2])) for row in info}
        some = f"SELECT 1 FROM {quoted(text)} LIMIT {room}"
        ((rows,),) = _all(connection, f"SELECT count(*) FROM ({some})", path, text)
        room -= rows
        if not room:
            raise _damaged(path, text, ValueError("it has more rows than there is room for"))
        tables[text] = SourceTable(text, MappingProxyType(columns), rows)
    connection.set_progress_handler(None, 0)
    return tables


def _all(connection: sqlite3.Connection, query: str, path: Path, table: str) -> list[Any]:
    return [row for rows in _fetched(connection, query, path, table) for row in rows]


def _fetched(
    connection: sqlite3.Connection, query: str, path: Path, table: str
) -> Iterator[list[Any]]:
    try:
        cursor = connection.execute(query)
        while rows := cursor.fetchmany(ROWS):
            yield rows
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter is about SQLite's own message
        raise _damaged(path, table, error) from error


def _damaged(path: Path, table: str | None, error: Exception) -> SourceError:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return NotATraceError(f"{path}: not a trace: it begins as an SQLite database, but is none")
    where = f"table {table!r} of the database" if table else "the database"
    return SourceError(
        f"{path}: {where} cannot be read: {error}; it is damaged or was cut, so export or copy it "
        "again"
    )
