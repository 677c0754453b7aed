"""Answers: one SELECT in a file of ``sql/``, with a header that says what comes out.

The header is the contract (`profframe.query.header`); it is held against the result of each run. A
user's own file works the same, with or without a header.

``python -m profframe.query.answering > docs/answers.md`` writes the page of all answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Final

import duckdb

from profframe import schema
from profframe.errors import AnswerError, ParameterError, ProfframeError, UnknownNameError
from profframe.query import closed, macros
from profframe.query import rules as advising
from profframe.query.closed import Terms
from profframe.query.header import (
    CONVERT,
    Answer,
    AnswerColumn,
    Parameter,
    parse,
    sql_directory,
)
from profframe.query.rules import Advice
from profframe.query.selection import literal

__all__ = [
    "Answer",
    "AnswerColumn",
    "Parameter",
    "advice",
    "catalogue",
    "find",
    "markdown",
    "parse",
    "prepare",
    "query",
    "reads",
    "run",
    "script",
    "select",
    "sql_directory",
]

_FREE: Final = Terms()
"""Nothing beside the tables, and no limits."""

_RESULT: Final = "_answer"
"""The table that a result is in for a moment."""
_NAMES: Final = "shared_names"
"""The table of `sql/lib/advice.sql` that conditions of rules are about."""
_UNKNOWN_MEMBER: Final = re.compile(r'does not have a column named "([^"]*)"')
_OUT_OF_REACH: Final = re.compile(r'Permission Error: Cannot access \w+ "([^"]*)"')
_UNKNOWN_NAME: Final = re.compile(
    r"Table with name .* does not exist|Referenced (column|table) .* not found"
    r"|does not have a column named"
)


def catalogue() -> tuple[Answer, ...]:
    """All answers that come with profframe, by name.

    Examples
    --------
    >>> [answer.name for answer in catalogue()][:2]
    ['advice', 'annotations']
    """
    return tuple(_shipped(name) for name in sorted(_files()))


def find(name_or_path: str | PathLike[str] | Answer) -> Answer:
    """Look up an answer by its name, or read one from a file of the user's.

    Parameters
    ----------
    name_or_path
        Name of an answer of the catalogue, or a path that ends in ``.sql``; one that has been
        found is given back.

    Returns
    -------
    Answer
        The SQL and what its header declares.

    Raises
    ------
    UnknownNameError
        No answer has that name; the message suggests the nearest.
    AnswerError
        The file cannot be read, or its header cannot be understood.

    Examples
    --------
    >>> find("self_times").needs
    ('events',)
    """
    if isinstance(name_or_path, Answer):
        return name_or_path
    if not isinstance(name_or_path, str) or name_or_path.endswith(".sql"):
        return _read(Path(name_or_path))
    files = _files()
    if name_or_path not in files:
        raise UnknownNameError.among("answer", name_or_path, files)
    return _shipped(name_or_path)


def advice(rules: advising.Paths = ()) -> Advice:
    """The answer ``advice`` with rules of one's own beside those that come with profframe.

    Parameters
    ----------
    rules
        Files that end in ``.sql``, and folders of such; `profframe.query.rules` has their form.

    Returns
    -------
    Advice
        One SELECT with all rules in it, and all of their parameters.

    Raises
    ------
    AnswerError
        A file or folder cannot be read, holds no rule, or its header cannot be understood.

    Examples
    --------
    >>> advice() == find("advice")
    True
    """
    path = _files()[advising.ANSWER]
    return advising.assembled(
        parse(path.read_text(encoding="utf-8"), path.stem), advising.rules(rules)
    )


def prepare(
    connection: duckdb.DuckDBPyConnection, answer: Answer, parameters: Mapping[str, object]
) -> None:
    """Load the macros that the answer uses and set its variables, those not given to their default.

    Parameters
    ----------
    connection
        Connection that the answer is going to run on.
    answer
        The answer.
    parameters
        Value by parameter name; text is converted to the declared type, None is the default.

    Raises
    ------
    ParameterError
        The answer has no such parameter, or the value is not of its type.

    Examples
    --------
    >>> connection = duckdb.connect()
    >>> prepare(connection, find("key_averages"), {"group_by_stack_n": "5"})
    >>> connection.sql("SELECT getvariable('group_by_stack_n')").fetchall()
    [(5,)]
    """
    _set_variables(connection, answer, parameters)
    macros.load(connection, answer.sql)


def run(
    connection: duckdb.DuckDBPyConnection,
    answer: Answer,
    parameters: Mapping[str, object] = MappingProxyType({}),
    terms: Terms = _FREE,
) -> duckdb.DuckDBPyRelation:
    """Run an answer on a connection that has a view per table.

    Parameters
    ----------
    connection
        DuckDB connection with the views ``events``, ``memory``, ...
    answer
        The answer, from `find`.
    parameters
        Value by parameter name.
    terms
        Whether a file of the user's may read own files, and how many rows there may be.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The rows, already computed, so that a later answer's parameters cannot change them.

    Raises
    ------
    ParameterError
        The answer has no such parameter, or the value is not of its type.
    UnknownNameError
        The SQL names a table or column that is not there; the message suggests the nearest.
    AnswerError
        DuckDB refused the SQL, it reaches for more than tables, there are more rows than may be,
        or the result is not what the header declares.

    Examples
    --------
    >>> connection = duckdb.connect()
    >>> _ = connection.execute(
    ...     "CREATE TABLE events AS SELECT 'r' AS run, 0 AS rank, 'mm' AS name,"
    ...     " 'host_op' AS kind, 7::BIGINT AS self_ns, 7::BIGINT AS dur_ns"
    ... )
    >>> run(connection, find("self_times")).fetchall()
    [('r', 0, 'mm', 'host_op', 1, 7, 7, 7, 7, 7, 1.0)]
    """
    where, ours = f"answer {answer.name!r}", _is_ours(answer)
    _set_variables(connection, answer, parameters)
    if isinstance(answer, Advice):
        relation = _advice(connection, answer, terms)
    else:
        with _one_line_errors(where, terms):
            if not ours:
                closed.check(connection, answer.sql, where, terms)
            macros.load(connection, answer.sql, kept=ours)
            relation = _computed(connection, answer.sql, terms)
    _reset_variables(connection, parameters)
    _check_rows(relation, where, terms)
    _check_columns(answer, relation)
    return relation


def reads(answer: Answer) -> Mapping[str, frozenset[str] | None]:
    """Tables that an answer reads.

    Parameters
    ----------
    answer
        The answer.

    Returns
    -------
    Mapping[str, frozenset[str] | None]
        Columns by table, which may be more than it reads; None where they may be any.

    Examples
    --------
    >>> sorted(reads(find("steps"))["events"])[:3]
    ['dur_ns', 'event_id', 'idle_ns']
    """
    if _is_ours(answer):
        return _columns_read(answer.name)
    known = [table for table in schema.TABLES if table in answer.needs]
    return dict.fromkeys(known or schema.TABLES)


def script(answer: Answer, parameters: Mapping[str, object] = MappingProxyType({})) -> str:
    """Everything that a bare DuckDB shell needs to run an answer on views of the tables.

    Parameters
    ----------
    answer
        The answer.
    parameters
        Value by parameter name.

    Returns
    -------
    str
        SQL: the macros that the answer uses, its parameters that were given, and its SELECT.

    Raises
    ------
    ParameterError
        The answer has no such parameter, or the value is not of its type.

    Examples
    --------
    >>> script(find("steps")).splitlines()[0]
    'CREATE OR REPLACE TEMP MACRO step_marks(events) AS TABLE'
    """
    types = {parameter.name: parameter.type for parameter in answer.parameters}
    given = [
        f'SET VARIABLE "{name}" = CAST({literal(str(value))} AS {types[name]});'
        for name, value in _checked(answer, parameters).items()
        if value is not None
    ]
    made = macros.called(answer.sql).values()
    return "\n".join([*made, *given, answer.sql.strip().removesuffix(";") + ";\n"])


def query(
    connection: duckdb.DuckDBPyConnection, sql: str, where: str = "query", terms: Terms = _FREE
) -> duckdb.DuckDBPyRelation:
    """Run one SELECT of anybody's and turn what is wrong with it into an error of one line.

    Parameters
    ----------
    connection
        DuckDB connection with the views ``events``, ``memory``, ...
    sql
        One statement that gives rows.
    where
        What the error message calls the SQL.
    terms
        Whether it may read own files, and how many rows it may give.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The rows, already computed.

    Raises
    ------
    UnknownNameError
        A table or column is not there; the message suggests the nearest.
    AnswerError
        The SQL is not one SELECT, it reaches for more than tables, it gives too many rows, or
        DuckDB refused it.

    Examples
    --------
    >>> query(duckdb.connect(), "SELECT 1 + 1").fetchall()
    [(2,)]
    """
    with _one_line_errors(where, terms):
        closed.check(connection, sql, where, terms)
        macros.load(connection, sql)
        found = connection.sql(sql)
        rows = (found if terms.rows is None else found.limit(terms.rows + 1)).materialize()
    _check_rows(rows, where, terms)
    return rows


def select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """Run a SELECT that came with profframe; errors are those of `query`.

    Parameters
    ----------
    connection
        DuckDB connection with the views ``events``, ``memory``, ...
    sql
        One SELECT.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The rows, already computed.

    Examples
    --------
    >>> select(duckdb.connect(), "SELECT 1 + 1").fetchall()
    [(2,)]
    """
    with _one_line_errors("query"):
        return connection.sql(sql).materialize()


def markdown() -> str:
    """The page ``docs/answers.md``.

    Examples
    --------
    >>> print(markdown().splitlines()[0])
    # Answers
    """
    lines = [
        "# Answers",
        "",
        "Generated by `python -m profframe.query.answering > docs/answers.md`; do not edit.",
        "",
        "Each is one file of `sql/answers`. `trace.answer(NAME)`, `profframe answer NAME SOURCE`",
        "and a bare DuckDB shell over a store all run it.",
    ]
    for answer in catalogue():
        lines += ["", f"## {answer.name}", "", _capital(answer.sentence), "", answer.grain]
        lines += [*answer.notes, "", f"Needs {' and '.join(f'`{t}`' for t in answer.needs)}."]
        if isinstance(answer, Advice):
            lines += ["", "Its parameters are the thresholds of its [rules](rules.md)."]
        elif answer.parameters:
            lines += ["", "| parameter | type | default | what it does |", "|---|---|---|---|"]
            lines += [
                f"| `{p.name}` | {p.type} | {_sql_word(p.default)} | {p.doc} |"
                for p in answer.parameters
            ]
        lines += ["", "| column | type | unit | what it is |", "|---|---|---|---|"]
        lines += [f"| `{c.name}` | {c.type} | {c.unit or ''} | {c.doc} |" for c in answer.columns]
    return "\n".join(lines) + "\n"


@cache
def _files() -> Mapping[str, Path]:
    paths = (sql_directory() / "answers").glob("*.sql")
    return MappingProxyType({path.stem: path for path in paths})


@cache
def _shipped(name: str) -> Answer:
    """An answer that comes with profframe: a report asks a hundred times what one declares."""
    return _read(_files()[name])


@cache
def _columns_read(name: str) -> Mapping[str, frozenset[str]]:
    """Columns whose names are words of the SQL of an answer that came with profframe."""
    answer = _shipped(name)
    sql = answer.sql
    if isinstance(answer, Advice):
        sql += f"{_NAMES}(events) {answer.conditions}"
    words = set(re.findall(r"\w+", "".join([sql, *macros.called(sql).values()])))
    return MappingProxyType(
        {
            table: frozenset(column.name for column in schema.TABLES[table]) & words
            for table in schema.TABLES
            if table in answer.needs
        }
    )


def _is_ours(answer: Answer) -> bool:
    """Whether it came with profframe, so that its SQL is known to be one SELECT over the tables."""
    return answer.name in _files() and answer == _shipped(answer.name)


def _computed(
    connection: duckdb.DuckDBPyConnection, sql: str, terms: Terms
) -> duckdb.DuckDBPyRelation:
    """Run a SELECT that takes long to plan: a statement is planned once, a relation twice."""
    if terms.rows is not None:
        return connection.sql(sql).limit(terms.rows + 1).materialize()
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {_RESULT} AS\n{sql}")
    rows = connection.sql(f"FROM {_RESULT}").materialize()
    connection.execute(f"DROP TABLE {_RESULT}")
    return rows


def _read(path: Path) -> Answer:
    if path == _files()[advising.ANSWER]:
        return advice()
    try:
        return parse(path.read_text(encoding="utf-8"), path.stem)
    except OSError as error:
        raise AnswerError(f"{path}: cannot read the answer: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AnswerError(f"{path}: the answer is not UTF-8 text") from error


def _checked(answer: Answer, parameters: Mapping[str, object]) -> dict[str, object]:
    """Values in the types that the header declares; None where the default is asked for."""
    known = {parameter.name: parameter for parameter in answer.parameters}
    unknown = next((name for name in parameters if name not in known), None)
    if unknown is not None and not known:
        raise ParameterError(f"answer {answer.name!r} takes no parameters, got {unknown!r}")
    if unknown is not None:
        missing = UnknownNameError.among("parameter", unknown, known)
        raise ParameterError(f"answer {answer.name!r}: {missing}")
    return {
        name: None if value is None else _converted(answer, known[name], value)
        for name, value in parameters.items()
    }


def _converted(answer: Answer, parameter: Parameter, value: object) -> object:
    try:
        converted = CONVERT[parameter.type](value)
    except (TypeError, ValueError):
        raise ParameterError(
            f"answer {answer.name!r}: parameter {parameter.name!r} is {parameter.type}, "
            f"got {value!r}"
        ) from None
    if parameter.choices and converted not in parameter.choices:
        missing = UnknownNameError.among(parameter.name, str(value), parameter.choices)
        raise ParameterError(f"answer {answer.name!r}: {missing}")
    return converted


def _set_variables(
    connection: duckdb.DuckDBPyConnection, answer: Answer, parameters: Mapping[str, object]
) -> None:
    values = _checked(answer, parameters)
    for parameter in answer.parameters:
        value = values.get(parameter.name)
        if value is None:
            connection.execute(f'RESET VARIABLE "{parameter.name}"')
        else:
            connection.execute(
                f'SET VARIABLE "{parameter.name}" = CAST(? AS {parameter.type})', [value]
            )


def _reset_variables(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Let the next question on the connection find none of them."""
    for name in names:
        connection.execute(f'RESET VARIABLE "{name}"')


