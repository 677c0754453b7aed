"""Running one statement: row order, row limits, and errors in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import duckdb
import pyarrow as pa

from profframe import schema
from profframe.errors import AnswerError, UnknownNameError, nearest
from profframe.query import renamed
from profframe.query.arrangement import AS_IT_IS, Arrangement
from profframe.query.catalogue import catalogue, words_of
from profframe.query.header import Answer
from profframe.query.sandbox import Terms

FREE: Final = Terms()
"""No tables or files beside the trace, and no limits."""

_ARROW: Final[Mapping[str, pa.DataType]] = {
    "VARCHAR": pa.string(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "BIGINT[]": pa.list_(pa.int64()),
}
"""Types of a column of an answer, as DuckDB gives them to Arrow."""
_RESULT: Final = "_answer"
"""The table that holds a result for a moment."""
_PLAIN: Final = re.compile(r"\s*(from|select|with)\b((?!pivot)[^;])*", re.IGNORECASE)
"""A SELECT that can stand within parentheses as it is."""
_UNKNOWN_MEMBER: Final = re.compile(r'does not have a column named "([^"]*)"')
_NEAR: Final = re.compile(
    r'"?(?P<wrong>\w+)"? '
    r"(?:not found in FROM clause! Candidate bindings: |does not exist!? Did you mean )"
    r"(?P<candidates>.*)"
)
"""DuckDB's suggestions for a name."""
_CANDIDATE: Final = re.compile(r'"(?:\w+\.)?((?!pg_|duckdb_|sqlite_)\w+)"')
"""One of them, unless it is a table of DuckDB's own."""
_AFTER: Final = re.compile(r"\nLINE |\n+Stack Trace:")
"""The rest of an error after its sentence: the SQL, and places in DuckDB."""
_OUT_OF_REACH: Final = re.compile(r'Permission Error: Cannot access \w+ "([^"]*)"')
_UNKNOWN_TABLE: Final = re.compile(r"Table with name (\w+) does not exist")
_UNKNOWN_NAME: Final = re.compile(
    r"Table with name .* does not exist|Referenced (column|table) .* not found"
    r"|does not have a column named"
)


def most(connection: duckdb.DuckDBPyConnection, sql: str, terms: Terms) -> duckdb.DuckDBPyRelation:
    """A checked SELECT with its row limit applied."""
    if terms.most_rows is None:
        return connection.sql(sql)
    if _PLAIN.fullmatch(sql):
        return connection.sql(f"FROM (\n{sql}\n) LIMIT {terms.most_rows}")
    return connection.sql(sql).limit(terms.most_rows)


def computed(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    terms: Terms,
    arrangement: Arrangement = AS_IT_IS,
    *,
    trusted: bool = True,
) -> duckdb.DuckDBPyRelation:
    """Run a SELECT that takes long to plan: DuckDB plans a statement once, a relation twice."""
    if arrangement != AS_IT_IS:
        return _arranged(connection, sql, terms, arrangement)
    if terms.most_rows is not None and not trusted:
        return most(connection, sql, terms).materialize()
    limited = sql if terms.most_rows is None else f"FROM (\n{sql}\n) LIMIT {terms.most_rows}"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {_RESULT} AS\n{limited}")
    rows = connection.sql(f"FROM {_RESULT}").materialize()
    connection.execute(f"DROP TABLE {_RESULT}")
    return rows


