"""The comment above each macro of `sql/lib` and what the macro gives are one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import duckdb
import pytest

import profframe
from profframe import schema
from profframe.errors import AnswerError
from profframe.query import macros
from scripts.site.macros import Field, MacroDoc, catalogue, parse

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = {macro.name: macro for macro in catalogue()}
Types = dict[str, str]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables of a small real trace, and all macros."""
    trace = profframe.load(ROOT / "examples" / "gpu_training.json.gz")
    with duckdb.connect() as opened:
        for name, table in schema.TABLES.items():
            rows = trace.scan(name).collect().to_arrow().cast(table.arrow)
            opened.register("rows", rows)
            opened.execute(f"CREATE TABLE {name} AS FROM rows")
        for macro in macros.definitions("".join(f"{name}()" for name in macros.names())).values():
            opened.execute(macro)
        opened.execute("SET VARIABLE window_start_ns = (SELECT min(start_ns) FROM events)")
        yield opened


def types(connection: duckdb.DuckDBPyConnection, sql: str) -> Types:
    """Columns of a query with their types, a struct's without its fields."""
    relation = connection.sql(sql)
    return {
        name: re.sub(r"STRUCT\(.*\)", "STRUCT", str(type_))
        for name, type_ in zip(relation.columns, relation.types, strict=True)
    }


def given(connection: duckdb.DuckDBPyConnection, macro: MacroDoc, parameter: str) -> Types:
    """Columns of the rows that the example calls the macro with."""
    place = [field.name for field in macro.parameters].index(parameter)
    head, call = macro.example.rsplit("FROM ", 1)
    arguments = call.removeprefix(f"{macro.name}(").removesuffix(")").split(",")
    relation = arguments[place].strip().strip("'")
    return types(connection, f"{head}FROM {relation}")


def declared(connection: duckdb.DuckDBPyConnection, macro: MacroDoc, found: Types) -> Types:
    """Columns that the comment declares; of all those of a parameter, those that came back."""
    of: Types = {}
    for column in macro.columns:
        if isinstance(column, Field):
            of[column.name] = column.type
            continue
        if column.source in {field.name for field in macro.parameters}:
            source = given(connection, macro, column.source)
        elif column.source in DOCS:
            source = types(connection, DOCS[column.source].example)
        else:
            source = types(connection, f"FROM {column.source}")
        names = source.keys() & found.keys() if column.names == ("*",) else column.names
        of |= {name: source[name] for name in names if name not in of}
    return of


def test_every_macro_is_documented() -> None:
    assert DOCS.keys() == set(macros.names())
    assert len(DOCS) == len(catalogue())


@pytest.mark.parametrize("macro", DOCS.values(), ids=DOCS)
class TestComment:
    def test_parameters_are_those_of_the_macro(self, macro: MacroDoc) -> None:
        assert [field.name for field in macro.parameters] == macros.parameters(macro.name)
        tables = {n for n, field in enumerate(macro.parameters) if field.type == "TABLE"}
        assert tables == macros.tables_of(macro.name)

    def test_the_example_gives_what_is_declared(
        self, macro: MacroDoc, connection: duckdb.DuckDBPyConnection
    ) -> None:
        assert f"{macro.name}(" in macro.example
        found = types(connection, macro.example)
        if macro.returns:
            assert list(found.values()) == [macro.returns.type]
        else:
            assert declared(connection, macro, found) == found
        connection.sql(macro.example).fetchall()

    def test_lines_are_readable(self, macro: MacroDoc) -> None:
        assert macro.text.endswith(".")


@pytest.mark.parametrize("path", sorted((ROOT / "sql" / "lib").glob("*.sql")), ids=lambda p: p.stem)
def test_files_are_readable(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("-- "), "what the file is about"
    assert max(len(line) for line in lines if line.startswith("--")) <= 130


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("", "does not start with 'two: '"),
        ("-- two: the number.\n", "lacks"),
        ("-- two: the number.\n-- example: SELECT two()\n", "lacks"),
        ("-- two: it.\n-- returns 2\n-- example: SELECT two()\n", "not understood: 'returns 2'"),
        (
            "-- two: it.\n-- column a BIGINT  one\n-- returns INTEGER  2\n-- example: FROM two()\n",
            "either columns",
        ),
    ],
)
def test_a_comment_without_the_form_is_an_error(comment: str, why: str) -> None:
    sql = f"{comment}CREATE OR REPLACE TEMP MACRO two() AS 2;\n"
    with pytest.raises(AnswerError, match=re.escape(why)):
        parse(sql, Path("numbers.sql"))
