"""Answers: one SELECT in a file of ``sql/``, with a header that says what comes out.

The header is the contract: name, sentence, grain, tables needed, parameters, and every output
column. It is parsed here and held against the result of each run. A user's own file works the same,
with or without a header.

``python -m profframe.answering > docs/answers.md`` writes the page of all answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import duckdb

from profframe import schema
from profframe.errors import AnswerError, ParameterError, UnknownNameError

TYPES: Final = ("VARCHAR", "INTEGER", "BIGINT", "DOUBLE", "BOOLEAN")
"""Types that a column or parameter of an answer may have."""

_FIRST_LINE: Final = re.compile(r"(?P<name>\w+): (?P<sentence>\S.*)")
_PARAMETER: Final = re.compile(
    rf"parameter (?P<name>\w+) +(?P<type>{'|'.join(TYPES)})(\((?P<choices>\w+(\|\w+)*)\))?"
    r" += (?P<default>\S+)  +(?P<doc>\S.*)"
)
_COLUMN: Final = re.compile(
    rf"(?P<name>\w+) +(?P<type>{'|'.join(TYPES)})  +(?:(?P<unit>\S+)  +)?(?P<doc>\S+( \S+)*)"
)
_UNKNOWN_MEMBER: Final = re.compile(r'does not have a column named "([^"]*)"')
_UNKNOWN_NAME: Final = re.compile(
    r"Table with name .* does not exist|Referenced (column|table) .* not found"
    r"|does not have a column named"
)


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """One output column, as the header declares it."""

    name: str
    type: str
    unit: str | None
    doc: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: a DuckDB variable that the SQL reads, and the default that the SQL uses."""

    name: str
    type: str
    default: object
    doc: str
    choices: tuple[str, ...] = ()
    """The texts that it may be; any, where there are none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One question that can be asked. A user's file without a header has only a name and SQL."""

    name: str
    sql: str
    sentence: str = ""
    grain: str = ""
    notes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    columns: tuple[AnswerColumn, ...] = ()


def sql_directory() -> Path:
    """Folder of the answers: inside the package in a wheel, beside it in a checkout.

    Examples
    --------
    >>> (sql_directory() / "self_times.sql").is_file()
    True
    """
    package = Path(__file__).parent
    installed = package / "sql"
    return installed if installed.is_dir() else package.parent / "sql"


def catalogue() -> tuple[Answer, ...]:
    """All answers that come with profframe, by name.

    Examples
    --------
    >>> [answer.name for answer in catalogue()].index("annotations")
    0
    """
    return tuple(_read(_files()[name]) for name in sorted(_files()))