def _advice(
    connection: duckdb.DuckDBPyConnection, answer: Advice, terms: Terms
) -> duckdb.DuckDBPyRelation:
    """Run a SELECT that takes as long to plan as to run.

    Rules that cannot be about the trace are left out, and so is a step of the planner whose time
    grows with the square of the rules.
    """
    where, ours = f"answer {answer.name!r}", _is_ours(answer)
    if not ours:
        _check_rules(connection, answer, terms)
    try:
        with (
            _one_line_errors(where, terms),
            _without_optimizer(connection, "projection_pullup"),
        ):
            macros.load(connection, f"{_NAMES}(events) {answer.conditions}")
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {_NAMES} AS FROM {_NAMES}(events)")
            [applies] = connection.execute(answer.conditions).fetchall()
            chosen = [rule for rule, it_does in zip(answer.rules, applies, strict=True) if it_does]
            asked = answer.only(chosen, (_NAMES,))
            macros.load(connection, asked.sql, kept=ours)
            return _computed(connection, asked.sql, terms)
    except ProfframeError:
        _blame(connection, answer, replace(terms, rows=None))
        raise


@contextmanager
def _without_optimizer(connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[None]:
    known = connection.execute("SELECT 1 FROM duckdb_optimizers() WHERE name = ?", [name])
    if known.fetchall():
        connection.execute(f"SET disabled_optimizers = '{name}'")
    try:
        yield
    finally:
        connection.execute("RESET disabled_optimizers")


def _check_rules(connection: duckdb.DuckDBPyConnection, answer: Advice, terms: Terms) -> None:
    """Check rules of the user's: what is a SELECT by itself stays one within parentheses."""
    shipped = find(advising.ANSWER)
    known = shipped.rules if isinstance(shipped, Advice) else ()
    for rule in answer.rules:
        if rule not in known:
            for sql in (rule.body, f"SELECT {rule.condition}"):
                with _one_line_errors(str(rule.path)):
                    closed.check(connection, sql, str(rule.path), terms)


def _blame(connection: duckdb.DuckDBPyConnection, answer: Advice, terms: Terms) -> None:
    """Raise the error of the rule that fails by itself, too."""
    macros.load(connection, f"{answer.conditions} {answer.sql}")
    for rule in answer.rules:
        name = str(rule.path)
        try:
            query(connection, answer.only([rule]).conditions, name, terms)
            query(connection, answer.only([rule]).sql, name, terms)
        except ProfframeError as error:
            message = str(error)
            raise type(error)(
                message if message.startswith(name) else f"{name}: {message}"
            ) from error


def _check_rows(relation: duckdb.DuckDBPyRelation, where: str, terms: Terms) -> None:
    if terms.rows is not None and len(relation) > terms.rows:
        raise AnswerError(
            f"{where}: gives more than the {terms.rows:,} rows that it may (rows=, --rows)"
        )


def _check_columns(answer: Answer, relation: duckdb.DuckDBPyRelation) -> None:
    if not answer.columns:
        return
    declared = [f"{column.name} {column.type}" for column in answer.columns]
    found = [
        f"{name} {type_}" for name, type_ in zip(relation.columns, relation.types, strict=True)
    ]
    if declared != found:
        raise AnswerError(
            f"answer {answer.name!r}: the header declares ({', '.join(declared)}), "
            f"the result has ({', '.join(found)})"
        )


@contextmanager
def _one_line_errors(where: str, terms: Terms = _FREE) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        if isinstance(error, duckdb.InterruptException):
            raise
        if isinstance(error, duckdb.OutOfMemoryException) and terms.memory_limit is not None:
            raise AnswerError(
                f"{where}: needs more memory than the {terms.memory_limit} that it may "
                "(memory_limit=, --memory)"
            ) from error
        if file := _OUT_OF_REACH.search(str(error)):
            raise AnswerError(
                f"{where}: {file.group(1)} is refused: a question reads the tables of the trace; "
                "files=... (--files) gives it files beside them"
            ) from error
        message, _, _ = str(error).partition("\nLINE ")
        line = " ".join(message.split()).replace("Candidate bindings: :", "Candidate bindings:")
        if member := _UNKNOWN_MEMBER.search(line):
            columns = {column.name for table in schema.TABLES.values() for column in table}
            raise UnknownNameError.among("column", member.group(1), columns) from error
        kind = UnknownNameError if _UNKNOWN_NAME.search(line) else AnswerError
        raise kind(f"{where}: {line}") from error


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _sql_word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    import sys

    sys.stdout.write(markdown())
