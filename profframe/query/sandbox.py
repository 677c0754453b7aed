"""A sandbox for SQL that is not trusted.

SQL reads the tables of a trace, and the tables and files of its `Terms`. DuckDB's settings close
other files, extensions and the settings themselves (`connect`). `check` refuses what they leave
open: functions that read memory by its address or run text as SQL, views of the system, and
statements inside others that write. It reads the tree of DuckDB's own parser, so that no spelling
of a name gets around it.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa

from profframe import schema
from profframe.errors import AnswerError, ParameterError
from profframe.query import macros
from profframe.query.selection import integer, literal
from profframe.system.drafts import process_scratch
from profframe.system.threads import most_threads

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]

_BYTES: Final = re.compile(
    r"(?P<number>\d+(\.\d+)?) *(?P<prefix>[KMGT])(?P<binary>i?)B", re.IGNORECASE
)
_NAME: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)

_MAX_TIMEOUT_S: Final = 1_000_000
_MAX_ROWS: Final = 1 << 62

_CHANGEABLE: Final = (
    "disabled_optimizers", "enable_progress_bar", "external_threads", "preserve_insertion_order",
)  # fmt: skip
"""Settings that answers and exports change; SQL of the user's cannot."""
_CONFIG: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "allow_community_extensions": False,
        "allowed_configs": [*_CHANGEABLE],
        # By an estimate, which for shared steps is one row, ASOF joins would try all pairs.
        "asof_loop_join_threshold": 0,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
        "show_behavior": "TABLE",
    }
)
"""Settings of a new connection."""

_BLOCK: Final = 256 << 10
"""Most bytes of a request for a part of a remote file. DuckDB reads whole files up to this size,
by default 2 MB."""
_HINT: Final = "tables={...} or files=... (--files) let it read more"
_TABLE_FUNCTIONS: Final = frozenset((
    "generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "summary",
    "unnest",
))  # fmt: skip
"""Table functions that only compute; all others read files, memory, SQL or DuckDB's state."""
_FILE_FUNCTIONS: Final = frozenset((
    "glob", "parquet_file_metadata", "parquet_kv_metadata", "parquet_metadata", "parquet_scan",
    "parquet_schema", "read_blob", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
    "read_json_objects", "read_json_objects_auto", "read_ndjson", "read_ndjson_auto",
    "read_ndjson_objects", "read_parquet", "read_text", "sniff_csv",
))  # fmt: skip
"""Table functions that read the files of their argument; the connection allows only some files."""
_REFUSED: Final = frozenset((
    "combine", "current_setting", "finalize", "get_block_size", "getenv", "index_key",
    "json_serialize_plan", "pg_get_viewdef", "to_aggregate_state", "write_log",
))  # fmt: skip
"""Scalar functions that plan text as SQL, take bytes for their own state, or show settings."""
_INTERNAL: Final = "__internal"
_SYSTEM: Final = frozenset((
    "information_schema", "pg_catalog", "system", "duckdb_columns", "duckdb_constraints",
    "duckdb_databases", "duckdb_indexes", "duckdb_logs", "duckdb_schemas", "duckdb_tables",
    "duckdb_types", "duckdb_views", "pragma_database_list", "sqlite_master", "sqlite_schema",
    "sqlite_temp_master", "sqlite_temp_schema", "pg_am", "pg_attrdef", "pg_attribute",
    "pg_class", "pg_collation", "pg_constraint", "pg_database", "pg_depend", "pg_description",
    "pg_enum", "pg_index", "pg_indexes", "pg_namespace", "pg_prepared_statements", "pg_proc",
    "pg_sequence", "pg_sequences", "pg_settings", "pg_tables", "pg_tablespace", "pg_type",
    "pg_views",
))  # fmt: skip
"""DuckDB's own schemas, and its views that need no schema's name."""
_NODES: Final = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
"""Queries that only read; a CTE can also insert, delete or copy."""