def find(name_or_path: str | Path) -> Answer:
    """Look up an answer by its name, or read one from a file of the user's.

    Parameters
    ----------
    name_or_path
        Name of an answer of the catalogue, or a path that ends in ``.sql``.

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
    if isinstance(name_or_path, Path) or name_or_path.endswith(".sql"):
        return _read(Path(name_or_path))
    files = _files()
    if name_or_path not in files:
        raise UnknownNameError.among("answer", name_or_path, files)
    return _read(files[name_or_path])


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
    values = _checked(answer, parameters)
    for macro in _shared(answer.sql):
        connection.execute(macro)
    for parameter in answer.parameters:
        value = values.get(parameter.name)
        if value is None:
            connection.execute(f'RESET VARIABLE "{parameter.name}"')
        else:
            connection.execute(
                f'SET VARIABLE "{parameter.name}" = CAST(? AS {parameter.type})', [value]
            )


def run(
    connection: duckdb.DuckDBPyConnection,
    answer: Answer,
    parameters: Mapping[str, object] = MappingProxyType({}),
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
        DuckDB refused the SQL, or the result is not what the header declares.

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
    prepare(connection, answer, parameters)
    relation = query(connection, answer.sql, where=f"answer {answer.name!r}")
    _check_columns(answer, relation)
    return relation


def query(
    connection: duckdb.DuckDBPyConnection, sql: str, where: str = "query"
) -> duckdb.DuckDBPyRelation:
    """Run one SELECT and turn what DuckDB has against it into an error of one line.

    Parameters
    ----------
    connection
        DuckDB connection with the views ``events``, ``memory``, ...
    sql
        One statement that gives rows.
    where
        What the error message calls the SQL.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The rows, already computed.

    Raises
    ------
    UnknownNameError
        A table or column is not there; the message suggests the nearest.
    AnswerError
        The SQL is not one SELECT, or DuckDB refused it.

    Examples
    --------
    >>> query(duckdb.connect(), "SELECT 1 + 1").fetchall()
    [(2,)]
    """
    with _one_line_errors(where):
        kinds = [statement.type for statement in connection.extract_statements(sql)]
        if kinds != [duckdb.StatementType.SELECT]:
            found = ", ".join(kind.name for kind in kinds) or "no statement"
            raise AnswerError(f"{where}: needs exactly one SELECT, found {found}")
        return connection.sql(sql).materialize()


def parse(sql: str, name: str) -> Answer:
    """Read the header of an answer.

    Parameters
    ----------
    sql
        Text of the file.
    name
        Name of the file without ``.sql``. There is a header if the first line starts with it.

    Returns
    -------
    Answer
        The SQL and what its header declares.

    Raises
    ------
    AnswerError
        A line of the header has not the form that its place asks for.

    Examples
    --------
    >>> parse("SELECT 1", "one").columns
    ()
    """
    lines = _comment_lines(sql)
    first = _FIRST_LINE.fullmatch(lines[0]) if lines else None
    if first is None or first["name"] != name:
        return Answer(name, sql)
    needs_at = next((i for i, line in enumerate(lines) if line.startswith("needs:")), None)
    if needs_at is None:
        raise AnswerError(f"{name}.sql: the header has no line '-- needs: TABLE, ...'")
    if needs_at < 2 or not lines[1].startswith("One row per "):
        raise AnswerError(f"{name}.sql, line 2: the header needs the grain, '-- One row per ...'")
    declared = list(enumerate(lines[needs_at + 1 :], start=needs_at + 2))
    parameters = tuple(
        _parameter(name, number, line) for number, line in declared if line.startswith("parameter ")
    )
    columns = tuple(
        _column(name, number, line)
        for number, line in declared
        if not line.startswith("parameter ")
    )
    if not columns:
        raise AnswerError(f"{name}.sql: the header declares no output column")
    return Answer(
        name=name,
        sql=sql,
        sentence=first["sentence"],
        grain=lines[1],
        notes=tuple(lines[2:needs_at]),
        needs=tuple(re.findall(r"\w+", lines[needs_at].removeprefix("needs:"))),
        parameters=parameters,
        columns=columns,
    )


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
        "Generated by `python -m profframe.answering > docs/answers.md`; do not edit.",
        "",
        "Each is one file of `sql/`. `trace.answer(NAME)`, `profframe answer NAME SOURCE` and a",
        "bare DuckDB shell over a store all run it.",
    ]
    for answer in catalogue():
        lines += ["", f"## {answer.name}", "", _capital(answer.sentence), "", answer.grain]
        lines += [*answer.notes, "", f"Needs {' and '.join(f'`{t}`' for t in answer.needs)}."]
        if answer.parameters:
            lines += ["", "| parameter | type | default | what it does |", "|---|---|---|---|"]
            lines += [
                f"| `{p.name}` | {p.type} | {_sql_word(p.default)} | {p.doc} |"
                for p in answer.parameters
            ]
        lines += ["", "| column | type | unit | what it is |", "|---|---|---|---|"]
        lines += [f"| `{c.name}` | {c.type} | {c.unit or ''} | {c.doc} |" for c in answer.columns]
    return "\n".join(lines) + "\n"


_MACRO: Final = re.compile(r"^CREATE OR REPLACE TEMP MACRO (\w+)\(.*?;$", re.DOTALL | re.MULTILINE)
_COMMENT: Final = re.compile(r"^\s*--.*\n", re.MULTILINE)


def _shared(sql: str) -> list[str]:
    """The macros that the SQL uses, and those that these use, in the order of their files."""
    paths = sorted(sql_directory().glob("_*.sql"))
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    macros = {match[1]: match[0] for match in _MACRO.finditer(_COMMENT.sub("", text))}
    used: set[str] = set()
    reached = [_COMMENT.sub("", sql)]
    while reached:
        words = {word for one in reached for word in re.findall(r"\w+", one)}
        found = words & macros.keys() - used
        reached = [macros[name] for name in found]
        used |= found
    return [macro for name, macro in macros.items() if name in used]


def _files() -> dict[str, Path]:
    return {path.stem: path for path in sql_directory().glob("[!_]*.sql")}


def _read(path: Path) -> Answer:
    try:
        return parse(path.read_text(encoding="utf-8"), path.stem)
    except OSError as error:
        raise AnswerError(f"{path}: cannot read the answer: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AnswerError(f"{path}: the answer is not UTF-8 text") from error


def _comment_lines(sql: str) -> list[str]:
    """Lines of the comment that the SQL starts with, without their dashes."""
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return lines


def _parameter(file: str, number: int, line: str) -> Parameter:
    match = _PARAMETER.fullmatch(line)
    if match is None:
        raise AnswerError(
            f"{file}.sql, line {number}: expected '-- parameter NAME TYPE = DEFAULT  meaning' "
            f"(TYPE one of {', '.join(TYPES)}), found {line!r}"
        )
    try:
        default = _CONVERT[match["type"]](match["default"].strip("'"))
    except ValueError:
        raise AnswerError(
            f"{file}.sql, line {number}: the default {match['default']} is no {match['type']}"
        ) from None
    choices = tuple(match["choices"].split("|")) if match["choices"] else ()
    return Parameter(match["name"], match["type"], default, match["doc"], choices)


def _column(file: str, number: int, line: str) -> AnswerColumn:
    match = _COLUMN.fullmatch(line)
    if match is None:
        raise AnswerError(
            f"{file}.sql, line {number}: expected '-- COLUMN  TYPE  [unit]  meaning', two spaces "
            f"between them (TYPE one of {', '.join(TYPES)}), found {line!r}"
        )
    return AnswerColumn(match["name"], match["type"], match["unit"], match["doc"])


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
        converted = _CONVERT[parameter.type](value)
    except (TypeError, ValueError):
        raise ParameterError(
            f"answer {answer.name!r}: parameter {parameter.name!r} is {parameter.type}, "
            f"got {value!r}"
        ) from None
    if parameter.choices and converted not in parameter.choices:
        missing = UnknownNameError.among(parameter.name, str(value), parameter.choices)
        raise ParameterError(f"answer {answer.name!r}: {missing}")
    return converted


def _boolean(value: object) -> bool:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ValueError(value)
    return word == "true"


def _integer(bits: int) -> Callable[[object], int]:
    def convert(value: object) -> int:
        if isinstance(value, (bool, float)):
            raise TypeError(value)
        number = int(str(value))
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(value)
        return number

    return convert


def _double(value: object) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    return float(str(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


_CONVERT: Final[Mapping[str, Callable[[object], object]]] = MappingProxyType(
    {
        "VARCHAR": _text,
        "INTEGER": _integer(32),
        "BIGINT": _integer(64),
        "DOUBLE": _double,
        "BOOLEAN": _boolean,
    }
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
def _one_line_errors(where: str) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
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
