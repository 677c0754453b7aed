"""Connections for questions: SQL of anybody, with nothing in reach but what it is handed.

A question reads the tables of a trace and what its `Terms` give it beside them. Two things see to
that. DuckDB's settings close files, extensions and the settings themselves (`connect`). And `check`
refuses what they leave open: functions that read memory by its address or run text as SQL, views of
the system, and statements inside others that write. It asks the tree that DuckDB's own parser makes
of the SQL, so that no way of writing a name is a way around it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
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

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]

_BYTES: Final = re.compile(r"\d+(\.\d+)? *[KMGT]i?B", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)

_LONGEST_S: Final = 1_000_000
_MOST_ROWS: Final = 1 << 62

_OURS: Final = (
    "disabled_optimizers", "enable_progress_bar", "external_threads", "preserve_insertion_order",
)  # fmt: skip
"""Settings that answers and exports change on their way; a question cannot."""
_CONFIG: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "allow_community_extensions": False,
        "allowed_configs": [*_OURS],
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
        "show_behavior": "TABLE",
    }
)
"""What a connection starts with."""

_GIVE: Final = "tables={...} or files=... (--files) give a question what it needs beside them"
_TABLE_FUNCTIONS: Final = frozenset((
    "generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "summary",
    "unnest",
))  # fmt: skip
"""Those that compute; all others read files, memory, SQL or the state of DuckDB."""
_FILE_FUNCTIONS: Final = frozenset((
    "glob", "parquet_file_metadata", "parquet_kv_metadata", "parquet_metadata", "parquet_scan",
    "parquet_schema", "read_blob", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
    "read_json_objects", "read_json_objects_auto", "read_ndjson", "read_ndjson_auto",
    "read_ndjson_objects", "read_parquet", "read_text", "sniff_csv",
))  # fmt: skip
"""Those that read the files of their argument, which the connection holds to what is allowed."""
_REFUSED: Final = frozenset((
    "combine", "current_setting", "finalize", "get_block_size", "getenv", "index_key",
    "json_serialize_plan", "pg_get_viewdef", "to_aggregate_state", "write_log",
))  # fmt: skip
"""Scalar functions that plan text as SQL, take bytes for their own state, or tell of settings."""
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
"""DuckDB's own schemas, and its views that are found without naming one."""
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
    """What a question is given beside the tables of the trace, and how much it may take."""

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    timeout_s: float | None = None
    memory_limit: str | None = None
    rows: int | None = None

    def limited(self, memory_limit: str | None, timeout_s: float | None, rows: int | None) -> Terms:
        """The same with these limits; a ParameterError names one that cannot be used."""
        if memory_limit is not None and not _BYTES.fullmatch(str(memory_limit)):
            raise ParameterError(
                f"memory_limit: needs a number of bytes, such as '2GB', got {memory_limit!r}"
            )
        if timeout_s is not None and not (_is_number(timeout_s) and 0 < timeout_s <= _LONGEST_S):
            raise ParameterError(
                f"timeout_s: needs seconds, from 0 to {_LONGEST_S:,}, got {timeout_s!r}"
            )
        if rows is not None and not 0 <= integer("rows", rows) < _MOST_ROWS:
            raise ParameterError(f"rows: needs a number of rows, got {rows!r}")
        return replace(self, memory_limit=memory_limit, timeout_s=timeout_s, rows=rows)

    def hand_over(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let a connection read the tables by their names."""
        for name, rows in self.tables.items():
            connection.register(name, rows)

    def is_asked_like(self, other: Terms) -> bool:
        """Whether a connection for these terms is one for the others."""
        return (
            self.tables is other.tables
            and self.files == other.files
            and self.memory_limit == other.memory_limit
        )


def own_tables(tables: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
    """Take frames of a user's as Arrow.

    Parameters
    ----------
    tables
        Frames of polars, pandas or Arrow, by the names that a question has for them.

    Returns
    -------
    Mapping[str, pyarrow.Table]
        The same rows.

    Raises
    ------
    ParameterError
        A name is no plain word, or that of a table or macro; or something is no frame.

    Examples
    --------
    >>> own_tables({"mine": pa.table({"a": [1]})})["mine"].num_rows
    1
    """
    known = {*schema.TABLES, *macros.names(), *_SYSTEM}
    found = {}
    for name, frame in (tables or {}).items():
        if not _NAME.fullmatch(str(name)):
            raise ParameterError(f"tables: needs names such as 'mine', got {name!r}")
        if name.lower() in known:
            raise ParameterError(f"tables: {name!r} is there already; give it another name")
        if not hasattr(frame, "__arrow_c_stream__"):
            raise ParameterError(
                f"tables: {name!r} needs a DataFrame or an Arrow table, got {type(frame).__name__}"
            )
        try:
            found[name] = pa.table(frame)
        except (pa.ArrowException, TypeError, ValueError) as error:
            line = " ".join(str(error).split())
            raise ParameterError(f"tables: {name!r} cannot be taken as Arrow: {line}") from error
    return found


def own_files(files: Paths) -> tuple[str, ...]:
    """Take paths of a user's that questions may read.

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
    >>> own_files("examples")
    ('examples',)
    """
    given = [files] if isinstance(files, (str, PathLike)) else [*files]
    for path in given:
        if not Path(path).exists():
            raise ParameterError(f"files: {os.fspath(path)}: no such file or folder")
    return tuple(os.fspath(path) for path in given)


def connect(terms: Terms, files: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that reaches some files and nothing else of the machine.

    Parameters
    ----------
    terms
        Own files of the question, and how much memory it may take.
    files
        Paths of files that the views of tables read.

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
    # Made by DuckDB only where it is needed; by default it would be in the current folder.
    folder = Path(tempfile.gettempdir(), f"profframe-{uuid.uuid4().hex}")
    config = {**_CONFIG, "temp_directory": str(folder)}
    if terms.memory_limit is not None:
        config["memory_limit"] = terms.memory_limit
    own = [os.path.realpath(path) for path in terms.files]
    connection = duckdb.connect(config=config)
    connection.execute(
        f"SET allowed_paths = {_texts({*files, *(p for p in own if not Path(p).is_dir())})};"
        f"SET allowed_directories = {_texts(p for p in own if Path(p).is_dir())};"
        "SET enable_external_access = false; SET lock_configuration = true"
    )
    return connection


def check(connection: duckdb.DuckDBPyConnection, sql: str, where: str, terms: Terms) -> None:
    """Refuse SQL that is not one SELECT, or that reaches for more than tables.

    Parameters
    ----------
    connection
        Any connection; the SQL is parsed and not run.
    sql
        The SQL.
    where
        What the error message calls it.
    terms
        With files of its own, it may call functions that read files.

    Raises
    ------
    AnswerError
        It says what is refused.
    duckdb.ParserException
        It is no SQL.

    Examples
    --------
    >>> check(duckdb.connect(), "FROM events", "query", Terms())
    >>> check(duckdb.connect(), "DROP TABLE events", "query", Terms())
    Traceback (most recent call last):
    profframe.errors.AnswerError: query: needs exactly one SELECT, found DROP
    """
    if not _is_unicode(sql):
        raise AnswerError(f"{where}: is no text that UTF-8 can write: it has half a character")
    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if kinds != [duckdb.StatementType.SELECT]:
        found = ", ".join(kind.name for kind in kinds) or "no statement"
        raise AnswerError(f"{where}: needs exactly one SELECT, found {found}")
    for refused in _refused(connection, sql, terms):
        raise AnswerError(
            f"{where}: {refused} is refused: a question reads the tables of the trace; {_GIVE}"
        )


def _refused(connection: duckdb.DuckDBPyConnection, sql: str, terms: Terms) -> Iterator[str]:
    """What of the SQL is refused."""
    [(types, names, paths, called)] = connection.execute(_TREE, [sql]).fetchall()
    if not types:
        yield "what cannot be taken apart"
    for node in {json.loads(type_) for type_ in types} - _NODES:
        if node.endswith("_NODE"):
            yield node.removesuffix("_NODE").removesuffix("_QUERY") + " inside a SELECT"
    for name in map(json.loads, names):
        if name.lower() in _REFUSED or name.lower().startswith(_INTERNAL):
            yield f"{name}()"
    for parts in map(json.loads, paths):
        if not _SYSTEM.isdisjoint(map(str.lower, parts)):
            yield ".".join(parts)
    allowed = _TABLE_FUNCTIONS | (_FILE_FUNCTIONS if terms.files else frozenset())
    for text in called:
        try:
            function = json.loads(text)
        except RecursionError:
            yield "what is nested so deeply"
            return
        name = function["function_name"]
        if name.lower() in macros.names():
            yield from _refused_arguments(name.lower(), function["arguments"])
        elif name.lower() not in allowed:
            yield f"{name}()"


def _refused_arguments(name: str, arguments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What is refused of the tables that a macro is to read."""
    known = macros.parameters(name)
    for number, argument in enumerate(arguments):
        named = argument["name"]
        if (known.index(named) if named in known else number) not in macros.tables_of(name):
            continue
        table = argument["expression"]
        if table["type"] not in {"COLUMN_REF", "VALUE_CONSTANT"}:
            yield f"{name}() of anything but names of tables"
        words = {*re.findall(r"\w+", json.dumps(table).lower())}
        yield from (f"{name}({word})" for word in words & _SYSTEM)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _texts(values: Iterable[str]) -> str:
    """SQL: a list of texts."""
    return f"[{', '.join(map(literal, values))}]"