_TREE: Final = """
    SELECT
        json_extract(tree, '$..type')::VARCHAR[],
        json_extract(tree, '$..function_name')::VARCHAR[],
        json_extract(tree, '$..path')::VARCHAR[],
        json_extract(tree, '$..function')::VARCHAR[]
    FROM (SELECT json_serialize_sql(CAST(? AS VARCHAR)) AS tree)
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of a question: additional tables and files that it may read, and its limits."""

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    timeout_s: float | None = None
    memory_limit: str | None = None
    rows: int | None = None
    cut_rows: bool = False
    """Rows beyond the limit are left out, and are no error."""

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory as a number.

        Examples
        --------
        >>> Terms(memory_limit="1.5GB").memory_bytes, Terms(memory_limit="2 kib").memory_bytes
        (1500000000, 2048)
        """
        match = _BYTES.fullmatch(self.memory_limit or "")
        if match is None:
            return None
        base = 1024 if match["binary"] else 1000
        return int(float(match["number"]) * base ** (1 + "KMGT".index(match["prefix"].upper())))

    @property
    def most_rows(self) -> int | None:
        """How many rows to compute: one more where that is an error."""
        return self.rows if self.rows is None or self.cut_rows else self.rows + 1

    def with_limits(
        self,
        memory_limit: str | None,
        timeout_s: float | None,
        rows: int | None,
        *,
        cut_rows: bool = False,
    ) -> Terms:
        """The terms with other limits; a ParameterError names a wrong one."""
        if memory_limit is not None and not _BYTES.fullmatch(str(memory_limit)):
            raise ParameterError(
                f"memory_limit: needs a number of bytes, such as '2GB', got {memory_limit!r}"
            )
        if timeout_s is not None and not (
            _is_number(timeout_s) and 0 < timeout_s <= _MAX_TIMEOUT_S
        ):
            raise ParameterError(
                f"timeout_s: needs seconds, from 0 to {_MAX_TIMEOUT_S:,}, got {timeout_s!r}"
            )
        if rows is not None and not 0 <= integer("rows", rows) < _MAX_ROWS:
            raise ParameterError(f"rows: needs a number of rows, got {rows!r}")
        return replace(
            self, memory_limit=memory_limit, timeout_s=timeout_s, rows=rows, cut_rows=cut_rows
        )

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let a connection read the tables by name."""
        for name, rows in self.tables.items():
            connection.register(name, rows)

    def shares_connection(self, other: Terms) -> bool:
        """Whether one connection serves these terms and the others."""
        return (
            self.tables is other.tables
            and self.files == other.files
            and self.memory_limit == other.memory_limit
        )


