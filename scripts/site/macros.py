"""The page of macros of ``sql/lib``, out of the comment above each.

A comment names the macro and says in words what it returns and how. Then come its
parameters, its columns or what a scalar returns, and an example that runs on the tables of any
trace::

    -- lanes: a number for each (run, rank), the same each time.
    -- parameter events TABLE  `events`, or a part of it
    -- column run, rank  as in events
    -- column lane BIGINT  number of the (run, rank), from 1
    -- example: FROM lanes(events)

``as in`` refers to a table, another macro or a parameter; ``column *`` is whatever columns the
rows of a parameter have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from profframe.errors import AnswerError
from profframe.query.header import comment_lines, sql_directory

_BLOCK: Final = re.compile(
    r"(?P<comment>(?:^--.*\n)*)^CREATE OR REPLACE TEMP MACRO (?P<name>\w+)\(", re.MULTILINE
)
_TYPE: Final = r"(?P<type>[A-Z]+(?:\[\])?)"
_PARAMETER: Final = re.compile(rf"parameter (?P<name>\w+) {_TYPE}  (?P<doc>\S.*)")
_COLUMN: Final = re.compile(rf"column (?P<name>\w+) {_TYPE}  (?P<doc>\S.*)")
_SAME: Final = re.compile(r"column (?P<names>\*|\w+(?:, \w+)*)  as in (?P<source>\w+)")
_RETURNS: Final = re.compile(rf"returns {_TYPE}  (?P<doc>\S.*)")


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, a column, or what a scalar returns."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class SameColumns:
    """Columns that are those of a table, another macro or a parameter; ``*`` is all of them."""

    names: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class MacroDoc:
    """One macro, as its comment describes it."""

    name: str
    file: str
    text: str
    parameters: tuple[Field, ...]
    columns: tuple[Field | SameColumns, ...]
    returns: Field | None
    example: str


def catalogue() -> tuple[MacroDoc, ...]:
    """All macros, file by file."""
    paths = sorted((sql_directory() / "lib").glob("*.sql"))
    return tuple(macro for path in paths for macro in parse(path.read_text(encoding="utf-8"), path))


def parse(sql: str, path: Path) -> tuple[MacroDoc, ...]:
    """Read the comments of a file; one that has none of the forms is an `AnswerError`."""
    return tuple(_parsed(match["name"], match["comment"], path) for match in _BLOCK.finditer(sql))


def page() -> str:
    """The text."""
    lines = [
        "# Macros",
        "",
        "For people who write SQL in a bare DuckDB shell: what the macros take and return that",
        "answers share.",
        "",
        "They are in files of `sql/lib`. Over a [store](duckdb_shell.md), read the files that an",
        "answer's header names, then call macros as in the examples. Unlike tables and answers,",
        "they may change with any version.",
    ]
    file = ""
    for macro in catalogue():
        if macro.file != file:
            file = macro.file
            path = sql_directory() / "lib" / f"{file}.sql"
            lines += ["", f"## {file}.sql", "", *comment_lines(path.read_text(encoding="utf-8"))]
        lines += ["", f"### {macro.name}", "", _sentence(macro.text)]
        if macro.parameters:
            lines += ["", "| parameter | type | what it is |", "|---|---|---|"]
            lines += [f"| `{p.name}` | {p.type} | {p.doc} |" for p in macro.parameters]
        if macro.returns:
            lines += ["", f"Returns {macro.returns.type}: {macro.returns.doc}."]
        else:
            lines += ["", "| column | type | what it is |", "|---|---|---|"]
            lines += [_row(column) for column in macro.columns]
        lines += ["", "```sql", macro.example, "```"]
    return "\n".join(lines) + "\n"


def _parsed(name: str, comment: str, path: Path) -> MacroDoc:
    lines = [line.removeprefix("--").strip() for line in comment.splitlines()]
    text, example = " ".join(lines), ""
    if not text.startswith(f"{name}: "):
        raise AnswerError(f"{path.name}: the comment above {name} does not start with '{name}: '")
    declared_at = next(
        (n for n, line in enumerate(lines) if re.match(r"(parameter|column|returns) ", line)), None
    )
    example_at = next((n for n, line in enumerate(lines) if line.startswith("example: ")), None)
    if declared_at is None or example_at is None or declared_at > example_at:
        raise AnswerError(
            f"{path.name}: {name} lacks its columns, or what it returns, or its example"
        )
    text = " ".join(lines[:declared_at]).removeprefix(f"{name}: ")
    example = " ".join(lines[example_at:]).removeprefix("example: ")
    parameters: list[Field] = []
    columns: list[Field | SameColumns] = []
    returns: list[Field] = []
    for line in lines[declared_at:example_at]:
        if match := _PARAMETER.fullmatch(line):
            parameters.append(Field(match["name"], match["type"], match["doc"]))
        elif match := _COLUMN.fullmatch(line):
            columns.append(Field(match["name"], match["type"], match["doc"]))
        elif match := _SAME.fullmatch(line):
            columns.append(SameColumns(tuple(match["names"].split(", ")), match["source"]))
        elif match := _RETURNS.fullmatch(line):
            returns.append(Field("", match["type"], match["doc"]))
        else:
            raise AnswerError(f"{path.name}: {name} has a line that is not understood: {line!r}")
    if len(returns) > 1 or bool(returns) == bool(columns):
        raise AnswerError(f"{path.name}: {name} has either columns or one thing that it returns")
    return MacroDoc(
        name,
        path.stem,
        text,
        tuple(parameters),
        tuple(columns),
        returns[0] if returns else None,
        example,
    )


def _sentence(text: str) -> str:
    """Text with a capital, unless it begins with the name of a macro."""
    return text if "_" in text.split(maxsplit=1)[0] else text[:1].upper() + text[1:]


def _row(column: Field | SameColumns) -> str:
    if isinstance(column, Field):
        return f"| `{column.name}` | {column.type} | {column.doc} |"
    names = ", ".join("all" if name == "*" else f"`{name}`" for name in column.names)
    return f"| {names} | | as in `{column.source}` |"