def _arranged(
    connection: duckdb.DuckDBPyConnection, sql: str, terms: Terms, arrangement: Arrangement
) -> duckdb.DuckDBPyRelation:
    """Rows in the order that is wanted: all are computed, as the first may be anywhere."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {_RESULT} AS\n{sql}")
    try:
        result = connection.sql(f"FROM {_RESULT}")
        arrangement.check("the result", result.columns)
        types = dict(zip(result.columns, result.types, strict=True))
        order = arrangement.sql(types, "rowid", terms.most_rows)
        return connection.sql(f"FROM {_RESULT}{order}").materialize()
    finally:
        connection.execute(f"DROP TABLE IF EXISTS {_RESULT}")


def check_rows(relation: duckdb.DuckDBPyRelation, where: str, terms: Terms) -> None:
    """Raise an AnswerError for more rows than there may be."""
    if terms.rows is not None:
        check_number_of_rows(len(relation), where, terms)


def check_number_of_rows(number: int, where: str, terms: Terms) -> None:
    """Raise an AnswerError for more rows than there may be."""
    if terms.rows is not None and not terms.cut_rows and number > terms.rows:
        raise AnswerError(
            f"{where}: returns more than the limit of {terms.rows:,} rows (rows=, --rows)"
        )


def check_columns(answer: Answer, relation: duckdb.DuckDBPyRelation) -> None:
    """Raise an AnswerError if columns are not those that the header declares."""
    if not answer.columns:
        return
    declared = [f"{column.name} {column.type}" for column in answer.columns]
    actual = [
        f"{name} {type_}" for name, type_ in zip(relation.columns, relation.types, strict=True)
    ]
    if declared != actual:
        raise AnswerError(
            f"answer {answer.name!r}: the header declares ({', '.join(declared)}), "
            f"the result has ({', '.join(actual)})"
        )


def check_arrow_columns(answer: Answer, rows: pa.Table) -> None:
    """`check_columns` for a result in Arrow's types."""
    declared = [(column.name, _ARROW[column.type]) for column in answer.columns]
    actual = [(column.name, column.type) for column in rows.schema]
    if declared != actual:
        raise AnswerError(
            f"answer {answer.name!r}: the header declares {_columns_text(declared)}, "
            f"the result has {_columns_text(actual)}"
        )


def no_rows(answer: Answer, columns: Sequence[str] = ()) -> pa.Table:
    """The result of an answer without rows; by default all of its columns."""
    types = {column.name: _ARROW[column.type] for column in answer.columns}
    return pa.schema([(name, types[name]) for name in columns or types]).empty_table()


def _columns_text(columns: Iterable[tuple[str, pa.DataType]]) -> str:
    return f"({', '.join(f'{name} {type_}' for name, type_ in columns)})"


@contextmanager
def one_line_errors(where: str, terms: Terms = FREE, sql: str = "") -> Iterator[None]:
    """Let errors of DuckDB be of profframe, in one line; old columns are those of SQL's tables."""
    try:
        yield
    except duckdb.Error as error:
        if isinstance(error, duckdb.InterruptException):
            raise
        if isinstance(error, duckdb.OutOfMemoryException) and terms.memory_limit is not None:
            raise AnswerError(
                f"{where}: needs more memory than the limit of {terms.memory_limit} "
                "(memory_limit=, --memory)"
            ) from error
        if file := _OUT_OF_REACH.search(str(error)):
            raise AnswerError(
                f"{where}: {file.group(1)} is refused: a question reads only the tables of the "
                "trace; files=... (--files) lets it read more"
            ) from error
        message = _AFTER.split(str(error), maxsplit=1)[0]
        line = " ".join(message.split()).replace("Candidate bindings: :", "Candidate bindings:")
        near = _NEAR.search(line)
        member = _UNKNOWN_MEMBER.search(line)
        wrong = member[1] if member else near["wrong"] if near else ""
        tables = words_of(sql.lower())
        if new := renamed.new_column(tables, wrong):
            missing = UnknownNameError(f"{where}: column {wrong!r} is now called {new!r}")
            raise missing.with_suggestion((wrong, new)) from error
        named = [table for name, table in schema.TABLES.items() if name in tables]
        if member and named:
            columns = {column.name for table in named for column in table}
            raise UnknownNameError.among("column", wrong, columns) from error
        table = _UNKNOWN_TABLE.search(line)
        if table and table[1] in {answer.name for answer in catalogue()}:
            raise UnknownNameError(
                f"{where}: {table[1]} is an answer, not a table: trace.answer({table[1]!r}), or "
                f"profframe answer {table[1]} TRACE"
            ) from error
        kind = UnknownNameError if _UNKNOWN_NAME.search(line) else AnswerError
        right = nearest(wrong, _CANDIDATE.findall(near["candidates"])) if near else None
        instead = None if right is None else (wrong, right)
        raise kind(f"{where}: {line}").with_suggestion(instead) from error