def user_tables(tables: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
    """Frames of the user's as Arrow tables.

    Parameters
    ----------
    tables
        Frames of polars, pandas or Arrow, by their name in SQL.

    Returns
    -------
    Mapping[str, pyarrow.Table]
        The same rows.

    Raises
    ------
    ParameterError
        A name is no plain word, or is that of a table or macro; or a value is no frame.

    Examples
    --------
    >>> user_tables({"mine": pa.table({"a": [1]})})["mine"].num_rows
    1
    """
    reserved = {*schema.TABLES, schema.DEPENDENCIES.name, *macros.names(), *_SYSTEM}
    arrow = {}
    for name, frame in (tables or {}).items():
        if not _NAME.fullmatch(str(name)):
            raise ParameterError(f"tables: needs names such as 'mine', got {name!r}")
        if name.lower() in reserved:
            raise ParameterError(f"tables: {name!r} exists already; choose another name")
        if not hasattr(frame, "__arrow_c_stream__"):
            raise ParameterError(
                f"tables: {name!r} needs a DataFrame or an Arrow table, got {type(frame).__name__}"
            )
        try:
            arrow[name] = pa.table(frame)
        except (pa.ArrowException, TypeError, ValueError) as error:
            line = " ".join(str(error).split())
            raise ParameterError(
                f"tables: {name!r} cannot be converted to Arrow: {line}"
            ) from error
    return arrow


def user_files(files: Paths) -> tuple[str, ...]:
    """Paths of the user's that SQL may read.

    Parameters
    ----------
    files
        A file or folder, or several; of a folder, all that is in it.

    Returns
    -------
    tuple of str
        The paths.

    Raises
    ------
    ParameterError
        There is no such file or folder.

    Examples
    --------
    >>> user_files("examples")
    ('examples',)
    """
    paths = [files] if isinstance(files, (str, PathLike)) else [*files]
    for path in paths:
        if not Path(path).exists():
            raise ParameterError(f"files: {os.fspath(path)}: no such file or folder")
    return tuple(os.fspath(path) for path in paths)


def connect(
    terms: Terms,
    files: Iterable[str],
    threads: int | None = None,
    file_system: Any = None,
) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that can read some files and nothing else of the machine.

    Parameters
    ----------
    terms
        Files of the user's, and the limit of memory.
    files
        Paths of files that the views of tables read; a folder of such files ends in a separator.
    threads
        How many threads it uses; None for as many as this process may use.
    file_system
        A file system of fsspec that opens those files, if they are not of this machine, and no
        others.

    Returns
    -------
    duckdb.DuckDBPyConnection
        Its settings can no longer be changed.

    Examples
    --------
    >>> with connect(Terms(), ()) as connection:
    ...     connection.sql("SELECT current_setting('enable_external_access')").fetchall()
    [(False,)]
    """
    # DuckDB creates it where it spills, readable by all; by default in the current folder.
    folder = process_scratch() / uuid.uuid4().hex
    config = {**_CONFIG, "temp_directory": str(folder)}
    if terms.memory_limit is not None:
        config["memory_limit"] = terms.memory_limit
    threads = threads or most_threads()
    if threads is not None:
        config["threads"] = threads
    paths = [os.path.realpath(path) for path in terms.files]
    files = {*files}
    folders = {path for path in files if path.endswith(os.sep)}
    connection = duckdb.connect(config=config)
    if file_system is not None:
        connection.register_filesystem(file_system)
        with suppress(duckdb.CatalogException):  # a release that has no such setting
            connection.execute(f"SET external_file_cache_remote_max_block_size = {_BLOCK}")
    elif folders:  # of many small files: to hand a read to another thread takes longer than to read
        with suppress(duckdb.CatalogException):
            connection.execute("SET async_threads = 0")
    connection.execute(
        "SET allowed_paths = "
        f"{_list({*(files - folders), *(p for p in paths if not Path(p).is_dir())})};"
        f"SET allowed_directories = {_list({*folders, *(p for p in paths if Path(p).is_dir())})};"
        "SET enable_external_access = false; SET lock_configuration = true"
    )
    return connection


def check(connection: duckdb.DuckDBPyConnection, sql: str, where: str, terms: Terms) -> None:
    """Refuse SQL that is not one SELECT, or that reads more than tables.

    Parameters
    ----------
    connection
        Any connection; it parses the SQL and does not run it.
    sql
        The SQL.
    where
        What the error message calls it.
    terms
        With files, the SQL may call functions that read files.

    Raises
    ------
    AnswerError
        The message names what is refused.
    duckdb.ParserException
        The SQL cannot be parsed.

    Examples
    --------
    >>> check(duckdb.connect(), "FROM events", "query", Terms())
    >>> check(duckdb.connect(), "DROP TABLE events", "query", Terms())
    Traceback (most recent call last):
    profframe.errors.AnswerError: query: needs exactly one SELECT, found DROP
    """
    try:
        sql.encode()
    except UnicodeEncodeError:
        why = "cannot be written as UTF-8: it has half a character"
        raise AnswerError(f"{where}: {why}") from None
    kinds = [*map(_kind, connection.extract_statements(sql))]
    if kinds != [duckdb.StatementType.SELECT.name]:
        statements = ", ".join(kinds) or "no statement"
        raise AnswerError(f"{where}: needs exactly one SELECT, found {statements}")
    for refused in _refused(connection, sql, terms):
        raise AnswerError(
            f"{where}: {refused} is refused: a question reads only the tables of the trace; {_HINT}"
        )


def _kind(statement: duckdb.Statement) -> str:
    """The kind of a statement; some of DuckDB's have no name in its Python package."""
    try:
        return statement.type.name
    except ValueError:
        return "another statement"


def _refused(connection: duckdb.DuckDBPyConnection, sql: str, terms: Terms) -> Iterator[str]:
    """Parts of the SQL that are refused."""
    [(types, names, paths, calls)] = connection.execute(_TREE, [sql]).fetchall()
    if not types:
        yield "SQL that cannot be analysed"
    for node in map(json.loads, types):  # values have a type, too, which is a record
        if isinstance(node, str) and node.endswith("_NODE") and node not in _NODES:
            yield node.removesuffix("_NODE").removesuffix("_QUERY") + " inside a SELECT"
    for name in map(json.loads, names):
        if name.lower() in _REFUSED or name.lower().startswith(_INTERNAL):
            yield f"{name}()"
    for parts in map(json.loads, paths):
        if not _SYSTEM.isdisjoint(map(str.lower, parts)):
            yield ".".join(parts)
    allowed = _TABLE_FUNCTIONS | (_FILE_FUNCTIONS if terms.files else frozenset())
    for text in calls:
        try:
            function = json.loads(text)
        except RecursionError:
            yield "such deep nesting"
            return
        name = function["function_name"]
        if name.lower() in macros.names():
            yield from _refused_arguments(name.lower(), function["arguments"])
        elif name.lower() not in allowed:
            yield f"{name}()"


def _refused_arguments(name: str, arguments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Arguments of a macro that are refused, of those that name tables."""
    parameters = macros.parameters(name)
    for number, argument in enumerate(arguments):
        keyword = argument["name"]
        position = parameters.index(keyword) if keyword in parameters else number
        if position not in macros.tables_of(name):
            continue
        table = argument["expression"]
        if table["type"] not in {"COLUMN_REF", "VALUE_CONSTANT"}:
            yield f"{name}() of anything but table names"
        words = {*re.findall(r"\w+", json.dumps(table).lower())}
        yield from (f"{name}({word})" for word in words & _SYSTEM)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _list(values: Iterable[str]) -> str:
    """SQL: a list of texts."""
    return f"[{', '.join(map(literal, values))}]"
